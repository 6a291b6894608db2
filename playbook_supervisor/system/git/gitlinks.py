"""Repositories in a checkout that its git enters by itself: submodules, and what looks like one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.git.git_process import ask

_MODE = 0o160000
_IN_INDEX = _MODE.to_bytes(4, "big")


def entered(here: Checkout) -> Iterator[Path]:
    """The folders that `git status` enters, also those in others; what cannot be read has none."""
    if not _any(here.git_dir):
        return
    with suppress(PlaybookError):
        for line in ask(here.root, "ls-files", "--stage", "-z").split("\0")[:-1]:
            if not line.startswith(f"{_MODE:o} "):
                continue
            folder = here.root / line.partition("\t")[2]
            yield folder
            inner = checkout.find(folder) if folder.is_dir() and not folder.is_symlink() else here
            if inner.root == folder:
                yield from entered(inner)


def _any(git_dir: Path) -> bool:
    for file in (git_dir / "index", *git_dir.glob("sharedindex.*")):
        with suppress(OSError):
            if _IN_INDEX in file.read_bytes():
                return True
    return False
