"""The files that `playbook check` is given or finds, and what it says of a whole project."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.errors import ArgumentError, PlaybookError, StateError
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.project.playbooks import library
from playbook_supervisor.project.settings import config
from playbook_supervisor.sessions.store.session_changes import never_committed
from playbook_supervisor.system.git import checkout, git_process

NAMES = "The name of a playbook ends in .yaml, .yml or .json, or in .md with lowercase before it."
"""The sentence about the names of playbooks."""
_NO_PLAYBOOK = Problem(
    library.FOLDER,
    (1, 1),
    "warning",
    "PB-ARG-PLAYBOOK",
    "there is no playbook",
    "Write one there; `playbook init` can begin with one of ours.",
)
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


def problems(files: Iterable[str]) -> Iterator[Problem]:
    """Problems of the project as a whole, not of one of its files."""
    for name in passed_over():
        said = f"`{name}` is not read"
        yield Problem(library.FOLDER, (1, 1), "note", "PB-ARG-PLAYBOOK", said, NAMES)
    if not any(Path(each).parent.name == "playbooks" for each in files):
        yield _NO_PLAYBOOK
    root = _root()
    with suppress(PlaybookError):  # of settings that are not valid more is said above
        if found := never_committed(root, config.load(root)):
            yield Problem(git_process.SESSIONS_FOLDER, (1, 1), "warning", "PB-GIT-COMMIT", *found)


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
            guidance="Write a playbook there (`playbook help authoring`), or name another folder.",
        )
    yield from map(str, files)


def _of_project(top: Path) -> Iterator[Path]:
    yield from (top / "playbooks" / name for name in library.file_names(top / "playbooks"))
    for folder in ("policies", "templates"):
        yield from (top / folder / name for name in library.file_names_in(top / folder))
    yield from (top / name for name in _SINGLE if os.path.lexists(top / name))
