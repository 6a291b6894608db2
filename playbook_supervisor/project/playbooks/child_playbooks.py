"""The playbooks that steps of a playbook run, and all that is wrong with them before a run.

A playbook and the children that it can reach are a tree. It is bounded: a cycle must have a `when`
on it, and `max_depth` then ends it in a run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from playbook_supervisor.errors import CheckError, PlaybookError
from playbook_supervisor.formats.located import Document
from playbook_supervisor.formats.located import Path as Place
from playbook_supervisor.formats.problems import Problem, problem_at
from playbook_supervisor.formats.sanitize import first_line, suggestion
from playbook_supervisor.kernel.model import Arg, Playbook, Step
from playbook_supervisor.kernel.vocabulary import Autonomy
from playbook_supervisor.project.expressions.arguments import final_value, wanted
from playbook_supervisor.project.expressions.loop_items import with_references
from playbook_supervisor.project.expressions.references import (
    interpolate,
    is_known,
    is_reference,
    names,
)
from playbook_supervisor.project.playbooks.library import Library
from playbook_supervisor.project.playbooks.playbook_file import PlaybookFile

MOST = 100
"""The most playbooks of one tree, beside the first."""
MOST_OUTLINED = 100
"""The most steps of an outline; those behind them are left out."""
_CHILD, _CYCLE = "PB-CHECK-CHILD", "PB-CHECK-CYCLE"
_FEATURE = "feature"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the child of the step at this index; `place` leads to it in the step."""

    index: int
    place: Place
    error: CheckError


@dataclass(frozen=True, slots=True)
class ChildStep:
    """A step that runs a child; `file` is None if there is none that could run."""

    index: int
    step: Step
    file: PlaybookFile | None
    faults: tuple[Fault, ...]


def mapping(step: Step) -> dict[str, str]:
    """The text for each arg of the child, as the step states it; empty if it is not valid."""
    return {name: text for name, text in _stated(step).items() if isinstance(text, str)}


def _stated(step: Step) -> dict[str, Any]:
    stated = json.loads(step.options).get("args") if step.options else None
    return stated if isinstance(stated, dict) else {}


def given(step: Step, values: Mapping[str, str]) -> dict[str, str]:
    """The child's args if ours have these values. CheckError for another name."""
    values = with_references(values, step)
    return {name: interpolate(text, values) for name, text in mapping(step).items()}


class Children:
    """The trees of one project's playbooks. Each file is read and compared with its steps once."""

    def __init__(self, root: Path) -> None:
        self._library = Library(root)
        self._steps: dict[str, tuple[ChildStep, ...]] = {}

    def of(self, playbook: Playbook) -> Iterator[ChildStep]:
        """The steps that run a child, with what is wrong with the child itself and its args."""
        for index, step in enumerate(playbook.steps):
            if step.child:
                yield self._looked_up(playbook, index, step)

    def faults(self, playbook: Playbook, file: Path | None = None) -> Iterator[Fault]:
        """All that is wrong with the tree, by the playbook's own steps.

        `file` is where the playbook lies, if its text lies in a file.
        """
        yield from _Tree(self, playbook, file).faults()

    def reachable(self, playbook: Playbook) -> dict[str, Playbook]:
        """The children that it can reach and that are valid, by name, the nearest first."""
        found = _Tree(self, playbook, None).reachable.values()
        return {file.name: file.playbook for file in found}

    def required(self, playbook: Playbook, file: PlaybookFile) -> dict[str, PlaybookFile]:
        """The files of all children that it can reach, by name. CheckError for the first fault."""
        tree = _Tree(self, playbook, file.file)
        for fault in tree.faults():
            error = fault.error
            said = f"step {playbook.steps[fault.index].id}: {error.message}"
            raise CheckError(error.code, said, where=file.source, guidance=error.guidance)
        return {child.name: child for child in tree.reachable.values()}

    def steps_of(self, file: PlaybookFile) -> tuple[ChildStep, ...]:
        """Those of a child, which is valid."""
        if (key := _key(file.file)) not in self._steps:
            self._steps[key] = tuple(self.of(file.playbook))
        return self._steps[key]

    def _looked_up(self, playbook: Playbook, index: int, step: Step) -> ChildStep:
        try:
            file = self._file(step)
        except CheckError as flaw:
            return ChildStep(index, step, None, (Fault(index, ("command",), flaw),))
        return ChildStep(index, step, file, tuple(_args(playbook, index, step, file.playbook)))

    def _file(self, step: Step) -> PlaybookFile:
        try:
            file = self._library.find(step.child_reference)
        except PlaybookError as error:
            raise CheckError(_CHILD, error.message, guidance=error.guidance) from error
        if file.problem:
            said = f"the playbook {file.name} is not valid: {file.problem}"
            raise CheckError(_CHILD, said, guidance=f"Run `playbook check {file.source}`.")
        if file.name != step.child:
            said = f"{file.source} holds the playbook {file.name}, which is called otherwise"
            cure = "Give the file the name of its playbook, or put that name here."
            raise CheckError(_CHILD, said, guidance=cure)
        return file


