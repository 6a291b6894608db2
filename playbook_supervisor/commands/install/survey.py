"""A survey of a project: what it has, and what it lacks for the shipped playbooks."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from playbook_supervisor.commands.install import changes, shipped
from playbook_supervisor.commands.install.changes import Action, FileChange
from playbook_supervisor.errors import ArgumentError, StorageError
from playbook_supervisor.formats.strict_yaml import load
from playbook_supervisor.formats.yaml_writer import Block, flow, pair
from playbook_supervisor.kernel.model import SLASH, Playbook
from playbook_supervisor.project.conditions import features
from playbook_supervisor.project.conditions.conditions import checks
from playbook_supervisor.project.install_record import fingerprint, read_installation
from playbook_supervisor.project.playbooks.schema import read_playbook
from playbook_supervisor.project.settings import config
from playbook_supervisor.project.slash_commands import SUPERVISING, CommandIndex, is_ours
from playbook_supervisor.system.disk import templates
from playbook_supervisor.system.disk.files import contained, read_bytes
from playbook_supervisor.system.git import checkout

_SPECIFY = "/speckit.specify"
RUN = "playbook.run"
TEST = "test"
"""The check that `init` proposes."""
_HEADER = "# The settings of this project; `playbook schema config` describes every key.\n"


@dataclass(frozen=True, slots=True)
class Survey:
    """The playbooks, commands and tests that a project has.

    `lacking` maps each shipped playbook to the commands that are missing for it; `offered` are the
    missing ones that we ship, and `completing` says that they complete a playbook of which the
    project has other commands. `unproved` are the playbooks whose checks are missing. `installed`
    are the playbooks and commands of ours whose files are there. `foreign` maps each of our
    commands that is not ours to its file. `feature` can be run now; empty if no specification is
    written. `specify` is the command that writes one, empty if there is none. `tests` is what
    `init` proposes as the project's test command; `untested` if it found none and the settings
    name no checks.
    """

    lacking: Mapping[str, tuple[str, ...]]
    offered: tuple[str, ...]
    installed: frozenset[str]
    foreign: Mapping[str, str]
    feature: str
    specify: str
    unproved: frozenset[str] = frozenset()
    tests: Proposal | None = None
    untested: bool = False
    completing: bool = False

    @property
    def fitting(self) -> tuple[str, ...]:
        """The shipped playbooks that lack nothing, the one that does most first."""
        return tuple(
            name
            for name, missing in self.lacking.items()
            if not missing and name not in self.unproved
        )

    @property
    def runnable(self) -> str:
        """The first playbook that fits and is installed, or empty: a person may have deleted it."""
        return next((name for name in self.fitting if name in self.installed), "")

    @property
    def inside(self) -> bool:
        """True if `/playbook.run` is there and ours."""
        return RUN in self.installed and not self.foreign

    @property
    def unsupervised(self) -> bool:
        """True if a foreign command would let a model supervise a run."""
        return not SUPERVISING.isdisjoint(self.foreign)


def survey(here: checkout.Checkout, changing: Collection[str] = ()) -> Survey:
    """Look at the project, as it is once the files in `changing` are ours or removed."""
    index = CommandIndex(here.root, home=Path.home())
    playbooks = {name: _shipped(name) for name in shipped.PLAYBOOKS}
    lacking = {name: _missing(each, index, changing) for name, each in playbooks.items()}
    wanted = {command for missing in lacking.values() for command in missing}
    offered = tuple(f"/{name}" for name in shipped.FEATURE_COMMANDS if f"/{name}" in wanted)
    specify, foreign = index.resolve(_SPECIFY), foreign_commands(here.root)
    tests = proposed(here.root)
    there = {*config.load(here.root).checks}
    if tests and config.FILE in changing:
        there.add(TEST)
    files = {name: shipped.playbook_file(name) for name in shipped.PLAYBOOKS}
    files[RUN] = shipped.command_file(RUN)
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
        tests,
        tests is None and _is_open(here.root),
        any(
            0 < len(missing) < len(_commands(playbooks[name])) and {*missing} <= {*offered}
            for name, missing in lacking.items()
        ),
    )


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
        ours = path == shipped.command_file(name) and (
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


def _missing(playbook: Playbook, index: CommandIndex, changing: Collection[str]) -> tuple[str, ...]:
    return tuple(
        command
        for command in _commands(playbook)
        if shipped.command_file(command.removeprefix("/")) not in changing
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


# ── the check `test`, which `init` proposes: how this project runs its tests ─────────────────


def proposed(root: Path) -> Proposal | None:
    """The check that `init` would add; None if the settings have `checks`, or no command is found.

    Errors as for `config.text`, and CheckError if the settings are no YAML.
    """
    return detect(root) if _is_open(root) else None


def _is_open(root: Path) -> bool:
    settings = load(config.text(root) or b"", config.FILE).data
    return not isinstance(settings, dict) or "checks" not in settings


def check_line(proposal: Proposal) -> str:
    """The check as config.yaml says it: `test: {run: [make, test]}`."""
    return f"{TEST}: {flow(_test_check(proposal))}"


def check_change(root: Path, proposal: Proposal) -> FileChange:
    """The change that adds the check to config.yaml."""
    if why := changes.obstacle(root, config.FILE):
        return FileChange(Action(config.FILE, "conflict", why))
    before = config.text(root)
    why = f"checks: {check_line(proposal)}, as {proposal.source} says"
    action = Action(config.FILE, "merge" if before else "write", why)
    return FileChange(action, with_check(before or b"", proposal))


def with_check(text: bytes, proposal: Proposal) -> bytes:
    """The settings with the check; everything that is there stays as it is, comments too."""
    checks = Block({TEST: _test_check(proposal)})
    if isinstance(load(text, config.FILE).data, dict):
        from playbook_supervisor.formats.yaml_edit import edit_mapping  # ruamel.yaml is heavy

        return edit_mapping(text, {}, {"checks": checks})
    above = text.decode() if text.strip() else _HEADER
    return (above.rstrip("\n") + "\n\n" + pair("checks", checks, 0)).encode()


def _test_check(proposal: Proposal) -> dict[str, object]:
    env = {"env": dict(proposal.env)} if proposal.env else {}
    return {"run": proposal.run, **env}


# ── the project's test command ──────────────────────────────────────────────────────────────
#
# Nothing is run, and a file that cannot be read says nothing. The order of the rules decides where
# several files name a command: a task runner that people set up comes before a language's default.

_LARGEST = 1 << 20
_NO_WATCHER = {"CI": "1"}
"""Without it, several of Node's test runners watch the files and never end."""

