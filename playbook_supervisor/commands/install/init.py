"""`playbook init`: install playbooks, commands and settings in a project.

Files of other origin are overwritten only on request, and then kept beside. Files that a user
deleted are restored only on request.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from playbook_supervisor import __version__
from playbook_supervisor.agents import registry
from playbook_supervisor.commands import locate
from playbook_supervisor.commands.install import changes, shipped
from playbook_supervisor.commands.install.changes import Action, FileChange, InstallPlan
from playbook_supervisor.commands.install.proposals import Proposal, check_change
from playbook_supervisor.commands.install.shipped import command_file
from playbook_supervisor.commands.install.survey import Survey, foreign_commands, survey
from playbook_supervisor.drivers.claude_code import settings
from playbook_supervisor.drivers.claude_code.marker import SCRIPT
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.sanitize import first_line, suggestion
from playbook_supervisor.project.command_layouts import CLAUDE, LAYOUTS
from playbook_supervisor.project.install_record import (
    FILE,
    Installation,
    fingerprint,
    read_installation,
)
from playbook_supervisor.project.playbooks import library
from playbook_supervisor.project.settings import config
from playbook_supervisor.records import replace
from playbook_supervisor.system.disk.files import read_bytes
from playbook_supervisor.system.git import checkout

_ALWAYS_WRITTEN = frozenset({settings.FILE, SCRIPT, library.INDEX, FILE})
"""The files that every `init` writes if they are missing, also without `--restore`."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of a person.

    `no_hooks` leaves the shared files alone and is remembered; None means what was chosen last.
    `replace` replaces foreign files under the names of our commands, and keeps them beside.
    `commands` installs those of our feature commands that the project lacks. `restore` are the
    paths of deleted files to bring back, relative to the repository. `check` is the project's test
    command, to be added to config.yaml. `agent` is the agent for which commands are installed.
    """

    no_hooks: bool | None = None
    replace: bool = False
    commands: bool = False
    restore: tuple[str, ...] = ()
    check: Proposal | None = None
    agent: str = ""


def plan(
    cwd: Path | None = None, *, choices: Choices = Choices(), shared: bool = True
) -> InstallPlan:
    """The plan of `init` in the repository of `cwd`; without the client's settings unless `shared`.

    StateError PB-STATE-NO-REPOSITORY outside of a repository; StorageError if `.playbooks` is not
    a folder or a symbolic link leads out; CheckError if install.yaml, config.yaml or the settings
    cannot be read; ArgumentError if a file to restore is not shipped or not deleted, or as for
    `layout_of`.
    """
    folder = cwd or locate.current_folder()
    here = checkout.find(folder)
    restore = tuple(_from_top(path, folder, here.root) for path in choices.restore)
    return _Plan(here, replace(choices, restore=restore)).made(shared=shared)


apply = changes.apply


def look(planned: InstallPlan) -> Survey:
    """The project as it is once the plan is carried out."""
    changing = [each.path for each in planned.changes]
    return survey(checkout.find(planned.root), changing, planned.layout)


def _from_top(path: str, folder: Path, root: Path) -> str:
    from_here = os.path.relpath(folder.resolve() / path, root)
    return from_here if from_here in shipped.files() else os.path.normpath(path)


class _Plan:
    def __init__(self, here: checkout.Checkout, choices: Choices) -> None:
        self._here, self._root, self._choices = here, here.root, choices
        self._previous = changes.previous_installation(here.root)
        self._shipped = shipped.files()
        self._layout = layout_of(here.root, choices.agent)
        self._restored = [self._deleted(path) for path in choices.restore]
        self._foreign = foreign_commands(here.root)
        said = choices.no_hooks
        self._without = self._previous.no_hooks if said is None else said
        self._plugin = changes.hooks_by_plugin(here.root, self._previous, said)

    def made(self, *, shared: bool) -> InstallPlan:
        previous, choices = self._previous, self._choices
        files = [change for path in self._wanted() for change in self._changes(path)]
        if choices.check:
            files.append(check_change(self._root, choices.check))
        recorded = {file.action.path: file.recorded for file in files if file.recorded}
        without = self._without
        record = Installation(__version__, {**previous.files, **recorded}, without)
        if previous.version and (record.files, without) == (previous.files, previous.no_hooks):
            record = previous
        again = partial(plan, self._root, choices=choices, shared=shared)
        merge = changes.merge_of(plugin=self._plugin) if shared else None
        planned = changes.complete(self._root, files, merge, record, previous, again)
        return replace(planned, layout=self._layout)

    def _wanted(self) -> Iterator[str]:
        found = survey(self._here, (), self._layout)
        asked = set(self._restored)
        if self._choices.commands:
            asked |= {command_file(command[1:], self._layout) for command in found.offered}
            self._restored += asked
        settled = {config.FILE} if self._choices.check else set()
        fitting = survey(self._here, asked | settled, self._layout).fitting
        asked |= set(map(shipped.playbook_file, fitting))
        for path, content in self._shipped.items():
            if path not in shipped.OPTIONAL or path in asked or self._is_known(path, content):
                yield path

    def _is_known(self, path: str, content: bytes) -> bool:
        if path in self._previous.files:
            return True
        if path in shipped.PLAYBOOK_FILES:
            return os.path.lexists(self._root / path)
        return changes.current_fingerprint(self._root, path) == fingerprint(content)

    def _deleted(self, path: str) -> str:
        if path not in self._shipped and path not in _ALWAYS_WRITTEN:
            named = [each for each in self._shipped if path in (Path(each).name, Path(each).stem)]
            meant = f"; did you mean {named[0]}?" if named else suggestion(path, self._shipped)
            raise ArgumentError(
                "PB-ARG-USAGE",
                f"playbook installs no file {first_line(path, 80)}{meant}",
                guidance="`playbook init --dry-run` names the files that were deleted.",
            )
        if os.path.lexists(self._root / path):
            raise ArgumentError(
                "PB-ARG-USAGE",
                f"{path} is there, and only a deleted file can be restored",
                guidance="Move it away first; `playbook update` compares it with ours.",
            )
        return path

    def _changes(self, path: str) -> Iterator[FileChange]:
        if path == SCRIPT:
            given = self._root, self._shipped[path], self._previous
            yield from changes.script(*given, no_hooks=self._without, plugin=self._plugin)
            return
        foreign = self._foreign.get(Path(path).stem)
        if foreign is None or path != command_file(Path(path).stem):
            yield self._file(path)
            return
        if not self._choices.replace:
            yield FileChange(Action(path, "keep", "not ours; --replace replaces it"))
            return
        data = read_bytes(self._root / foreign)
        aside = changes.free_name(self._root, foreign, data)
        yield FileChange(Action(aside, "write", f"what {foreign} was"), data)
        if foreign != path:
            yield FileChange(Action(foreign, "remove", f"it would take precedence over {path}"))
            yield self._file(path)
            return
        content = self._shipped[path]
        why = f"replaces a command that is not ours, kept as {Path(aside).name}"
        yield FileChange(Action(path, "write", why), content, fingerprint(content))

    def _file(self, path: str) -> FileChange:
        content, known = self._shipped[path], self._previous.files.get(path)
        if why := changes.obstacle(self._root, path):
            return FileChange(Action(path, "conflict", why))
        current, ours = changes.current_fingerprint(self._root, path), fingerprint(content)
        if current == ours:
            return FileChange(Action(path, "keep", changes.UP_TO_DATE), recorded=ours)
        if current and current == known:
            why = "installed by an earlier version; see `playbook update`"
        elif current:
            why = "your version is kept"
        elif known is not None and path not in self._restored:
            why = changes.deleted(path)
        else:
            why = "restored" if known is not None else "new"
            return FileChange(Action(path, "write", why), content, ours)
        return FileChange(Action(path, "keep", why))


# ── whose commands they are ─────────────────────────────────────────────────────────────────


def layout_of(root: Path, asked: str = "") -> str:
    """The `command_layout` of the project's agent.

    It is the one that the settings name or a person asked for, else Claude Code if the project or
    the machine has it, else the only known agent that is found, else Claude Code. ArgumentError
    PB-ARG-AGENT if the settings name another one than a person, or its folders are not known.
    """
    project = config.load(root)
    if asked and project.agent not in ("", asked):
        raise ArgumentError(
            "PB-ARG-AGENT",
            f"--agent {first_line(asked, 60)}: the settings name {first_line(project.agent, 60)}",
            where=config.FILE,
            guidance="Omit --agent, or change `agent` in the settings.",
        )
    if named := asked or project.agent:
        layout = registry.layout_of(named, project, root)
        if asked and not layout:
            raise ArgumentError(
                "PB-ARG-AGENT",
                f"it is not known where the agent {first_line(asked, 60)} reads commands",
                guidance=f"Known are {', '.join(LAYOUTS)}.",
            )
        return layout or CLAUDE
    found = list(registry.on_this_machine())
    if CLAUDE in found or len(found) != 1 or _has_claude(root):
        return CLAUDE
    return registry.layout_of(found[0], project, root) or CLAUDE


def _has_claude(root: Path) -> bool:
    """True if the project has files of Claude Code that `init` does not write in every project."""
    recorded = read_installation(root)
    ours = {*recorded.files, settings.FILE} - shipped.FEATURE_COMMAND_FILES
    files = (file for file in (root / ".claude").rglob("*") if file.is_file())
    return any(not recorded.version or str(file.relative_to(root)) not in ours for file in files)
