"""A survey of a project: what it has, and what it lacks for the shipped playbooks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from playbook_supervisor.commands.driving.preflight import preflight
from playbook_supervisor.commands.install import shipped
from playbook_supervisor.commands.install.proposals import TEST, Proposal, is_open, proposals
from playbook_supervisor.commands.install.shipped import command_file
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.kernel.model import SLASH, Playbook
from playbook_supervisor.project.command_layouts import CLAUDE
from playbook_supervisor.project.conditions import features
from playbook_supervisor.project.conditions.conditions import checks
from playbook_supervisor.project.install_record import fingerprint, read_installation
from playbook_supervisor.project.playbooks.schema import read_playbook
from playbook_supervisor.project.settings import config
from playbook_supervisor.project.slash_commands import SUPERVISING, CommandIndex, is_ours
from playbook_supervisor.system.disk import templates
from playbook_supervisor.system.disk.files import read_bytes
from playbook_supervisor.system.git import checkout

_SPECIFY = "/speckit.specify"
RUN = "playbook.run"


@dataclass(frozen=True, slots=True)
class Survey:
    """The playbooks, commands and tests that a project has.

    `lacking` maps each shipped playbook to the commands that are missing for it; `offered` are the
    missing ones that we ship, and `completing` says that they complete a playbook of which the
    project has other commands. `unproved` are the playbooks whose checks are missing. `installed`
    are the playbooks and commands of ours whose files are there. `foreign` maps each of our
    commands that is not ours to its file. `feature` can be run now; empty if no specification is
    written. `specify` is the command that writes one, empty if there is none. `proposals` are the
    ways to run the project's tests that `init` can try; `untested` if the settings name no checks
    and will have none. `layout` says whose commands they are, and `agent` names that agent if a run
    would not take it without `--agent`.
    """

    lacking: Mapping[str, tuple[str, ...]]
    offered: tuple[str, ...]
    installed: frozenset[str]
    foreign: Mapping[str, str]
    feature: str
    specify: str
    unproved: frozenset[str] = frozenset()
    proposals: tuple[Proposal, ...] = ()
    untested: bool = False
    completing: bool = False
    layout: str = CLAUDE
    agent: str = ""

    @property
    def fitting(self) -> tuple[str, ...]:
        """The shipped playbooks that lack nothing, the one that does most first."""
        return tuple(
            name
            for name, missing in self.lacking.items()
            if not missing and name not in self.unproved
        )

    @property
    def waiting(self) -> tuple[str, ...]:
        """The shipped playbooks that lack only a check, and are therefore not installed."""
        return tuple(
            name
            for name, missing in self.lacking.items()
            if not missing and name in self.unproved and name not in self.installed
        )

    @property
    def runnable(self) -> str:
        """The first playbook that fits and is installed, or empty: a person may have deleted it."""
        return next((name for name in self.fitting if name in self.installed), "")

    @property
    def inside(self) -> bool:
        """True if `/playbook.run` is there and ours, and the commands are Claude Code's."""
        return RUN in self.installed and not self.foreign and self.layout == CLAUDE

    @property
    def unsupervised(self) -> bool:
        """True if a foreign command would let a model supervise a run."""
        return not SUPERVISING.isdisjoint(self.foreign)


def survey(here: checkout.Checkout, changing: Collection[str] = (), layout: str = CLAUDE) -> Survey:
    """Look at the project, as it is once the files in `changing` are ours or removed.

    `layout` is the key of `LAYOUTS` that says where commands are looked for.
    """
    index = CommandIndex(here.root, home=Path.home(), layout=layout)
    playbooks = {name: _shipped(name) for name in shipped.PLAYBOOKS}
    lacking = {name: _missing(each, index, changing, layout) for name, each in playbooks.items()}
    wanted = {command for missing in lacking.values() for command in missing}
    offered = tuple(f"/{name}" for name in shipped.FEATURE_COMMANDS if f"/{name}" in wanted)
    specify, foreign = index.resolve(_SPECIFY), foreign_commands(here.root)
    adds_check = config.FILE in changing
    settings = config.load(here.root)
    there = {*settings.checks, *([TEST] if adds_check else [])}
    files = {name: shipped.playbook_file(name) for name in shipped.PLAYBOOKS}
    files[RUN] = command_file(RUN)
    return Survey(
        lacking,
        offered,
        frozenset(
            name for name, path in files.items() if path in changing or (here.root / path).exists()
        ),
        {name: path for name, path in foreign.items() if path not in changing},
        _feature(here),
        specify.name if specify else "",
        frozenset(name for name, each in playbooks.items() if not _checks(each) <= there),
        proposals(here.root),
        is_open(here.root) and not adds_check,
        any(
            0 < len(missing) < len(_commands(playbooks[name])) and {*missing} <= {*offered}
            for name, missing in lacking.items()
        ),
        layout,
        "" if layout == CLAUDE or settings.agent else layout,
    )


def needs(found: Survey, root: Path) -> tuple[str, ...]:
    """What the installed playbooks need and do not find here, without a look at the network."""
    ready = [name for name in found.fitting if name in found.installed]
    settings = config.load(root)
    said: dict[str, list[str]] = {}
    for name in ready:
        for sentence in preflight([_shipped(name)], root, settings, forge=False):
            said.setdefault(sentence, []).append(name)
    return tuple(f"{', '.join(names)}: {sentence}" for sentence, names in said.items())


def foreign_commands(root: Path) -> dict[str, str]:
    """Each of our commands that the project defines in a file that is not ours → that file.

    A file of ours may have been edited since. But one that says who supervises must still name this
    program.
    """
    recorded, released = read_installation(root).files, shipped.released()
    index = CommandIndex(root, home=None)
    found = {}
    for name in shipped.COMMANDS:
        command = index.resolve(f"/{name}")
        if command is None or command.file is None or command.name != f"/{name}":
            continue
        path, text = str(command.file.relative_to(root)), read_bytes(command.file)
        ours = path == command_file(name) and (
            is_ours(text)
            or fingerprint(text) in {recorded.get(path), *released.get(path, ())}
            or (path in recorded and name not in SUPERVISING)
        )
        if not ours:
            found[name] = path
    return found


def _shipped(name: str) -> Playbook:
    file = templates.folder() / "playbooks" / f"{name}.yaml"
    return read_playbook(read_bytes(file), file.name)


def _checks(playbook: Playbook) -> set[str]:
    named = {name for step in playbook.steps for name in checks(step.postconditions)}
    return {name for name in named if "{{" not in name}


def _commands(playbook: Playbook) -> list[str]:
    return [step.command for step in playbook.steps if step.namespace == SLASH]


def _missing(
    playbook: Playbook, index: CommandIndex, changing: Collection[str], layout: str
) -> tuple[str, ...]:
    return tuple(
        command
        for command in _commands(playbook)
        if command_file(command.removeprefix("/"), layout) not in changing
        and ((found := index.resolve(command)) is None or found.closed)
    )


def _feature(here: checkout.Checkout) -> str:
    settings = config.load(here.root)
    specified = [spec.parent.name for spec in (here.root / settings.specs).glob("*/spec.md")]
    names = sorted(name for name in specified if features.is_name(name))
    if not names:
        return ""
    name = here.branch if here.branch in names else names[-1]
    number = name.partition("-")[0]
    with suppress(ArgumentError):
        if features.resolve(here.root, number, settings, tuple).name == name:
            return number
    return name
