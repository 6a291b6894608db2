"""`playbook import`: writes the playbook that a file of another system is read as."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.errors import ArgumentError, StateError
from playbook_supervisor.formats.sanitize import first_line, printable
from playbook_supervisor.formats.strict_yaml import MAX_BYTES
from playbook_supervisor.formats.yaml_writer import yaml_text
from playbook_supervisor.kernel.model import CHECKPOINT, Playbook
from playbook_supervisor.project.playbooks import library
from playbook_supervisor.project.playbooks.schema import examine_translation, required
from playbook_supervisor.project.playbooks.translation import Translation, translate
from playbook_supervisor.sessions.files.session_clock import system_clock
from playbook_supervisor.system.disk.files import ensure_folder, read_bytes, write_atomically
from playbook_supervisor.system.git import checkout

_SCHEMA = "# yaml-language-server: $schema=../playbook.schema.json"


@dataclass(frozen=True, slots=True)
class Import:
    """The file that was written; `written` is empty for a playbook of ours, which needs no import.

    `notes` say what was translated, `decisions` what a person should decide now.
    """

    file: str
    written: str
    notes: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()


def import_file(
    file: str, *, target: str = "", force: bool = False, cwd: Path | None = None
) -> Import:
    """Write the playbook that `file` is read as to `target`.

    Without `target` it is `.playbooks/playbooks/NAME.yaml` of this project, and the index is
    updated. CheckError PB-CHECK-INVALID if the file cannot be translated, ArgumentError
    PB-ARG-INVALID if something is at the target already and `force` is not set, StorageError;
    StateError where there is no project.
    """
    here = cwd or locate.current_folder()
    try:
        data = read_bytes(here / file, limit=MAX_BYTES)
    except FileNotFoundError:
        raise ArgumentError("PB-ARG-PLAYBOOK", f"there is no file {first_line(file)}") from None
    translation = translate(data, file)
    playbook = required(*examine_translation(translation))
    if not translation.kind:
        return Import(file, "")
    root = None if target else checkout.find(here).root
    path = here / target if root is None else root / library.FOLDER / f"{playbook.name}.yaml"
    if root and not (root / library.TOP).is_dir():
        raise StateError(
            "PB-STATE-NOT-INITIALISED", f"{root} has no {library.TOP}/", where=str(root)
        )
    shown = os.path.relpath(path, here)
    if os.path.lexists(path) and not force:
        raise ArgumentError(
            "PB-ARG-INVALID",
            f"{shown} exists already",
            guidance="Name another file with --output, or replace this one with --force.",
        )
    notes = tuple(
        f"line {each.line}: {first_line(each.sentences, 300)}"
        for each in sorted(translation.problems[1:], key=lambda each: each.position)
    )
    decisions = tuple(_decisions(playbook, here / file, path))
    ensure_folder(path.parent)
    write_atomically(path, _text(translation, notes, decisions).encode())
    if root:
        library.write_index(root, system_clock())
    return Import(file, shown, notes, decisions)


def _decisions(playbook: Playbook, file: Path, path: Path) -> list[str]:
    unseen = [
        step.id
        for step in playbook.steps
        if not (step.postconditions or step.outputs or step.namespace == CHECKPOINT)
    ]
    found = ["autonomy: `auto` lets a step run unasked; `gate_always` asks before it"]
    if unseen:
        found.append(f"postconditions: none say when these are done: {', '.join(unseen)}")
    if file.resolve().parent == path.resolve().parent and file.name != path.name:
        found.append(f"remove {printable(file.name)}: two files with one name cannot be run")
    return found


def _text(translation: Translation, notes: tuple[str, ...], decisions: tuple[str, ...]) -> str:
    data = translation.document.data
    origin = f"Imported from {translation.kind}: {translation.document.source}"
    comments = [origin, *notes, "To decide:", *decisions]
    lines = [_SCHEMA, "#", *(f"# {printable(first_line(each, 400))}" for each in comments), ""]
    return "\n".join(lines) + (yaml_text(data) if isinstance(data, dict) else "")
