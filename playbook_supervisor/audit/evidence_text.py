"""The evidence lines of journals, `condition: statement`, which may be years old or hand-written.

A journal keeps evidence as text only, so this is the one place that reads such text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_NEGATIVE = re.compile(
    r"(?:fail|failed|stale|false|no|not held|not met)\s*(?:[.,;:!(].*)?\Z", re.IGNORECASE
)
"""A failed check in the words of people and other tools."""
_FLAW = re.compile(
    r" (?:is (?:missing|empty|a folder|no regular file|larger than [0-9,]+ bytes)"
    r"|leads out of the repository|says (?:FAIL|STALE|.+ in line [0-9]+)|word for word"
    r"|cannot be read \(.*\))"
    r"(?:;| \(|, and no report |\Z)"
    r"|; not written since the launch|: [0-9]+ of [0-9]+ tasks? not done: | has no task: "
    r"|\A\S+ lacks \""
)
"""Our own words for a condition that does not hold, after a file's name."""
_REFUSAL = re.compile(
    r"neither .* is there|the two verdicts differ: |no verdict in |no PASS, FAIL or STALE but "
    r"|(?:YAML|front matter) that does not parse |no pull request of branch "
    r"|cannot ask for pull requests: |pull request #[0-9]+ is closed|no feature is named: "
    r"|the (?:code fence|comment) in line [0-9]+ has no end in "
    r"|could not be checked: |no commit since the launch|nothing in .* has changed since the launch"
    r"|[0-9]+ files? (?:not committed|changed outside .*): |there is no (?:branch|tag) "
)
"""Our own words for a condition that does not hold, without a file's name at the beginning."""


def split(line: str, known: Iterable[str] = ()) -> tuple[str, str]:
    """The name of the condition, one of the `known` if it is one of them, and the statement.

    A line may leave out the value of a condition that its statement begins with.
    """
    known = tuple(known)
    longest = max((name for name in known if line.startswith(f"{name}:")), key=len, default="")
    word = longest or line.partition(":")[0]
    statement = line[len(word) + 1 :].strip()
    begun = (name for name in known if f"{word}={statement}".startswith(name))
    return longest or max(begun, key=len, default=word), statement


def says_not_held(statement: str) -> bool:
    """Whether the condition does not hold, in our words or in those of others."""
    return any((_NEGATIVE.match(statement), _REFUSAL.match(statement), _FLAW.search(statement)))
