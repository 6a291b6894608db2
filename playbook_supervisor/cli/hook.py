"""`playbook hook`: one hook of the Claude Code client, JSON in, JSON out."""

from __future__ import annotations

import json
import os
import sys

from playbook_supervisor.cli import streams
from playbook_supervisor.errors import PlaybookError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from playbook_supervisor.drivers.claude_code.desk import Reply


def payload() -> object:
    """What the client has written on stdin; None where it is no JSON."""
    try:
        return json.loads(sys.stdin.buffer.read())
    except (ValueError, RecursionError):
        return None


def at_once(given: object) -> bool:
    """Answer what can be answered with next to nothing imported; whether it could."""
    from playbook_supervisor.drivers.claude_code import front_desk

    ruling = front_desk.at_once(given, os.environ) if isinstance(given, dict) else None
    if ruling is None:
        return False
    if ruling.verdict == "deny":
        streams.put_json({"hookSpecificOutput": _permission("deny", ruling.reason)})
    return True


def hook(given: object) -> int:
    """Answer the hook. Prints one JSON document or nothing.

    0, or 1 with a message where the input is none of the client's: never 2 by accident. A typed
    command that cannot be carried out is blocked with its error, and no model is asked.
    """
    from playbook_supervisor.api import protocol

    if not isinstance(given, dict):
        streams.tell("playbook hook: stdin is no JSON object of a hook")
        return 1
    try:
        reply = protocol.hook(given, os.environ)
        document = None if reply is None else _document(reply)
    except PlaybookError as error:
        lines = (error.message, error.where and f"at: {error.where}", f"do: {error.guidance}")
        said = "\n".join(filter(None, lines))
        if given.get("hook_event_name") == "UserPromptExpansion":
            streams.put_json({"decision": "block", "reason": said})
            return 0
        streams.tell(said)
        return 1
    if document is not None:
        streams.put_json(document)
    return 0


def _document(reply: Reply) -> dict[str, Any]:
    """The reply in the client's own words."""
    from playbook_supervisor.cli.handing import seen, told

    words = [reply.note] if reply.note else []
    if reply.tell is not None:
        words += told(reply.tell, cwd=_project())
    document: dict[str, Any] = {}
    shown = [reply.shown] if reply.shown else []
    if reply.tell is not None:
        shown += seen(reply.tell)
    if shown:
        document["systemMessage"] = "\n".join(shown)
    if reply.ring:
        document["terminalSequence"] = _sequence(reply.ring)
    if reply.end:
        document |= {"continue": False, "stopReason": reply.end}
    if reply.event == "PreToolUse":
        answer = _permission(reply.decision, "\n".join([reply.reason, *words]))
        if reply.given is not None:
            answer["updatedInput"] = dict(reply.given)
        document["hookSpecificOutput"] = answer
    elif reply.decision == "block":
        document |= {"decision": "block", "reason": "\n".join([reply.reason, *words])}
    elif words:
        document["hookSpecificOutput"] = {
            "hookEventName": reply.event,
            "additionalContext": "\n".join(words),
        }
    return document


def _project() -> Path | None:
    """Where the client was started; the folder of the moment may be any."""
    from pathlib import Path

    folder = os.environ.get("CLAUDE_PROJECT_DIR")
    return Path(folder) if folder else None


def _permission(decision: str, reason: str) -> dict[str, Any]:
    return {
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    }


def _sequence(notice: str) -> str:
    """A bell, and the notice in both ways that terminals know (OSC 9, OSC 777)."""
    from playbook_supervisor.plain_text import first_line

    said = first_line(notice, 200).replace(";", ",")
    return f"\a\x1b]9;{said}\a\x1b]777;notify;playbook;{said}\a"
