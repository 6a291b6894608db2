"""`playbook init`: refuse first, then plan, then apply (kai FR42, NFR11).

What is not ours is never overwritten, what a user deleted is not brought back, and install.yaml
comes last: an installation that was interrupted is simply repeated. Files that others keep, too,
are handed to whoever knows how to merge into them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from playbook_supervisor import __version__
from playbook_supervisor.commands.install import file_actions, shipped_files
from playbook_supervisor.commands.install.file_actions import Action, obstacle, standing
from playbook_supervisor.commands.install.shipped_files import COMMANDS as COMMANDS
from playbook_supervisor.commands.install.shipped_files import PLAYBOOKS as PLAYBOOKS
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.project import config, features, library
from playbook_supervisor.project.install_record import (
    FILE,
    Installation,
    emit_installation,
    fingerprint,
    read_installation,
)
from playbook_supervisor.project.schema import read_playbook
from playbook_supervisor.project.slash_commands import CommandIndex
from playbook_supervisor.records import Record
from playbook_supervisor.system import checkout, templates
from playbook_supervisor.system.files import read_bytes, write_atomically

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.commands.install.file_actions import Merge, Verb


class InstallPlan(Record):
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
) -> InstallPlan:
    """What is to be done in the repository that the folder `root` lies in. Writes nothing.

    `merges` says for each file that others keep, too, how ours comes into it. `no_hooks` leaves
    those files alone, and is remembered: None is what was said last.
    StateError PB-STATE-NO-REPOSITORY outside of one; StorageError where `.playbooks` is no folder
    or a symbolic link leads out; CheckError where install.yaml, config.yaml or a file to merge
    into cannot be read.
    """
    here = checkout.find(root)
    past, shipped = file_actions.past(here.root), shipped_files.files(here.root)
    without = past.no_hooks if no_hooks is None else no_hooks
    actions = [_action(here.root, path, shipped[path], past) for path in shipped]
    actions += file_actions.sharing(here.root, merges or {}, no_hooks=without)
    actions.append(file_actions.indexing(here.root, actions))
    coming = {action.path for action in actions if action.verb == "write"} & shipped.keys()
    changed = bool(coming) or _present(here.root, shipped, past, without) != past
    actions.append(file_actions.recording(here.root, changed=changed))
    return InstallPlan(here.root, tuple(actions), _next_command(here), merges or {}, without)


def _action(root: Path, path: str, content: bytes, past: Installation) -> Action:
    if hindrance := obstacle(root, path):
        return Action(path, "conflict", hindrance)
    there = standing(root, path)
    if there == fingerprint(content):
        return Action(path, "keep", "as it is shipped")
    if not there and path in past.files:
        return Action(path, "keep", f"deleted by you; take it out of {FILE} to have it again")
    if not there:
        return Action(path, "write", "new")
    if there == past.files.get(path):
        return Action(path, "keep", "as an earlier version wrote it; see `playbook update`")
    return Action(path, "keep", "yours, kept")


def _present(
    root: Path, shipped: Mapping[str, bytes], past: Installation, no_hooks: bool
) -> Installation:
    """The record of what stands there as shipped, and of what once did."""
    files = {
        path: fingerprint(content)
        for path, content in shipped.items()
        if standing(root, path) == fingerprint(content)
    }
    if past.version and files.items() <= past.files.items() and no_hooks == past.no_hooks:
        return past
    return Installation(__version__, {**past.files, **files}, no_hooks)


# ── applying ────────────────────────────────────────────────────────────────────────────────


def apply(plan: InstallPlan, now_ms: int) -> None:
    """Carry the plan out; what stands in its way by now is kept. Needs no commit to exist.

    `now_ms`, ms since the epoch, is the time in the index. StorageError: before anything is
    written if the plan holds a conflict, else where a file could not be written.
    """
    file_actions.refuse_conflicts(plan.root, plan.actions)
    writes = (*plan.paths("write"), *plan.paths("merge"))
    shipped = shipped_files.files(plan.root)
    if not writes:
        return
    with library.changing(plan.root):
        for path in writes:
            if path in shipped:
                _write_new(plan.root, path, shipped[path])
            elif path in plan.merges:
                file_actions.merge_into(plan.root, path, plan.merges[path])
    library.write_index(plan.root, now_ms)
    with library.changing(plan.root):
        past = read_installation(plan.root)
        present = _present(plan.root, shipped, past, plan.no_hooks)
        if present != past:
            write_atomically(plan.root / FILE, emit_installation(present))


def _write_new(root: Path, path: str, content: bytes) -> None:
    if not os.path.lexists(root / path):
        file_actions.put(root, path, content)


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
    shelf = CommandIndex(root, home=Path.home())
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
