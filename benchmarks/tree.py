"""Compares the id of a working tree with `git status`.

python benchmarks/tree.py FOLDER [FILES]    # 10,000 files; prints one JSON object of milliseconds
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import sample
import worktrees

from playbook_supervisor.system.git.tree import changes, pinned_now, tree_id

FILES, NEW, ROUNDS = 10_000, 50, 11


def repository(folder: Path, files: int) -> Path:
    """All files are committed, and git has seen that they are unchanged."""
    root = sample.repository(folder)
    for number in range(files):
        write(root, f"{number}.txt")
    worktrees.commit(root, "Everything")
    time.sleep(1.1)  # git reads a file again if the index was written in the second of its change
    worktrees.git(root, "status")
    return root


def write(root: Path, name: str) -> None:
    file = root / f"src/{len(name)}/{name[:3]}" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{name}\n" * 20)


def took(work: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def compared(root: Path) -> tuple[float, float]:
    """`tree_id` and `git status`, measured alternately."""
    status = ["git", "status", "--porcelain=v2"]
    pinned = pinned_now(root)  # as in a session
    pairs = [
        (took(lambda: tree_id(root, pinned)), worktrees.took(status, root)) for _ in range(ROUNDS)
    ]
    return median(first for first, _ in pairs), median(second for _, second in pairs)


def main(folder: Path, files: int = FILES) -> dict[str, float]:
    root = repository(folder, files)
    first = took(lambda: tree_id(root))
    time.sleep(1.1)
    before = tree_id(root)
    clean, clean_status = compared(root)
    for number in range(NEW):
        write(root, f"new {number}.txt")
    new, new_status = compared(root)
    after = tree_id(root)
    differing = median(took(lambda: changes(root, before, after)) for _ in range(ROUNDS))
    return {
        "first": first,
        "clean": clean,
        "clean_status": clean_status,
        "new": new,
        "new_status": new_status,
        "changes": differing,
    }


if __name__ == "__main__":
    os.environ |= {"GIT_CONFIG_COUNT": "1"}
    os.environ |= {"GIT_CONFIG_KEY_0": "init.defaultBranch", "GIT_CONFIG_VALUE_0": "main"}
    where, *files = sys.argv[1:]
    print(json.dumps(main(Path(where).resolve() / "repository", *map(int, files))))
