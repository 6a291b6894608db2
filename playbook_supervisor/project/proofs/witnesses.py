"""The witnesses of a check, and trees of one side's code with the other side's witnesses.

Witnesses are the files that say what the check expects: tests with their data, and all that tells
the runner what to run. All others are code. Of a shared file, such as `pyproject.toml`, only the
runner's sections are a witness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from playbook_supervisor.project.expressions.globs import matches_any
from playbook_supervisor.project.proofs.runners import owned, spliced
from playbook_supervisor.project.settings.config import AUTO, CheckSpec
from playbook_supervisor.system.git.tree_objects import FILE, LINK

if TYPE_CHECKING:
    from playbook_supervisor.project.proofs.runners import Alarm, Runner
    from playbook_supervisor.system.git.tree_objects import Entries, Entry, TreeObjects

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
        """The contents of the shared files that differ; empty where there is none."""
        paths = [path for path in self.changed if self.witnesses.section(path)]
        sides = [(self.before.get(path), self.now.get(path)) for path in paths]
        plain = (each for side in sides for each in side if each is not None and each[0] != LINK)
        found = self.objects.contents(id_ for _, id_ in plain)
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
