"""The client's transcripts: what they tell of an agent's end, and its output does not.

The client keeps a transcript of each conversation, and beside it one of each subagent. Their format
differs between versions: what cannot be read is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from playbook_supervisor.formats.fields import json_object
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.records import Record

_TAIL = 8_388_608  # bytes that are read from the end of a transcript
_STOPPED = "hook_stopped_continuation"
_NORMAL = frozenset({"Stop", "SubagentStop"})
"""Events at an agent's own end: a hook that stops it there stops no work."""


class Ending(Record):
    """The end of an agent, as far as its transcript tells.

    `hook` is the hook that stopped it in the middle, with its reason, and else empty. `silent`: it
    said nothing and called no tool but `Skill`. `unsettled`: the last that is known of it is a call
    or a call's result, because it was stopped or because its end is not written yet.
    """

    hook: str = ""
    silent: bool = False
    unsettled: bool = False


def conversation_file(env: Mapping[str, str], cwd: Path, session: str) -> Path:
    """The transcript of a conversation that runs in that folder."""
    home = Path(env.get("CLAUDE_CONFIG_DIR") or Path(env.get("HOME", "/"), ".claude"))
    folder = re.sub(r"[^A-Za-z0-9]", "-", str(cwd.resolve()))
    return home / "projects" / folder / f"{session}.jsonl"


def subagent_file(conversation: Path, agent: str) -> Path:
    """The transcript of a subagent, or of a command that ran in a context of its own."""
    return conversation.with_suffix("") / "subagents" / f"agent-{agent}.jsonl"


def tail(file: str | Path, size: int = _TAIL) -> Iterator[str]:
    """The last lines of a transcript, `size` bytes; none if it cannot be read."""
    try:
        with Path(file).open("rb") as transcript:
            transcript.seek(0, 2)
            transcript.seek(max(0, transcript.tell() - size))
            yield from transcript.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return


def ending(file: Path) -> Ending:
    """The end of the agent of that transcript.

    If it ran a command in a context of its own, a hook that stopped the command stopped the agent,
    and what the command did counts as done by the agent.
    """
    hook = last = fork = ""
    seen = acted = False
    for entry in filter(None, map(_entry, tail(file))):
        content = entry.get("message", {}).get("content") if "message" in entry else None
        kinds = {_kind(block) for block in content} if isinstance(content, list) else {"text"}
        match entry["type"]:
            case "assistant":
                seen, hook = True, ""
                last = "call" if kinds & {"tool_use", "Skill"} else "said"
                acted = acted or bool(kinds & {"text", "tool_use"})
            case "user":
                last = "result" if "tool_result" in kinds else "told"
                told = entry.get("toolUseResult")
                if isinstance(told, dict) and told.get("status") == "forked":
                    fork = str(told.get("agentId", ""))
            case "attachment":
                hook = _hook(entry.get("attachment")) or hook
    if fork and re.fullmatch(r"\w+", fork):
        own = ending(file.with_name(f"agent-{fork}.jsonl"))
        hook, acted = hook or own.hook, acted or not own.silent
    return Ending(hook, seen and not acted, not hook and last in ("call", "result"))


def _entry(line: str) -> dict[str, Any] | None:
    """A message, or a hook's mark; None for any other line."""
    if not re.search(r'"type":"(?:user|assistant)"', line) and _STOPPED not in line:
        return None
    entry = json_object(line)
    if not isinstance(entry.get("message", {}), dict):
        return None
    return entry if entry.get("type") in ("user", "assistant", "attachment") else None


def _kind(block: object) -> str:
    """The kind of a block; `Skill` for a call of that tool, nothing for blank text."""
    if not isinstance(block, dict):
        return ""
    kind = str(block.get("type", ""))
    if kind == "text":
        return kind if str(block.get("text", "")).strip() else ""
    return "Skill" if kind == "tool_use" and block.get("name") == "Skill" else kind


def _hook(mark: object) -> str:
    if not isinstance(mark, dict) or mark.get("type") != _STOPPED:
        return ""
    if mark.get("hookEvent") in _NORMAL:
        return ""
    return first_line(f"{mark.get('hookName') or 'a hook'}: {mark.get('message') or 'no reason'}")
