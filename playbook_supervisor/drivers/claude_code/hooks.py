"""Handles the hooks of the client: a payload in, a reply out.

`fast_path` answers most tool calls before this module is imported. Nothing here runs a step, starts
a program of a condition or parses YAML. A reply carries the snapshot for the model, with its
details; the command line turns it into words.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from playbook_supervisor.drivers import notifications
from playbook_supervisor.drivers.claude_code import (
    allowlist,
    authorization,
    binding,
    client_register,
    fast_path,
    gates,
    hook_script,
    notices,
    settings,
    turns,
)
from playbook_supervisor.drivers.claude_code.client_register import Registration
from playbook_supervisor.drivers.claude_code.context import (
    DirectiveDetails,
    HookContext,
    HookReply,
    directive_details,
    mark_of,
    prepared,
    process,
)
from playbook_supervisor.drivers.claude_code.marker import SCRIPT, git_directory, marked
from playbook_supervisor.drivers.notifications import Notice
from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.snapshot import for_us
from playbook_supervisor.system.disk.files import locked, read_bytes
from playbook_supervisor.system.git import checkout

_COMMAND = "playbook."
_PLUGINS = "playbook:"
_KEPT_WORDS = 4_000  # characters of an agent's last message
_THE_PLAYBOOKS = frozenset({*allowlist.AGENTS, "AskUserQuestion"})
"""Tools whose calls may be the playbook's in a person's turn, too."""
_STOP = "The record of the playbook's session is gone: stop, and wait for the person."
_OUR_COMMANDS = "/playbook."
_RELEASED = "This conversation is released. Session {session} itself has not ended: {gone}."


def handle(payload: Mapping[str, Any], environment: Mapping[str, str]) -> HookReply | None:
    """The reply to one hook, or None where there is nothing to say.

    Errors are raised; while a session is bound, the script that called us then fails closed.
    """
    payload = _named_as_installed(payload)
    folder = environment.get("CLAUDE_PROJECT_DIR") or str(payload.get("cwd", ""))
    event, pid = str(payload.get("hook_event_name", "")), process(environment)
    known = client_register.registered(pid)
    if known is not None and _is_gone(known, pid):
        if event != "UserPromptExpansion":
            return _without_record(known, pid, payload, environment)
        if payload.get("command_name") in ("playbook.pause", "playbook.abort"):
            authorization.require_client(environment, pid)
            return _released(known, pid)
    if event == "Stop" and known is None:
        from playbook_supervisor.drivers.claude_code import goals  # few conversations have one

        if (reply := goals.stop(pid, payload, environment)) is not None:
            return reply
    here = checkout.find(Path(folder))
    if event == "UserPromptExpansion":
        return _typed(here, pid, payload, environment)
    session = binding.bound(here)
    if not session:
        return None
    store = DiskStore(here)
    private = store.runtime(session)
    if event == "Stop":
        turns.await_notices(payload, binding.load(private))
    with locked(private / "claude.lock"):
        bound = binding.load(private)
        if bound is None:
            if marked(str(here.git_dir))[1] != payload.get("session_id"):
                return None  # another conversation
            return _error_reply(event, _binding_lost(session))
        hook = HookContext(here, store, private, bound, dict(payload), dict(environment))
        if event in fast_path.CALLS and hook.text("agent_id") in bound.dismissed:
            return HookReply(event, decision="deny", reason=turns.DISMISSED)
        if hook.owned:
            authorization.require_client(environment, pid)
            if known is None and bound.hooked:
                binding.register(here, bound)
            client_register.set_turn(pid, "")
            reply, notice = _carried_out(hook, event)
            given = frozenset(bound.workers)
        else:
            reply, notice, given = _other_conversation(hook), None, frozenset()
    if notice is not None:  # its process must not inherit the lock
        _notify(hook, notice)
    return None if reply is None else _detailed(hook, reply, given)


def _named_as_installed(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The payload with the names of installed commands for those of our plugin, `playbook:run`."""
    named = {"command_name": _PLUGINS, "prompt": f"/{_PLUGINS}"}
    changed = {
        key: value.replace(":", ".", 1)
        for key, prefix in named.items()
        if isinstance(value := payload.get(key), str) and value.startswith(prefix)
    }
    return {**payload, **changed}


def _typed(
    here: checkout.Checkout, pid: int, payload: Mapping[str, Any], environment: Mapping[str, str]
) -> HookReply | None:
    if not str(payload.get("command_name", "")).startswith(_COMMAND):
        return None
    from playbook_supervisor.drivers import own_agents
    from playbook_supervisor.drivers.claude_code.commands import command

    own_agents.require_none_above(here, str(payload["command_name"]))
    authorization.require_client(environment, pid)
    return command(here, payload, environment)


