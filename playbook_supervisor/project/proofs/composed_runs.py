"""The runs that a proof needs: of what is there now, of the beginning, and of parts of both.

Each is made when it is asked for, and most are known from before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath

from playbook_supervisor.project.expressions.globs import matches_any
from playbook_supervisor.project.proofs import runners
from playbook_supervisor.project.proofs.judgement import TestSources
from playbook_supervisor.project.proofs.proving import Reporting
from playbook_supervisor.project.proofs.runners import Alarm, Runner, owned, spliced
from playbook_supervisor.project.proofs.runs import Run, Runs
from playbook_supervisor.project.settings.checks import Checking
from playbook_supervisor.project.settings.config import AUTO, CLEAN, CheckSpec, Config
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.git.tree_objects import FILE, LINK, Entries, Entry, TreeObjects

_SCRIPTS = {
    "make": ("Makefile", "makefile", "GNUmakefile", "**/*.mk"),
    "tox": ("tox.ini",),
    "nox": ("noxfile.py",),
    "just": ("justfile", "Justfile"),
}
"""The files that tell other programs what a check runs."""

_NO_CODE = (".playbooks/**", ".claude/**", "**/*.md", "**/*.rst")


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Patterns of the files that are witnesses, and the runner's sections in shared files, by
    name."""

    patterns: tuple[str, ...]
    shared: Mapping[str, str] = field(default_factory=dict)

    def own(self, path: str) -> bool:
        return matches_any(self.patterns, path)

    def section(self, path: str) -> str:
        """The pattern of the sections of a shared file; empty for any other file."""
        found = self.shared.get(PurePosixPath(path).name, "")
        return self.inline(path) or ("" if self.own(path) else found)

    def inline(self, path: str) -> str:
        """The pattern of the tests in a source file; empty for any other file."""
        found = self.shared.get(f"*.{path.rpartition('.')[2]}", "")
        return "" if found and self.own(path) else found


def witnesses_of(spec: CheckSpec, runner: Runner | None, paths: Iterable[str]) -> Witnesses:
    """The witnesses of a check: those that its settings name, and for `auto` those of its runner,
    and the files of the tree that its program is or reads as a script."""
    patterns = [pattern for pattern in spec.witnesses if pattern != AUTO]
    if AUTO not in spec.witnesses:
        return Witnesses(tuple(patterns))
    there = frozenset(paths)
    words = [word.removeprefix("./") for word in spec.argv]
    patterns += [word for word in words if word in there]
    for word in words:
        patterns += _SCRIPTS.get(PurePosixPath(word).name, ())
    if runner is not None:
        patterns += (*runner.tests, *runner.surroundings)
    return Witnesses(tuple(dict.fromkeys(patterns)), runner.shared if runner else {})