# ── the args ────────────────────────────────────────────────────────────────────────────────


def _args(playbook: Playbook, index: int, step: Step, child: Playbook) -> Iterator[Fault]:
    stated, raw = mapping(step), _stated(step)  # what is no text is a fault of its own
    declared = {arg.name: arg for arg in child.args}
    secret = {arg.name for arg in playbook.args if arg.secret}
    takes = f"It takes {', '.join(map(wanted, child.args)) or 'no args'}."
    for name, text in stated.items():
        place = ("with", "args", name)
        if name not in declared:
            said = f"{child.name} has no arg {first_line(name, 60)}{suggestion(name, declared)}"
            yield Fault(index, place, CheckError(_CHILD, said, guidance=takes))
        elif flaw := _flaw(declared[name], text, secret):
            said = f"the arg {name} of {child.name} {flaw}"
            yield Fault(index, place, CheckError(_CHILD, said, guidance=takes))
    missing = [
        arg.name
        for arg in child.args
        if arg.required and not arg.default and not str(raw.get(arg.name, "")).strip()
    ]
    if missing:
        said = f"{child.name} is not given {', '.join(missing)}"
        cure = f"Write it under `with: {{args: …}}`. {takes}"
        yield Fault(index, ("command",), CheckError(_CHILD, said, guidance=cure))


def _flaw(arg: Arg, text: str, secret: set[str]) -> str:
    if not arg.secret and secret.intersection(names(text)):
        return "is not secret, so it cannot take a secret"
    if not is_known(text) or not text.strip():
        return ""
    try:
        final_value(arg, text)
    except ValueError as fault:
        return str(fault)
    return ""


# ── the tree ────────────────────────────────────────────────────────────────────────────────


class _Tree:
    def __init__(self, children: Children, playbook: Playbook, file: Path | None) -> None:
        self._children, self._playbook = children, playbook
        self._top = _key(file) if file else ""
        self.steps = tuple(children.of(playbook))
        self.reachable: dict[str, PlaybookFile] = {}
        """Real path → the file of a child, the nearest first; it ends soon after `MOST`."""
        self._depths: dict[str, int] = {}
        self._entered: set[str] = set()
        due = [each.file for each in self.steps if each.file]
        while due and len(self.reachable) <= MOST:
            if (key := _key(due[0].file)) not in self.reachable:
                self.reachable[key] = due[0]
                due += [each.file for each in children.steps_of(due[0]) if each.file]
            due.pop(0)

    def faults(self) -> Iterator[Fault]:
        """The fault of each child, or else the first one below it."""
        for each in self.steps:
            yield from each.faults
        sound = [(each, each.file) for each in self.steps if each.file and not each.faults]
        if sound and (whole := self._flaw_of_all()):
            yield Fault(sound[0][0].index, ("command",), whole)
            return
        for child_step, file in sound:
            if error := self._flaw(child_step, file):
                yield Fault(child_step.index, ("command",), error)

    def _flaw_of_all(self) -> CheckError | None:
        if len(self.reachable) > MOST:
            return CheckError(_CHILD, f"{self._playbook.name} reaches more than {MOST} playbooks")
        if twice := self._same_name():
            return CheckError(_CHILD, twice, guidance="Give them names of their own.")
        return None

    def _flaw(self, child_step: ChildStep, file: PlaybookFile) -> CheckError | None:
        always = not child_step.step.when
        if cycle := self._cycle(file, [self._top] if always else []):
            path = " → ".join(cycle)
            return CheckError(_CYCLE, f"the playbooks run each other without end: {path}")
        if below := self._below(file):
            return CheckError(_CHILD, below)
        depth, most = 1 + self._depths.get(_key(file.file), 0), self._playbook.max_depth
        if always and depth > most:
            said = f"its children are {depth} deep, and `max_depth` is {most}"
            cure = "Raise `max_depth` under `limits`, or let the playbooks run fewer of each other."
            return CheckError(_CHILD, said, guidance=cure)
        return None

    def _same_name(self) -> str:
        known: dict[str, str] = {}
        for file in self.reachable.values():
            if file.source != known.setdefault(file.name, file.source):
                return f"both {known[file.name]} and {file.source} are called {file.name}"
        return ""

    def _cycle(self, file: PlaybookFile, path: Sequence[str]) -> list[str]:
        """The names along a cycle of steps without a `when`; empty if there is none.

        `path` leads to the file by such steps. It notes how deep the children of each file are.
        """
        key = _key(file.file)
        if key in path:
            return [*(self._name(each) for each in path[path.index(key) :]), file.name]
        if key in self._entered:
            return []
        self._entered.add(key)
        below = [(each.step, each.file) for each in self._children.steps_of(file) if each.file]
        for step, child in below:
            if found := self._cycle(child, [] if step.when else [*path, key]):
                return found
        always = [_key(child.file) for step, child in below if not step.when]
        self._depths[key] = max((1 + self._depths.get(each, 0) for each in always), default=0)
        return []

    def _name(self, key: str) -> str:
        return self._playbook.name if key == self._top else self.reachable[key].name

    def _below(self, file: PlaybookFile) -> str:
        seen = {_key(file.file)}
        due = [file]
        for each in due:
            for child_step in self._children.steps_of(each):
                if child_step.faults:
                    step, error = child_step.step.id, child_step.faults[0].error
                    return f"{each.name} cannot run: step {step}: {error.message}"
                below = child_step.file
                if below and _key(below.file) not in seen:
                    seen.add(_key(below.file))
                    due.append(below)
        return ""


