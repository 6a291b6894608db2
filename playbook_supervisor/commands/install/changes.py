"""The changes that `init` and `update` plan and make to the files of a project.

Both refuse first, then plan, then apply. Files shared with other tools are merged, never replaced.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from playbook_supervisor import __version__
from playbook_supervisor.drivers.claude_code import settings
from playbook_supervisor.drivers.claude_code.marker import SCRIPT
from playbook_supervisor.drivers.claude_code.permissions import plugin_enabled
from playbook_supervisor.errors import StateError, StorageError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.strict_yaml import MAX_BYTES
from playbook_supervisor.formats.versions import is_newer
from playbook_supervisor.project.command_layouts import CLAUDE
from playbook_supervisor.project.install_record import (
    FILE,
    Installation,
    as_fingerprint,
    emit_installation,
    fingerprint,
    read_installation,
)
from playbook_supervisor.project.playbooks import library
from playbook_supervisor.sessions.files.session_clock import system_clock
from playbook_supervisor.system.disk.files import (
    contained,
    ensure_folder,
    read_bytes,
    remove,
    stamp,
    sweep,
    write_atomically,
)

Verb = Literal["write", "keep", "merge", "remove", "conflict"]
Merge = Callable[[bytes], bytes]
"""The client's settings (empty if there is no file) → the same with our entries."""

UP_TO_DATE = "up to date"
WITHOUT_HOOKS = "left alone (--no-hooks)"

ASIDE = ".old"
"""The suffix of a file of other origin, or with changes of its own, that was replaced."""


@dataclass(frozen=True, slots=True)
class Action:
    """The fate of one file; `path` is relative to the repository's top level."""

    path: str
    verb: Verb
    why: str


@dataclass(frozen=True, slots=True)
class FileChange:
    """An action with its data.

    `content` is what to write. `recorded` is the fingerprint that install.yaml holds afterwards,
    empty for a file that is not ours.
    """

    action: Action
    content: bytes = b""
    recorded: str = ""


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """The plan of `init` or `update`; `record` is the new install.yaml, `again` plans anew.

    `merge` is for the client's settings, if they are part of it. `layout` says for which agent
    commands were looked for, and are written.
    """

    root: Path
    files: tuple[FileChange, ...]
    merge: Merge | None
    record: Installation
    again: Callable[[], InstallPlan] = field(repr=False, compare=False)
    layout: str = CLAUDE

    @property
    def actions(self) -> tuple[Action, ...]:
        return tuple(file.action for file in self.files)

    @property
    def changes(self) -> tuple[Action, ...]:
        """The actions that do not keep their file as it is."""
        return tuple(action for action in self.actions if action.verb != "keep")

    @property
    def notable(self) -> tuple[Action, ...]:
        """The changes, and the files that are kept although they are not up to date."""
        return tuple(action for action in self.actions if action.why != UP_TO_DATE)

    def paths(self, verb: Verb) -> tuple[str, ...]:
        return tuple(action.path for action in self.actions if action.verb == verb)


# ── the files that are there ────────────────────────────────────────────────────────────────


def previous_installation(root: Path) -> Installation:
    """The record of what was installed before; empty if nothing was.

    StorageError if our folder's name is taken by something else, StateError PB-STATE-NEWER if a
    later version was installed (one without numbers counts as older than every other), CheckError
    if install.yaml cannot be read.
    """
    if os.path.lexists(root / library.TOP) and not (root / library.TOP).is_dir():
        raise StorageError(
            "PB-IO-WRITE",
            f"{library.TOP} is not a folder",
            where=str(root),
            guidance=f"Move {library.TOP} away, then repeat.",
        )
    record = read_installation(root)
    if is_newer(record.version, than=__version__):
        raise StateError(
            "PB-STATE-NEWER",
            f"playbook {first_line(record.version, 20)} wrote here, and this is {__version__}",
            where=FILE,
        )
    return record


def obstacle(root: Path, path: str) -> str:
    """Why no file can be written there, or empty. StorageError if the path leads out of `root`."""
    contained(root, path)
    for folder in list(Path(path).parents)[-2::-1]:  # top-down, without the top level itself
        if os.path.lexists(root / folder) and not (root / folder).is_dir():
            return f"{folder} is not a folder"
    if os.path.lexists(root / path) and not (root / path).is_file():
        return "it exists and is not a regular file"
    return ""


def current_fingerprint(root: Path, path: str) -> str:
    """The fingerprint of the file as it is now; empty if there is none."""
    found = stamp(root / path)
    return as_fingerprint(found.digest) if found else ""


def current_content(root: Path, path: str) -> bytes:
    """The file's content; empty if there is none."""
    try:
        return read_bytes(contained(root, path), limit=MAX_BYTES)
    except FileNotFoundError:
        return b""


def free_name(root: Path, path: str, data: bytes) -> str:
    """The path for the old content: one that is free, or that has this content already."""
    for number in range(1, 100):
        aside = path + ASIDE + (str(number) if number > 1 else "")
        if current_fingerprint(root, aside) in ("", fingerprint(data)):
            break
    return aside


# ── planning ────────────────────────────────────────────────────────────────────────────────


def deleted(path: str) -> str:
    """Why a file that was deleted is not written."""
    return f"you deleted it; `playbook init --restore {path}` brings it back"


def hooks_by_plugin(root: Path, previous: Installation, said: bool | None) -> bool:
    """True if our plugin brings the hooks, so that none are written unless a person says so."""
    return said is None and not previous.no_hooks and plugin_enabled(root, Path.home())


