"""Proofs of checks: the exit status of a program for one tree, in the checkout or a clean room.

In a clean room there are the files of the tree and what the check's set-up has made of them:
nothing that is ignored, no stray bytecode, and few variables of our environment.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from playbook_supervisor.errors import ConditionError, StorageError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.project.expressions.globs import matches_any
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
from playbook_supervisor.system.disk.files import digest
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.git.checkout import NOW, Pinned
from playbook_supervisor.system.git.clean_room import clean_room
from playbook_supervisor.system.git.tree import Tree, changes, entries, tree_of

if TYPE_CHECKING:
    from playbook_supervisor.system.git.checkout import Checkout

SETUP_INPUTS = (
    *("**/requirements*.txt", "**/pyproject.toml", "**/setup.py", "**/setup.cfg", "**/uv.lock"),
    *("**/poetry.lock", "**/package.json", "**/package-lock.json", "**/pnpm-lock.yaml"),
    *("**/yarn.lock", "**/Cargo.lock", "**/Cargo.toml", "**/go.mod", "**/go.sum"),
    *("**/Gemfile", "**/Gemfile.lock", "**/Pipfile.lock"),
)
"""The files after whose change set-up runs again, unless the settings name them."""

_KEPT = r"""(?x)
    PATH | HOME | USER | LOGNAME | LANG | LANGUAGE | LC_[A-Z]+ | TZ | TERM | CI
    | (?i:https?|all|no)_(?i:proxy) | SSL_CERT_(?:FILE|DIR) | REQUESTS_CA_BUNDLE
    | NODE_EXTRA_CA_CERTS | GOPATH | GOCACHE | GOMODCACHE | GOPROXY | CARGO_HOME | RUSTUP_HOME
    | JAVA_HOME | XDG_CACHE_HOME
"""
"""The variables of our environment that a check in a clean room has, too."""


def prove(
    spec: CheckSpec,
    root: Path,
    config: Config,
    checking: Checking,
    wanted: Callable[[int], bool] = lambda status: status == 0,
    pinned: Pinned = NOW,
) -> tuple[Proof, bool]:
    """The proof for the tree that is there now, and whether it was made before.

    `pinned` says what belongs to the tree. With paths that cannot be read the tree is known only in
    part, and its proof is not kept.

    A check with a clean room runs there, on the files of the tree alone.

    A kept proof counts only if its status is `wanted`: what did not succeed may do so now, for a
    cause outside the tree. A check that changes the tree is run once more, on what it has made.
    ConditionError PB-COND-CHECK if it changes that, too, or has no exit status; errors of
    `tree_id` and `run_check`.
    """

    def made(tree: Tree) -> tuple[Proof, Tree]:
        if spec.room == CLEAN:
            run = run_in_room(spec, tree.id, checkout.find(root), config, checking)
            return _made(spec, run, tree, checking.by), tree
        return _made(spec, run_check(spec, root, config, checking), tree, checking.by), look()

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


def _made(spec: CheckSpec, run: CheckRun, tree: Tree, by: str) -> Proof:
    status, at = _status(spec, run), time.time_ns() // 1_000_000
    without = tuple(each.path for each in tree.unreadable)
    clean, seconds, line = spec.room == CLEAN, run.seconds, run.line
    return Proof(spec.name, key(spec), tree.id, status, seconds, line, at, by, without, clean)


def _unsteady(spec: CheckSpec, root: Path, before: str, after: str) -> ConditionError:
    changed = ", ".join(first_line(path, 60) for path in changes(root, before, after).paths[:3])
    said = f"check {spec.name}: it changes the tree that it is to prove: {changed}"
    return ConditionError("PB-COND-CHECK", said, guidance="Add what it writes to .gitignore.")


def _status(spec: CheckSpec, run: CheckRun) -> int:
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


# ── in a clean room ─────────────────────────────────────────────────────────────────────────


def run_in_room(
    spec: CheckSpec, tree: str, here: Checkout, config: Config, checking: Checking
) -> CheckRun:
    """Run a check on a tree in its clean room, which is prepared first if that is due.

    ConditionError PB-COND-CHECK if its set-up does not succeed; errors of `run_check` and of
    `clean_room`.
    """

    def waiting() -> None:
        checking.say(f"check {spec.name} waits for its clean room, which another run uses")

    with clean_room(here, spec.name, waiting) as room:
        environment = _environment(room.temporary)
        prepared_for = _setup_key(spec, tree, here)
        if not room.is_prepared(prepared_for):
            room.empty()
        room.lay(tree)
        if spec.setup and not room.is_prepared(prepared_for):
            with room.lent():
                for argv in spec.setup:
                    _set_up(replace(spec, argv=argv), room.root, config, checking, environment)
            room.keep_setup(prepared_for)
            room.lay(tree)
        with room.lent():
            return run_check(spec, room.root, config, checking, environment)


def _set_up(
    spec: CheckSpec, root: Path, config: Config, checking: Checking, environment: dict[str, str]
) -> None:
    named = replace(spec, name=f"{spec.name} (set-up)")
    what = f"check {spec.name}: its set-up `{first_line(' '.join(spec.argv), 60)}`"
    try:
        run = run_check(named, root, config, checking, environment)
    except StorageError as error:
        raise ConditionError(
            "PB-COND-CHECK", f"{what}: {error.message}", guidance=error.guidance
        ) from error
    if run.status == 0:
        return
    ended = "did not end" if run.timed_out else f"ended with exit status {run.status}"
    said = f', "{run.line}"' if run.line else ""
    raise ConditionError(
        "PB-COND-CHECK",
        f"{what} {ended} after {duration(run.seconds)}{said}",
        guidance="It runs in a folder that has the files of the tree alone: see `playbook logs`.",
    )


def _setup_key(spec: CheckSpec, tree: str, here: Checkout) -> str:
    """Stands for all that set-up depends on."""
    if not spec.setup:
        return "none"
    patterns = spec.setup_inputs or SETUP_INPUTS
    inputs = [entry for entry in entries(here, tree) if matches_any(patterns, entry[2])]
    return digest(json.dumps([spec.setup, sorted(spec.env.items()), sorted(inputs)]).encode())


def _environment(temporary: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if re.fullmatch(_KEPT, name)}
    return {**kept, "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