def _carried_out(hook: HookContext, event: str) -> tuple[HookReply | None, Notice | None]:
    """The reply to a hook of the conversation that drives the session, whose binding is kept."""
    binding.dialog_over(hook.private, hook.text("agent_id"))
    try:
        hook_script.require_unchanged(hook.bound.script)
        handler = _EVENTS.get(event)
        reply = _with_settled(hook, handler(hook) if handler else None)
        notice = _notice(hook, reply)
    except PlaybookError as error:  # the session was tampered with, for instance
        hook.bound.stalled = True
        reply, notice = _error_reply(event, error), None
    if not hook.released:
        binding.save(hook.private, hook.bound)
    return reply, notice


def _detailed(hook: HookContext, reply: HookReply, given: frozenset[str]) -> HookReply:
    if reply.snapshot is None:
        return replace(reply, details=DirectiveDetails({}, None, None, mark_of(hook.private)))
    snapshot = prepared(hook.tree, reply.snapshot)
    details = directive_details(hook.tree, snapshot, given)
    return replace(reply, snapshot=snapshot, details=details)


def _binding_lost(session: str) -> StateError:
    return StateError(
        "PB-STATE-CORRUPT",
        f"session {session} is bound to this conversation, but its binding is gone",
        guidance="/playbook.resume binds it again; /playbook.pause and /playbook.abort release it.",
    )


def _with_settled(hook: HookContext, reply: HookReply | None) -> HookReply | None:
    """Add what `playbook next --wait` has settled: the client folds that command's output away."""
    if reply is None:
        return None
    bound, snapshot = hook.bound, reply.snapshot
    if bound.unseen:
        reported = {event.id for event in snapshot.events} if snapshot else set()
        settled = hook.store.settled_events(bound.session, bound.unseen)
        gone = {event.id for event in settled}
        bound.unseen = [id_ for id_ in bound.unseen if id_ not in gone]
        closed = tuple(event for event in settled if event.id not in reported)
        reply = replace(reply, closed=closed)
    if snapshot is not None and (own := for_us(snapshot)):
        bound.unseen = [attempt.id for attempt in own]
    return reply


def _notice(hook: HookContext, reply: HookReply | None) -> Notice | None:
    if reply is None or not reply.ring:
        return None
    if reply.event == "PermissionRequest":  # one notice for each worker, however often it asks
        about = f"dialog of {hook.text('agent_id') or 'the conversation'}"
        return Notice(hook.bound.session, about, first_line(reply.ring))
    return notifications.notice_for(reply.snapshot or hook.tree.look())


def _notify(hook: HookContext, notice: Notice) -> None:
    with suppress(PlaybookError):  # a full disk is reported by the journal's own writes
        config = hook.tree.config
        if config.notify and notifications.claim(notice, hook.private, config.remind_after):
            notifications.send_detached(config, notice, hook.here.root, hook.private)


# ── tools ───────────────────────────────────────────────────────────────────────────────────


def _before_tool(hook: HookContext) -> HookReply | None:
    tool, given = hook.text("tool_name"), hook.mapping("tool_input")
    workers = ((worker.agent, worker.tools) for worker in hook.bound.workers.values())
    permitted = allowlist.permitted(workers, hook.text("agent_id")) if hook.worker else None
    if hook.worker and tool == "Skill" and permitted is None:
        return _skill(hook, given)
    if tool == "AskUserQuestion" and gates.asks_gate(given, hook.bound.ended):
        return turns.refuse(hook, gates.has_ended(hook.bound.ended, hook.bound.session))
    root = str(hook.here.root)
    supervised = hook.bound.turn == "supervised" and hook.text("invoked_by") != "user"
    ours = not hook.worker and (supervised or tool in _THE_PLAYBOOKS)
    snapshot = hook.tree.look() if ours else None
    ruling = allowlist.rule(
        allowlist.ToolCall(
            tool,
            given,
            worker=hook.worker,
            supervised=supervised,
            due=turns.not_launched(hook, snapshot) if snapshot else frozenset(),
            at_work=frozenset(hook.bound.workers),
            gate_open=snapshot is not None and isinstance(snapshot.directive, Ask),
            asks_gate=snapshot is not None and gates.asks_gate(given, gates.asked_in(snapshot)),
            permitted=permitted,
            file=fast_path.named_file(hook.text("cwd") or root, given),
            kept=fast_path.kept_folders(root, str(hook.here.git_dir)),
        )
    )
    match ruling.verdict:
        case "launch" if snapshot:
            return turns.launch(hook, snapshot, ruling.attempt)
        case "ask" if snapshot:
            dialog = gates.show_dialog(hook, snapshot)
            return dialog or turns.refuse(hook, gates.NO_PERSON, snapshot)
        case "deny":
            return turns.refuse(hook, ruling.reason, snapshot)
        case _:
            return None


