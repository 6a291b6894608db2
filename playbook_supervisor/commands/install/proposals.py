"""The check `test` that `init` proposes: how this project runs its tests, by its own files.

Nothing is run here, and a file that cannot be read says nothing. The order of the rules decides
where several files name a command: a task runner that people set up comes before a language's
default.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from playbook_supervisor.commands.install import changes
from playbook_supervisor.commands.install.changes import Action, FileChange
from playbook_supervisor.errors import ArgumentError, StorageError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.strict_yaml import load
from playbook_supervisor.formats.yaml_writer import Block, flow, pair
from playbook_supervisor.project.settings import config
from playbook_supervisor.project.settings.config import CLEAN, CheckSpec, Where
from playbook_supervisor.records import replace
from playbook_supervisor.system.disk.files import contained, read_bytes

TEST = "test"
"""The name of the check."""

_HEADER = "# The settings of this project; `playbook schema config` describes every key.\n"
_SHELL = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<"})  # words that only a shell reads
_LARGEST = 1 << 20
_NO_WATCHER = {"CI": "1"}
"""Without it, several of Node's test runners watch the files and never end."""

Programs = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Proposal:
    """`run` is an argv without a shell, `source` the file that says so; `env` is set for it.

    It runs in the checkout (`here`) or in a clean room, which the programs of `setup` prepare.
    `report` are the JUnit XML files that it writes by itself.
    """

    run: tuple[str, ...]
    source: str
    env: Mapping[str, str] = field(default_factory=dict)
    setup: Programs = ()
    room: Where = CLEAN
    report: str = ""

    @property
    def check(self) -> CheckSpec:
        spec = CheckSpec(TEST, self.run, env=self.env, room=self.room)
        return replace(spec, setup=self.setup, report=self.report)

    @property
    def where(self) -> str:
        return "in a clean room" if self.room == CLEAN else "in the checkout"

    @property
    def settings(self) -> dict[str, object]:
        """The check as config.yaml has it."""
        said: dict[str, object] = {"run": self.run}
        if self.env:
            said["env"] = dict(self.env)
        if self.room == CLEAN:
            said["room"] = CLEAN
        if self.setup:
            said["setup"] = self.setup[0] if len(self.setup) == 1 else self.setup
        if self.report:
            said["report"] = self.report
        return said

    @property
    def line(self) -> str:
        """The check as one line: `test: {run: [make, test], room: clean}`."""
        return f"{TEST}: {flow(self.settings)}"


def proposals(root: Path) -> tuple[Proposal, ...]:
    """The checks that `init` tries, in this order; () if none is found, or the settings have any.

    Errors as for `config.text`, and CheckError if the settings are no YAML.
    """
    return tuple(detect(root)) if is_open(root) else ()


def given(root: Path, line: str) -> tuple[Proposal, ...]:
    """The checks to try for a command that a person gave. ArgumentError PB-ARG-USAGE."""
    try:
        argv = tuple(shlex.split(line))
    except ValueError:  # a quotation mark is open
        argv = ()
    if not argv or not _SHELL.isdisjoint(argv):
        raise ArgumentError(
            "PB-ARG-USAGE",
            f"--check: {first_line(line, 80)!r} is not one program with its arguments",
            guidance='Checks run without a shell: `--check "make test"`. Put more in a script.',
        )
    return tuple(_ways(_Files(root), Proposal(argv, "--check")))


def is_open(root: Path) -> bool:
    """True if the settings do not have `checks`."""
    settings = load(config.text(root) or b"", config.FILE).data
    return not isinstance(settings, dict) or "checks" not in settings


def check_change(root: Path, proposal: Proposal) -> FileChange:
    """The change that adds the check to config.yaml."""
    if why := changes.obstacle(root, config.FILE):
        return FileChange(Action(config.FILE, "conflict", why))
    before = config.text(root)
    why = f"checks: {proposal.line}, as {proposal.source} says"
    action = Action(config.FILE, "merge" if before else "write", why)
    return FileChange(action, with_check(before or b"", proposal))


def with_check(text: bytes, proposal: Proposal) -> bytes:
    """The settings with the check `test`; all else that is there stays as it is, comments too."""
    checks = Block({TEST: proposal.settings})
    if isinstance(settings := load(text, config.FILE).data, dict):
        from playbook_supervisor.formats.yaml_edit import edit_mapping  # ruamel.yaml is heavy

        before = settings.get("checks")
        if not before or not isinstance(before, dict):
            return edit_mapping(text, {}, {"checks": checks})
        after = {**before, TEST: proposal.settings}
        return edit_mapping(text, {"checks": before}, {"checks": after})
    above = text.decode() if text.strip() else _HEADER
    return (above.rstrip("\n") + "\n\n" + pair("checks", checks, 0)).encode()