@dataclass
class Sides:
    """The trees of the beginning and of now, each as code and witnesses.

    `left_out` are files of now that no side of a composed tree may have.
    """

    objects: TreeObjects
    witnesses: Witnesses
    before: Entries
    now: Entries
    left_out: frozenset[str] = frozenset()
    runner: Runner | None = None

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """The paths that differ, in order."""
        both = sorted({*self.before, *self.now})
        return tuple(path for path in both if self.before.get(path) != self.now.get(path))

    @cached_property
    def _own(self) -> frozenset[str]:
        return frozenset(path for path in {*self.before, *self.now} if self.witnesses.own(path))

    @cached_property
    def _texts(self) -> dict[str, tuple[bytes, bytes]]:
        paths = [path for path in self.changed if self.witnesses.section(path)]
        return self.texts(paths, links=False)

    def texts(self, paths: Sequence[str], *, links: bool = True) -> dict[str, tuple[bytes, bytes]]:
        """The contents of files before and now; empty where there is none."""
        sides = [(self.before.get(path), self.now.get(path)) for path in paths]
        plain = [(mode, id_) for side in sides for mode, id_ in filter(None, side)]
        found = self.objects.contents(id_ for mode, id_ in plain if links or mode != LINK)
        return {
            path: (_content(before, found), _content(now, found))
            for path, (before, now) in zip(paths, sides, strict=True)
        }

    @cached_property
    def changed_witnesses(self) -> tuple[str, ...]:
        """The paths whose witnesses differ, shared files among them."""
        return tuple(path for path in self.changed if self._witness_differs(path))

    @cached_property
    def changed_code(self) -> tuple[str, ...]:
        """The paths whose code differs, shared files among them; prose and our own are none."""
        found = (path for path in self.changed if not matches_any(_NO_CODE, path))
        return tuple(path for path in found if self._code_differs(path))

    def _witness_differs(self, path: str) -> bool:
        if not (pattern := self.witnesses.section(path)):
            return path in self._own
        before, now = self._texts[path]
        return owned(pattern, path, before) != owned(pattern, path, now)

    def _code_differs(self, path: str) -> bool:
        if not (pattern := self.witnesses.section(path)):
            return path not in self._own
        before, now = self._texts[path]
        modes = [each and each[0] for each in (self.before.get(path), self.now.get(path))]
        code = [spliced(path, text, b"", pattern) for text in (before, now)]
        return modes[0] != modes[1] or code[0] != code[1]

    def composed(
        self,
        *,
        code: Entries,
        witnesses: Entries,
        alarms: Sequence[Alarm] = (),
        without: frozenset[str] = frozenset(),
    ) -> str:
        """The tree of one side's code and the other's witnesses, with tests of ours.

        `without` are witnesses that it is not to have. Witnesses stand where code is in their way.
        """
        chosen = self._own - without
        kept = {path: each for path, each in witnesses.items() if path in chosen}
        folders = {folder for path in kept for folder in _folders(path)}
        made = dict(kept)
        for path, each in code.items():
            is_in_the_way = path in folders or any(folder in kept for folder in _folders(path))
            if not (path in self._own or path in self.left_out or is_in_the_way):
                made[path] = each
        if code is not witnesses:
            self._splice(made, code, witnesses)
        self._add(made, alarms)
        return self.objects.tree(made)

    def _add(self, made: dict[str, Entry], alarms: Sequence[Alarm]) -> None:
        there = [made.get(each.path, (FILE, "")) for each in alarms]
        texts = self.objects.contents(id_ for _, id_ in there if id_)
        both = zip(there, alarms, strict=True)
        kept = self.objects.keep(*(texts.get(at[1], b"") + each.text.encode() for at, each in both))
        for each, (mode, _), id_ in zip(alarms, there, kept, strict=True):
            made[each.path] = (mode, id_)

    def _splice(self, made: dict[str, Entry], code: Entries, witnesses: Entries) -> None:
        for path, (before, now) in self._texts.items():
            ours, theirs = (now, before) if code is self.now else (before, now)
            text = spliced(path, ours, theirs, self.witnesses.section(path))
            mode = (code.get(path) or witnesses.get(path) or (FILE, ""))[0]
            is_source = path in code and (not ours or self.witnesses.inline(path))
            if mode != LINK and (text or is_source):
                made[path] = (mode, self.objects.keep(text)[0])
            elif mode != LINK or path not in code:
                made.pop(path, None)


def _content(entry: Entry | None, found: Mapping[str, bytes]) -> bytes:
    return b"" if entry is None else found.get(entry[1], b"")


def _folders(path: str) -> Iterable[str]:
    while path := path.rpartition("/")[0]:
        yield path


_DIGITS = 8  # bytes of the name of our test


