"""The proofs by the project's checks in a session, and the tree of each.

A proof is kept in the runtime state of the worktree where it was made, before anything is judged by
it: a run that is killed a moment later does not make the check again. It does not travel with the
session, because another machine may have other tools.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import counted, first_line
from playbook_supervisor.kernel.directives import Attempt
from playbook_supervisor.kernel.state import Event
from playbook_supervisor.project.conditions.conditions import verdicts
from playbook_supervisor.project.settings.checks import Checking, Proof, duration
from playbook_supervisor.records import Record, as_mapping
from playbook_supervisor.sessions.files.local_state import Runtime
from playbook_supervisor.sessions.steps.attempt_log import new_log, secret_values
from playbook_supervisor.sessions.steps.open_session import OpenSession
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.system.git import tree
from playbook_supervisor.system.git.checkout import NOW, Pinned
from playbook_supervisor.system.process.cancellation import within
from playbook_supervisor.system.process.process_groups import kill_worker

_MOST = 64  # proofs that a session keeps; the oldest are dropped
_MOST_NAMED = 3  # changed files
_SHORT = 40  # characters of names in a line about something else
_PATIENCE = 5.0  # seconds for git, as a hook may wait
_VERDICT = "verdict "


class SessionProofs(Record):
    """The proofs of one session, read and written under its lock."""

    store: DiskStore
    session_id: str

    def lookup(self, key: str, tree: str) -> Proof | None:
        with self.store.open(self.session_id) as opened:
            return find(opened.runtime, key, tree)

    def keep(self, proof: Proof) -> None:  # it is on the disk when this returns
        with self.store.open(self.session_id) as opened:
            add(opened.runtime, proof)
            opened.save()


def known(runtime: Runtime) -> tuple[Proof, ...]:
    """The proofs of the session, the oldest first."""
    shapes = (proof | {"without": tuple(proof.get("without", ()))} for proof in runtime.proofs)
    return tuple(Proof(**shape) for shape in shapes)


def find(runtime: Runtime, key: str, tree: str) -> Proof | None:
    """The proof of the check with this key for that tree."""
    return next((each for each in known(runtime) if (each.key, each.tree) == (key, tree)), None)


def add(runtime: Runtime, proof: Proof) -> None:
    """Note the proof, instead of an older one of the same check and tree."""
    same = proof.key, proof.tree
    others = [each for each in runtime.proofs if (each["key"], each["tree"]) != same]
    runtime.proofs = [*others, dict(as_mapping(proof))][-_MOST:]


def date_verdicts(opened: OpenSession, events: Iterable[Event], root: Path) -> None:
    """Note, as proofs whose key is that of no check, of which tree the reports of verdicts
    speak."""
    for event in events:
        names = verdicts(opened.playbook.step(event.entry.step_id).postconditions)
        if not names:
            continue
        with suppress(PlaybookError, TimeoutError), within(_PATIENCE):
            now = tree.tree_id(root, opened.runtime.pinned)
            at = event.entry.completed_at or 0
            for name in names:
                proof = Proof(name, f"{_VERDICT}{name}", now, 0, 0.0, "", at, event.entry.id)
                add(opened.runtime, proof)


def since_verdicts(
    runtime: Runtime | None, names: Iterable[str], root: Path, *, seconds: float
) -> dict[str, str]:
    """The changes since the reports of verdicts were judged, where that is known and not
    nothing: `code.py changed since`."""
    dated = [each for each in known(runtime) if is_verdict(each)] if runtime else []
    wanted = set(names)
    latest = {each.check: each for each in dated if each.check in wanted}
    if runtime is None or not latest:
        return {}
    found = {}
    for each in standings(latest.values(), root, runtime.pinned, seconds=seconds):
        if each.changed is None:
            found[each.proof.check] = "what has changed since is not known"
        elif each.changed:
            names = ", ".join(map(first_line, each.changed))
            number = counted(len(each.changed), "file")
            short = names if len(names) <= _SHORT else number
            found[each.proof.check] = f"{short} changed since"
    return found


def is_verdict(proof: Proof) -> bool:
    """True if it dates a verdict, and is no proof of a check."""
    return proof.key.startswith(_VERDICT)


class Standing(Record):
    """A proof, and the files that differ from its tree now; None if git cannot tell."""

    proof: Proof
    changed: tuple[str, ...] | None

    @property
    def holds(self) -> bool:
        return self.changed == ()

    @property
    def named(self) -> str:
        changed = self.changed or ()
        some = ", ".join(map(first_line, changed[:_MOST_NAMED]))
        more = len(changed) - _MOST_NAMED
        return f"{some} and {more} more" if more > 0 else some

    @property
    def sentence(self) -> str:
        """`test passed on tree 9f31c2a; 2 files have changed since: a.py, b.py`."""
        proof = self.proof
        passed = f"{proof.check} passed on tree {tree.short(proof.tree)}"
        if self.changed is None:
            return f"{passed}; what has changed since is not known"
        if self.changed:
            number, have = len(self.changed), "has" if len(self.changed) == 1 else "have"
            return f"{passed}; {counted(number, 'file')} {have} changed since: {self.named}"
        said = f', "{proof.line}"' if proof.line else ""
        return f"{passed}, which is there now ({duration(proof.seconds)}{said}, {proof.by})"


def standings(
    proofs: Iterable[Proof], root: Path, pinned: Pinned = NOW, *, seconds: float
) -> tuple[Standing, ...]:
    """For each check that has passed the proof that says most: that for the tree that is there now,
    else the last one. If git takes longer than `seconds`, what is there now is not known."""
    passed = [proof for proof in proofs if proof.status == 0]
    latest = {proof.key: proof for proof in passed}
    if not latest:
        return ()
    try:
        with within(seconds):
            now = tree.tree_id(root, pinned)
    except (PlaybookError, TimeoutError):
        return tuple(Standing(proof, None) for proof in latest.values())
    latest |= {proof.key: proof for proof in passed if proof.tree == now}
    return tuple(Standing(proof, _differing(root, proof.tree, now)) for proof in latest.values())


def _differing(root: Path, before: str, now: str) -> tuple[str, ...] | None:
    try:
        return tree.changes(root, before, now).paths
    except PlaybookError:  # git has removed the tree meanwhile
        return None


Shown = AbstractContextManager[Callable[[str], None]]
Watch = Callable[["Attempt", str], Shown]
"""Entered while a check runs for an attempt, with the check's name; it is given the lines."""


@contextmanager
def checking(
    proofs: SessionProofs, attempt: Attempt, worker_file: Path, watch: Watch
) -> Iterator[Checking]:
    """The means of a condition of the attempt to run a check. Do not hold the session's lock.

    What an earlier process left of it is ended first: its leash may take a moment.
    """
    log = new_log(proofs.store.runtime(proofs.session_id), attempt.id)

    def shown(check: str) -> Shown:
        log.add(f"check {check}:")
        return watch(attempt, check)

    kill_worker(worker_file)
    try:
        yield Checking(
            proofs=proofs,
            by=attempt.id,
            watch=shown,
            say=log.add,
            worker_file=worker_file,
            secrets=secret_values(os.environ),
        )
    finally:
        log.close()
