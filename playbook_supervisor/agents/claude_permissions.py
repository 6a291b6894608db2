"""What a headless worker was not permitted, and the very line of the config that permits it. Pure.

Nobody is there to be asked, so the client denies whatever its rules do not allow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from playbook_supervisor.agents.claude_stream import Denial, described
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAMED = 3
"""So many denied calls are named in a message."""
_RULES = 6
"""So many rules are a line that somebody would paste."""
_REFUSAL = (
    r"\w+:\w+ hook error"
    r"|Permission to use (?s:.*) has been denied\.\Z"
    r"|(?:<tool_use_error>)?File is in a directory that is denied by your permission settings"
)
"""What the client says where the project itself refuses: a hook, or a deny rule."""
_GUARDED = "sensitive file"
"""What it says of files that no rule opens: its own settings, and git's."""
_PLANNING = "while in plan mode"
"""What it says of files where its mode forbids every change, whatever the rules are."""
_NO_PLANNING = (
    "In .playbooks/config.yaml, take `permission_mode: plan` out: nothing can be written in that "
    "mode; then run the step again."
)
_NO_RULE = "No rule of the config opens this to a worker: let the step do without it."
_BETWEEN = ";&|()<>\n"
_LONGEST = 2_000
"""Beyond that, what a command line consists of is not looked at."""
_PLAIN_WORD = r"[A-Za-z0-9][A-Za-z0-9:_./-]*\Z"
_ASSIGNMENT = r"[A-Za-z_]\w*="


def refusal(denial: Denial) -> bool:
    """Whether the project itself refuses such a call: a boundary of the work, and no lack."""
    return re.match(_REFUSAL, denial.reason) is not None


def lacking(denials: Sequence[Denial], allowed: Sequence[str], root: str) -> Failure:
    """The failure that names what was denied and shows the line to add, `allowed` being there."""
    named = [described(denial.tool, denial.input, root) for denial in denials]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    message = f"claude was not permitted: {', '.join(named[:_NAMED])}{more}"
    cause = "\n".join(first_line(denial.reason) for denial in denials[:_NAMED])
    if any(_PLANNING in denial.reason for denial in denials):
        return Failure("PB-AGENT-PERMISSION", message, _NO_PLANNING, cause, lasts=True)
    rules = [rule for denial in denials for rule in _rules(denial, root)]
    if not rules:
        return Failure("PB-AGENT-PERMISSION", message, _NO_RULE, cause, lasts=True)
    line = list(dict.fromkeys((*allowed, *rules)))[: len(allowed) + _RULES]
    return Failure(
        "PB-AGENT-PERMISSION",
        message,
        "In .playbooks/config.yaml, under `agents:`, `claude:`, write "
        f"`allowed_tools: {json.dumps(line, ensure_ascii=False)}`; then run the step again.",
        cause,
        lasts=True,
    )


def _rules(denial: Denial, root: str) -> Iterator[str]:
    """The rules that would have permitted the call, no wider than one would write by hand."""
    tool, given = denial.tool, denial.input
    if _GUARDED in denial.reason:
        return
    match tool:
        case "Bash":
            yield from _of_shell(_said(given, "command"))
        case "Write" | "Edit" | "NotebookEdit":
            path = _said(given, "file_path") or _said(given, "notebook_path")
            yield _of_file("Edit", path, root)
        case "Read" | "Glob" | "Grep":
            yield _of_file("Read", _said(given, "file_path") or _said(given, "path"), root)
        case "WebFetch" if host := re.match(r"https?://([^/:?#\s]+)", _said(given, "url")):
            yield f"WebFetch(domain:{host[1]})"
        case "Skill":
            yield f"Skill({first_line(_said(given, 'skill'))})"
        case _:
            yield first_line(tool)


def _of_shell(command: str) -> Iterator[str]:
    """`npm test -- --watch` wants `Bash(npm test *)`: the program, and its subcommand if any."""
    for words in _commands(command[:_LONGEST]):
        if re.match(_ASSIGNMENT, words[0]):  # a rule holds for it as a whole
            yield f"Bash({first_line(command)})"
        else:
            named = words[: 2 if len(words) > 1 and re.match(_PLAIN_WORD, words[1]) else 1]
            yield f"Bash({first_line(' '.join(named))} *)"


def _commands(line: str) -> Iterator[list[str]]:
    """The simple commands of a command line, redirections left out, quotes respected."""
    import shlex

    lexer = shlex.shlex(line, posix=True, punctuation_chars=_BETWEEN)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    words: list[str] = []
    redirected = False
    with suppress(ValueError):  # a quote that is not closed: its end may lie beyond the length
        for token in lexer:
            if token.strip(_BETWEEN):
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


def _of_file(kind: str, path: str, root: str) -> str:
    """From the repository's top a rule names a file by one slash, from the disk's by two."""
    if root and path.startswith(f"{root}/"):
        return f"{kind}({first_line(path.removeprefix(root))})"
    return f"{kind}(/{first_line(path)})" if path.startswith("/") else kind


def _said(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key)
    return value if isinstance(value, str) else ""
