"""A call of a tool: what it is about, in a few words, and the rules that would allow it. Pure.

Tools and rules have the names and the syntax of Claude Code: `Bash(npm test *)`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from playbook_supervisor.agents.values import text
from playbook_supervisor.formats.sanitize import first_line

_KEYS = ("file_path", "notebook_path", "command", "pattern", "path", "url", "query")
_FALLBACK_KEYS = ("skill", "description", "prompt")
"""The keys of a tool's input that describe the call, the first one that is there."""
_SEPARATORS = ";&|()<>\n"
_MAX_COMMAND = 2_000  # characters of a command line that are parsed
_PLAIN_WORD = r"[A-Za-z0-9][A-Za-z0-9:_./-]*\Z"
_ASSIGNMENT = r"[A-Za-z_]\w*="


def subject_of(given: Mapping[str, Any], root: str = "") -> str:
    """The subject of the call: a command, a URL, or a path, relative to `root` if it is there."""
    keys = (*_KEYS, *_FALLBACK_KEYS)
    subject = next((found for key in keys if (found := text(given, key))), "")
    return subject.removeprefix(f"{root}/") if root else subject


def described(tool: str, given: Mapping[str, Any], root: str = "") -> str:
    """The call in a few words: `Write specs/013-x/plan.md`."""
    return first_line(f"{tool} {subject_of(given, root)}")


def rules_for(tool: str, given: Mapping[str, Any], root: str = "") -> Iterator[str]:
    """The rules that would allow the call, no broader than a person would write them."""
    match tool:
        case "Bash":
            yield from _shell_rules(text(given, "command"))
        case "Write" | "Edit" | "NotebookEdit":
            path = text(given, "file_path") or text(given, "notebook_path")
            yield _file_rule("Edit", path, root)
        case "Read" | "Glob" | "Grep":
            yield _file_rule("Read", text(given, "file_path") or text(given, "path"), root)
        case "WebFetch" if host := re.match(r"https?://([^/:?#\s]+)", text(given, "url")):
            yield f"WebFetch(domain:{host[1]})"
        case "Skill":
            yield f"Skill({first_line(text(given, 'skill'))})"
        case _:
            yield first_line(tool)


def _shell_rules(command: str) -> Iterator[str]:
    """`Bash(npm test *)` for `npm test -- --watch`: the program and its subcommand."""
    for words in simple_commands(command[:_MAX_COMMAND]):
        if re.match(_ASSIGNMENT, words[0]):  # only a rule for the whole command matches
            yield f"Bash({first_line(command)})"
        else:
            named = words[: 2 if len(words) > 1 and re.match(_PLAIN_WORD, words[1]) else 1]
            yield f"Bash({first_line(' '.join(named))} *)"


def simple_commands(line: str) -> Iterator[list[str]]:
    """The simple commands of a command line, without redirections; quotes are respected."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=_SEPARATORS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    words: list[str] = []
    redirected = False
    with suppress(ValueError):  # an open quote: the command may have been cut
        for token in lexer:
            if token.strip(_SEPARATORS):
                words += [] if redirected else [token]
                redirected = False
            elif "<" in token or ">" in token:
                redirected = True
                words = words[: len(words) - words[-1].isdecimal()] if words else words
            elif words:
                yield words
                words = []
    if words:
        yield words


def _file_rule(kind: str, path: str, root: str) -> str:
    """A rule writes one slash before a path in the repository, and two before an absolute one."""
    if root and path.startswith(f"{root}/"):
        return f"{kind}({first_line(path.removeprefix(root))})"
    return f"{kind}(/{first_line(path)})" if path.startswith("/") else kind
