"""A small project for each runner of tests: `add` is wrong at the beginning, and a test says so.

A second file with tests, which are right, stands for the rest of a project.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.git_repositories import git, put

MODULES = Path(sys.prefix) / "node-runners" / "node_modules"
"""Where vitest and jest are, since tests have no network: `make .venv/node-runners`."""

Link = Path
"""A change that replaces a file by a link to this path."""
Changes = Mapping[str, str | bytes | Link | None]
"""The new text of files; None removes one. A text that begins with `#!` is a program."""


@dataclass(frozen=True)
class RunnerProject:
    """A project whose `files` are tested by `argv`.

    `source` holds `add`, with the text `wrong` at the beginning and `right` after an honest fix;
    `test` holds its `tests`. `needs` are programs and paths without which nothing can be tried. The
    check's set-up is `setup`, and runs again when `inputs` change. `cheats` leave `add` wrong, and
    `honest` work makes it right; both by their names.
    """

    name: str
    argv: tuple[str, ...]
    source: str
    wrong: str
    right: str
    test: str
    tests: str
    files: Mapping[str, str]
    needs: tuple[str, ...] = ()
    setup: tuple[tuple[str, ...], ...] = ()
    inputs: tuple[str, ...] = ()
    cheats: Mapping[str, Changes] = field(default_factory=dict)
    honest: Mapping[str, Changes] = field(default_factory=dict)

    def begin(self, root: Path) -> Path:
        """Make the project as it is at the beginning. Skips the test if a program is missing."""
        for program in self.needs:
            if not (shutil.which(program) or Path(program).exists()):
                pytest.skip(f"needs {Path(program).name}")
        root.mkdir()
        git(root, "init", "-q")
        change(root, {self.source: self.wrong, self.test: self.tests, **self.files})
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", "begin")
        return root


def change(root: Path, changes: Changes) -> None:
    for path, text in changes.items():
        file = root / path
        if text is None or file.is_symlink() or isinstance(text, Path):
            file.unlink(missing_ok=True)
        if isinstance(text, Path):
            file.symlink_to(text)
        elif isinstance(text, bytes):
            put(root, path, "")
            file.write_bytes(text)
        elif text is not None:
            put(root, path, text)
            if text.startswith("#!"):
                file.chmod(0o755)


def begin_again(root: Path) -> None:
    git(root, "reset", "-q", "--hard")
    git(root, "clean", "-q", "-ffdx")


def edited(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


PASSING = "#!/bin/sh\nexit 0\n"
"""A program that stands for a runner."""
