"""The runs that a proof needs: of what is there now, of the beginning, and of parts of both.

Each is made when it is asked for, and most are known from before.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from playbook_supervisor.project.expressions.globs import matches_any
from playbook_supervisor.project.proofs.judgement import TestSources
from playbook_supervisor.project.proofs.rooms import Reporting
from playbook_supervisor.project.proofs.runners import alarm, reporting_argv, runner_of
from playbook_supervisor.project.proofs.runs import Run, Runs
from playbook_supervisor.project.proofs.witnesses import Sides, witnesses_of
from playbook_supervisor.project.settings.config import CLEAN

if TYPE_CHECKING:
    from playbook_supervisor.project.proofs.runners import Alarm, Runner
    from playbook_supervisor.project.settings.checks import Checking
    from playbook_supervisor.project.settings.config import CheckSpec, Config
    from playbook_supervisor.system.git.checkout import Checkout
    from playbook_supervisor.system.git.tree_objects import Entries, TreeObjects

_DIGITS = 8  # bytes of the name of our test


@dataclass
class ComposedRuns:
    """The runs of one check: `tree` is what is there now, `begun` what was there at the beginning.

    Our test that must fail, the alarm, stands beside the tests of the beginning if `has_alarm`.
    Every run raises the errors of `run_in_room`.
    """

    spec: CheckSpec
    here: Checkout
    config: Config
    checking: Checking
    objects: TreeObjects
    tree: str
    begun: str
    has_alarm: bool
    known: bool = False
    _made: list[tuple[str, Run]] = field(default_factory=list)

    @cached_property
    def sides(self) -> Sides:
        before, now = self.objects.entries(self.begun), self.objects.entries(self.tree)
        runner = runner_of(self.spec.argv, before) or runner_of(self.spec.argv, now)
        witnesses = witnesses_of(self.spec, runner, before)
        shadows = runner.shadows if runner else ()
        new = (path for path in now if path not in before)
        left_out = frozenset(path for path in new if matches_any(shadows, path))
        return Sides(self.objects, witnesses, before, now, left_out, runner)

    @property
    def runner(self) -> Runner | None:
        return self.sides.runner

    @cached_property
    def _runs(self) -> Runs:
        argv = () if self.spec.report else reporting_argv(self.runner, self.spec.argv)
        reporting = Reporting(argv, self.spec.report)
        return Runs(self.spec, self.here, self.config, self.checking, reporting)

    @cached_property
    def alarm(self) -> Alarm | None:
        """A test that must fail, beside one of the beginning, or else of now; None without one."""
        if self.runner is None or not self.has_alarm:
            return None
        for entries in (self.sides.before, self.sides.now):
            for path in self.tests_in(entries)[:1]:
                id_ = entries[path][1]
                text = self.objects.contents([id_])[id_].decode("utf-8", "replace")
                return alarm(self.runner, path, text, os.urandom(_DIGITS).hex())
        return None

    # ── tests ───────────────────────────────────────────────────────────────────────────────

    def tests_in(self, entries: Entries) -> list[str]:
        """The test files of a side, in order; all witnesses if the runner is not known."""
        patterns = self.runner.tests if self.runner else self.sides.witnesses.patterns
        return sorted(path for path in entries if matches_any(patterns, path))

    @cached_property
    def sources(self) -> TestSources:
        """The tests of both sides, as their files say."""
        changed = self.sides.changed_witnesses
        tests = {*self.tests_in(self.sides.before), *self.tests_in(self.sides.now)}
        texts = self.texts([path for path in changed if path in tests])
        return TestSources(self.tests_in(self.sides.before), changed, texts)

    def texts(self, paths: list[str]) -> Mapping[str, tuple[bytes, bytes]]:
        """The contents of files before and now; empty where there is none."""
        sides = [(self.sides.before.get(path), self.sides.now.get(path)) for path in paths]
        found = self.objects.contents(each[1] for side in sides for each in side if each)
        return {
            path: (found[old[1]] if old else b"", found[new[1]] if new else b"")
            for path, (old, new) in zip(paths, sides, strict=True)
        }

    # ── runs ────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def now(self) -> Run:
        """The run of what is there now; in the checkout if the check has no clean room."""
        if self.spec.room != CLEAN:
            return self._runs.in_checkout()
        run, self.known = self._runs.of(self.tree, "")
        self._made.append((self.tree, run))
        return run

    @cached_property
    def base(self) -> Run:
        """The run of the beginning, with the alarm if it works there: `works` says so."""
        before = self.sides.before
        run = self._composed(before, before, "the beginning", alarm=self.alarm, keep=True)
        if run.noticed is not False:
            return run
        self.alarm = None
        return self._composed(before, before, "the beginning", keep=True)

    @cached_property
    def old(self) -> Run:
        """The run of the code of now with the witnesses of the beginning."""
        alarm = self.alarm if self.base.noticed else None
        return self._composed(self.sides.now, self.sides.before, "earlier tests", alarm=alarm)

    @cached_property
    def old_plain(self) -> Run:
        """As `old`, without the alarm."""
        return self._composed(self.sides.now, self.sides.before, "earlier tests")

    @cached_property
    def new(self) -> Run:
        """The run of the code of the beginning with the changed and new tests of now."""
        unchanged = set(self.tests_in(self.sides.now)) - set(self.sides.changed)
        asked = (self.sides.before, self.sides.now, "new tests")
        return self._composed(*asked, keep=True, without=frozenset(unchanged))

    @cached_property
    def alarmed(self) -> Run | None:
        """The run of what is there now with the alarm beside its tests; None without an alarm."""
        if self.alarm is None:
            return None
        return self._composed(self.sides.now, self.sides.now, "once more", alarm=self.alarm)

    def keep(self) -> None:
        """Keep all runs for those who ask for the same trees."""
        for tree, run in self._made:
            self._runs.keep(tree, run)

    def _composed(
        self,
        code: Entries,
        witnesses: Entries,
        label: str,
        *,
        alarm: Alarm | None = None,
        keep: bool = False,
        without: frozenset[str] = frozenset(),
    ) -> Run:
        def composed(alarm: Alarm | None = None) -> str:
            sides = self.sides
            return sides.composed(code=code, witnesses=witnesses, alarm=alarm, without=without)

        tree = composed()
        run, _ = self._runs.of(tree, label, alarm, lambda: composed(alarm))
        self._made.append((tree, run))
        if keep:
            self._runs.keep(tree, run)
        return run
