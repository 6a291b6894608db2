"""Values in a playbook that look like secrets, and comments that allow what a check reports.

What a secret looks like is decided by detect-secrets, which is imported only if a cheap test finds
something that could be one: most playbooks have nothing of the kind.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from playbook_supervisor.errors import CODES
from playbook_supervisor.formats.located import Data, Document, Path
from playbook_supervisor.formats.problems import Problem, problem_at
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.project.expressions.references import without_references
from playbook_supervisor.records import Record

_NAME = (
    r"(?:[\w-]*[_-])?(?:token|secret|password|passwd|pwd|passphrase|api-?key|apikey|access[_-]key"
    r"|api[_-]key|private[_-]key|secret[_-]key|client[_-]key|auth[_-]key|credentials?"
    r"|authorization|cookie)"
)
_NAMED = re.compile(rf"(?i){_NAME}\Z")
_PAIR = re.compile(
    rf"(?i)(?<![\w-])(?:--?)?({_NAME})(?:=|:\s*|['\"]\s*:\s*|(?<=\w)\s+(?![-{{]))['\"]?([^'\"]+)"
)
"""A name with its value in the words of a command: `TOKEN=…`, `--token …`, `Authorization: …`."""
_SCHEME = re.compile(r"(?i)\A\s*(?:bearer|basic|token|digest)(?:\s+|\Z)")
_RUN = re.compile(r"[A-Za-z0-9_]{12,}")
_SHAPED = re.compile(r"-----BEGIN|://[^/\s:@]+:[^/\s@]+@|hooks\.slack|xox|_authToken")
_SHORTEST = 6
_HARMLESS = r"[\d.]+\Z|\$|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\Z"
"""A number, a variable of a shell, or a name of a secret: `GITHUB_TOKEN`."""
_OTHER_DETECTORS = {"KeywordDetector", "IPPublicDetector", "Base64HighEntropyString"}
_OTHER_DETECTORS |= {"HexHighEntropyString", "HighEntropyStringsPlugin"}
"""Detectors that are asked by name, or cannot tell a secret from an address or a commit."""


def found(document: Document) -> tuple[Problem, ...]:
    """An error for each value that looks like a secret. No message contains any of it."""
    problems = []
    for path, name, value in _candidates(document.data):
        if kind := _named_secret(value) if name else _shape(value):
            shown = first_line(name or str(path[-1]), 60)
            message = f"the value of `{shown}` looks like a secret ({kind})"
            problems.append(problem_at(document, path, SECRET, message, CODES[SECRET]))
    return tuple(dict.fromkeys(problems))


def refused(document: Document, data: bytes) -> tuple[Problem, ...]:
    """Those of them that no comment in the file allows."""
    problems = found(document)
    allowances = _allowances(data) if problems else []
    return tuple(each for each in problems if not any(_allows(one, each) for one in allowances))


# ── what could be one ───────────────────────────────────────────────────────────────────────


def _candidates(data: Data) -> Iterator[tuple[Path, str, str]]:
    """Path, name and value; the name is empty if it is not that of a secret."""
    waiting: list[tuple[Path, str, Data]] = [((), "", data)]
    while waiting:
        path, name, value = waiting.pop()
        if isinstance(value, dict):
            handle = str(value.get("secret")) == "true"  # of an arg, whose value is a name
            for key, inner in value.items():
                called = str(value.get("name")) if key == "default" and not handle else key
                waiting.append(((*path, key), called, inner))
        elif isinstance(value, list):
            waiting += [((*path, index), name, inner) for index, inner in enumerate(value)]
        elif text := without_references(value):
            yield from _in_text(path, name, text)


def _in_text(path: Path, name: str, text: str) -> Iterator[tuple[Path, str, str]]:
    named = [(name, text)] if _NAMED.match(name) else []
    if path[-1:] == ("command",):
        named += _PAIR.findall(text)
    for called, value in named:
        literal = _SCHEME.sub("", value, count=1).strip(" \t'\"")
        if len(literal) >= _SHORTEST and not re.match(_HARMLESS, literal):
            yield path, called, literal
            return
    runs = (run for run in _RUN.findall(text) if not run.isalpha() and not run.isdigit())
    if _SHAPED.search(text) or any(re.search(r"[0-9]", run) for run in runs):
        yield path, "", text


# ── whether it is one ───────────────────────────────────────────────────────────────────────


def _named_secret(value: str) -> str:
    from detect_secrets.filters import heuristic
    from detect_secrets.plugins.keyword import KeywordDetector

    first = value.split()[0]
    harmless = (
        heuristic.is_sequential_string(first)
        or heuristic.is_not_alphanumeric_string(first)
        or heuristic.is_templated_secret(first)
    )
    quoted = first.replace('"', "")
    is_secret = any(KeywordDetector().analyze_string(f'secret = "{quoted}"'))
    return KeywordDetector.secret_type if is_secret and not harmless else ""


def _shape(text: str) -> str:
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    detectors: Mapping[str, Any] = get_mapping_from_secret_type_to_class()
    for kind, detector in detectors.items():
        if detector.__name__ not in _OTHER_DETECTORS and any(detector().analyze_string(text)):
            return kind
    return ""


# ── comments that silence a warning, or allow such a value ──────────────────────────────────
#
# `# playbook: allow PB-CHECK-LINT-UNSEEN because …`, on the line of the warning or above it.

_IDLE = "PB-CHECK-ALLOW"
SECRET = "PB-CHECK-SECRET"  # noqa: S105 - a code, not a password
"""The one error that can be allowed."""
_COMMENT = r"(?:^|(?<=\s))# playbook: allow\b(.*)"
_ALLOWANCE = r"\s+(PB-[A-Z-]+(?:\s*,\s*PB-[A-Z-]+)*)\s+because\s+\S"
_SURELY = "# playbook: allow"  # what every such comment contains; most lines do not


class _Allowance(Record):
    """`line` is where the comment stands, `covers` the line that it speaks of."""

    line: int
    col: int
    covers: int
    codes: tuple[str, ...]


def without_allowed(
    problems: Sequence[Problem], data: bytes, source: str, *, unchecked: Collection[str] = ()
) -> tuple[Problem, ...]:
    """The problems that no comment allows, and a warning for each comment that allows nothing.

    Only warnings can be allowed, and values that look like secrets. `unchecked` are codes that were
    not looked for here.
    """
    allowances = _allowances(data)
    used: set[tuple[int, str]] = set()
    left: list[Problem] = []
    for problem in problems:
        allowing = [each for each in allowances if _allows(each, problem)]
        used |= {(each.line, problem.code) for each in allowing}
        left += [] if allowing else [problem]
    for each in allowances:
        at = (each.line, each.col)
        if not each.codes:
            left.append(_warning(source, at, "this allowance has no code or no reason"))
        for code in each.codes:
            if (each.line, code) not in used and code not in unchecked:
                said = f"this allowance silences nothing: there is no {first_line(code, 60)} here"
                there = [
                    each.line for each in left if (each.severity, each.code) == ("warning", code)
                ]
                said += f", but in line {there[0]}" if there else ""
                left.append(_warning(source, at, said))
    return tuple(sorted(left, key=lambda problem: problem.position))


def _allows(allowance: _Allowance, problem: Problem) -> bool:
    allowable = problem.severity == "warning" or problem.code == SECRET
    return allowable and problem.line == allowance.covers and problem.code in allowance.codes


def _allowances(data: bytes) -> list[_Allowance]:
    lines, found = data.decode("utf-8", "replace").splitlines(), []
    for number, line in enumerate(lines, 1):
        if _SURELY in line and (comment := re.search(_COMMENT, line)):
            covers = number
            while covers <= len(lines) and lines[covers - 1].lstrip().startswith("#"):
                covers += 1  # alone on its line, it speaks of the next one
            stated = re.match(_ALLOWANCE, comment[1])
            codes = tuple(re.split(r"\s*,\s*", stated[1])) if stated else ()
            found.append(_Allowance(number, comment.start() + 1, covers, codes))
    return found


def _warning(source: str, at: tuple[int, int], message: str) -> Problem:
    return Problem(source, at, "warning", _IDLE, message, CODES[_IDLE])
