"""Tool calls that a headless client denied, and the config line that would allow them. Pure.

There is no person to ask, so the client denies what its rules do not allow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from playbook_supervisor.agents.claude_stream import Denial, described
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Failure

_MAX_CALLS = 3  # denied calls in a message
_MAX_RULES = 6  # rules in the suggested line
_REFUSAL = (
    r"\w+:\w+ hook error"
    r"|Permission to use (?s:.*) has been denied\.\Z"
    r"|(?:<tool_use_error>)?File is in a directory that is denied by your permission settings"
)
"""The client's reason where the project itself refuses: a hook, or a deny rule."""
_PROTECTED = "sensitive file"
"""The reason for files that no rule can open: the client's settings, and git's."""
_PLAN_MODE = "while in plan mode"
"""The reason in plan mode, which forbids every change, even one that a rule allows."""
_RUN_AGAIN = "then run the step again: `playbook resume --retry --accept-config`."
_LEAVE_PLAN_MODE = (
    "In .playbooks/config.yaml, remove `permission_mode: plan`, which forbids every change; "
    + _RUN_AGAIN
)
_NO_RULE = "No rule of the config can allow this; change the step so that it does not need it."
_SEPARATORS = ";&|()<>\n"
_MAX_COMMAND = 2_000  # characters of a command line that are parsed
_PLAIN_WORD = r"[A-Za-z0-9][A-Za-z0-9:_./-]*\Z"
_ASSIGNMENT = r"[A-Za-z_]\w*="


def is_project_rule(denial: Denial) -> bool:
    """Whether the project itself forbids the call, so that no permission is missing."""
    return re.match(_REFUSAL, denial.reason) is not None


def permission_failure(denials: Sequence[Denial], allowed: Sequence[str], root: str) -> Failure:
    """The failure that names the denied calls and shows the line that allows them and `allowed`."""
    calls = [described(denial.tool, denial.input, root) for denial in denials]
    more = f" and {len(calls) - _MAX_CALLS} more" if len(calls) > _MAX_CALLS else ""
    message = f"claude was not permitted: {', '.join(calls[:_MAX_CALLS])}{more}"
    cause = "\n".join(first_line(denial.reason) for denial in denials[:_MAX_CALLS])
    if any(_PLAN_MODE in denial.reason for denial in denials):
        guidance = _LEAVE_PLAN_MODE
    elif rules := [rule for denial in denials for rule in _rules(denial, root)]:
        line = list(dict.fromkeys((*allowed, *rules)))[: len(allowed) + _MAX_RULES]
        guidance = (
            "In .playbooks/config.yaml, under `agents:`, `claude:`, write "
            f"`allowed_tools: {json.dumps(line, ensure_ascii=False)}`; {_RUN_AGAIN}"
        )
    else:
        guidance = _NO_RULE
    return Failure("PB-AGENT-PERMISSION", message, guidance, cause, lasts=True)


def _rules(denial: Denial, root: str) -> Iterator[str]:
    """The rules that would allow the call, no broader than a person would write them."""
    tool, given = denial.tool, denial.input
    if _PROTECTED in denial.reason:
        return
    match tool:
        case "Bash":
            yield from _shell_rules(_text(given, "command"))
        case "Write" | "Edit" | "NotebookEdit":
            path = _text(given, "file_path") or _text(given, "notebook_path")
            yield _file_rule("Edit", path, root)
        case "Read" | "Glob" | "Grep":
            yield _file_rule("Read", _text(given, "file_path") or _text(given, "path"), root)
        case "WebFetch" if host := re.match(r"https?://([^/:?#\s]+)", _text(given, "url")):
            yield f"WebFetch(domain:{host[1]})"
        case "Skill":
            yield f"Skill({first_line(_text(given, 'skill'))})"
        case _:
            yield first_line(tool)


def _shell_rules(command: str) -> Iterator[str]:
    """`Bash(npm test *)` for `npm test -- --watch`: the program and its subcommand."""
    for words in _commands(command[:_MAX_COMMAND]):
        if re.match(_ASSIGNMENT, words[0]):  # only a rule for the whole command matches
            yield f"Bash({first_line(command)})"
        else:
            named = words[: 2 if len(words) > 1 and re.match(_PLAIN_WORD, words[1]) else 1]
            yield f"Bash({first_line(' '.join(named))} *)"


def _commands(line: str) -> Iterator[list[str]]:
    """The simple commands of a command line, without redirections; quotes are respected."""
    import shlex

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


def _text(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key)
    return value if isinstance(value, str) else ""