def merge_of(*, plugin: bool) -> Merge:
    """The way to add our entries to the client's settings: no hooks beside those of our plugin."""
    return settings.with_rules if plugin else settings.merged


def script(
    root: Path, content: bytes, previous: Installation, *, no_hooks: bool, plugin: bool
) -> Iterator[FileChange]:
    """The changes for the script of the hooks, which no person may edit: supervision rests on it.

    One that is deleted is written again, and one that is changed is replaced and kept beside.
    """
    ours, recorded = fingerprint(content), previous.files.get(SCRIPT, "")
    current = current_fingerprint(root, SCRIPT)
    if no_hooks:
        if current or recorded:
            yield FileChange(Action(SCRIPT, "keep", WITHOUT_HOOKS), recorded=recorded)
    elif plugin:
        yield FileChange(Action(SCRIPT, "keep", "your plugin brings the hooks"), recorded=recorded)
    elif why := obstacle(root, SCRIPT):
        yield FileChange(Action(SCRIPT, "conflict", why))
    elif current == ours:
        yield FileChange(Action(SCRIPT, "keep", UP_TO_DATE), recorded=ours)
    elif not current:
        why = "written again: the hooks need it" if recorded else "new"
        yield FileChange(Action(SCRIPT, "write", why), content, ours)
    elif current == recorded:
        yield FileChange(Action(SCRIPT, "write", "new version"), content, ours)
    else:
        data = current_content(root, SCRIPT)
        aside = free_name(root, SCRIPT, data)
        yield FileChange(Action(aside, "write", f"what {SCRIPT} was"), data)
        why = f"it was changed, kept as {Path(aside).name}: sessions need ours"
        yield FileChange(Action(SCRIPT, "write", why), content, ours)


def complete(
    root: Path,
    files: list[FileChange],
    merge: Merge | None,
    record: Installation,
    previous: Installation,
    again: Callable[[], InstallPlan],
) -> InstallPlan:
    """The plan for these files, the client's settings, the index and install.yaml."""
    files += [FileChange(_merge(root, merge, record))] if merge else []
    changed = [file.action.path for file in files if file.action.verb in ("write", "remove")]

    def index_differs() -> bool:
        ours = [path for path in changed if path.startswith(f"{library.FOLDER}/")]
        playbooks = any(path.endswith(".yaml") for path in ours)
        return playbooks or bool(library.index_is_stale(root))

    index = _generated(root, library.INDEX, "regenerated", index_differs)
    written = _generated(root, FILE, "updated", lambda: record != previous)
    files += [FileChange(index), FileChange(written, emit_installation(record))]
    return InstallPlan(root, tuple(files), merge, record, again)


def _merge(root: Path, merge: Merge, record: Installation) -> Action:
    path = settings.FILE
    if record.no_hooks:
        return Action(path, "keep", WITHOUT_HOOKS)
    if why := obstacle(root, path):
        return Action(path, "conflict", why)
    before = current_content(root, path)
    if merge(before) == before:
        return Action(path, "keep", UP_TO_DATE)
    if not (root / path).exists():
        return Action(path, "write", "new")
    return Action(path, "merge", "our entries are added, yours are kept")


def _generated(root: Path, path: str, why: str, differs: Callable[[], bool]) -> Action:
    if hindered := obstacle(root, path):
        return Action(path, "conflict", hindered)
    if not (root / path).exists():
        return Action(path, "write", "new")
    return Action(path, "write", why) if differs() else Action(path, "keep", UP_TO_DATE)


# ── applying ────────────────────────────────────────────────────────────────────────────────


def apply(plan: InstallPlan, now_ms: int | None = None) -> None:
    """Carry the plan out; `now_ms` is the time for the index. Works without commits, too.

    The plan is made again under the lock, so that an edit made since then is not lost. An
    interrupted run can simply be repeated. StorageError before anything is written if the plan
    contains a conflict, or if a file cannot be written.
    """
    _refuse_conflicts(plan)
    if not plan.changes:
        return
    with library.changing(plan.root):
        current = plan.again()
        _refuse_conflicts(current)
        for folder in {(plan.root / path).parent for path in current.record.files}:
            sweep(folder)  # temporary files of a killed run that has nothing more to write there
        for file in current.files:
            _apply(current, file)
    library.write_index(plan.root, system_clock() if now_ms is None else now_ms)


def _refuse_conflicts(plan: InstallPlan) -> None:
    conflicts = [action for action in plan.actions if action.verb == "conflict"]
    if conflicts:
        first, more = conflicts[0], len(conflicts) - 1
        raise StorageError(
            "PB-IO-WRITE",
            f"{first.path} cannot be written: {first.why}" + (f" (and {more} more)" * bool(more)),
            where=str(plan.root),
            guidance="Move it away, then repeat; nothing was written.",
            details=tuple(f"{action.path}: {action.why}" for action in conflicts),
        )


def _apply(plan: InstallPlan, file: FileChange) -> None:
    path, verb = file.action.path, file.action.verb
    if verb in ("write", "merge"):
        data = file.content
        if plan.merge and path == settings.FILE:
            data = plan.merge(current_content(plan.root, path))
        if data:
            _write(plan.root, path, data)
    elif verb == "remove":
        remove(plan.root / path)


def _write(root: Path, path: str, data: bytes) -> None:
    file = contained(root, path)
    ensure_folder(file.parent)
    sweep(file.parent)
    write_atomically(file, data)