def _before_shell_line(hook: HookContext) -> HookReply | None:
    """Before a line of shell in a command's text: the rules are those of a call of the shell."""
    reply = _before_tool(hook)
    return None if reply is None else replace(reply, event="PreSkillShellCommand")


def _skill(hook: HookContext, given: Mapping[str, Any]) -> HookReply | None:
    """Allow the command of a step without asking, even if it declares tools of its own."""
    if _skill_call(given) in ([each.skill, each.args] for each in hook.bound.workers.values()):
        return HookReply("PreToolUse", decision="allow", reason="the command of this step")
    return None


def _skill_call(given: Mapping[str, Any]) -> list[str]:
    name = str(given.get("skill", "")).strip().removeprefix("/")
    return [name, str(given.get("args", "") or "")]


def _after_tool(hook: HookContext) -> HookReply | None:
    tool = hook.text("tool_name")
    if tool in allowlist.AGENTS:
        return turns.agent_result(hook)
    if tool == "Skill" and hook.worker:
        given, response = hook.mapping("tool_input"), hook.mapping("tool_response")
        if response.get("success") is True:
            hook.bound.receipts.setdefault(hook.text("agent_id"), []).append(_skill_call(given))
        return None
    if tool == "AskUserQuestion":
        return gates.dialog_answer(hook)
    return None


# ── agents and the client itself ────────────────────────────────────────────────────────────


def _subagent_stopped(hook: HookContext) -> HookReply | None:
    """Only a hint, for it fires while a worker waits. The last message is kept as output."""
    agent, bound = hook.text("agent_id"), hook.bound
    unknown = any(not worker.agent for worker in bound.workers.values())  # it may be this one
    compacted = hook.payload.get("agent_type") == ""
    if not compacted and (unknown or bound.worker_of(agent=agent)):
        bound.stopped(agent, hook.text("last_assistant_message")[-_KEPT_WORDS:])
    return None


def _started(hook: HookContext) -> HookReply | None:
    """Compaction, and resume or clear in the same process: state the directive again."""
    hook.bound.client = hook.text("session_id")
    if hook.text("source") != "compact":
        hook.bound.at_work = False  # Esc has ended any running turn
    binding.bind(hook.here, hook.private, hook.bound)
    snapshot = hook.tree.advance()
    asked = isinstance(snapshot.directive, Ask) and hook.text("source") != "compact"
    shown = gates.reminder(snapshot) if asked else ""  # the screen is empty
    return HookReply("SessionStart", snapshot=snapshot, shown=shown)


def _other_conversation(hook: HookContext) -> HookReply | None:
    if hook.text("hook_event_name") != "SessionStart":
        return None
    if hook.same_process and hook.text("source") in ("clear", "resume", "compact"):
        return _started(hook)
    if hook.bound.ended:  # its session was aborted, and its client has gone or will be told
        if not binding.lives(hook.bound):
            hook.release()
        return None
    message = f"playbook: session {hook.bound.session} waits here: /playbook.resume continues it."
    return HookReply("SessionStart", note=message, shown=message)


def _settings_changed(hook: HookContext) -> HookReply | None:
    """Block a change that would remove our hooks while a session is bound; others pass."""
    file = Path(os.path.realpath(hook.text("file_path")))
    text = read_bytes(file) if file.is_file() else b""
    project = file == Path(os.path.realpath(hook.here.root / settings.FILE))
    script = hook.bound.script[:1]
    by_plugin = script not in ([], [str(hook.here.root / SCRIPT)])
    lost = settings.lacking(text) if project and not by_plugin else ()
    if by_plugin and settings.plugin_switch(text, str(file)) is False:
        lost = ("enabledPlugins",)
    if settings.disables_hooks(text, str(file)):
        lost = (*lost, "disableAllHooks")
    if not lost:
        return None
    reason = (
        f"playbook drives session {hook.bound.session}, and this change would remove its hooks "
        f"({', '.join(lost)}); /playbook.pause first."
    )
    return HookReply("ConfigChange", decision="block", reason=reason)


