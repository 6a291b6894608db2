"""Try the ways to run a project's tests, so that `init` proposes only what works."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from playbook_supervisor.commands.install import shipped
from playbook_supervisor.commands.install.proposals import Proposal
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import counted, first_line, some
from playbook_supervisor.project.proofs.composed_runs import ComposedRuns
from playbook_supervisor.project.proofs.runs import Run
from playbook_supervisor.project.settings import config
from playbook_supervisor.project.settings.checks import (
    NOT_STARTED,
    Checking,
    duration,
    states_result,
)
from playbook_supervisor.project.settings.config import CLEAN
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.steps.attempt_log import secret_values
from playbook_supervisor.system.disk.files import (
    digest,
    ensure_folder,
    read_bytes,
    write_atomically,
)
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.git.tree import tree_id
from playbook_supervisor.system.git.tree_objects import TreeObjects

_LONGEST = 600.0  # seconds for each program of a trial
_NAMED = 3  # failing tests that are named
_SETTLED = 10_000  # bytes of the record of a trial
_SAID = 80  # characters of a message


class Outcome(IntEnum):
    """What a trial came to; a higher one is better."""

    NO_TESTS = 0
    SOME_FAIL = 1
    PASSED = 2


@dataclass(frozen=True, slots=True)
class Trial:
    """A proposal that was tried; `said` is its result in one line."""

    proposal: Proposal
    outcome: Outcome
    said: str


def trials(
    root: Path, proposals: Sequence[Proposal], on_start: Callable[[Proposal], None]
) -> tuple[Trial, ...]:
    """The trials of these proposals, up to the first that passes; the best one comes first.

    Interrupted if a person asked to stop.
    """
    made: list[Trial] = []
    for proposal in proposals:
        if proposal.room == CLEAN and any(each.outcome for each in made):
            continue  # its tests run, so less set-up makes nothing better
        on_start(proposal)
        made.append(_tried(root, proposal))
        if made[-1].outcome is Outcome.PASSED:
            break
    return tuple(sorted(made, key=lambda each: -each.outcome))


def settled(root: Path, proposals: Sequence[Proposal]) -> str:
    """Why no check came of the same proposals before; empty if what they run has changed since."""
    try:
        inputs, _, why = read_bytes(_record(root), limit=_SETTLED).decode().partition("\n")
        return why if inputs == _inputs(root, proposals) else ""
    except (FileNotFoundError, PlaybookError, UnicodeDecodeError):
        return ""


def settle(root: Path, proposals: Sequence[Proposal], why: str) -> None:
    """Remember on this machine why no check came of these proposals."""
    with suppress(PlaybookError):  # then they are tried again
        content, record = f"{_inputs(root, proposals)}\n{why}".encode(), _record(root)
        ensure_folder(record.parent)
        write_atomically(record, content, durable=False)


def _record(root: Path) -> Path:
    return checkout.find(root).runtime / "init-trials"


def _inputs(root: Path, proposals: Sequence[Proposal]) -> str:
    entries = TreeObjects(checkout.find(root)).entries(tree_id(root))
    written = (".playbooks/", ".claude/", *shipped.files())
    files = sorted(item for item in entries.items() if not item[0].startswith(written))
    return digest(repr((proposals, files)).encode())


def _tried(root: Path, proposal: Proposal) -> Trial:
    here, began = checkout.find(root), time.monotonic()
    try:
        tree = tree_id(root)
        checking = Checking(wall=_LONGEST, secrets=secret_values(os.environ))
        asked = (config.load(root), checking, TreeObjects(here))
        runs = ComposedRuns(proposal.check, here, *asked, tree, tree, has_alarm=False)
        run = runs.now
        runs.keep()
    except PlaybookError as error:
        return Trial(proposal, Outcome.NO_TESTS, error.message)
    outcome, said = _outcome(run), _result(run)
    if proposal.report and run.tests is None:
        proposal = replace(proposal, report="")  # it writes none here
    if proposal.room == CLEAN and outcome:
        ready = time.monotonic() - began - run.seconds
        said += f", room ready in {duration(ready)}"
    return Trial(proposal, outcome, said)


def _outcome(run: Run) -> Outcome:
    if run.passes:
        return Outcome.PASSED
    if run.tests is None:
        ran = run.status not in NOT_STARTED and states_result(run.line)
    else:
        ran = not run.flaw and any(each.holds for each in run.tests.values())
    return Outcome.SOME_FAIL if ran else Outcome.NO_TESTS


def _result(run: Run) -> str:
    if run.tests is None:
        quoted = f', "{run.line}"' if run.line else ""
        return f"exit {run.status} in {run.took}{quoted}"
    if run.flaw:
        return run.flaw
    number = counted(len(run.tests), "test")
    if failing := run.failing:
        message = first_line(run.tests[failing[0]].message, _SAID)
        said = f' ("{message}")' if message else ""
        return f"{len(failing)} of {number} failed in {run.took}: {some(failing, _NAMED)}{said}"
    skipped = sum(not each.ran for each in run.tests.values())
    passed = counted(len(run.tests) - skipped, "test")
    return f"{passed} passed in {run.took}" + (f", {skipped} skipped" if skipped else "")