_LOCKFILES = {
    "pnpm-lock.yaml": ("pnpm", "test"),
    "yarn.lock": ("yarn", "test"),
    "bun.lock": ("bun", "run", "test"),
    "bun.lockb": ("bun", "run", "test"),
}
_ENVIRONMENTS = {"uv.lock": "uv", "poetry.lock": "poetry", "pdm.lock": "pdm"}
_DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "Cargo.toml": ("cargo", "test"),
    "go.mod": ("go", "test", "./..."),
    "gradlew": ("./gradlew", "test"),
    "build.gradle": ("gradle", "test"),
    "build.gradle.kts": ("gradle", "test"),
    "mvnw": ("./mvnw", "test"),
    "pom.xml": ("mvn", "test"),
    "mix.exs": ("mix", "test"),
    "Package.swift": ("swift", "test"),
}

_RECIPE = r"(?m)^@?test(?:[ \t][^:\n]*)?:(?!=)"
_PYTEST = r"(?m)^\[tool\.pytest\b|[\"']pytest\b|^pytest[ \t]*="
_UNITTEST = r"(?m)^(?:import|from)[ \t]+unittest\b"
_NOX_SESSION = r"(?m)^def (tests?)\("
_RAKE_TASK = r"(?m)^[ \t]*(?:Rake::TestTask\.new\b|task[ \t(]+:?[\"']?test\b)"
_TASKFILE = r"(?m)^  [\"']?test[\"']?:"
_PLACEHOLDER = "no test specified"
"""The test script that `npm init` writes for a project without tests."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """`run` is an argv without a shell, `source` the file that says so; `env` is set for it."""

    run: tuple[str, ...]
    source: str
    env: Mapping[str, str] = field(default_factory=dict)


def detect(root: Path) -> Proposal | None:
    """The command for the tests of the project at `root`; None if no file names one."""
    files = _Files(root)
    return next((found for rule in _RULES for found in rule(files)), None)


class _Files:
    def __init__(self, root: Path) -> None:
        self._root = root

    def first(self, *names: str) -> str:
        return next((name for name in names if (self._root / name).is_file()), "")

    def text(self, name: str) -> str:
        """The content; empty for a missing, large or foreign file."""
        try:
            return read_bytes(contained(self._root, name), limit=_LARGEST).decode("utf-8", "ignore")
        except (FileNotFoundError, StorageError):
            return ""

    def says(self, name: str, pattern: str) -> bool:
        return re.search(pattern, self.text(name)) is not None

    def scripts(self, name: str) -> Mapping[str, object]:
        try:
            found = json.loads(self.text(name) or "null")
        except (ValueError, RecursionError):
            return {}
        scripts = found.get("scripts") if isinstance(found, dict) else None
        return scripts if isinstance(scripts, dict) else {}

    def matching(self, pattern: str) -> Iterator[str]:
        for path in sorted(self._root.glob(pattern)):
            yield str(path.relative_to(self._root))


def _make(files: _Files) -> Iterator[Proposal]:
    name = files.first("GNUmakefile", "makefile", "Makefile")  # in make's own order
    for line in files.text(name).splitlines():
        targets, colon, rest = line.partition(":")
        assigned, recipe = rest.lstrip(":").startswith("="), line.startswith(("\t", "#"))
        if colon and "test" in targets.split() and not (assigned or recipe):
            yield Proposal(("make", "test"), name)


def _just_or_task(files: _Files) -> Iterator[Proposal]:
    for program, pattern, *names in (
        ("just", _RECIPE, "justfile", "Justfile", ".justfile"),
        ("task", _TASKFILE, "Taskfile.yml", "Taskfile.yaml"),
    ):
        if (name := files.first(*names)) and files.says(name, pattern):
            yield Proposal((program, "test"), name)


def _node(files: _Files) -> Iterator[Proposal]:
    script = files.scripts("package.json").get("test")
    if isinstance(script, str) and script.strip() and _PLACEHOLDER not in script:
        run = _LOCKFILES.get(files.first(*_LOCKFILES), ("npm", "test"))
        yield Proposal(run, "package.json", _NO_WATCHER)


def _python(files: _Files) -> Iterator[Proposal]:
    manager = _ENVIRONMENTS.get(files.first(*_ENVIRONMENTS))
    python = (manager, "run", "python") if manager else ("python3",)
    for name, pattern in (
        ("pytest.ini", ""),
        ("pyproject.toml", _PYTEST),
        ("setup.cfg", r"(?m)^\[tool:pytest\]"),
        ("conftest.py", ""),
        ("tests/conftest.py", ""),
    ):
        if files.first(name) and files.says(name, pattern):
            yield Proposal((*python, "-m", "pytest"), name)
    if files.first("tox.ini"):
        yield Proposal(("tox",), "tox.ini")
    for session in re.findall(_NOX_SESSION, files.text("noxfile.py")):
        yield Proposal(("nox", "-s", session), "noxfile.py")
    for name in files.matching("tests/test*.py"):
        if files.says(name, _UNITTEST):
            yield Proposal((*python, "-m", "unittest", "discover", "-s", "tests"), name)


def _ruby(files: _Files) -> Iterator[Proposal]:
    bundled = ("bundle", "exec") if files.first("Gemfile") else ()
    if name := files.first(".rspec", "spec/spec_helper.rb"):
        yield Proposal((*bundled, "rspec"), name)
    elif files.says("Rakefile", _RAKE_TASK):
        yield Proposal((*bundled, "rake", "test"), "Rakefile")


def _php(files: _Files) -> Iterator[Proposal]:
    if files.scripts("composer.json").get("test"):
        yield Proposal(("composer", "test"), "composer.json")
    elif name := files.first("phpunit.xml", "phpunit.xml.dist"):
        yield Proposal(("vendor/bin/phpunit",), name)


def _default(files: _Files) -> Iterator[Proposal]:
    if name := files.first(*_DEFAULTS):
        yield Proposal(_DEFAULTS[name], name)
    for name in files.matching("*.sln"):
        yield Proposal(("dotnet", "test"), name)


_RULES = (_make, _just_or_task, _node, _python, _ruby, _php, _default)