def _permission(hook: HookContext) -> HookReply | None:
    """A permission dialog waits for the person; a gate's own dialog has rung already."""
    tool = hook.text("tool_name")
    if tool == "AskUserQuestion":
        return None
    binding.dialog_opened(hook.private, hook.text("agent_id"), tool)
    return HookReply("PermissionRequest", ring=f"Claude asks for permission: {tool}")


def _error_reply(event: str, error: PlaybookError) -> HookReply | None:
    message = f"playbook: {error.message} [{error.code}]. {error.guidance}"
    match event:
        case "PreToolUse" | "PreSkillShellCommand":
            return HookReply(event, decision="deny", reason=message)
        case "ConfigChange":
            return HookReply(event, decision="block", reason=message)
        case "Stop":  # for the person
            return HookReply(event, ring=first_line(message), shown=message)
        case "UserPromptSubmit":  # a person has said something, an answer perhaps
            return HookReply(event, note=message, shown=message)
        case _:
            return HookReply(event, note=message)


_EVENTS = {
    "ConfigChange": _settings_changed,
    "PermissionRequest": _permission,
    "PostToolBatch": turns.round_over,
    "PostToolUse": _after_tool,
    "PostToolUseFailure": turns.agent_failed,
    "PreToolUse": _before_tool,
    "PreSkillShellCommand": _before_shell_line,
    "SessionStart": _started,
    "Stop": turns.stop,
    "StopFailure": turns.failed,
    "SubagentStop": _subagent_stopped,
    "UserPromptSubmit": turns.prompted,
}


# ── a record that is gone ───────────────────────────────────────────────────────────────────
#
# A worker may have moved `.git` or `.git/playbook` away, or removed its worktree. Then nothing
# tells what is due, and the conversation stops until a person speaks. Their own turn is theirs.


def _is_gone(known: Registration, pid: int) -> bool:
    """True if no record of a driver is left where the hooks look for it.

    A marker that alone is missing is written again: the binding is whole.
    """
    git_dir = Path(git_directory(known.root))
    session, _ = marked(str(git_dir))
    private = git_dir / "playbook" / (session or known.session)
    bound = binding.load(private)
    if session and (bound is not None or binding.broken(private)):
        return False
    if not session and bound is not None:
        with binding.exclusive(private):  # unless the session is just being released
            bound = binding.load(private)
            ours = bound is not None and (bound.session, bound.pid) == (known.session, pid)
            if bound is not None and ours and client_register.registered(pid):
                binding.mark(git_dir, bound)
                return False
    return client_register.registered(pid) is not None


def _without_record(
    known: Registration, pid: int, payload: Mapping[str, Any], environment: Mapping[str, str]
) -> HookReply | None:
    """The reply to any hook but that of a typed command."""
    event, agent = str(payload.get("hook_event_name", "")), payload.get("agent_id")
    whose, message = client_register.turn(pid), _gone(known)
    match event:
        case "PreToolUse" | "PreSkillShellCommand" if whose != "person":
            if agent:
                return HookReply(event, decision="deny", reason=message)
            return HookReply(event, decision="deny", reason=_STOP, end=message, ring=message)
        case "ConfigChange" if whose != "person":
            return HookReply(event, decision="block", reason=message)
        case "UserPromptSubmit":
            authorization.require_client(environment, pid)
            return _spoken_to(pid, str(payload.get("prompt", "")), message, first=not whose)
        case "Stop" | "SessionStart":
            client_register.set_turn(pid, "told")
            return HookReply(event, note=message if event != "Stop" else "", shown=message)
        case _:
            return None


def _spoken_to(pid: int, prompt: str, message: str, *, first: bool) -> HookReply | None:
    if prompt.startswith(_OUR_COMMANDS):
        return None
    person = not (notices.is_automatic(prompt) or prompt.lstrip().startswith("<"))
    client_register.set_turn(pid, "person" if person else "told")
    return HookReply("UserPromptSubmit", note=message, shown=message if first else "")


def _released(known: Registration, pid: int) -> HookReply:
    client_register.release(pid)
    message = _RELEASED.format(session=known.session, gone=_where(known))
    return HookReply("UserPromptExpansion", note=message, shown=message)


def _gone(known: Registration) -> str:
    return (
        f"playbook: session {known.session} drives this conversation, but {_where(known)}. "
        "Nothing goes on until a person has looked: move back what was moved, or type "
        "/playbook.pause or /playbook.abort, which release this conversation."
    )


def _where(known: Registration) -> str:
    record = f"{git_directory(known.root)}/playbook/{known.session}"
    return f"its record is not in {first_line(record)} any more"
