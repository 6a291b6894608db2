"""How a project runs its tests, as its own files say it.

Nothing is run, and a file that cannot be read says nothing. The order of the rules decides where
several files name a command: a task runner that people set up comes before a language's default.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from playbook_supervisor.errors import StorageError
from playbook_supervisor.system.disk.files import contained, read_bytes

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
"""What `npm init` writes for a project without tests."""


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
    """The top level of a project."""

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
        """The `scripts` of a JSON file that is made for a package manager."""
        try:
            found = json.loads(self.text(name) or "null")
        except (ValueError, RecursionError):
            return {}
        scripts = found.get("scripts") if isinstance(found, dict) else None
        return scripts if isinstance(scripts, dict) else {}

    def matching(self, pattern: str) -> Iterator[str]:
        for path in sorted(self._root.glob(pattern)):
            yield str(path.relative_to(self._root))


# ── task runners ────────────────────────────────────────────────────────────────────────────


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


# ── languages ───────────────────────────────────────────────────────────────────────────────


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
