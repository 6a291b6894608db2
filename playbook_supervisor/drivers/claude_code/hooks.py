"""What each hook of the client means: its payload in, a reply out.

Nothing here runs a step, starts a program or parses YAML on its way. What a reply says to the model
is the outlook that it carries; the command line turns it into words.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from playbook_supervisor import checkout
from playbook_supervisor.drivers.claude_code import (
    allowlist,
    binding,
    caller,
    front_desk,
    gates,
    marker,
    settings,
    turns,
)
from playbook_supervisor.drivers.claude_code.commands import command
from playbook_supervisor.drivers.claude_code.desk import Desk, Reply
from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.files import locked, read_bytes
from playbook_supervisor.kernel.directives import Ask, Finish, Run
from playbook_supervisor.outlook import Outlook
from playbook_supervisor.store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

_COMMAND: Final = "playbook."
_BLOCKS: Final = 6  # Stop hooks in a row after which the session is marked stalled
_REFUSALS: Final = 20  # refused calls in a row after which the run is ended


def handle(payload: Mapping[str, Any], environment: Mapping[str, str]) -> Reply | None:
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
        caller.admit(environment)
        return _kept(Store(here), command(here, payload, environment))
    session = binding.bound(here)
    if not session:
        return None
    sessions = Store(here)
    private = sessions.runtime(session)
    with locked(private / "claude.lock"):
        bound = binding.load(private)
        if bound is None:
            if marker.marked(str(here.git_dir))[1] != payload.get("session_id"):
                return None  # another conversation, whatever has become of that one
            return _told(event, _lost(session))
        desk = Desk(here, sessions, private, bound, dict(payload), dict(environment))
        if event == "PreToolUse" and desk.text("agent_id") in bound.dismissed:
            return Reply(event, decision="deny", reason=turns.DISMISSED)
        if not desk.owned:
            return _stranger(desk)
        caller.admit(environment)
        binding.dialog_over(private, desk.text("agent_id"))
        try:
            reply = _EVENTS.get(event, _nothing)(desk)
        except PlaybookError as error:
            reply = _trouble(desk, event, error)
        if not desk.released:
            binding.save(private, bound)
        return _kept(sessions, reply)


def _lost(session: str) -> StateError:
    return StateError(
        "PB-STATE-CORRUPT",
        f"what is known of this conversation is gone, and session {session} is bound to it",
        guidance="/playbook.resume binds it anew; /playbook.pause and /playbook.abort let it go.",
    )


def _kept(sessions: Store, reply: Reply | None) -> Reply | None:
    """The same; what was journaled on the way is copied to where no worker looks."""
    if reply is not None and reply.tell is not None and reply.tell.events:
        with sessions.open(reply.tell.manifest.session_id) as opened:
            opened.copy()
    return reply


# ── tools ───────────────────────────────────────────────────────────────────────────────────


def _before_tool(desk: Desk) -> Reply | None:
    tool, given = desk.text("tool_name"), desk.mapping("tool_input")
    if desk.worker and tool == "Skill":
        return _skill(desk, given)
    root = str(desk.here.root)
    supervised = desk.bound.turn == "supervised"
    ours = not desk.worker and (supervised or tool in allowlist.AGENTS)
    outlook = desk.look() if ours else None
    asked = outlook.directive if outlook else None
    ruling = allowlist.rule(
        allowlist.Call(
            tool,
            given,
            worker=desk.worker,
            supervised=supervised,
            due=_to_launch(desk, outlook) if outlook else frozenset(),
            at_work=frozenset(desk.bound.workers),
            gate_open=isinstance(asked, Ask),
            file=front_desk.named_file(desk.text("cwd") or root, given),
            kept=front_desk.kept_folders(root, str(desk.here.git_dir)),
        )
    )
    match ruling.verdict:
        case "launch":
            return turns.launch(desk, ruling.attempt)
        case "ask":
            return gates.put(desk) or _refuse(desk, gates.NOBODY)
        case "deny":
            return _refuse(desk, ruling.reason)
        case _:
            return None


def _skill(desk: Desk, given: Mapping[str, Any]) -> Reply | None:
    """The command of a step needs no further leave, also where it brings tools of its own."""
    wanted = [str(given.get("skill", "")), str(given.get("args", "") or "")]
    if wanted in ([worker.skill, worker.args] for worker in desk.bound.workers.values()):
        return Reply("PreToolUse", decision="allow", reason="the command of this step")
    return None


def _refuse(desk: Desk, reason: str) -> Reply:
    if desk.worker:
        return Reply("PreToolUse", decision="deny", reason=reason)
    desk.bound.refusals += 1
    if desk.bound.refusals >= _REFUSALS:
        desk.bound.stalled = True
        said = f"{_REFUSALS} refused calls in a row: the session is stalled. /playbook.resume"
        return Reply("PreToolUse", decision="deny", reason=reason, end=said)
    return Reply("PreToolUse", decision="deny", reason=reason, tell=desk.look())


def _after_tool(desk: Desk) -> Reply | None:
    tool = desk.text("tool_name")
    if tool in allowlist.AGENTS:
        return turns.agent_said(desk)
    if tool == "Skill" and desk.worker:
        given, response = desk.mapping("tool_input"), desk.mapping("tool_response")
        if response.get("success") is True:
            ran = [str(given.get("skill", "")), str(given.get("args", "") or "")]
            desk.bound.receipts.setdefault(desk.text("agent_id"), []).append(ran)
        return None
    if tool == "AskUserQuestion":
        return gates.answered_in_dialog(desk)
    return None


def _tool_failed(desk: Desk) -> Reply | None:
    if desk.text("tool_name") in allowlist.AGENTS and not desk.worker:
        return turns.agent_failed(desk)
    return None


# ── turns ───────────────────────────────────────────────────────────────────────────────────


def _prompted(desk: Desk) -> Reply | None:
    return turns.prompted(desk)


def _stop(desk: Desk) -> Reply | None:
    """No early stop, and no busy loop: what may end, waits or has ended is let through."""
    bound = desk.bound
    _remember_crons(desk)
    busy = bool(desk.payload.get("background_tasks"))
    if not busy:
        turns.forget_refused(bound)
    outlook = desk.outlook()
    if busy and not _to_launch(desk, outlook):
        bound.at_work = False
        return None
    match outlook.directive:
        case Ask():
            bound.at_work, bound.turn = False, "supervised"
            return Reply("Stop", ring=outlook.question)
        case Finish(status=status):
            desk.release()
            said = f"{outlook.manifest.playbook}: {status}"
            return Reply("Stop", ring=said, shown=f"{said} ({outlook.done}/{outlook.total} steps)")
        case _:
            bound.turn = "supervised"
    bound.blocks += 1
    if bound.blocks > _BLOCKS:
        bound.stalled, bound.at_work = True, False
        return None
    return Reply("Stop", decision="block", reason="The playbook is not through.", tell=outlook)


def _remember_crons(desk: Desk) -> None:
    """Prompts that were scheduled before: they arrive like typed ones, and are no answer."""
    crons = desk.payload.get("session_crons")
    known = crons if isinstance(crons, list) else []
    desk.bound.crons = [str(cron.get("prompt", "")) for cron in known if isinstance(cron, dict)]


def _to_launch(desk: Desk, outlook: Outlook) -> frozenset[str]:
    """The attempts that are due and that no agent has been given."""
    asked = outlook.directive
    due = {member.id for member in asked.members} if isinstance(asked, Run) else set()
    return frozenset(due - desk.bound.workers.keys())


def _subagent_stopped(desk: Desk) -> Reply | None:
    """A hint only: it fires while a worker merely waits. Its words are kept, never believed."""
    if said := desk.text("last_assistant_message"):
        desk.bound.said[desk.text("agent_id")] = said[:2_000]
    return None


# ── the client itself ───────────────────────────────────────────────────────────────────────


def _started(desk: Desk) -> Reply | None:
    """Compaction, and resume or clear in the same process: the facts are said again."""
    desk.bound.client = desk.text("session_id")
    if desk.text("source") != "compact":
        desk.bound.at_work = False  # whatever turn was running, Esc has ended it
    binding.bind(desk.here, desk.private, desk.bound)
    return Reply("SessionStart", tell=desk.outlook())


def _stranger(desk: Desk) -> Reply | None:
    """Another conversation in the same worktree: it is told, and left alone."""
    if desk.text("hook_event_name") != "SessionStart":
        return None
    if desk.same_process and desk.text("source") in ("clear", "resume", "compact"):
        return _started(desk)
    return Reply(
        "SessionStart",
        note=f"playbook: session {desk.bound.session} waits here: /playbook.resume takes it up.",
    )


def _settings_changed(desk: Desk) -> Reply | None:
    """Our hooks stay while a session is bound; every other change passes."""
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
    return Reply("ConfigChange", decision="block", reason=reason)


def _permission(desk: Desk) -> Reply | None:
    """A dialog waits for the person, who may be elsewhere; a gate's own has rung already."""
    if desk.text("tool_name") == "AskUserQuestion":
        return None
    tool = desk.text("tool_name")
    binding.dialog_opened(desk.private, desk.text("agent_id"), tool)
    return Reply("PermissionRequest", ring=f"Claude asks for permission: {tool}")


def _trouble(desk: Desk, event: str, error: PlaybookError) -> Reply | None:
    """The session cannot go on (it was tampered with, say); the model may stop."""
    desk.bound.stalled = True
    return _told(event, error)


def _told(event: str, error: PlaybookError) -> Reply | None:
    said = f"playbook: {error.message} [{error.code}]. {error.guidance}"
    match event:
        case "PreToolUse":
            return Reply(event, decision="deny", reason=said)
        case "ConfigChange":
            return Reply(event, decision="block", reason=said)
        case "Stop":
            return None
        case _:
            return Reply(event, note=said)


def _nothing(desk: Desk) -> Reply | None:
    del desk
    return None


_EVENTS: Final = {
    "ConfigChange": _settings_changed,
    "PermissionRequest": _permission,
    "PostToolUse": _after_tool,
    "PostToolUseFailure": _tool_failed,
    "PreToolUse": _before_tool,
    "SessionStart": _started,
    "Stop": _stop,
    "SubagentStop": _subagent_stopped,
    "UserPromptSubmit": _prompted,
}
