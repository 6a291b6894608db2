"""The condition `proved`: the tests of the beginning and those of now agree on the code of now.

An agent writes the code and its tests, so neither these tests nor an exit status that its code can
choose prove much. The tests of the beginning do, if a test of ours beside them fails as it must.
"""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from playbook_supervisor.formats.sanitize import counted, first_line, some
from playbook_supervisor.kernel.directives import Answer
from playbook_supervisor.project.proofs.composed_runs import ComposedRuns
from playbook_supervisor.project.proofs.judgement import Concern, TestChange, Verdict, concerns
from playbook_supervisor.project.proofs.proving import prove
from playbook_supervisor.project.proofs.questions import keep_question
from playbook_supervisor.project.proofs.runs import Run
from playbook_supervisor.project.settings.checks import NOT_STARTED, Checking, Proof, key
from playbook_supervisor.project.settings.config import CLEAN, CheckSpec, Config
from playbook_supervisor.records import replace
from playbook_supervisor.system.disk import files
from playbook_supervisor.system.git import checkout, git_process, tree
from playbook_supervisor.system.git.checkout import Checkout, Pinned
from playbook_supervisor.system.git.tree_objects import TreeObjects

OLD_TESTS, AS_MANY, ALARM, RUNNER = "old_tests", "as_many", "alarm", "runner"
PARTS = (OLD_TESTS, AS_MANY, ALARM, RUNNER)
"""The parts of the proof that can be left out."""

_NAMED = 3  # tests that evidence names
_SAID = 80  # characters of a message
_LARGEST = 1 << 20  # bytes of a file whose lines are compared
_AROUND = 1  # lines around a change that are shown
_COUNTING = frozenset({TestChange.REMOVED, TestChange.SKIPPED, TestChange.FEWER})


@dataclass(frozen=True, slots=True)
class Options:
    """What is asked beside the check: `without` are parts of the proof that are left out.

    `new_tests`: a new or changed test fails with the code of the beginning. `red`: tests that
    failed at the beginning may fail.
    """

    without: frozenset[str] = frozenset()
    new_tests: bool = False
    red: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """An answer with its evidence; `asked` is the digest of a question to a person."""

    answer: Answer
    evidence: str
    asked: str = ""


def judge(
    spec: CheckSpec,
    options: Options,
    root: Path,
    config: Config,
    checking: Checking,
    pinned: Pinned,
) -> Judgement:
    """The answer for the files that are there now. The beginning is the tree of `pinned`, or that
    of the last commit. Errors of `tree_of`, `tree.require` and `run_in_room`."""
    here, checking = checkout.find(root), replace(checking, search_path=pinned.search_path)
    now = tree.tree_of(root, pinned)
    for each in now.unreadable:
        return Judgement(Answer.ERROR, f"could not be checked: {each.sentence}")
    begun, has_alarm = _beginning(here, pinned), ALARM not in options.without
    objects = TreeObjects(here)
    runs = ComposedRuns(spec, here, config, checking, objects, now.id, begun, has_alarm)
    case = _Case(spec, options, runs)
    try:
        case.judge()
    except _Judged as judged:
        return judged.judgement
    finally:
        _keep_proof(spec, runs, checking)
    if spec.room == CLEAN and spec.also_here:
        proof, _ = prove(replace(spec, room="here"), root, config, checking, pinned=pinned)
        if proof.status != 0:
            said = f"in the checkout: {proof.evidence}; {case.so_far}"
            return Judgement(Answer.NOT_HELD, said)
        case.held.append("it passes in the checkout, too")
    if (spec.room != CLEAN or spec.also_here) and tree.tree_id(root, pinned) != now.id:
        said = f"could not be checked: check {spec.name} changes the tree that it is to prove"
        return Judgement(Answer.ERROR, said)
    return Judgement(Answer.HELD, case.so_far)


def _beginning(here: Checkout, pinned: Pinned) -> str:
    if pinned.tree:
        tree.require(here.root, pinned.tree, pinned.head)
        return pinned.tree
    return f"{here.head}^{{tree}}" if here.head else git_process.empty_tree(here.root)


