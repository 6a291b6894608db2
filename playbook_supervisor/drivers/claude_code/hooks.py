"""What each hook of the client means: its payload in, a reply out.

Nothing here runs a step, starts a program or parses YAML on its way. What a reply says to the model
is the outlook that it carries; the command line turns it into words.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from playbook_supervisor.drivers import notifications
from playbook_supervisor.drivers.claude_code import (
    allowlist,
    authorization,
    binding,
    fast_path,
    gates,
    marker,
    stopping,
    turns,
)
from playbook_supervisor.drivers.claude_code.context import HookContext, HookReply, process
from playbook_supervisor.drivers.notifications import Notice
from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Ask, Check
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.store import DiskStore
from playbook_supervisor.system import checkout
from playbook_supervisor.system.files import locked, read_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from playbook_supervisor.sessions.session_store import SessionStore

_COMMAND = "playbook."


def handle(payload: Mapping[str, Any], environment: Mapping[str, str]) -> HookReply | None:
    """The reply to one hook, or None where there is nothing to say.

    Errors are raised as everywhere; while a session is bound, the shell line that called us then
    fails closed.
    """
    folder = environment.get("CLAUDE_PROJECT_DIR") or str(payload.get("cwd", ""))
    here = checkout.find(Path(folder))
    event = str(payload.get("hook_event_name", ""))
    if event == "UserPromptExpansion":
        if not str(payload.get("command_name", "")).startswith(_COMMAND):
            return None
        from playbook_supervisor.drivers.claude_code.commands import command

        authorization.require_client(environment, process(environment))
        return _kept(DiskStore(here), command(here, payload, environment))
    session = binding.bound(here)
    if not session:
        return None
    sessions = DiskStore(here)
    private = sessions.runtime(session)
    with locked(private / "claude.lock"):
        bound = binding.load(private)
        if bound is None:
            if marker.marked(str(here.git_dir))[1] != payload.get("session_id"):
                return None  # another conversation, whatever has become of that one
            return _told(event, _lost(session))
        desk = HookContext(here, sessions, private, bound, dict(payload), dict(environment))
        if event == "PreToolUse" and desk.text("agent_id") in bound.dismissed:
            return HookReply(event, decision="deny", reason=turns.DISMISSED)
        if not desk.owned:
            return _stranger(desk)
        authorization.require_client(environment, process(environment))
        binding.dialog_over(private, desk.text("agent_id"))
        try:
            reply = _noticed(desk, _closed(desk, _EVENTS.get(event, _nothing)(desk)))
        except PlaybookError as error:
            reply = _trouble(desk, event, error)
        if not desk.released:
            binding.save(private, bound)
        if reply is not None and reply.tell is not None:
            reply = replace(reply, given_out=frozenset(bound.workers))
        return _kept(sessions, reply)


def _lost(session: str) -> StateError:
    return StateError(
        "PB-STATE-CORRUPT",
        f"what is known of this conversation is gone, and session {session} is bound to it",
        guidance="/playbook.resume binds it anew; /playbook.pause and /playbook.abort let it go.",
    )


def _kept(sessions: SessionStore, reply: HookReply | None) -> HookReply | None:
    """The same; what was journaled on the way is copied to where no worker looks."""
    if reply is not None and reply.tell is not None and reply.tell.events:
        with sessions.open(reply.tell.manifest.session_id) as opened:
            opened.copy()
    return reply


def _closed(desk: HookContext, reply: HookReply | None) -> HookReply | None:
    """The same; it shows what `playbook next --wait` has settled, for its output is folded away."""
    if reply is None:
        return None
    bound, tell = desk.bound, reply.tell
    if bound.unseen:
        told = {event.entry.id for event in tell.events} if tell else set()
        waited = [
            each for each in desk.store.journal(bound.session).entries if each.id in bound.unseen
        ]
        settled = {each.id for each in waited if each.completed_at is not None}
        bound.unseen = [id_ for id_ in bound.unseen if id_ not in settled]
        reply = replace(reply, closed=tuple(e for e in waited if e.id in settled - told))
    if tell is not None and isinstance(tell.directive, Check):
        bound.unseen = [member.id for member in tell.directive.members]
    return reply


def _noticed(desk: HookContext, reply: HookReply | None) -> HookReply | None:
    """The same; whoever is called at the terminal may be elsewhere, and is called there, too."""
    if reply is None or not reply.ring:
        return reply
    notice = notifications.notice_for(desk.look())
    if reply.event == "PermissionRequest":  # a worker may ask again and again: once is enough
        about = f"dialog of {desk.text('agent_id') or 'the conversation'}"
        notice = Notice(desk.bound.session, about, first_line(reply.ring))
    return replace(reply, notice=notice)


# ── tools ───────────────────────────────────────────────────────────────────────────────────


def _before_tool(desk: HookContext) -> HookReply | None:
    tool, given = desk.text("tool_name"), desk.mapping("tool_input")
    if desk.worker and tool == "Skill":
        return _skill(desk, given)
    root = str(desk.here.root)
    supervised = desk.bound.turn == "supervised"
    ours = not desk.worker and (supervised or tool in allowlist.AGENTS)
    outlook = desk.look() if ours else None
    asked = outlook.directive if outlook else None
    ruling = allowlist.rule(
        allowlist.ToolCall(
            tool,
            given,
            worker=desk.worker,
            supervised=supervised,
            due=turns.to_launch(desk, outlook) if outlook else frozenset(),
            at_work=frozenset(desk.bound.workers),
            gate_open=isinstance(asked, Ask),
            file=fast_path.named_file(desk.text("cwd") or root, given),
            kept=fast_path.kept_folders(root, str(desk.here.git_dir)),
        )
    )
    match ruling.verdict:
        case "launch":
            return turns.launch(desk, ruling.attempt)
        case "ask":
            return gates.put(desk) or stopping.refuse(desk, gates.NOBODY)
        case "deny":
            return stopping.refuse(desk, ruling.reason)
        case _:
            return None


def _skill(desk: HookContext, given: Mapping[str, Any]) -> HookReply | None:
    """The command of a step needs no further leave, also where it brings tools of its own."""
    if _named(given) in ([worker.skill, worker.args] for worker in desk.bound.workers.values()):
        return HookReply("PreToolUse", decision="allow", reason="the command of this step")
    return None


def _named(given: Mapping[str, Any]) -> list[str]:
    """The command that `Skill` is called with, and its arguments; to the client `/x` is `x`."""
    name = str(given.get("skill", "")).strip().removeprefix("/")
    return [name, str(given.get("args", "") or "")]


def _after_tool(desk: HookContext) -> HookReply | None:
    tool = desk.text("tool_name")
    if tool in allowlist.AGENTS:
        return turns.agent_said(desk)
    if tool == "Skill" and desk.worker:
        given, response = desk.mapping("tool_input"), desk.mapping("tool_response")
        if response.get("success") is True:
            desk.bound.receipts.setdefault(desk.text("agent_id"), []).append(_named(given))
        return None
    if tool == "AskUserQuestion":
        return gates.answered_in_dialog(desk)
    return None


def _tool_failed(desk: HookContext) -> HookReply | None:
    if desk.text("tool_name") in allowlist.AGENTS and not desk.worker:
        return turns.agent_failed(desk)
    return None


# ── turns ───────────────────────────────────────────────────────────────────────────────────


def _prompted(desk: HookContext) -> HookReply | None:
    return turns.prompted(desk)


def _subagent_stopped(desk: HookContext) -> HookReply | None:
    """A hint only: it fires while a worker merely waits. Its words are kept, never believed."""
    agent, bound = desk.text("agent_id"), desk.bound
    unknown = any(not worker.agent for worker in bound.workers.values())  # it may be that one
    compacted = desk.payload.get("agent_type") == ""
    if not compacted and (unknown or bound.worker_of(agent=agent)):
        bound.stopped(agent, desk.text("last_assistant_message")[:2_000])
    return None


# ── the client itself ───────────────────────────────────────────────────────────────────────


def _started(desk: HookContext) -> HookReply | None:
    """Compaction, and resume or clear in the same process: the facts are said again."""
    desk.bound.client = desk.text("session_id")
    if desk.text("source") != "compact":
        desk.bound.at_work = False  # whatever turn was running, Esc has ended it
    binding.bind(desk.here, desk.private, desk.bound)
    outlook = desk.outlook()
    asked = isinstance(outlook.directive, Ask) and desk.text("source") != "compact"
    shown = gates.reminder(outlook) if asked else ""  # its screen is empty, and the gate is open
    return HookReply("SessionStart", tell=outlook, shown=shown)


def _stranger(desk: HookContext) -> HookReply | None:
    """Another conversation in the same worktree: it is told, and left alone."""
    if desk.text("hook_event_name") != "SessionStart":
        return None
    if desk.same_process and desk.text("source") in ("clear", "resume", "compact"):
        return _started(desk)
    said = f"playbook: session {desk.bound.session} waits here: /playbook.resume takes it up."
    return HookReply("SessionStart", note=said, shown=said)


def _settings_changed(desk: HookContext) -> HookReply | None:
    """Our hooks stay while a session is bound; every other change passes."""
    from playbook_supervisor.drivers.claude_code import settings

    file = Path(os.path.realpath(desk.text("file_path")))
    text = read_bytes(file) if file.is_file() else b""
    lost: tuple[str, ...] = ()
    if file == Path(os.path.realpath(desk.here.root / settings.FILE)):
        lost = settings.lacking(text)
    if settings.disables_hooks(text, str(file)):
        lost = (*lost, "disableAllHooks")
    if not lost:
        return None
    reason = (
        f"playbook drives session {desk.bound.session}, and this change would take its hooks away "
        f"({', '.join(lost)}); /playbook.pause first."
    )
    return HookReply("ConfigChange", decision="block", reason=reason)


def _permission(desk: HookContext) -> HookReply | None:
    """A dialog waits for the person, who may be elsewhere; a gate's own has rung already."""
    if desk.text("tool_name") == "AskUserQuestion":
        return None
    tool = desk.text("tool_name")
    binding.dialog_opened(desk.private, desk.text("agent_id"), tool)
    return HookReply("PermissionRequest", ring=f"Claude asks for permission: {tool}")


def _trouble(desk: HookContext, event: str, error: PlaybookError) -> HookReply | None:
    """The session cannot go on (it was tampered with, say); the model may stop."""
    desk.bound.stalled = True
    return _told(event, error)


def _told(event: str, error: PlaybookError) -> HookReply | None:
    said = f"playbook: {error.message} [{error.code}]. {error.guidance}"
    match event:
        case "PreToolUse":
            return HookReply(event, decision="deny", reason=said)
        case "ConfigChange":
            return HookReply(event, decision="block", reason=said)
        case "Stop":  # the person is left with it
            return HookReply(event, ring=first_line(said), shown=said)
        case _:
            return HookReply(event, note=said)


def _nothing(desk: HookContext) -> HookReply | None:
    del desk
    return None


_EVENTS = {
    "ConfigChange": _settings_changed,
    "PermissionRequest": _permission,
    "PostToolBatch": stopping.round_over,
    "PostToolUse": _after_tool,
    "PostToolUseFailure": _tool_failed,
    "PreToolUse": _before_tool,
    "SessionStart": _started,
    "Stop": stopping.stop,
    "StopFailure": stopping.failed,
    "SubagentStop": _subagent_stopped,
    "UserPromptSubmit": _prompted,
}
