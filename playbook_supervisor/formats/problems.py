"""Problems of a file, as readers, checks and the audit report them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from playbook_supervisor.errors import CheckError, PlaybookError, TextPosition
from playbook_supervisor.formats.located import Document, Path
from playbook_supervisor.records import Record

Severity = Literal["error", "warning", "note"]

MAX_PROBLEMS = 500  # at most this many problems of one file are reported


class Problem(Record):
    file: str
    position: TextPosition
    severity: Severity
    code: str
    message: str
    guidance: str

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}:{self.col}"

    @property
    def sentences(self) -> str:
        end = "" if self.message.endswith("?") else "."
        return f"{self.message}{end} {self.guidance}".rstrip()

    @property
    def line(self) -> int:
        return self.position[0]

    @property
    def col(self) -> int:
        return self.position[1]


class Finding(Record):
    """A problem of the value at `path`, or of its `key`, in whatever document has it."""

    path: Path
    message: str
    guidance: str
    code: str = "PB-CHECK-RULE"
    key: bool = False
    severity: Severity = "error"

    def within(self, document: Document) -> Problem:
        """The problem at its place in this document."""
        said = (self.code, self.message, self.guidance)
        return problem_at(document, self.path, *said, key=self.key, severity=self.severity)


class FileReport(Record):
    """One file and its problems, by place."""

    file: str
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return not any(problem.severity == "error" for problem in self.problems)

    @property
    def clean(self) -> bool:
        """True if there is nothing to fix: notes only inform."""
        return all(problem.severity == "note" for problem in self.problems)


def problem_at(
    document: Document,
    path: Path,
    code: str,
    message: str,
    guidance: str,
    *,
    key: bool = False,
    severity: Severity = "error",
) -> Problem:
    """A problem of the value at `path`, or of its `key`."""
    position = document.key_position(path) if key else document.position(path)
    return Problem(document.source, position, severity, code, message, guidance)


def problem_of(error: PlaybookError, file: str) -> Problem:
    """The problem that an error reports; at the top of `file` if the error has no position."""
    position = error.position or (1, 1)
    return Problem(file, position, "error", error.code, error.message, error.guidance)


def refusal(code: str, problems: Sequence[Problem]) -> CheckError:
    """The error that names the first of these problems and lists all of them."""
    first, more = problems[0], len(problems) - 1
    return CheckError(
        code,
        first.message + (f" (and {more} more)" if more else ""),
        where=first.file,
        position=first.position,
        guidance=f"`playbook check {first.file}` lists them all." if more else first.guidance,
        details=tuple(f"{each.place}: {each.sentences}" for each in problems),
    )


def once(found: Iterable[Problem], code: str) -> tuple[Problem, ...]:
    """The problems; of those with this code, only the first with the same message."""
    all_ = tuple(found)
    first = {each.message: each for each in reversed(all_)}
    return tuple(each for each in all_ if each.code != code or first[each.message] is each)
