"""What the hooks reply if the record of a bound session is gone from the git directory.

A worker may have moved `.git` or `.git/playbook` away, or removed its worktree. Then nothing tells
what is due, and the conversation stops until a person speaks. Their own turn is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from playbook_supervisor.drivers.claude_code import authorization, binding, client_register, notices
from playbook_supervisor.drivers.claude_code.client_register import Registration
from playbook_supervisor.drivers.claude_code.context import HookReply
from playbook_supervisor.drivers.claude_code.marker import git_directory, marked
from playbook_supervisor.formats.sanitize import first_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_STOP = "The record of the playbook's session is gone: stop, and wait for the person."
_OUR_COMMANDS = "/playbook."
_RELEASED = "This conversation is released. Session {session} itself has not ended: {gone}."


def is_gone(known: Registration, pid: int) -> bool:
    """Whether no record of a driver is left where the hooks look for it.

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


def reply(
    known: Registration, pid: int, payload: Mapping[str, Any], environment: Mapping[str, str]
) -> HookReply | None:
    """The reply to any hook but that of a typed command."""
    event, agent = str(payload.get("hook_event_name", "")), payload.get("agent_id")
    whose, message = client_register.turn(pid), _message(known)
    match event:
        case "PreToolUse" | "PreSkillShellCommand" if whose != "person":
            if agent:
                return HookReply(event, decision="deny", reason=message)
            return HookReply(event, decision="deny", reason=_STOP, end=message, ring=message)
        case "ConfigChange" if whose != "person":
            return HookReply(event, decision="block", reason=message)
        case "UserPromptSubmit":
            authorization.require_client(environment, pid)
            return _prompted(pid, str(payload.get("prompt", "")), message, first=not whose)
        case "Stop" | "SessionStart":
            client_register.set_turn(pid, "told")
            return HookReply(event, note=message if event != "Stop" else "", shown=message)
        case _:
            return None


def _prompted(pid: int, prompt: str, message: str, *, first: bool) -> HookReply | None:
    """A person's message begins a turn of their own; a notification does not."""
    if prompt.startswith(_OUR_COMMANDS):
        return None
    person = not (notices.is_automatic(prompt) or prompt.lstrip().startswith("<"))
    client_register.set_turn(pid, "person" if person else "told")
    return HookReply("UserPromptSubmit", note=message, shown=message if first else "")


def released(known: Registration, pid: int) -> HookReply:
    """The reply to `/playbook.pause` and `/playbook.abort`: the conversation is free again."""
    client_register.release(pid)
    message = _RELEASED.format(session=known.session, gone=_where(known))
    return HookReply("UserPromptExpansion", note=message, shown=message)


def _message(known: Registration) -> str:
    return (
        f"playbook: session {known.session} drives this conversation, but {_where(known)}. "
        "Nothing goes on until a person has looked: move back what was moved, or type "
        "/playbook.pause or /playbook.abort, which release this conversation."
    )


def _where(known: Registration) -> str:
    record = f"{git_directory(known.root)}/playbook/{known.session}"
    return f"its record is not in {first_line(record)} any more"
