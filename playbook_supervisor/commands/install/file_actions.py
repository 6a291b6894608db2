"""What stands at a place in somebody's project, and what may be put there.

An installation and an update are lists of actions, one for each file. Files that others keep, too,
are handed to whoever knows how to merge into them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from playbook_supervisor.errors import StorageError
from playbook_supervisor.formats.strict_yaml import MAX_BYTES
from playbook_supervisor.project import library
from playbook_supervisor.project.install_record import (
    FILE,
    Installation,
    as_fingerprint,
    read_installation,
    refuse_downgrade,
)
from playbook_supervisor.records import Record
from playbook_supervisor.system.files import (
    contained,
    ensure_folder,
    read_bytes,
    stamp,
    sweep,
    write_atomically,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Verb = Literal["write", "keep", "merge", "remove", "conflict"]
    Merge = Callable[[bytes], bytes]
    """What a file holds (nothing where there is none) → the same with ours in it."""


class Action(Record):
    """What happens to one file; `path` from the repository's top, `why` half a sentence."""

    path: str
    verb: Verb
    why: str


# ── looking ─────────────────────────────────────────────────────────────────────────────────


def past(root: Path) -> Installation:
    """What was installed there, an empty one where nothing was; refuses where nothing may be.

    StorageError where something else stands in the place of our own folder; StateError
    PB-STATE-NEWER where a later version was at work; CheckError where install.yaml cannot be read.
    """
    if os.path.lexists(root / library.TOP) and not (root / library.TOP).is_dir():
        raise StorageError(
            "PB-IO-WRITE",
            f"{library.TOP} is no folder, and has to be one",
            where=str(root),
            guidance=f"Move {library.TOP} away, then repeat.",
        )
    made = read_installation(root)
    refuse_downgrade(made)
    return made


def obstacle(root: Path, path: str) -> str:
    """Why no file can stand there; empty where one can. StorageError if the path leads out."""
    contained(root, path)
    for folder in list(Path(path).parents)[-2::-1]:  # from the top, without the top itself
        if os.path.lexists(root / folder) and not (root / folder).is_dir():
            return f"{folder} is no folder"
    if os.path.lexists(root / path) and not (root / path).is_file():
        return "what stands there is no file"
    return ""


def standing(root: Path, path: str) -> str:
    """The fingerprint of the file that stands there; empty where there is none."""
    found = stamp(root / path)
    return as_fingerprint(found.digest) if found else ""


def content(root: Path, path: str) -> bytes:
    """What the file holds that stands there; nothing where there is none."""
    try:
        return read_bytes(contained(root, path), limit=MAX_BYTES)
    except FileNotFoundError:
        return b""


def merging(root: Path, path: str, merge: Merge) -> Action:
    """What happens to a file that others keep, too."""
    if hindrance := obstacle(root, path):
        return Action(path, "conflict", hindrance)
    before = content(root, path)
    if merge(before) == before:
        return Action(path, "keep", "up to date")
    if not (root / path).exists():
        return Action(path, "write", "new")
    return Action(path, "merge", "ours comes in, whatever stands there stays")


def sharing(root: Path, merges: Mapping[str, Merge], *, no_hooks: bool) -> list[Action]:
    """What happens to all files that others keep, too: nothing with `no_hooks`."""
    if no_hooks:
        return [Action(path, "keep", "left alone (--no-hooks)") for path in merges]
    return [merging(root, path, merge) for path, merge in merges.items()]


def recording(root: Path, *, changed: bool) -> Action:
    """What happens to install.yaml, which is to say something else if `changed`."""
    if hindrance := obstacle(root, FILE):
        return Action(FILE, "conflict", hindrance)
    if not (root / FILE).exists():
        return Action(FILE, "write", "new")
    if changed:
        return Action(FILE, "write", "brought up to date")
    return Action(FILE, "keep", "up to date")


def indexing(root: Path, actions: Iterable[Action]) -> Action:
    """What happens to the index once these actions are done."""
    if hindrance := obstacle(root, library.INDEX):
        return Action(library.INDEX, "conflict", hindrance)
    if not (root / library.INDEX).exists():
        return Action(library.INDEX, "write", "new")
    moved = any(each.verb in ("write", "remove") and _is_playbook(each.path) for each in actions)
    if moved or library.index_is_stale(root):
        return Action(library.INDEX, "write", "generated again")
    return Action(library.INDEX, "keep", "up to date")


def _is_playbook(path: str) -> bool:
    return path.startswith(f"{library.FOLDER}/") and path.endswith(".yaml")


# ── doing ───────────────────────────────────────────────────────────────────────────────────


def refuse_conflicts(root: Path, actions: Iterable[Action]) -> None:
    """StorageError that names the first of them, and lists them all; nothing is written then."""
    conflicts = [action for action in actions if action.verb == "conflict"]
    if conflicts:
        first, more = conflicts[0], len(conflicts) - 1
        raise StorageError(
            "PB-IO-WRITE",
            f"{first.path} cannot be written: {first.why}" + (f" (and {more} more)" * bool(more)),
            where=str(root),
            guidance="Move it away, then repeat; nothing was written.",
            details=tuple(f"{action.path}: {action.why}" for action in conflicts),
        )


def put(root: Path, path: str, data: bytes) -> None:
    """Write the file, folders included; a symbolic link is followed, not replaced."""
    file = contained(root, path)
    ensure_folder(file.parent)
    sweep(file.parent)
    write_atomically(file, data)


def merge_into(root: Path, path: str, merge: Merge) -> None:
    """Into what stands there by now; a symbolic link is followed, not replaced."""
    before = content(root, path)
    if (after := merge(before)) != before:
        put(root, path, after)
