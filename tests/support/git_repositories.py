"""Small git repositories, and git itself, for tests that need no whole project."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(folder: Path, *arguments: str) -> str:
    """What git prints in that folder; a git that fails fails the test."""
    argv = ["git", *arguments]
    done = subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def put(root: Path, path: str, text: str = "new\n") -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def with_a_commit(root: Path, *, ignore: str = "") -> Path:
    root.mkdir()
    git(root, "init", "-q")
    (root / "a.txt").write_text("one\n")
    if ignore:
        (root / ".gitignore").write_text(ignore)
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    return root
