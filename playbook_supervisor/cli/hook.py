"""`playbook hook`: one hook of the Claude Code client, JSON in, JSON out."""

from __future__ import annotations

import json
import os
import sys

from playbook_supervisor.cli import streams
from playbook_supervisor.errors import PlaybookError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from playbook_supervisor.drivers.claude_code.desk import Reply


def hook() -> int:
    """Answer the hook on stdin. Prints one JSON document or nothing.

    0, or 1 with a message where the input is none of the client's: never 2 by accident. A typed
    command that cannot be carried out is blocked with its error, and no model is asked.
    """
    from playbook_supervisor.api import protocol

    try:
        payload = json.load(sys.stdin)
    except ValueError:
        payload = None
    if not isinstance(payload, dict):
        streams.tell("playbook hook: stdin is no JSON object of a hook")
        return 1
    try:
        reply = protocol.hook(payload, os.environ)
    except PlaybookError as error:
        lines = (error.message, error.where and f"at: {error.where}", f"do: {error.guidance}")
        said = "\n".join(filter(None, lines))
        if payload.get("hook_event_name") == "UserPromptExpansion":
            streams.put_json({"decision": "block", "reason": said})
            return 0
        streams.tell(said)
        return 1
    if reply is not None:
        streams.put_json(_document(reply))
    return 0


def _document(reply: Reply) -> dict[str, Any]:
    """The reply in the client's own words."""
    from playbook_supervisor.cli.handing import told

    words = [reply.note] if reply.note else []
    if reply.tell is not None:
        words += told(reply.tell)
    document: dict[str, Any] = {}
    if reply.ring:
        document["terminalSequence"] = _sequence(reply.ring)
    if reply.end:
        document |= {"continue": False, "stopReason": reply.end}
    if reply.event == "PreToolUse":
        reason = "\n".join([reply.reason, *words])
        document["hookSpecificOutput"] = {
            "hookEventName": reply.event,
            "permissionDecision": reply.decision,
            "permissionDecisionReason": reason,
            **({"updatedInput": dict(reply.given)} if reply.given is not None else {}),
        }
    elif reply.decision == "block":
        document |= {"decision": "block", "reason": "\n".join([reply.reason, *words])}
    elif words:
        document["hookSpecificOutput"] = {
            "hookEventName": reply.event,
            "additionalContext": "\n".join(words),
        }
    return document


def _sequence(notice: str) -> str:
    """A bell, and the notice in both ways that terminals know (OSC 9, OSC 777)."""
    from playbook_supervisor.plain_text import first_line

    said = first_line(notice, 200).replace(";", ",")
    return f"\a\x1b]9;{said}\a\x1b]777;notify;playbook;{said}\a"
