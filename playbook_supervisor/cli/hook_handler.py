"""`playbook hook`: one hook of the Claude Code client, JSON in, JSON out."""

from __future__ import annotations

import json
import os
import re
import sys

from playbook_supervisor.cli import output
from playbook_supervisor.drivers.claude_code import fast_path
from playbook_supervisor.formats.directive_line import sentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from playbook_supervisor.drivers.claude_code.context import HookReply


_TYPED = {"abort": False, "list": True, "pause": True, "resume": True, "status": True}
"""Command that can be typed in the client → whether it takes a session; `abort` takes a reason."""


def read_payload() -> object:
    """The object that the client has written to stdin; None if it is not JSON."""
    try:
        return json.loads(sys.stdin.buffer.read())
    except (ValueError, RecursionError):
        return None


def answer_fast(payload: object) -> bool:
    """Answer if hardly anything has to be imported for that; whether it was possible."""
    ruling = fast_path.at_once(payload, os.environ) if isinstance(payload, dict) else None
    if ruling is None:
        return False
    if ruling.verdict == "deny":
        event = str(payload.get("hook_event_name")) if isinstance(payload, dict) else ""
        denied = _permission(event, "deny", sentence(ruling.reason))
        output.write_json({"hookSpecificOutput": denied})
    return True


def handle(payload: object) -> int:
    """Answer the hook with one JSON document or nothing.

    Returns 0, or 1 with a message if the payload is not a hook's; never 2, which would block the
    client. A typed command that fails is blocked with its error, so that no model sees it.
    """
    from playbook_supervisor.drivers.claude_code import hooks
    from playbook_supervisor.errors import PlaybookError

    if not isinstance(payload, dict):
        output.inform("playbook hook: stdin is not the JSON object of a hook")
        return 1
    try:
        reply = hooks.handle(payload, os.environ)
        document = None if reply is None else _document(reply)
    except PlaybookError as error:
        lines = (error.message, error.where and f"at: {error.where}", f"do: {error.guidance}")
        message = "\n".join(filter(None, lines))
        if payload.get("hook_event_name") == "UserPromptExpansion":
            output.write_json({"decision": "block", "reason": _with_slash_commands(message)})
            return 0
        output.inform(message)
        return 1
    if document is not None:
        output.write_json(document)
    return 0


def _with_slash_commands(message: str) -> str:

    def typed(found: re.Match[str]) -> str:
        command, session, option = found.groups(default="")
        return f"`/playbook.{command}{session if _TYPED[command] else ''}{option}`"

    command = rf"`playbook ({'|'.join(_TYPED)})( [0-9]{{8}}-[a-z0-9]{{3}})?( --retry| --all)?`"
    message = re.sub(command, typed, message)
    return message.replace("For example: playbook run ", "For example: /playbook.run ")


def _document(reply: HookReply) -> dict[str, Any]:
    from playbook_supervisor.cli.directive_output import (
        lines_at_stop,
        lines_for_model,
        lines_for_user,
    )

    mark = reply.details.mark if reply.details else ""
    reason = sentence(reply.reason, mark)
    to_model = [sentence(reply.note, mark)] if reply.note else []
    to_user = [reply.shown] if reply.shown else []
    if reply.closed:
        from playbook_supervisor.sessions.gate.gate_text import settled_line

        to_user[:0] = map(settled_line, reply.closed)
    if reply.snapshot is not None and reply.details is not None:
        lines = lines_at_stop if reply.event == "Stop" else lines_for_model
        to_model += lines(reply.snapshot, reply.details)
        to_user += lines_for_user(reply.snapshot, reply.details)
    document: dict[str, Any] = {}
    if to_user:
        document["systemMessage"] = "\n".join(to_user)
    if reply.ring:
        document["terminalSequence"] = output.bell(reply.ring)
    if reply.end:
        document |= {"continue": False, "stopReason": sentence(reply.end, mark)}
    if reply.event in ("PreToolUse", "PreSkillShellCommand"):
        permission = _permission(reply.event, reply.decision, "\n".join([reason, *to_model]))
        if reply.given is not None:
            permission["updatedInput"] = dict(reply.given)
        document["hookSpecificOutput"] = permission
    elif reply.decision == "block":
        document |= {"decision": "block", "reason": "\n".join([reason, *to_model])}
    elif to_model:
        to_model = [*([reason] if reason else []), *to_model]
        document["hookSpecificOutput"] = {
            "hookEventName": reply.event,
            "additionalContext": "\n".join(to_model),
        }
    return document


def _permission(event: str, decision: str, reason: str) -> dict[str, Any]:
    return {
        "hookEventName": event,
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    }
