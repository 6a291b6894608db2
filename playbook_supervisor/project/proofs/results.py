"""What one run of a check said of each test. Plain data, and pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from playbook_supervisor.records import Record, field

if TYPE_CHECKING:
    from typing import Literal

    # why a test failed: what it asserts is not so, a name does not exist, or anything else
    Cause = Literal["", "assertion", "name", "other"]


class Verdict(Record):
    """What a report says of one test: a function with all its cases, as numbers of cases.

    `skipped` counts cases that are expected to fail, too. `message` and `cause` are those of the
    first failure. `file` is where the report says that the test is, relative to the top; empty if
    it does not. `retried`: a case failed, and passed when it was tried again.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    message: str = ""
    cause: Cause = ""
    file: str = ""
    retried: bool = False

    @property
    def cases(self) -> int:
        return self.passed + self.failed + self.skipped

    @property
    def ran(self) -> bool:
        return self.passed + self.failed > 0

    @property
    def holds(self) -> bool:
        """True if it ran and no case failed."""
        return self.passed > 0 and self.failed == 0


class Results(Record):
    """One run: its exit status, and what it said of each test, by `CLASS::FUNCTION`.

    `tests` is None if there is no report: only the exit status is known then. `seconds` is how long
    the check ran, `line` the line of its output that says most.
    """

    status: int
    seconds: float
    line: str = ""
    tests: Mapping[str, Verdict] | None = field(default=None)

    @property
    def failing(self) -> tuple[str, ...]:
        return tuple(name for name, each in (self.tests or {}).items() if each.failed)