def _keep_proof(spec: CheckSpec, runs: ComposedRuns, checking: Checking) -> None:
    if checking.proofs is None or spec.room != CLEAN or "now" not in vars(runs) or runs.known:
        return
    now, at = runs.now, time.time_ns() // 1_000_000
    what = (runs.tree, now.status, now.seconds, now.line, at, checking.by, (), True)
    checking.proofs.keep(Proof(spec.name, key(spec), *what, tries=now.tries))


class _Judged(Exception):  # noqa: N818 - an answer, not an error
    def __init__(self, answer: Answer, evidence: str, asked: str = "") -> None:
        self.judgement = Judgement(answer, evidence, asked)


@dataclass
class _Case:
    """One question to a check. Each part adds a phrase to `held`, or raises _Judged."""

    spec: CheckSpec
    options: Options
    runs: ComposedRuns
    held: list[str] = field(default_factory=list)

    @property
    def so_far(self) -> str:
        return "; ".join(self.held)

    def judge(self) -> None:
        now = self.runs.now
        self._require_success(now)
        if left_out := [part for part in PARTS if part in self.options.without]:
            self.held.append(f"without {some(left_out, len(left_out))}")
        if self.spec.room != CLEAN:
            self.held.append("in the checkout, without the tests of the beginning")
            self._ask([], [*self._differences(new=False), *self._names_of_runner()])
        elif not self.runs.tests_in(self.runs.sides.before):
            self.held.append("no test is known from the beginning")
            self._require_alarm(self.runs.alarmed, 1)
        elif now.tests is None or (begun := self.runs.base.tests) is None:
            self._judge_by_status(now)
        else:
            self._judge_by_test(now.tests, begun)
        self.runs.keep()

    def _refuse(self, why: str) -> _Judged:
        return _Judged(Answer.NOT_HELD, "; ".join([why, *self.held]))

    def _unknown(self, why: str) -> _Judged:
        said = f"could not be checked: check {self.spec.name}: {why}"
        return _Judged(Answer.ERROR, "; ".join([said, *self.held]))

    # ── it works ────────────────────────────────────────────────────────────────────────────

    def _require_success(self, now: Run) -> None:
        again = "; the check needed a retry" if now.tries > 1 else ""
        where = f"tree {tree.short(self.runs.tree)}"
        where += " in a clean room" if self.spec.room == CLEAN else ""
        quoted = f', "{now.line}"' if now.line else ""
        ended = f"exit {now.status} in {now.took}{quoted}, {where}"
        if now.status in NOT_STARTED:
            raise self._unknown(ended)
        if now.tests is None:
            if now.status != 0:
                raise self._refuse(ended)
            if self.spec.report:
                raise self._unknown(f"it wrote no report at {self.spec.report}")
            self.held += [ended, f"only the exit status is known{again}"]
            return
        if now.flaw:
            raise self._unknown(now.flaw)
        passed = sum(each.holds for each in now.tests.values())
        phrase = f"{counted(passed, 'test')} passed in {now.took}, {where}"
        if failing := now.failing:
            if not self._may_fail(failing):
                message = first_line(now.tests[failing[0]].message, _SAID)
                said = f' ("{message}")' if message else ""
                number = f"{len(failing)} of {counted(len(now.tests), 'test')} failed"
                raise self._refuse(f"{number}: {some(failing, _NAMED)}{said}, {where}")
            phrase += f", {len(failing)} failed as at the beginning"
        self.held.append(f"{phrase}{again}")
        if retried := [name for name, each in now.tests.items() if each.retried]:
            self.held.append(f"{some(retried, _NAMED)} needed a retry")

    def _may_fail(self, failing: Sequence[str]) -> bool:
        if not self.options.red or self.spec.room != CLEAN:
            return False
        return set(failing) <= set(self.runs.base.failing)

    # ── the tests of the beginning ──────────────────────────────────────────────────────────

    def _judge_by_test(self, now: Mapping[str, Verdict], begun: Mapping[str, Verdict]) -> None:
        base, old = self.runs.base, self.runs.old
        if old.tests is None and old.status == 0:
            raise self._refuse("with the tests of the beginning it writes no report")
        known = concerns(begun, old.tests or {}, now, self.runs.sources)
        red = {each.test for each in known if self._fails_as_before(each.test, now)}
        found = [each for each in known if each.test not in red and self._counts(each)]
        unchanged = [each for each in found if each.change is TestChange.SAME]
        if unchanged:
            raise self._refuse(self._disagreeing(unchanged, base))
        if not found:
            self._require_alarm(old, self.runs.expected)
        self._refuse_staged(found, base)
        self._ask(found, [*self._surroundings(found), *self._names_of_runner()])
        ran = [each for each in begun.values() if each.ran]
        failed = sum(each.failed > 0 for each in ran)
        was = f" ({failed} of them failed then)" if failed else ""
        was += f", but for {len(red)}" if red else ""
        was += ", after a retry" if old.tries > 1 else ""
        agree = "agrees" if len(ran) == 1 else "agree"
        self.held.append(f"{counted(len(ran), 'test')} of the beginning {agree}{was}")
        self._judge_new_tests(begun, now)

    def _fails_as_before(self, test: str, now: Mapping[str, Verdict]) -> bool:
        sides = (self.runs.base.tests or {}, self.runs.old.tests or {}, now)
        was, then, later = (tests.get(test, Verdict()) for tests in sides)
        no_worse = was.failed >= then.failed > 0 and then.passed >= was.passed
        same = (later.passed, later.failed) == (then.passed, then.failed)
        return self.options.red and no_worse and same

    def _counts(self, concern: Concern) -> bool:
        part = AS_MANY if concern.change in _COUNTING and not concern.said else OLD_TESTS
        return part not in self.options.without

    def _disagreeing(self, found: Sequence[Concern], base: Run) -> str:
        ran = sum(each.ran for each in (base.tests or {}).values())
        lines = some([each.line for each in found], _NAMED)
        disagree = "disagrees" if len(found) == 1 else "disagree"
        return f"{len(found)} of {counted(ran, 'test')} of the beginning {disagree}: {lines}"

    def _refuse_staged(self, found: Sequence[Concern], base: Run) -> None:
        red = [each for each in found if each.test in base.failing]
        if not red or not self.runs.sides.changed_code:
            return
        new = self.runs.new.tests or {}
        staged = [each.test for each in red if each.test in new and new[each.test].holds]
        if staged:
            names = some(staged, _NAMED)
            raise self._refuse(f"the tests and not the code made these pass: {names}")

    def _require_alarm(self, run: Run, expected: int | None) -> None:
        """Require that as many tests of ours fail as are `expected`. A person decides if it is not
        known how many the check runs."""
        if ALARM in self.options.without:
            return
        laid = len(self.runs.alarms)
        noticed = run.noticed or int(run.tests is None and run.status != 0)
        if run.noticed is None:
            self.held.append("no test that must fail could be added")
        elif noticed >= (laid if expected is None else expected):
            self.held.append("a test that must fail did")
        elif expected is None or 0 < noticed < expected < laid:
            said = f"{noticed} of {counted(laid, 'test')} of ours that must fail did"
            self._ask([], [f"{said}; it is not known whether the check runs the others"])
        else:
            raise self._refuse(
                "a test of ours that must fail was not reported as failed: the code under test "
                "answers for the check"
            )

    # ── where only the exit status is known ─────────────────────────────────────────────────

    def _judge_by_status(self, now: Run) -> None:
        base = self.runs.base
        if now.tests is None and base.tests is not None:
            raise self._refuse("it writes no report, as it did at the beginning")
        old, sides = self.runs.old_plain, self.runs.sides
        lost = [path for path in self.runs.tests_in(sides.before) if path not in sides.now]
        disagrees = old.status != 0
        if disagrees and not self._differences(new=False):  # new test files alone explain nothing
            raise self._refuse(f"with the tests of the beginning: exit {old.status}, {old.line}")
        if not disagrees:
            self._require_alarm(self.runs.old, self.runs.expected)
        asked = self._differences(new=True) if disagrees or lost else []
        self._ask([], [*asked, *self._names_of_runner()])
        self.held.append("the tests of the beginning agree")

    # ── new tests ───────────────────────────────────────────────────────────────────────────

    def _judge_new_tests(self, base: Mapping[str, Verdict], now: Mapping[str, Verdict]) -> None:
        sides = self.runs.sides
        if not sides.changed_code:
            self.held += ["tests only"] if sides.changed_witnesses else []
        elif new := [
            name for name in now if name not in base or self._has_changed(name, base[name])
        ]:
            verdicts = self.runs.new.tests or {}
            red = [each for name in new if (each := verdicts.get(name)) and each.failed]
            names = sum(each.cause == "name" for each in red)
            lacking = len([name for name in new if name not in verdicts])
            failed = len(red) + lacking
            said = f"{failed} failed with the code of the beginning"
            said += f", {names + lacking} for want of a name" if names + lacking else ""
            self.held.append(f"{counted(len(new), 'new or changed test')}: {said}")
            if failed:
                return
        if self.options.new_tests:
            raise self._refuse("no new or changed test failed with the code of the beginning")

    def _has_changed(self, name: str, verdict: Verdict) -> bool:
        sources = self.runs.sources
        change, _ = sources.change(name, verdict)
        if change is TestChange.SAME or sources.place(name, verdict)[0]:
            return change is not TestChange.SAME
        return name in (self.runs.new.tests or {})  # which runs the changed files alone

    # ── the question to a person ────────────────────────────────────────────────────────────

    def _ask(self, found: Sequence[Concern], others: Sequence[str]) -> None:
        lines, known = [], list[list[str]]()
        around = [each.test for each in found if each.change is TestChange.SURROUNDINGS]
        together = around if len(around) > _NAMED else []
        for each in found:
            if each.test in together:
                continue
            lines.append(each.title)
            verdict = (self.runs.base.tests or {})[each.test]
            shown = [f"  {line}" for line in self.runs.sources.shown(each, verdict)]
            if shown not in known:
                lines += shown
                known.append(shown)
        if together:
            tests = ", ".join(together)
            lines.append(f"{len(together)} tests: {TestChange.SURROUNDINGS}: {tests}")
        lines += others
        if not lines:
            return
        self.runs.keep()
        asked = keep_question(self.runs.here.root, lines)
        why = self._disagreeing(found, self.runs.base) if found else first_line(lines[0], 120)
        raise _Judged(Answer.NOT_HELD, "; ".join([why, *self.held]), asked)

    def _surroundings(self, found: Sequence[Concern]) -> list[str]:
        tests, place = self.runs.base.tests or {}, self.runs.sources.place
        unplaced = any(not place(each.test, tests[each.test])[0] for each in found)
        around = any(each.change is TestChange.SURROUNDINGS for each in found)
        return self._differences(new=True) if around or unplaced else []

    def _differences(self, *, new: bool) -> list[str]:
        sides = self.runs.sides
        added = {*self.runs.tests_in(sides.now)} - {*sides.before}
        paths = [path for path in sides.changed_witnesses if new or path not in added]
        return [line for path in paths for line in self._difference(path, brief=path in added)]

    def _difference(self, path: str, *, brief: bool) -> Iterator[str]:
        before, now = self.runs.witnesses_in(path)
        kind = "new" if path not in self.runs.sides.before else "changed"
        if brief or b"\0" in before + now or max(len(before), len(now)) > _LARGEST:
            yield f"{path}: {kind}, {len(before):,} to {len(now):,} bytes, {files.digest(now)[:8]}"
            return
        old, new = (each.decode("utf-8", "replace").splitlines() for each in (before, now))
        changed = list(difflib.unified_diff(old, new, n=_AROUND, lineterm=""))[2:]
        yield f"{path}: {'removed' if path not in self.runs.sides.now else kind}"
        yield from (f"  {line}" for line in changed)

    def _names_of_runner(self) -> list[str]:
        runner, sides = self.runs.runner, self.runs.sides
        if runner is None or RUNNER in self.options.without:
            return []
        lines = [f"{path}: new, and it may load by itself" for path in sorted(sides.left_out)]
        paths = [path for path in sides.changed_code if path not in sides.left_out]
        for path, (before, now) in sides.texts(paths).items():
            if len(now) > _LARGEST or b"\0" in now:
                continue
            known = set(before.decode("utf-8", "replace").splitlines())
            for number, line in enumerate(now.decode("utf-8", "replace").splitlines(), 1):
                if line not in known and re.search(runner.words, line):
                    lines.append(f"{path}:{number}: {line.strip()}")
        return lines
