"""`playbook init`: refuse first, then plan, then apply (kai FR42, NFR11).

What is not ours is never overwritten, what a user deleted is not brought back, and install.yaml
comes last: an installation that was interrupted is simply repeated. Files that others keep, too,
are handed to whoever knows how to merge into them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from playbook_supervisor import __version__, checkout, config, features, library, templates
from playbook_supervisor.errors import ArgumentError, StorageError
from playbook_supervisor.files import (
    contained,
    ensure_folder,
    read_bytes,
    stamp,
    sweep,
    write_atomically,
)
from playbook_supervisor.installation import (
    FILE,
    Installation,
    as_fingerprint,
    emit_installation,
    fingerprint,
    read_installation,
)
from playbook_supervisor.records import Record
from playbook_supervisor.schema import read_playbook, schema_text
from playbook_supervisor.slash_commands import Shelf
from playbook_supervisor.strict_yaml import MAX_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Literal

    Verb = Literal["write", "keep", "merge", "conflict"]
    Merge = Callable[[bytes], bytes]
    """What a file holds (nothing where there is none) → the same with ours in it."""

PLAYBOOKS: Final = ("auto-feature", "auto-speckit", "auto-validate")
"""Those that ship, the one that does most first."""
COMMANDS: Final = tuple(
    f"playbook.{name}" for name in ("run", "resume", "status", "list", "pause", "abort", "create")
)
"""The slash commands that ship."""


class Action(Record):
    """What happens to one file; `path` from the repository's top, `why` half a sentence."""

    path: str
    verb: Verb
    why: str


class Plan(Record):
    """What an installation would do, file by file, and what to type after it.

    `merges` are the files that others keep, too; with `no_hooks` they are left alone.
    """

    root: Path
    actions: tuple[Action, ...]
    next_command: str
    merges: Mapping[str, Merge]
    no_hooks: bool

    def paths(self, verb: Verb) -> tuple[str, ...]:
        """The files to which this happens."""
        return tuple(action.path for action in self.actions if action.verb == verb)


# ── planning ────────────────────────────────────────────────────────────────────────────────


def plan(
    root: Path, merges: Mapping[str, Merge] | None = None, *, no_hooks: bool | None = None
) -> Plan:
    """What is to be done in the repository that the folder `root` lies in. Writes nothing.

    `merges` says for each file that others keep, too, how ours comes into it. `no_hooks` leaves
    those files alone, and is remembered: None is what was said last.
    StateError PB-STATE-NO-REPOSITORY outside of one; StorageError where `.playbooks` is no folder
    or a symbolic link leads out; CheckError where install.yaml, config.yaml or a file to merge
    into cannot be read.
    """
    here = checkout.find(root)
    if os.path.lexists(here.root / library.TOP) and not (here.root / library.TOP).is_dir():
        raise StorageError(
            "PB-IO-WRITE",
            f"{library.TOP} is no folder, and has to be one",
            where=str(here.root),
            guidance=f"Move {library.TOP} away, then repeat.",
        )
    shipped, past = _shipped(), read_installation(here.root)
    without = past.no_hooks if no_hooks is None else no_hooks
    actions = [_action(here.root, path, shipped[path], past) for path in shipped]
    for path, merge in (merges or {}).items():
        left = Action(path, "keep", "left alone (--no-hooks)")
        actions.append(left if without else _merging(here.root, path, merge))
    actions.append(_index(here.root, actions))
    actions.append(_record(here.root, actions, shipped, past, without))
    return Plan(here.root, tuple(actions), _next_command(here), merges or {}, without)


def _shipped() -> dict[str, bytes]:
    """Every file that an installation consists of, by its place in the project."""
    folder = templates.folder()
    files = {
        f"{library.FOLDER}/{name}.yaml": read_bytes(folder / "playbooks" / f"{name}.yaml")
        for name in PLAYBOOKS
    }
    files[f"{library.TOP}/templates/playbook.tpl.yaml"] = read_bytes(folder / "playbook.tpl.yaml")
    files[f"{library.TOP}/playbook.schema.json"] = schema_text("playbook").encode()
    for name in COMMANDS:
        command = read_bytes(folder / "commands" / f"{name}.md")
        files[f".claude/commands/{name}.md"] = command
    return files


def _action(root: Path, path: str, content: bytes, past: Installation) -> Action:
    if obstacle := _obstacle(root, path):
        return Action(path, "conflict", obstacle)
    standing = _standing(root, path)
    if standing == fingerprint(content):
        return Action(path, "keep", "as it is shipped")
    if not standing and path in past.files:
        return Action(path, "keep", f"deleted by you; take it out of {FILE} to have it again")
    if not standing:
        return Action(path, "write", "new")
    if standing == past.files.get(path):
        return Action(path, "keep", "as an earlier version wrote it")
    return Action(path, "keep", "yours, kept")


def _merging(root: Path, path: str, merge: Merge) -> Action:
    if obstacle := _obstacle(root, path):
        return Action(path, "conflict", obstacle)
    standing = _content(root, path)
    if merge(standing) == standing:
        return Action(path, "keep", "up to date")
    if not (root / path).exists():
        return Action(path, "write", "new")
    return Action(path, "merge", "ours comes in, whatever stands there stays")


def _content(root: Path, path: str) -> bytes:
    try:
        return read_bytes(contained(root, path), limit=MAX_BYTES)
    except FileNotFoundError:
        return b""


