"""Calls and choices of the Agent Client Protocol in the terms of Claude Code's tools. Pure.

Agents tell of a call what they please: its input, a title, the places, a change; later messages
complete earlier ones.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from playbook_supervisor.agents.values import Object, mapping, objects, text
from playbook_supervisor.formats.sanitize import first_line

_TOOLS = {
    "read": "Read",
    "search": "Grep",
    "edit": "Edit",
    "delete": "Edit",
    "move": "Edit",
    "execute": "Bash",
    "fetch": "WebFetch",
}
"""The kind of a call → the tool of Claude Code in whose terms rules speak of it."""
_PATHS = ("file_path", "filePath", "path", "fileName", "abs_path")
CANCELLED = {"outcome": {"outcome": "cancelled"}}


def as_tool(call: Object) -> tuple[str, dict[str, Any]]:
    """The call in the terms of Claude Code's tools: `Bash`, {"command": "npm test"}.

    What the agent does not tell is taken from what it shows: the title, and the places.
    """
    tool = _TOOLS.get(text(call, "kind"), "")
    raw, title = mapping(call, "rawInput"), text(call, "title")
    if not tool and objects(call, "locations"):
        tool = "Read"  # of a place that needs a permission of its own
    if tool == "Bash":
        return tool, {"command": _command(raw) or title.strip("`")}
    changes = [each for each in objects(call, "content") if each.get("type") == "diff"]
    if tool in ("Edit", "Read", "Grep"):
        named = [text(each, "path") for each in (*objects(call, "locations"), *changes)]
        paths = list(filter(None, dict.fromkeys([*named, *(text(raw, key) for key in _PATHS)])))
        new = "\n".join(text(each, "newText") for each in changes)
        several = {"paths": paths} if len(paths) > 1 else {}
        return tool, {"file_path": (*paths, "")[0], **several} | ({"content": new} if new else {})
    if tool == "WebFetch":
        return tool, {"url": text(raw, "url") or title}
    unknown = {"description": words_of(call) or title, "call": text(call, "toolCallId")}
    return first_line(title, 100) or "an unknown tool", dict(raw) or unknown


def words_of(call: Object) -> str:
    """The text that stands with a call: its input, or the question that it is."""
    return next(
        (each for part in objects(call, "content") if (each := text(part, "content", "text"))), ""
    )


def allows(option: Object) -> bool:
    """True if the choice lets the call be made, this once."""
    return option.get("kind") == "allow_once"


def chosen(options: Sequence[Object], kind: str) -> Object:
    """The reply that chooses the first of that kind; never one that holds for longer."""
    ids = (each.get("optionId") for each in options if each.get("kind") == kind)
    id_ = next(ids, None)
    return {"outcome": {"outcome": "selected", "optionId": id_}} if id_ else CANCELLED


def _command(raw: Object) -> str:
    """The command line, without the shell that some agents put before it."""
    command = next((raw[key] for key in ("command", "cmd", "script") if raw.get(key)), "")
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        if len(command) == 3 and command[1] in ("-c", "-lc"):
            return str(command[2])
        return shlex.join(command)
    return command if isinstance(command, str) else ""