# ── the project's test command ──────────────────────────────────────────────────────────────

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
_SETUPS: Mapping[str, tuple[str, ...]] = {
    "uv.lock": ("uv", "sync", "--frozen"),
    "poetry.lock": ("poetry", "install", "--no-interaction"),
    "pdm.lock": ("pdm", "sync"),
    "pnpm-lock.yaml": ("pnpm", "install", "--frozen-lockfile"),
    "yarn.lock": ("yarn", "install", "--frozen-lockfile"),
    "bun.lock": ("bun", "install", "--frozen-lockfile"),
    "bun.lockb": ("bun", "install", "--frozen-lockfile"),
    "package-lock.json": ("npm", "ci"),
    "npm-shrinkwrap.json": ("npm", "ci"),
    "Gemfile.lock": ("bundle", "install"),
    "composer.lock": ("composer", "install", "--no-interaction"),
    "mix.lock": ("mix", "deps.get"),
}
"""The programs that install what a lock file names. Go, Cargo and the like do so by themselves."""

_REPORTS = {
    **dict.fromkeys(("mvn", "./mvnw"), "**/target/surefire-reports/*.xml"),
    **dict.fromkeys(("gradle", "./gradlew"), "**/build/test-results/**/*.xml"),
}
"""The reports that programs write without being asked."""

_PYTHON = "python3"
_VENV = ".venv/bin/python"
_PIP = ("-m", "pip", "install", "-q")
_REQUIREMENTS = (
    *(
        "requirements-dev.txt",
        "requirements-test.txt",
        "requirements_dev.txt",
        "dev-requirements.txt",
    ),
    *("requirements/dev.txt", "requirements/test.txt", "requirements.txt"),
)
_EXTRA = r"(?ms)^\[project\.optional-dependencies\].*?^(test|tests|testing|dev)[ \t]*="
_PACKAGE = r"(?m)^\[(?:project|build-system)\]"

_RECIPE = r"(?m)^@?test(?:[ \t][^:\n]*)?:(?!=)"
_PYTEST = r"(?m)^\[tool\.pytest\b|[\"']pytest\b|^pytest[ \t]*="
_UNITTEST = r"(?m)^(?:import|from)[ \t]+unittest\b"
_NOX_SESSION = r"(?m)^def (tests?)\("
_RAKE_TASK = r"(?m)^[ \t]*(?:Rake::TestTask\.new\b|task[ \t(]+:?[\"']?test\b)"
_TASKFILE = r"(?m)^  [\"']?test[\"']?:"
_PLACEHOLDER = "no test specified"
"""The test script that `npm init` writes for a project without tests."""


def detect(root: Path) -> Iterator[Proposal]:
    """The ways to run the tests of the project at `root`, by the first file that names a command.

    With the set-up that its lock files ask for, then without one, then in the checkout.
    """
    files = _Files(root)
    named = next((found for rule in _RULES for found in rule(files)), None)
    if named is not None:
        yield from _ways(files, named)


def _ways(files: _Files, named: Proposal) -> Iterator[Proposal]:
    named = replace(named, report=_REPORTS.get(named.run[0], ""))
    runner = named.run[2] if named.run[:2] == (_PYTHON, "-m") and len(named.run) > 2 else ""
    if runner and (setup := _virtual_environment(files, runner)):
        yield replace(named, run=(_VENV, *named.run[1:]), setup=setup)
    elif setup := tuple(dict.fromkeys(_SETUPS[name] for name in files.all(*_SETUPS))):
        yield replace(named, setup=setup)
    yield named
    yield replace(named, room="here")


def _virtual_environment(files: _Files, runner: str) -> Programs:
    wanted: list[str] = []
    if name := files.first(*_REQUIREMENTS):
        wanted += ["-r", name]
    if files.says("pyproject.toml", _PACKAGE) or files.first("setup.py"):
        extra = re.search(_EXTRA, files.text("pyproject.toml"))
        wanted += ["-e", f".[{extra[1]}]" if extra else "."]
    if not wanted:
        return ()
    needed = [runner] if runner == "pytest" else []
    return ((_PYTHON, "-m", "venv", ".venv"), (_VENV, *_PIP, *needed, *wanted))


class _Files:
    def __init__(self, root: Path) -> None:
        self._root = root

    def all(self, *names: str) -> list[str]:
        return [name for name in names if (self._root / name).is_file()]

    def first(self, *names: str) -> str:
        return next(iter(self.all(*names)), "")

    def text(self, name: str) -> str:
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
    python = (manager, "run", "python") if manager else (_PYTHON,)
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
