"""Measures a session's way through git: claim and clone, snapshot and push, a list of sessions.

python benchmarks/session_refs.py FOLDER    # prints one JSON object of milliseconds

The remote is a bare repository on the same disk, so that all of it counts but the network. `git` is
the same by plain git, measured alternately: a checkout of all files for the clone, and for the
snapshot a commit of everything and its push.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from playbook_supervisor.fleet.engine.session_ref import Mirror, SessionClone
from playbook_supervisor.fleet.engine.session_tip import REF

FILES, SESSIONS, ROUNDS = 2_000, 500, 15
ID = "20261125-abc"
IDENTITY = ("-c", "user.name=x", "-c", "user.email=x@x")


def git(root: Path, *arguments: str, stdin: str = "") -> str:
    argv = ["git", *IDENTITY, *arguments]
    done = subprocess.run(argv, cwd=root, check=True, capture_output=True, input=stdin, text=True)
    return done.stdout.strip()


def took(work: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def remote(folder: Path) -> Path:
    """A bare repository with 2,000 files on `main`."""
    root = folder / "founder"
    git(folder, "init", "-q", "-b", "main", str(root))
    for number in range(FILES):
        file = root / f"src/{number % 40}/{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}\n" * 40)
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "Everything")
    git(folder, "clone", "-q", "--bare", str(root), "remote.git")
    return folder / "remote.git"


def measured(folder: Path) -> dict[str, float]:
    bare = remote(folder)
    mirror = Mirror(folder / "mirror.git", f"file://{bare}", ["file"])
    commit, _ = mirror.base()
    begun = mirror.begin(commit, "feature", folder / "begun")
    journal = begun.path / f".playbooks/sessions/{ID}/journal.yaml"
    journal.parent.mkdir(parents=True)
    journal.write_text("entries: []\n")
    begun.create(ID)
    git(folder, "clone", "-q", str(bare), "plain")
    plain = folder / "plain"
    git(plain, "switch", "-q", "-c", "plain")
    times: dict[str, list[float]] = {}

    def measure(name: str, work: Callable[[], object]) -> None:
        times.setdefault(name, []).append(took(work))

    for number in range(ROUNDS):
        measure("claim_and_clone", partial(take_up, mirror, number + 1, folder / f"c{number}"))
        measure("git_clone", partial(git, folder, "clone", "-q", str(bare), f"plain-{number}"))
        clone = SessionClone(mirror, folder / f"c{number}")
        tip = mirror.tip(ID)
        for root in (clone.path, plain):
            (root / "src/7/7.txt").write_text(f"{number}\n" * 50)
        measure("snapshot_and_push", partial(clone.snapshot, tip))
        measure("git_commit_and_push", partial(commit_and_push, plain))
        clone.remove()
    add_sessions(bare)
    fresh = Mirror(folder / "fresh.git", f"file://{bare}", ["file"])
    fresh.base()
    measure("tips_first", fresh.tips)
    measure("tips_again", fresh.tips)
    return {name: round(median(each), 1) for name, each in times.items()}


def take_up(mirror: Mirror, epoch: int, path: Path) -> None:
    mirror.checkout(mirror.claim(mirror.tip(ID), epoch, "worker"), path)


def commit_and_push(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "x")
    git(root, "push", "-q", "origin", "plain")


def add_sessions(bare: Path) -> None:
    """500 sessions, each at a commit of its own."""
    message = git(bare, "log", "-1", "--format=%B", REF.format(id=ID))
    for number in range(SESSIONS):
        session = f"20261124-{number:03}"
        text = message.replace(ID, session)
        commit = git(bare, "commit-tree", "main^{tree}", "-p", "main", stdin=text)
        git(bare, "update-ref", REF.format(id=session), commit)


if __name__ == "__main__":
    place = Path(sys.argv[1]).resolve()
    place.mkdir(parents=True)
    print(json.dumps(measured(place)))
