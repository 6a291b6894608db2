"""Runs of a check on trees, test by test, kept by tree so that none is made twice.

A run is the same wherever its tree comes from: of the files that are there now, of the beginning,
or composed of both. It is kept in the checkout's git folder, for any session.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import counted
from playbook_supervisor.project.proofs.judgement import Verdict, read_reports
from playbook_supervisor.project.proofs.proving import Reporting, run_at, run_in_room, status_of
from playbook_supervisor.project.proofs.runners import Alarm
from playbook_supervisor.project.settings.checks import Checking, CheckRun, duration, key
from playbook_supervisor.project.settings.config import CheckSpec, Config
from playbook_supervisor.records import replace
from playbook_supervisor.system.disk import files
from playbook_supervisor.system.git.checkout import Checkout

_FOLDER = "runs"
_MOST_KEPT = 64


@dataclass(frozen=True, slots=True)
class Run:
    """A run that has come to its end.

    `tests` are the verdicts of its tests, by `CLASS::FUNCTION`; None if only the exit status is
    known. If tests of ours that must fail were among them, `noticed` says how many were reported as
    failed, and they are not in `tests`. `tries` is how often the check ran.
    """

    status: int
    seconds: float
    line: str = ""
    tests: Mapping[str, Verdict] | None = None
    noticed: int | None = None
    tries: int = 1

    @property
    def failing(self) -> tuple[str, ...]:
        return tuple(name for name, each in (self.tests or {}).items() if each.failed)

    @property
    def took(self) -> str:
        return duration(self.seconds)

    @property
    def flaw(self) -> str:
        """Why the run says nothing: its status and its report contradict each other; or empty."""
        if self.tests is None or self.noticed is not None:
            return ""
        if not any(each.ran for each in self.tests.values()):
            return f"it reports no test that ran, and ended with exit status {self.status}"
        failed = len(self.failing)
        if failed and self.status == 0:
            return f"it reports {counted(failed, 'failed test')}, but ended with exit status 0"
        if not failed and self.status != 0:
            said = f', "{self.line}"' if self.line else ""
            return f"it reports no failed test, but ended with exit status {self.status}{said}"
        return ""

    @property
    def passes(self) -> bool:
        """True if no test fails but ours that must, and that does."""
        if self.noticed is None:
            return self.status == 0 and not self.flaw and not self.failing
        return self.noticed > 0 and not self.failing


@dataclass(frozen=True, slots=True)
class Runs:
    """Makes the runs of one check. Each function raises the errors of `run_in_room`."""

    spec: CheckSpec
    here: Checkout
    config: Config
    checking: Checking
    reporting: Reporting

    def of(
        self,
        tree: str,
        label: str,
        alarms: Sequence[Alarm] = (),
        with_alarms: Callable[[], str] | None = None,
    ) -> tuple[Run, bool]:
        """The run on a tree, or with alarms on the tree that `with_alarms` makes; and whether it
        was kept before."""
        if (known := self._read(tree, alarms)) is not None:
            return known, True
        laid = with_alarms() if with_alarms is not None else tree
        shown = replace(self.reporting, label=f"{self.spec.name} ({label})" if label else "")
        asked = (self.spec, laid, self.here, self.config, self.checking, shown)
        return self._tried(lambda: run_in_room(*asked), alarms), False

    def in_checkout(self) -> Run:
        """The run on the files of the checkout itself, which is never kept."""
        with tempfile.TemporaryDirectory() as folder:
            asked = (self.config, self.checking, self.reporting)
            at = (self.spec, self.here.root, Path(folder), *asked)
            return self._tried(lambda: run_at(*at))

    def _tried(
        self,
        made: Callable[[], tuple[CheckRun, tuple[bytes, ...]]],
        alarms: Sequence[Alarm] = (),
    ) -> Run:
        for tries in range(1, self.spec.tries + 1):
            ended, reports = made()
            tests = read_reports(reports) if reports else None
            run = replace(_run(status_of(self.spec, ended), ended, tests, alarms), tries=tries)
            if run.passes:
                break
        return run

    def keep(self, tree: str, run: Run) -> None:
        """Keep a run on this tree, for all who ask for it."""
        file = self._file(tree, alarm=run.noticed is not None)
        with suppress(PlaybookError, OSError):
            files.ensure_folder(file.parent)
            files.write_atomically(file, json.dumps(asdict(run)).encode(), durable=False)
            kept = sorted(file.parent.iterdir(), key=files.written_at)
            for old in kept[:-_MOST_KEPT]:
                files.remove(old)

    def _read(self, tree: str, alarms: Sequence[Alarm]) -> Run | None:
        try:
            shape = json.loads(files.read_bytes(self._file(tree, alarm=bool(alarms))))
            tests = shape["tests"]
            verdicts = tests and {name: Verdict(**each) for name, each in tests.items()}
            return Run(**{**shape, "tests": verdicts})
        except (OSError, PlaybookError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def _file(self, tree: str, *, alarm: bool) -> Path:
        what = [key(self.spec), self.reporting.argv, self.reporting.pattern, tree, alarm]
        name = files.digest(json.dumps(what).encode())
        return self.here.runtime / _FOLDER / f"{name}.json"


def _run(
    status: int, run: CheckRun, tests: dict[str, Verdict] | None, alarms: Sequence[Alarm]
) -> Run:
    if not alarms:
        return Run(status, run.seconds, run.line, tests)
    if tests is None:
        marks = sum(each.mark in run.output for each in alarms)
        return Run(status, run.seconds, run.line, None, marks if status != 0 else 0)
    ours = {each.test for each in alarms}
    own = [name for name in tests if name.rpartition("::")[2] in ours]
    verdicts = [tests.pop(name) for name in own]
    noticed = sum(each.failed > 0 and not each.passed for each in verdicts)
    return Run(status, run.seconds, run.line, tests, noticed if status != 0 else 0)