@dataclass
class ComposedRuns:
    """The runs of one check: `tree` is what is there now, `begun` what was there at the beginning.

    Tests of ours that must fail, the alarms, are among those of the beginning if `has_alarm`.
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
        path = "Makefile" if self.spec.argv[0].endswith("make") else "package.json"
        ids = [before[path][1]] if path in before else []
        recipe = b"".join(self.objects.contents(ids).values())
        argv = self.spec.argv
        runner = runners.runner_of(argv, before, recipe) or runners.runner_of(argv, now)
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
        argv = () if self.spec.report else runners.reporting_argv(self.runner, self.spec.argv)
        reporting = Reporting(argv, self.spec.report)
        return Runs(self.spec, self.here, self.config, self.checking, reporting)

    @cached_property
    def alarms(self) -> Sequence[Alarm]:
        """Tests that must fail among those of the beginning, or else of now: in each file where the
        runner runs each by itself or the check names it, else beside the last of each folder."""
        runner, before, now = self.runner, self.sides.before, self.sides.now
        entries = before if self.tests_in(before) else now
        if runner is None or not self.has_alarm:
            return ()
        plain = (path for path in self.tests_in(entries) if entries[path][0] != LINK)
        tests = [path for path in plain if not runners.is_data(path)]
        words = {word.removeprefix("./").partition("::")[0] for word in self.spec.argv}
        named = words | {f"{word.replace('.', '/')}.py" for word in words}
        inside = {path for path in tests if runner.apart or path in named}
        last = {path.rpartition("/")[0]: path for path in tests if path not in inside}
        chosen = {path: entries[path][1] for path in sorted({*inside, *last.values()})}
        texts = self.objects.contents(chosen.values())
        return [
            runners.alarm(
                runner, path, texts[id_], os.urandom(_DIGITS).hex(), inside=path in inside
            )
            for path, id_ in chosen.items()
        ]

    # ── tests ───────────────────────────────────────────────────────────────────────────────

    def tests_in(self, entries: Entries) -> list[str]:
        """The test files of a side, in order; all witnesses if the runner is not known."""
        return self._tests[entries is self.sides.now]

    @cached_property
    def _tests(self) -> list[list[str]]:
        sides, witnesses = (self.sides.before, self.sides.now), self.sides.witnesses
        patterns, paths = (
            self.runner.tests if self.runner else witnesses.patterns,
            {*sides[0], *sides[1]},
        )
        plain = {path for path in paths if matches_any(patterns, path)}
        forms = {path: form for path in paths - plain if (form := witnesses.inline(path))}
        ids = {side[path][1]: path for side in sides for path in forms if path in side}
        texts = ((ids[id_], id_, text) for id_, text in self.objects.contents(ids).items())
        own = {id_ for path, id_, text in texts if runners.owned(forms[path], path, text)}
        return [
            sorted(
                path for path in side if path in plain or (path in forms and side[path][1] in own)
            )
            for side in sides
        ]

    @cached_property
    def sources(self) -> TestSources:
        """The tests of both sides, as their files say."""
        changed = self.sides.changed_witnesses
        tests = {*self.tests_in(self.sides.before), *self.tests_in(self.sides.now)}
        texts = {path: self.witnesses_in(path) for path in changed if path in tests}
        return TestSources(self.tests_in(self.sides.before), changed, texts)

    def witnesses_in(self, path: str) -> tuple[bytes, bytes]:
        """The tests or settings in a file, before and now: all of it, or the runner's sections of
        one with tests among its code."""
        before, now = self.sides.texts([path])[path]
        if pattern := self.sides.witnesses.inline(path):
            return runners.owned(pattern, path, before), runners.owned(pattern, path, now)
        return before, now

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
        """The run of the beginning, with the alarms if any is noticed there."""
        run, before = self._base, self.sides.before
        return run if run.noticed else self._composed(before, before, "the beginning", keep=True)

    @cached_property
    def _base(self) -> Run:
        before = self.sides.before
        return self._composed(before, before, "the beginning", alarms=self.alarms, keep=True)

    @cached_property
    def expected(self) -> int | None:
        """How many alarms fail unless something lies: as many as at the beginning without other
        tests, which may keep them from it. None if that is not known."""
        if self._base.noticed == len(self.alarms):
            return self._base.noticed
        before, others = self.sides.before, frozenset(self.tests_in(self.sides.before))
        asked = (before, before, "no other tests")
        alone = self._composed(*asked, alarms=self.alarms, keep=True, without=others)
        says_so = alone.status == 0 or alone.tests is not None or alone.noticed
        return alone.noticed if says_so else None

    @cached_property
    def old(self) -> Run:
        """The run of the code of now with the witnesses of the beginning."""
        alarms = self.alarms if self.expected != 0 else ()
        return self._composed(self.sides.now, self.sides.before, "earlier tests", alarms=alarms)

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
    def alarmed(self) -> Run:
        """The run of what is there now with the alarms among its tests."""
        return self._composed(self.sides.now, self.sides.now, "once more", alarms=self.alarms)

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
        alarms: Sequence[Alarm] = (),
        keep: bool = False,
        without: frozenset[str] = frozenset(),
    ) -> Run:
        def composed(alarms: Sequence[Alarm] = ()) -> str:
            sides = self.sides
            return sides.composed(code=code, witnesses=witnesses, alarms=alarms, without=without)

        tree = composed()
        run, _ = self._runs.of(tree, label, alarms, lambda: composed(alarms))
        self._made.append((tree, run))
        if keep:
            self._runs.keep(tree, run)
        return run
