"""Proofs of checks: the exit status of a program for one tree, in the checkout or a clean room."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

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
from playbook_supervisor.project.settings.isolation import in_force, of_check
from playbook_supervisor.records import replace
from playbook_supervisor.system.disk import files
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.git.checkout import NOW, Checkout, Pinned
from playbook_supervisor.system.git.clean_room import CleanRoom, clean_room
from playbook_supervisor.system.git.tree import Tree, changes, tree_of
from playbook_supervisor.system.git.tree_objects import TreeObjects
from playbook_supervisor.system.isolation.sandbox import Sandbox

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


_LARGEST = 64 << 20  # bytes of a report
_MOST_REPORTS = 1_000
_FILE = "{report}"


@dataclass(frozen=True, slots=True)
class Reporting:
    """The way to the reports of a run.

    With `argv` instead of its own arguments the check writes one to the file that stands for
    `{report}`; `pattern` names those that it writes by itself. `label` names the run to people.
    """

    argv: tuple[str, ...] = ()
    pattern: str = ""
    label: str = ""


def run_in_room(
    spec: CheckSpec,
    tree: str,
    here: Checkout,
    config: Config,
    checking: Checking,
    reporting: Reporting = Reporting(),
) -> tuple[CheckRun, tuple[bytes, ...]]:
    """Run a check on a tree in its clean room, which is prepared first if that is due.

    With the run come the reports that it has written. ConditionError PB-COND-CHECK if its set-up
    does not succeed; errors of `run_check` and of `clean_room`.
    """

    def waiting() -> None:
        checking.say(f"check {spec.name} waits for its clean room, which another run uses")

    with clean_room(here, spec.name, waiting) as room:
        environment = _environment(room.temporary, checking)
        prepared_for = _setup_key(spec, tree, here, in_force(config))
        if not room.is_prepared(prepared_for):
            room.empty()
        room.lay(tree)
        if spec.setup and not room.is_prepared(prepared_for):
            with room.lent():
                for argv in spec.setup:
                    _set_up(replace(spec, argv=argv), here, room, config, checking, environment)
            room.keep_setup(prepared_for)
            room.lay(tree)
        with room.lent():
            at = (spec, room.root, room.temporary, config, checking, reporting, environment)
            return run_at(*at, of_check(config, spec, here, room.root, room.temporary))


def run_at(
    spec: CheckSpec,
    root: Path,
    temporary: Path,
    config: Config,
    checking: Checking,
    reporting: Reporting,
    environment: Mapping[str, str] | None = None,
    isolation: Sandbox | None = None,
) -> tuple[CheckRun, tuple[bytes, ...]]:
    """Run a check in a folder, and read the reports that it has written. Errors of `run_check`."""
    file = temporary / "results.xml"
    for left in (file, *_found(root, reporting.pattern)):
        files.remove(left)
    argv = tuple(word.replace(_FILE, str(file)) for word in reporting.argv)
    shown = replace(spec, name=reporting.label or spec.name, argv=argv or spec.argv)
    run = run_check(shown, root, config, checking, environment, isolation)
    return run, tuple(_contents((file, *_found(root, reporting.pattern))))


def _found(root: Path, pattern: str) -> list[Path]:
    """The files of the pattern; a link may lead out of the folder, and is none of them."""
    there = sorted(root.glob(pattern))[:_MOST_REPORTS] if pattern else []
    real = root.resolve()
    return [each for each in there if each.resolve() == real / each.relative_to(root)]


def _contents(reports: Iterable[Path]) -> Iterator[bytes]:
    for report in reports:
        with suppress(FileNotFoundError):
            if not report.is_symlink():
                yield files.read_bytes(report, limit=_LARGEST)


def _set_up(
    spec: CheckSpec,
    here: Checkout,
    room: CleanRoom,
    config: Config,
    checking: Checking,
    environment: dict[str, str],
) -> None:
    named = replace(spec, name=f"{spec.name} (set-up)")
    what = f"check {spec.name}: its set-up `{first_line(' '.join(spec.argv), 60)}`"
    try:
        isolation = of_check(
            config, replace(spec, network="as_is"), here, room.root, room.temporary
        )
        run = run_check(named, room.root, config, checking, environment, isolation)
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


def _setup_key(spec: CheckSpec, tree: str, here: Checkout, isolated: str) -> str:
    if not spec.setup:
        return "none"
    patterns = spec.setup_inputs or SETUP_INPUTS
    found = TreeObjects(here).entries(tree)
    inputs = sorted((path, *each) for path, each in found.items() if matches_any(patterns, path))
    return files.digest(
        json.dumps([spec.setup, sorted(spec.env.items()), inputs, isolated]).encode()
    )


def _environment(temporary: Path, checking: Checking) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if re.fullmatch(_KEPT, name)}
    kept |= {"PATH": checking.search_path} if checking.search_path else {}
    return {**kept, "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}


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
