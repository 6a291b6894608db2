"""What the rules say of an agent's call, before a person is asked. Pure.

A call has the name and the input of a tool of Claude Code, and rules have its syntax:
`Bash(npm test *)`, `Edit(/src/**)`, `WebFetch(domain:example.org)`. What cannot be parsed is never
allowed by a rule.
"""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from playbook_supervisor.agents.protocol import Call
from playbook_supervisor.agents.tool_calls import simple_commands
from playbook_supervisor.agents.values import text
from playbook_supervisor.project.expressions import globs

Ruling = Literal["allow", "deny", "ask"]

_ALIKE = (
    frozenset({"Edit", "Write", "NotebookEdit", "MultiEdit"}),
    frozenset({"Read", "Glob", "Grep", "LS"}),
)
"""Tools that one kind of an agent's calls stands for, and that one rule covers."""
_HARMLESS = r"[0-9]?>(?:&[0-9]|\s?/dev/null)(?=\s|$)"
_REDIRECTED = r"[0-9&]?(>>?|<)\s*([\w./-]+)(?=[\s;&|]|$)"
_OPAQUE = r"[`<>]|\$\("  # what no rule knows: substitutions, and redirections that remain
_LONGEST = 2_000  # characters of a command line that rules are applied to
_NEVER = frozenset({".agents", ".claude", ".codex", ".gemini", ".git", ".opencode", ".qwen"})
"""Folders that no agent may change without a decision: what is in them runs as programs, or is
obeyed by agents."""


def ruling(call: Call, allowed: Sequence[str], tool: str, given: Mapping[str, Any]) -> Ruling:
    """Whether the call may be made; `allowed` are the rules of the settings.

    What a step's `tools` leave out and what is forbidden is denied. Reading and editing in the
    repository needs no rule, but for git's own files. `paths` are all those of a call with several.
    """
    root = str(call.cwd)
    if several := given.get("paths"):
        each = {ruling(call, allowed, tool, {"file_path": path}) for path in several}
        return "deny" if "deny" in each else "allow" if each == {"allow"} else "ask"
    if call.tools is not None and not any(_is(_tool(rule), tool) for rule in call.tools):
        return "deny"
    if any(matches(rule, tool, given, root, any_part=True) for rule in call.forbidden_rules):
        return "deny"
    rules = (*allowed, *(call.tools or ()), *call.allowed_rules)
    if any(matches(rule, tool, given, root) for rule in rules):
        return "allow"
    if tool == "Bash":  # several commands on one line may need several rules
        line = text(given, "command")
        plain = [{"command": " ".join(words)} for words in simple_commands(line)]
        covered = (any(matches(rule, tool, each, root) for rule in rules) for each in plain)
        files = (_redirection(call, allowed, *each) for each in re.findall(_REDIRECTED, line))
        clear = _is_clear(re.sub(_REDIRECTED, "", re.sub(_HARMLESS, "", line)))
        return "allow" if plain and clear and all(covered) and all(files) else "ask"
    return "allow" if _is_inside(tool, given, root) else "ask"


def _redirection(call: Call, allowed: Sequence[str], sign: str, file: str) -> bool:
    if file == "/dev/null":
        return True
    tool = "Read" if sign == "<" else "Write"
    return ruling(call, allowed, tool, {"file_path": file}) == "allow"


def matches(
    rule: str, tool: str, given: Mapping[str, Any], root: str, *, any_part: bool = False
) -> bool:
    """True if the rule means the call; with `any_part`, also one command among several."""
    name, _, content = rule.strip().partition("(")
    if not _is(name, tool):
        return name.startswith("mcp__") and tool.startswith(f"{name}__")
    if not content or content == "*)":
        return True
    content = content.removesuffix(")")
    if tool == "Bash":
        command = text(given, "command").strip()
        parts = [" ".join(words) for words in simple_commands(command)] if any_part else []
        whole = [command] if any_part or _is_simple(command) else []
        return any(_fits(content, each) for each in (*whole, *parts)) or command == content
    if tool == "WebFetch":
        host = re.match(r"https?://([^/:?#\s]+)", text(given, "url"))
        return host is not None and content == f"domain:{host[1]}"
    if path := _path(given):
        return _means(content, path, root)
    return content in map(str, given.values())


def _is(name: str, tool: str) -> bool:
    return name == tool or any(name in alike and tool in alike for alike in _ALIKE)


def _tool(rule: str) -> str:
    return rule.partition("(")[0].strip()


def _is_clear(line: str) -> bool:
    """True if the line does no more than the simple commands in it, and they can be told apart."""
    try:
        shlex.split(line)
    except ValueError:  # an open quote
        return False
    return len(line) <= _LONGEST and not re.search(_OPAQUE, line)


def _is_simple(line: str) -> bool:
    plain = re.sub(_HARMLESS, "", line)
    return _is_clear(plain) and len(list(simple_commands(plain))) == 1


def _fits(pattern: str, command: str) -> bool:
    """`git diff *` and `git diff:*` mean `git diff`, alone or with arguments."""
    pattern = re.sub(r":\*$", " *", pattern)
    if pattern.endswith(" *") and command == pattern[:-2]:
        return True
    literal = re.sub(r"([?\[])", r"[\1]", pattern)
    return fnmatch.fnmatchcase(command, literal)


def _means(pattern: str, path: str, root: str) -> bool:
    """One slash begins at the repository's top, two are an absolute path, `~/` is the home."""
    place = _real(path, root)
    if pattern.startswith("//"):
        return globs.matches(pattern[2:], str(place).lstrip("/"))
    if pattern.startswith("~/"):
        top, pattern = Path.home(), pattern[2:]
    else:
        top, plain = Path(root), pattern.removeprefix("./")
        pattern = plain.lstrip("/") if "/" in plain else f"**/{plain}"
    top = top.resolve()
    return place.is_relative_to(top) and globs.matches(pattern, str(place.relative_to(top)))


def _is_inside(tool: str, given: Mapping[str, Any], root: str) -> bool:
    """True if the call reads or edits files of the repository that need no decision."""
    changes, reads = (tool in alike for alike in _ALIKE)
    path = _path(given)
    if not path:  # a search may name no file; an edit that names none is not known
        return reads
    place, top = _real(path, root), Path(root).resolve()
    if not ((changes or reads) and place.is_relative_to(top)):
        return False
    return reads or _NEVER.isdisjoint(place.relative_to(top).parts)


def _real(path: str, root: str) -> Path:
    """Where a path of a call leads, with its links followed."""
    return Path(root, path).resolve()


def _path(given: Mapping[str, Any]) -> str:
    return text(given, "file_path") or text(given, "notebook_path") or text(given, "path")
