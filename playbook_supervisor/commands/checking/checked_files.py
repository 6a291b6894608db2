"""The files that a person means by the words after `playbook check`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.errors import ArgumentError, StateError
from playbook_supervisor.project.playbooks import library, yaml_folder
from playbook_supervisor.system.git import checkout

NAMES = "The name of a playbook ends in .yaml, .yml or .json, or in .md with lowercase before it."
"""What tells a playbook among other files."""
_SINGLE = ("config.yaml", "_index.yaml")


def named_files(words: Sequence[str]) -> Iterator[str]:
    """The file, the files of the folder, or the playbook of that name, for each word.

    A path that does not exist stands for itself. ArgumentError PB-ARG-PLAYBOOK for the name of no
    playbook; StateError, StorageError.
    """
    for word in words:
        if Path(word).is_dir():
            yield from _in_folder(Path(word))
        elif os.path.lexists(word) or "/" in word or "." in word:
            yield word
        else:
            yield os.path.relpath(library.find(_root(), word).file)


def project_files() -> tuple[str, ...]:
    """Every playbook, policy and template of the project, its settings and its index.

    StateError PB-STATE-NO-REPOSITORY, PB-STATE-NOT-INITIALISED; ArgumentError if there is nothing.
    """
    root = _root()
    if not (root / library.TOP).is_dir():
        raise StateError(
            "PB-STATE-NOT-INITIALISED", f"{root} has no {library.TOP}/", where=str(root)
        )
    found = tuple(map(os.path.relpath, _of_project(root / library.TOP)))
    return found or tuple(_in_folder(root / library.TOP))


def passed_over() -> tuple[str, ...]:
    """The names of the files among the playbooks that are not read as one. StateError."""
    return library.passed_over(_root())


def _root() -> Path:
    return checkout.find(locate.current_folder()).root


def _in_folder(folder: Path) -> Iterator[str]:
    if (folder / library.TOP).is_dir():
        folder = folder / library.TOP
    files = [*_of_project(folder)] if folder.absolute().name == library.TOP else []
    files = files or [folder / name for name in library.file_names(folder)]
    if not files:
        raise ArgumentError(
            "PB-ARG-INVALID",
            f"there is nothing to check in the folder {folder}",
            guidance="Write a playbook there (docs/playbook-authoring.md), or name another folder.",
        )
    yield from map(str, files)


def _of_project(top: Path) -> Iterator[Path]:
    yield from (top / "playbooks" / name for name in library.file_names(top / "playbooks"))
    for folder in ("policies", "templates"):
        yield from (top / folder / name for name in yaml_folder.names(top / folder))
    yield from (top / name for name in _SINGLE if os.path.lexists(top / name))