def _key(file: Path) -> str:
    return os.path.realpath(file)


# ── an outline for people ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class OutlinedStep:
    """A step of a child: its id behind those of the steps that lead to it, as in `ship/deploy`.

    `again`: it runs a playbook that is being run on the way to it, so what is below is not said.
    """

    id: str
    step: Step
    again: bool

    @property
    def depth(self) -> int:
        """1 for a step of the child itself, 2 for one of its child, and so on."""
        return 1 + self.id.count("/")


def outline(
    playbook: Playbook, step: Step, children: Mapping[str, Playbook]
) -> tuple[OutlinedStep, ...]:
    """At most `MOST_OUTLINED` steps below a step of the playbook, in the order of a run."""
    return tuple(islice(_steps_below(step, children, "", (playbook.name,)), MOST_OUTLINED))


def _steps_below(
    step: Step, children: Mapping[str, Playbook], prefix: str, path: tuple[str, ...]
) -> Iterator[OutlinedStep]:
    child = children.get(step.child)
    path = (*path, step.child)
    for each in child.steps if child else ():
        again = each.child in path
        yield OutlinedStep(f"{prefix}{each.id}", each, again)
        if each.child and not again:
            yield from _steps_below(each, children, f"{prefix}{each.id}/", path)


# ── warnings ────────────────────────────────────────────────────────────────────────────────


def lint(
    playbook: Playbook, children: Iterable[ChildStep], document: Document
) -> Iterator[Problem]:
    """Warnings about steps whose child probably does not do what their author wants."""
    for each in children:
        if each.file is None or each.faults or each.step.autonomy is Autonomy.SKIP:
            continue
        path, child = ("steps", each.index, "command"), each.file.playbook
        for code, message, guidance in (
            *_may_lack(playbook, each.step, child),
            *_unseen(each.step, child),
        ):
            yield problem_at(document, path, code, message, guidance, severity="warning")


def _may_lack(playbook: Playbook, step: Step, child: Playbook) -> Iterator[tuple[str, str, str]]:
    """A required arg that is given nothing but an arg that need not have a value."""
    stated = mapping(step)
    optional = {arg.name for arg in playbook.args if not arg.required and not arg.default}
    for arg in child.args:
        text = stated.get(arg.name, "").strip()
        if arg.required and not arg.default and is_reference(text) and names(text)[0] in optional:
            yield (
                "PB-CHECK-CHILD",
                f"the arg {arg.name} of {child.name} is required, and `{text}` may have no value",
                "Declare that arg as required, or give it a default.",
            )


def _unseen(step: Step, child: Playbook) -> Iterator[tuple[str, str, str]]:
    if any(arg.name == _FEATURE for arg in child.args) and _FEATURE not in mapping(step):
        yield (
            "PB-CHECK-LINT-FEATURE",
            f"{child.name} takes a `feature`, and the step gives it none",
            "Pass it on: `with: {args: {feature: '{{feature}}'}}`.",
        )
    if not step.postconditions and not step.outputs and not _proves(child):
        yield (
            "PB-CHECK-LINT-UNSEEN",
            f"neither `{step.id}` nor the last step of {child.name} has postconditions",
            "Add a condition that holds once the work is done, if there is one.",
        )


def _proves(child: Playbook) -> bool:
    runs = [step for step in child.phases[-1] if step.autonomy is not Autonomy.SKIP]
    return bool(child.outputs) or not any(
        step.needs_agent and not step.postconditions and not step.outputs for step in runs
    )
