"""Comments that silence a warning where it stands, or allow a value that looks like a secret.

`# playbook: allow PB-CHECK-LINT-UNSEEN because …`, on the line of the warning or above it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from playbook_supervisor.errors import CODES
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.records import Record

CODE = "PB-CHECK-ALLOW"
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
    allowances = list(_allowances(data.decode("utf-8", "replace").splitlines()))
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


def unallowed(problems: Sequence[Problem], data: bytes) -> tuple[Problem, ...]:
    """The problems that no comment allows."""
    allowances = list(_allowances(data.decode("utf-8", "replace").splitlines())) if problems else []
    return tuple(
        problem
        for problem in problems
        if not any(_allows(allowance, problem) for allowance in allowances)
    )


def _allows(allowance: _Allowance, problem: Problem) -> bool:
    allowable = problem.severity == "warning" or problem.code == SECRET
    return allowable and problem.line == allowance.covers and problem.code in allowance.codes


def _allowances(lines: Sequence[str]) -> Iterator[_Allowance]:
    for number, line in enumerate(lines, 1):
        if _SURELY in line and (comment := re.search(_COMMENT, line)):
            covers = number
            while covers <= len(lines) and lines[covers - 1].lstrip().startswith("#"):
                covers += 1  # alone on its line, it speaks of the next one
            stated = re.match(_ALLOWANCE, comment[1])
            codes = tuple(re.split(r"\s*,\s*", stated[1])) if stated else ()
            yield _Allowance(number, comment.start() + 1, covers, codes)


def _warning(source: str, at: tuple[int, int], message: str) -> Problem:
    return Problem(source, at, "warning", CODE, message, CODES[CODE])
