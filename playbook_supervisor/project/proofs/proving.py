"""Proofs of checks: the exit status of a program for one tree, in the checkout or a clean room."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

from playbook_supervisor.errors import ConditionError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.project.proofs.rooms import run_in_room
from playbook_supervisor.project.settings.checks import (
    Checking,
    CheckRun,
    Proof,
    duration,
    key,
    run_check,
)
from playbook_supervisor.project.settings.config import CLEAN, CheckSpec, Config
from playbook_supervisor.records import replace
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.git.checkout import NOW, Pinned
from playbook_supervisor.system.git.tree import Tree, changes, tree_of


def prove(
    spec: CheckSpec,
    root: Path,
    config: Config,
    checking: Checking,
    wanted: Callable[[int], bool] = lambda status: status == 0,
    pinned: Pinned = NOW,
) -> tuple[Proof, bool]:
    """The proof for the tree that is there now, and whether it was made before.

    `pinned` says what belongs to the tree, and what PATH is in a clean room. With paths that cannot
    be read the tree is known only in part, and its proof is not kept.

    A check with a clean room runs there, on the files of the tree alone, and if the settings say so
    in the checkout as well once it is `wanted`: the proof is that of the checkout if that differs.

    A kept proof counts only if its status is `wanted`: what did not succeed may do so now, for a
    cause outside the tree. A check that changes the tree is run once more, on what it has made.
    ConditionError PB-COND-CHECK if it changes that, too, or has no exit status; errors of
    `tree_id` and `run_check`.
    """
    if spec.room == CLEAN and spec.also_here:
        how = (root, config, checking, wanted, pinned)
        proof, kept = prove(replace(spec, also_here=False), *how)
        if not wanted(proof.status):
            return proof, kept
        here, also_kept = prove(replace(spec, room="here"), *how)
        if here.tree != proof.tree:
            raise _unsteady(spec, root, proof.tree, here.tree)
        said = proof if wanted(here.status) else here
        return replace(said, also_here=True), kept and also_kept
    checking = replace(checking, search_path=pinned.search_path)

    def ran(tree: Tree) -> CheckRun:
        if spec.room != CLEAN:
            return run_check(spec, root, config, checking)
        return run_in_room(spec, tree.id, checkout.find(root), config, checking)[0]

    def made(tree: Tree) -> tuple[Proof, Tree]:
        run, tries = ran(tree), 1
        while (run.status or 0) > 0 and tries < spec.tries:
            run, tries = ran(tree), tries + 1
        after = tree if spec.room == CLEAN else look()
        return _made(spec, run, tree, checking.by, tries), after

    def look() -> Tree:
        return tree_of(root, pinned)

    before = look()
    if checking.proofs is not None and not before.unreadable:
        known = checking.proofs.lookup(key(spec), before.id)
        if known is not None and wanted(known.status):
            return known, True
    proof, after = made(before)
    if after.id != proof.tree and wanted(proof.status):
        proof, after = made(after)
        if after.id != proof.tree and wanted(proof.status):
            raise _unsteady(spec, root, proof.tree, after.id)
    whole = after.id == proof.tree and not (proof.without or after.unreadable)
    if whole and checking.proofs is not None:
        checking.proofs.keep(proof)
    return proof, False


def _made(spec: CheckSpec, run: CheckRun, tree: Tree, by: str, tries: int) -> Proof:
    status, at = status_of(spec, run), time.time_ns() // 1_000_000
    without = tuple(each.path for each in tree.unreadable)
    clean, seconds, line = spec.room == CLEAN, run.seconds, run.line
    what = (tree.id, status, seconds, line, at, by, without, clean)
    return Proof(spec.name, key(spec), *what, tries=tries)


def _unsteady(spec: CheckSpec, root: Path, before: str, after: str) -> ConditionError:
    changed = ", ".join(first_line(path, 60) for path in changes(root, before, after).paths[:3])
    said = f"check {spec.name}: it changes the tree that it is to prove: {changed}"
    return ConditionError("PB-COND-CHECK", said, guidance="Add what it writes to .gitignore.")


def status_of(spec: CheckSpec, run: CheckRun) -> int:
    """The exit status of a run. ConditionError PB-COND-CHECK if it has none."""
    took = duration(run.seconds)
    if run.status is None:
        said = f"check {spec.name}: it did not end within {took}"
        cure = "Find out what it waits for, or raise its `timeout_seconds`."
        raise ConditionError("PB-COND-CHECK", said, guidance=cure)
    if run.status < 0:
        number = -run.status
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        raise ConditionError("PB-COND-CHECK", f"check {spec.name}: {name} ended it after {took}")
    return run.status
