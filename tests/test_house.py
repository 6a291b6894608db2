"""The rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from playbook_supervisor.errors import CODES

REPOSITORY = Path(__file__).parent.parent
PACKAGE = REPOSITORY / "playbook_supervisor"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent.name != "schemas")
WRITTEN = sorted(
    path
    for place in ("playbook_supervisor", "templates", "tests", "tools", "benchmarks", "docs", ".ci")
    for path in (REPOSITORY / place).rglob("*")
    if path.is_file() and path.suffix not in {".pyc", ".png", ".gif"} and "cache" not in str(path)
) + [path for path in REPOSITORY.iterdir() if path.suffix in {".md", ".toml"}]

LARGEST = 350
NAMELESS = {"common", "helper", "helpers", "manager", "misc", "util", "utils"}
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|NotImplemented" r"Error)\b")
MACHINE = re.compile(r"(?:^|[\s\"'`(=:])/(?:root|work|home|Users)/\w")
CODE = re.compile(r"PB-(?:BUG|[A-Z]+(?:-[A-Z]+)+)\Z")

STARTS = {"system", "popen", "fork", "forkpty", "startfile"}
STARTS_LIKE = ("exec", "spawn", "posix_spawn")
WRITES = {"write_text", "write_bytes", "touch", "symlink_to", "hardlink_to"}
WRITERS = {
    "system/files.py",  # whose duty it is
    "system/processes.py",  # the worker file, which is locked before it is written
}

HOT = (
    "__main__",
    "cli.next",
    "cli.report",
    "kernel.machine",
    "project.conditions",
    "sessions.journal",
    "sessions.local_state",
    "sessions.manifest",
    "sessions.serialize",
    "sessions.store",
    "sessions.supervisor",
    "system.checkout",
    "system.files",
)
HEAVY = {
    "asyncio",
    "click",
    "concurrent.futures",
    "dataclasses",
    "email",
    "git",
    "hashlib",
    "inspect",
    "jsonschema",
    "logging",
    "rich",
    "ruamel.yaml",
    "shutil",
    "subprocess",
    "tempfile",
    "typing",
    "urllib.request",
    "yaml",
}


def name_of(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def codes_named_in(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and CODE.match(node.value)
        ):
            yield node.value


@pytest.mark.parametrize("path", MODULES, ids=name_of)
class TestEveryModule:
    def test_is_small_enough_to_have_one_responsibility(self, path: Path) -> None:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= LARGEST

    def test_is_named_for_what_it_does(self, path: Path) -> None:
        assert not NAMELESS & set(re.split(r"[_\W]", name_of(path)))

    def test_opens_with_its_rule(self, path: Path) -> None:
        assert ast.get_docstring(tree_of(path)), "a module opens with its rule"

    def test_explains_what_it_offers(self, path: Path) -> None:
        unexplained = [
            node.name
            for node in tree_of(path).body
            if isinstance(node, ast.FunctionDef)
            and not node.name.startswith("_")
            and not ast.get_docstring(node)
        ]
        assert not unexplained

    def test_leaves_processes_to_the_room_that_starts_them(self, path: Path) -> None:
        if path.name == "processes.py":
            pytest.skip("this is that room")
        started = [
            f"line {node.lineno}: os.{node.attr}"
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "os"
            and (node.attr in STARTS or node.attr.startswith(STARTS_LIKE))
        ]
        assert not started

    def test_leaves_files_to_the_room_that_writes_them_whole(self, path: Path) -> None:
        if name_of(path).removeprefix("playbook_supervisor/") in WRITERS:
            pytest.skip("this is that room")
        written = [
            f"line {node.lineno}: {node.func.attr}"
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in WRITES
        ]
        assert not written


@pytest.mark.parametrize("path", WRITTEN, ids=name_of)
class TestEveryFile:
    def test_is_finished(self, path: Path) -> None:
        assert not UNFINISHED.findall(path.read_text(encoding="utf-8", errors="replace"))

    def test_knows_no_persons_machine(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8", errors="replace")
        assert not [line for line in text.splitlines() if MACHINE.search(line)]


class TestErrorCodes:
    """Catalyst E-7: every error has a stable code, and every code its cure."""

    def test_every_code_that_is_raised_has_its_cure(self) -> None:
        raised = {(name_of(path), code) for path in MODULES for code in codes_named_in(path)}
        assert sorted(pair for pair in raised if pair[1] not in CODES) == []

    def test_every_code_with_a_cure_is_raised_somewhere(self) -> None:
        elsewhere = (path for path in MODULES if path.name != "errors.py")
        raised = {code for path in elsewhere for code in codes_named_in(path)}
        assert sorted(CODES.keys() - raised) == []

    @pytest.mark.parametrize(("code", "cure"), CODES.items())
    def test_a_code_has_a_known_family_and_a_cure_of_one_line(self, code: str, cure: str) -> None:
        assert re.match(r"PB-(?:CHECK|ARG|STATE|COND|AGENT|POLICY|IO|GIT|BUG)(?:-[A-Z]+)*\Z", code)
        assert cure.endswith(".")
        assert "\n" not in cure


@pytest.mark.parametrize(
    "module",
    [
        name
        for name in HOT
        if (PACKAGE / f"{name.replace('.', '/')}.py").exists() or (PACKAGE / name).is_dir()
    ],
)
def test_the_fast_way_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, playbook_supervisor.{module}; print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        # no coverage, which would load much of this itself
        env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    assert not HEAVY & set(done.stdout.split())
