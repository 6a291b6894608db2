"""What a report says against the work, in its own words, for a person at a gate."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from playbook_supervisor.formats.sanitize import one_line
from playbook_supervisor.project.conditions.conditions import Workspace, artifacts
from playbook_supervisor.project.conditions.probes import look

_LARGEST = 200_000  # characters of a report that are looked at
_LONGEST = 300  # characters of a line
_AROUND = 3  # lines before or after the verdict of a report that names no fault

_FAULT = r"""(?ix) \[\ \] | [✗✘❌✖⛔×🔴⚠]
    | \b(?:fail\w*|errors?|missing|breaking|breaks?|broken|violat\w*|block\w*|critical
    |wrong|incorrect|unmet|untested|unresolved|uncovered|regress\w*|stale|leaks?|crash\w*
    |raises?|exception|cannot|can't|does(?:n't|\ not)|is(?:n't|\ not)|are(?:n't|\ not)
    |not\ [a-z]+ed|never)\b
"""
_NO_FAULT = r"""(?ix)
    \b(?:0|no|none|zero|without)\ +(?:\w+\ +)?(?:fail|error|break|violat|block|miss)\w*
    | \b(?:fail\w*|errors?|missing|breaking|blockers?|critical)\W{1,4}(?:0|none|no)\b
"""
_GOOD, _BAD = r"[✓✔✅☑]|\[[xX]\]|\bPASS(?:ED)?\b", r"[✗✘❌✖⛔🔴]|\bFAIL"
_VERDICT = r"(?i)^[\W_\d]*(?:(?:[a-z]+ ){0,3}verdict|(?:pass|fail|stale)(?:ed)?)\b"
_BARE = r"(?i)[\W_\d]*(?:(?:[a-z]+ ){0,3}verdict)?[\W_]*(?:(?:fail|pass)(?:ed)?|stale)?[\W_]*"
_HEADING = r" {0,3}#{1,6}\s"


def against(names: Sequence[str], workspace: Workspace, most: int) -> tuple[str, ...]:
    """The lines of the reports of these conditions and triggers that name faults, indented below
    the report's path; for a report that names none, the lines around its verdict.

    At most `most` lines of each report.
    """
    paths = dict.fromkeys(path for name in names for path in artifacts(name, workspace))
    found: list[str] = []
    for path in paths:
        report = look(path, workspace.root)
        if not report.flaw:
            text = report.data.decode("utf-8", "replace")[:_LARGEST]
            lines = list(faults_in(text))
            kept = lines[:most] if len(lines) <= most else lines[: most - 1]
            more = [f"  … {len(lines) - len(kept)} more in the report"] if kept != lines else []
            found += [f"{path}:", *(f"  {line}" for line in kept), *more] if lines else []
    return tuple(found)


def faults_in(text: str) -> Iterator[str]:
    """The lines of a report that name a fault, else those around its verdict, harmless."""
    lines = [line for line in text.splitlines() if line.strip("-= \t")]
    named = [line for line in lines if _names_fault(line)]
    if not named:
        at = [number for number, line in enumerate(lines) if re.search(_VERDICT, line)]
        after = lines[at[-1] + 1 :][:_AROUND] if at else []
        named = after or lines[max(at[-1] - _AROUND, 0) : at[-1]] if at else lines[:_AROUND]
        named = [line for line in named if not re.fullmatch(_BARE, line)]
    for line in dict.fromkeys(named):
        if shown := one_line(line, _LONGEST):
            yield shown


def _names_fault(line: str) -> bool:
    if re.match(_HEADING, line) or re.fullmatch(_BARE, line):
        return False
    if re.search(_GOOD, line) and not re.search(_BAD, line):
        return False
    return re.search(_FAULT, re.sub(_NO_FAULT, "", line)) is not None