def _obstacle(root: Path, path: str) -> str:
    """Why no file can stand there; empty where one can. StorageError if the path leads out."""
    contained(root, path)
    for folder in list(Path(path).parents)[-2::-1]:  # from the top, without the top itself
        if os.path.lexists(root / folder) and not (root / folder).is_dir():
            return f"{folder} is no folder"
    if os.path.lexists(root / path) and not (root / path).is_file():
        return "what stands there is no file"
    return ""


def _standing(root: Path, path: str) -> str:
    """The fingerprint of the file that stands there; empty where there is none."""
    found = stamp(root / path)
    return as_fingerprint(found.digest) if found else ""


def _index(root: Path, actions: list[Action]) -> Action:
    if obstacle := _obstacle(root, library.INDEX):
        return Action(library.INDEX, "conflict", obstacle)
    if not (root / library.INDEX).exists():
        return Action(library.INDEX, "write", "new")
    comes = any(each.verb == "write" and _is_playbook(each.path) for each in actions)
    if comes or library.index_is_stale(root):
        return Action(library.INDEX, "write", "generated again")
    return Action(library.INDEX, "keep", "up to date")


def _is_playbook(path: str) -> bool:
    return path.startswith(f"{library.FOLDER}/")


def _record(
    root: Path,
    actions: list[Action],
    shipped: Mapping[str, bytes],
    past: Installation,
    no_hooks: bool,
) -> Action:
    if obstacle := _obstacle(root, FILE):
        return Action(FILE, "conflict", obstacle)
    if not (root / FILE).exists():
        return Action(FILE, "write", "new")
    coming = {action.path for action in actions if action.verb == "write"}
    if coming & shipped.keys() or _present(root, shipped, past, no_hooks) != past:
        return Action(FILE, "write", "brought up to date")
    return Action(FILE, "keep", "up to date")


def _present(
    root: Path, shipped: Mapping[str, bytes], past: Installation, no_hooks: bool
) -> Installation:
    """The record of what stands there as shipped, and of what once did."""
    files = {
        path: fingerprint(content)
        for path, content in shipped.items()
        if _standing(root, path) == fingerprint(content)
    }
    if past.version and files.items() <= past.files.items() and no_hooks == past.no_hooks:
        return past
    return Installation(__version__, {**past.files, **files}, no_hooks)


# ── applying ────────────────────────────────────────────────────────────────────────────────


def apply(plan: Plan, now_ms: int) -> None:
    """Carry the plan out; what stands in its way by now is kept. Needs no commit to exist.

    `now_ms`, ms since the epoch, is the time in the index. StorageError: before anything is
    written if the plan holds a conflict, else where a file could not be written.
    """
    _refuse_conflicts(plan)
    writes = (*plan.paths("write"), *plan.paths("merge"))
    shipped = _shipped()
    if not writes:
        return
    with library.changing(plan.root):
        for path in writes:
            if path in shipped:
                _write_new(plan.root, path, shipped[path])
            elif path in plan.merges:
                _merge_into(plan.root, path, plan.merges[path])
    library.write_index(plan.root, now_ms)
    with library.changing(plan.root):
        past = read_installation(plan.root)
        present = _present(plan.root, shipped, past, plan.no_hooks)
        if present != past:
            write_atomically(plan.root / FILE, emit_installation(present))


def _refuse_conflicts(plan: Plan) -> None:
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


def _write_new(root: Path, path: str, content: bytes) -> None:
    file = contained(root, path)
    ensure_folder(file.parent)
    sweep(file.parent)
    if not os.path.lexists(root / path):
        write_atomically(file, content)


def _merge_into(root: Path, path: str, merge: Merge) -> None:
    """Into what stands there by now; a symbolic link is followed, not replaced."""
    file = contained(root, path)
    ensure_folder(file.parent)
    sweep(file.parent)
    standing = _content(root, path)
    if (now := merge(standing)) != standing:
        write_atomically(file, now)


# ── what to type next ───────────────────────────────────────────────────────────────────────


def _next_command(here: checkout.Checkout) -> str:
    """A run of the shipped playbook that fits the installed commands, on a feature that exists.

    Where none fits, the check that says which commands are missing.
    """
    fitting = next(_fitting(here.root), "")
    if not fitting:
        return f"playbook check {library.FOLDER}/{PLAYBOOKS[0]}.yaml"
    return f"playbook run {fitting} {_feature(here)}"


def _fitting(root: Path) -> Iterator[str]:
    shelf = Shelf(root, home=Path.home())
    for name in PLAYBOOKS:
        file = templates.folder() / "playbooks" / f"{name}.yaml"
        steps = read_playbook(read_bytes(file), file.name).steps
        found = [shelf.resolve(step.command) for step in steps]
        if all(command is not None and not command.closed for command in found):
            yield name


def _feature(here: checkout.Checkout) -> str:
    """The branch's own, else the latest that is specified, as short as it can be typed."""
    settings = config.load(here.root)
    specified = [spec.parent.name for spec in (here.root / settings.specs).glob("*/spec.md")]
    names = sorted(name for name in specified if features.is_name(name))
    if not names:
        return "FEATURE"
    name = here.branch if here.branch in names else names[-1]
    number = name.partition("-")[0]
    with suppress(ArgumentError):
        if features.resolve(here.root, number, settings, tuple).name == name:
            return number
    return name
