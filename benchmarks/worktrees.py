"""Compares `start` with `git worktree add`, and `status` over many worktrees with `git status`.

python benchmarks/worktrees.py FOLDER    # prints one JSON object of milliseconds
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import sample

from playbook_supervisor.commands.install import init
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.system.git import checkout

PLAYBOOK = (sys.executable, "-m", "playbook_supervisor")
FILES, TREES, SESSIONS, ROUNDS = 2_000, 10, 200, 11


def project(folder: Path) -> Path:
    """A committed project of some size with playbook installed."""
    root = sample.repository(folder / "project")
    (root / ".playbooks/playbooks").mkdir(parents=True)
    (root / ".playbooks/playbooks/sample.yaml").write_bytes(sample.playbook(8))
    init.apply(init.plan(cwd=root))
    for number in range(FILES):
        file = root / f"src/{number % 40}/{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}\n" * 40)
    commit(root, "Everything")
    return root


def commit(root: Path, message: str) -> None:
    git(root, "add", "--all")
    git(root, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "-m", message)


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)


def took(argv: Sequence[str], cwd: Path) -> float:
    """Milliseconds of a process, which must succeed."""
    began = time.perf_counter()
    subprocess.run(argv, cwd=cwd, check=True, capture_output=True)
    return (time.perf_counter() - began) * 1000


def in_turn(one: Callable[[int], float], other: Callable[[int], float]) -> tuple[float, float]:
    """The median of each, measured alternately."""
    pairs = [(one(number), other(number)) for number in range(ROUNDS)]
    return median(first for first, _ in pairs), median(second for _, second in pairs)


def start(root: Path) -> dict[str, float]:
    """One `start`, one bare `git worktree add`, and eight `start`s at the same time."""

    def started(number: int) -> float:
        return took([*PLAYBOOK, "start", "sample", f"{number:03}-started"], root)

    def added(number: int) -> float:
        name = f"{number:03}-added"
        return took(["git", "worktree", "add", "-q", "-b", name, f"../{name}"], root)

    one, bare = in_turn(started, added)
    began = time.perf_counter()
    argv = [*PLAYBOOK, "start", "sample"]
    eight = [
        subprocess.Popen([*argv, f"9{number}-at-once"], cwd=root, stdout=subprocess.DEVNULL)
        for number in range(8)
    ]
    failed = sum(process.wait() != 0 for process in eight)
    at_once = (time.perf_counter() - began) * 1000
    return {"start": one, "added": bare, "eight": at_once, "failed": failed}


def status(root: Path) -> dict[str, float]:
    """`status` for 200 sessions in 10 worktrees, first separate, then merged into each."""
    for number in range(TREES - 1):
        git(root, "worktree", "add", "-q", "-b", f"tree-{number}", f"../tree-{number}")
    trees = [root, *(root.with_name(f"tree-{number}") for number in range(TREES - 1))]
    for tree in trees:
        store = DiskStore(checkout.find(tree))
        for number in range(SESSIONS // TREES):
            feature = f"{number:03}-sample"
            store.create(
                playbook="sample",
                text=sample.playbook(8),
                feature=feature,
                args={"feature": feature},
            )
    return measured(root, "apart") | merged(root, trees)


def merged(root: Path, trees: Sequence[Path]) -> dict[str, float]:
    for tree in trees:
        commit(tree, "Sessions")
    for tree in trees[1:]:
        git(root, "-c", "user.name=x", "-c", "user.email=x@x", "merge", "-q", tree.name)
    for tree in trees[1:]:
        git(tree, "merge", "-q", "main")
    return measured(root, "merged")


def measured(root: Path, name: str) -> dict[str, float]:
    shown, plain = in_turn(
        lambda _: took([*PLAYBOOK, "status"], root), lambda _: took(["git", "status"], root)
    )
    return {f"status_{name}": shown, f"git_{name}": plain}


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ |= {"GIT_CONFIG_COUNT": "1"}
    os.environ |= {"GIT_CONFIG_KEY_0": "init.defaultBranch", "GIT_CONFIG_VALUE_0": "main"}
    place = Path(sys.argv[1]).resolve()
    figures = start(project(place / "a")) | status(project(place / "b"))
    print(json.dumps(figures))
