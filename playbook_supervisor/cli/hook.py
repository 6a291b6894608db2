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

    from playbook_supervisor.commands.protocol import DirectiveDetails
    from playbook_supervisor.drivers.claude_code.context import HookReply
    from playbook_supervisor.sessions.snapshot import Snapshot


def payload() -> object:
    """What the client has written on stdin; None where it is no JSON."""
    try:
        return json.loads(sys.stdin.buffer.read())
    except (ValueError, RecursionError):
        return None


def at_once(given: object) -> bool:
    """Answer what can be answered with next to nothing imported; whether it could."""
    from playbook_supervisor.drivers.claude_code import fast_path

    ruling = fast_path.at_once(given, os.environ) if isinstance(given, dict) else None
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
    from playbook_supervisor.commands import protocol

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
            streams.put_json({"decision": "block", "reason": _as_typed(said)})
            return 0
        streams.tell(said)
        return 1
    if document is not None:
        streams.put_json(document)
    return 0


def _as_typed(said: str) -> str:
    """The same, for somebody who types at the client's prompt, where commands have other names.

    What stands behind `abort` there is the reason: it ends the session of this worktree.
    """
    import re

    named = re.sub(r"`playbook abort(?: [0-9]{8}-[a-z0-9]{3})?`", "`/playbook.abort`", said)
    named = re.sub(
        r"`playbook ((?:list|pause|resume|status)(?: [0-9]{8}-[a-z0-9]{3})?(?: --retry)?)`",
        r"`/playbook.\1`",
        named,
    )
    return named.replace("For example: playbook run ", "For example: /playbook.run ")


def _document(reply: HookReply) -> dict[str, Any]:
    """The reply in the client's own words."""
    from playbook_supervisor.cli.directive_output import seen, told

    words = [reply.note] if reply.note else []
    if reply.tell is not None:
        words += told(reply.tell, _enclosed(reply, reply.tell))
    document: dict[str, Any] = {}
    shown = _went_by(reply) + ([reply.shown] if reply.shown else [])
    if reply.tell is not None:
        shown += seen(reply.tell)
    if shown:
        document["systemMessage"] = "\n".join(shown)
    if reply.ring:
        from playbook_supervisor.cli.render.bell import sequence

        document["terminalSequence"] = sequence(reply.ring)
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


def _went_by(reply: HookReply) -> list[str]:
    if not reply.closed:
        return []
    from playbook_supervisor.cli.render import text

    return [text.closed(entry) for entry in reply.closed]


def _enclosed(reply: HookReply, outlook: Snapshot) -> DirectiveDetails:
    """What comes with it, from where the client was started; the folder of the moment may be any.

    What agents have been given the reply says: the binding may be gone by now.
    """
    from pathlib import Path

    from playbook_supervisor.commands import protocol
    from playbook_supervisor.records import replace

    folder = os.environ.get("CLAUDE_PROJECT_DIR")
    enclosure = protocol.enclosed(outlook, cwd=Path(folder) if folder else None)
    return replace(enclosure, given=reply.given_out)


def _permission(decision: str, reason: str) -> dict[str, Any]:
    return {
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    }
