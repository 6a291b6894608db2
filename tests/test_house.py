"""The rules of this repository that no linter knows. A failure lists every offender."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from playbook_supervisor import plugins
from playbook_supervisor.errors import CODES, StateError, guidance

REPOSITORY = Path(__file__).parent.parent
PACKAGE = REPOSITORY / "playbook_supervisor"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent.name != "schemas")
WRITTEN = sorted(
    path
    for place in (
        "playbook_supervisor",
        "templates",
        "tests",
        "tools",
        "benchmarks",
        "docs",
        ".ci",
        ".github",
        "action",
    )
    for path in (REPOSITORY / place).rglob("*")
    if path.is_file() and path.suffix not in {".pyc", ".png", ".gif"} and "cache" not in str(path)
) + [path for path in REPOSITORY.iterdir() if path.suffix in {".md", ".toml"}]

LARGEST = 600
CORE = {
    "agents",
    "audit",
    "cli",
    "commands",
    "drivers",
    "executors",
    "formats",
    "kernel",
    "project",
    "sessions",
    "system",
}
HOUSES = {"dialects", "fleet", "inbox"}
A_HOUSE = re.compile(r"playbook_supervisor(?:\.|/| import (?:\w+, )*)(dialects|fleet|inbox)\b")
ENTRIES = 20  # in a folder, about
SHORT = 5  # lines
NAMELESS = {"common", "helper", "helpers", "manager", "misc", "util", "utils"}
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|NotImplemented" r"Error)\b")
MACHINE = re.compile(r"(?:^|[\s\"'`(=:])/(?:root|work|home|Users)/\w")
CODE = re.compile(r"PB-(?:BUG|[A-Z]+(?:-[A-Z]+)+)\Z")

FAMILY = re.compile(r"PB-(?:CHECK|ARG|STATE|COND|AGENT|STEP|FLEET|POLICY|IO|GIT|BUG)(?:-[A-Z]+)*\Z")

STARTS = {"system", "popen", "fork", "forkpty", "startfile"}
STARTS_LIKE = ("exec", "spawn", "posix_spawn")
STARTERS = {
    "system/process/broker.py",
    "system/process/processes.py",
    "system/process/child_process.py",
    "system/process/inside_process.py",
    "system/process/leash_process.py",
}
WRITES = {"write_text", "write_bytes", "touch", "symlink_to", "hardlink_to"}
WRITERS = {
    "system/disk/files.py",
    "system/process/channel.py",  # a link to the folder of a socket, where its path is too long
    "system/process/processes.py",  # the worker file, which is locked before it is written
}

QUICK, OTHERS = map(str.split, (REPOSITORY / "tests/hot_modules.txt").read_text().split("\n\n"))
"""What the hook of a tool call loads, and the process around each agent: no `typing` there."""
HOT = (*QUICK, *OTHERS)
"""What `hook`, `next`, `report` and `check FILE` load: there each millisecond counts."""
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
    "urllib.request",
    "yaml",
}
PROBE = """
import importlib, sys
loaded = set(sys.modules)
for module in {modules!r}:
    importlib.import_module(f"playbook_supervisor.{{module}}")
    for name in sorted({heavy!r} & sys.modules.keys() - loaded):
        print(f"{{module}} imports {{name}}")
    loaded |= sys.modules.keys()
"""


def name_of(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path), str(path))


def nodes(but: Container[str] = ()) -> Iterator[tuple[str, ast.AST]]:
    """Every node of every module but those named, with the name of its module."""
    for path in MODULES:
        if path.relative_to(PACKAGE).as_posix() not in but:
            name = name_of(path)
            for node in ast.walk(tree_of(path)):
                yield name, node


def assert_none(offenders: Iterable[object]) -> None:
    """That there are none. A failure lists all of them, a line each."""
    found = [str(each) for each in offenders]
    assert not found, "\n".join(["", *found])


def codes_in(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and CODE.match(node.value)
        ):
            yield node.value


class TestModules:
    def test_are_at_most_600_lines_long(self) -> None:
        lengths = {path: len(text_of(path).splitlines()) for path in MODULES}
        assert_none(f"{name_of(path)}: {n} lines" for path, n in lengths.items() if n > LARGEST)

    def test_have_names_that_mean_something(self) -> None:
        names = map(name_of, MODULES)
        assert_none(name for name in names if NAMELESS & set(re.split(r"[_\W]", name)))

    def test_have_docstrings(self) -> None:
        assert_none(name_of(path) for path in MODULES if not ast.get_docstring(tree_of(path)))

    def test_document_their_public_functions(self) -> None:
        assert_none(
            f"{name_of(path)}: {node.name}"
            for path in MODULES
            for node in tree_of(path).body
            if isinstance(node, ast.FunctionDef)
            and not node.name.startswith("_")
            and not ast.get_docstring(node)
        )

    def test_start_processes_only_in_the_module_for_it(self) -> None:
        assert_none(
            f"{name}:{node.lineno}: os.{node.attr}"
            for name, node in nodes(but=STARTERS)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "os"
            and (node.attr in STARTS or node.attr.startswith(STARTS_LIKE))
        )

    def test_call_git_only_through_the_module_for_it(self) -> None:
        """What git may run, and which variables it sees, is decided there."""
        assert_none(
            f"{name}:{node.lineno}: git"
            for name, node in nodes(but={"system/git/git_programs.py"})
            if isinstance(node, ast.List | ast.Tuple)
            and isinstance(first := next(iter(node.elts), None), ast.Constant)
            and first.value == "git"
            and ast.unparse(node) != "['git', '--version']"
        )

    def test_write_files_only_in_the_modules_for_it(self) -> None:
        """cat NFR-5.2."""
        assert_none(
            f"{name}:{node.lineno}: {node.func.attr}"
            for name, node in nodes(but=WRITERS)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in WRITES
        )


def test_a_package_opens_with_one_short_docstring() -> None:
    """And holds nothing else: what a package offers is imported from its modules."""
    opening = [path for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE]
    top = {path.parent.name for path in opening if path.parent.parent == PACKAGE}
    assert top == CORE | HOUSES
    assert_none(
        name_of(path)
        for path in opening
        if len(tree_of(path).body) != 1
        or not 1 <= len((ast.get_docstring(tree_of(path)) or "").splitlines()) <= SHORT
    )


def test_the_core_names_no_house() -> None:
    """Neither in an import nor in a string: houses are found through the entry points."""
    assert_none(
        f"{name_of(path)}: {found[0]}"
        for path in MODULES
        if path.relative_to(PACKAGE).parts[0] not in HOUSES
        for found in A_HOUSE.finditer(text_of(path).replace(f'"{plugins.DIALECTS}"', ""))
    )
    points = tomllib.loads(text_of(REPOSITORY / "pyproject.toml"))["project"]["entry-points"]
    named = {A_HOUSE.match(point) for group in points.values() for point in group.values()}
    assert {found and found[1] for found in named} == HOUSES


def test_a_folder_can_be_seen_at_a_glance() -> None:
    counts = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    assert_none(f"{name_of(path)}: {n} modules" for path, n in counts.items() if n > ENTRIES)


def dotted(path: Path) -> str:
    """The name of a module below the package: `cli.app`."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


class TestEconomy:
    """Records and late imports are for the hot modules, no `typing` for the quick ones of them."""

    COLD = tuple(path for path in MODULES if dotted(path) not in HOT)

    def test_the_hot_modules_are_there_and_import_only_hot_ones(self) -> None:
        known = {dotted(path): path for path in MODULES}
        assert_none(name for name in HOT if name not in known)
        assert_none(
            f"{name} imports {imported}"
            for name in HOT
            for node in tree_of(known[name]).body
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE.name)
            for alias in node.names
            for imported in (f"{node.module}.{alias.name}", str(node.module))
            if (short := imported.partition(".")[2]) in known and short not in HOT
        )

    def test_records_are_defined_in_hot_modules_only(self) -> None:
        assert_none(
            f"{name_of(path)}: {node.name}"
            for path in self.COLD
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.ClassDef) and "Record" in map(ast.unparse, node.bases)
        )

    def test_a_copy_is_made_by_the_function_that_knows_records_and_dataclasses(self) -> None:
        assert_none(
            f"{name}:{node.lineno}"
            for name, node in nodes(but={"records.py"})
            if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
            if "replace" in {alias.name for alias in node.names}
        )

    def test_a_late_import_elsewhere_states_its_reason(self) -> None:
        """In a comment beside it, or above the first of several."""
        assert_none(
            f"{name_of(path)}:{node.lineno}: {ast.unparse(node)}"
            for path in self.COLD
            for function in ast.walk(tree_of(path))
            if isinstance(function, ast.FunctionDef)
            for node in ast.walk(function)
            if isinstance(node, ast.Import | ast.ImportFrom) and not self._reason(path, node)
        )

    def _reason(self, path: Path, node: ast.Import | ast.ImportFrom) -> bool:
        lines = text_of(path).splitlines()
        before = node.lineno - 2
        while re.match(r"\s+(?:from|import) ", lines[before]):
            before -= 1
        return "#" in lines[node.lineno - 1] or lines[before].lstrip().startswith("#")

    def test_types_are_imported_in_the_ordinary_way_elsewhere(self) -> None:
        quick = {PACKAGE / "__init__.py", *(path for path in MODULES if dotted(path) in QUICK)}
        assert_none(
            name_of(path)
            for path in MODULES
            if path not in quick and "TYPE_CHECKING = False" in text_of(path)
        )


class TestFiles:
    def test_are_finished(self) -> None:
        assert_none(
            f"{name_of(path)}: {word}"
            for path in WRITTEN
            for word in UNFINISHED.findall(text_of(path))
        )

    def test_name_no_place_on_a_persons_machine(self) -> None:
        assert_none(
            f"{name_of(path)}: {line}"
            for path in WRITTEN
            for line in text_of(path).splitlines()
            if MACHINE.search(line)
        )


class TestErrorCodes:
    """cat SC-4, E-7, PL-3: every error has a stable code, and every code its guidance."""

    def test_that_are_raised_have_guidance(self) -> None:
        assert_none(
            f"{name_of(path)}: {code}"
            for path in MODULES
            for code in codes_in(path)
            if code not in CODES
        )

    def test_of_a_package_have_guidance_too(self) -> None:
        """A package may fail with a code and a message alone."""
        error = StateError("PB-STEP-OWN", "the printer is on fire")
        error.session = "20260219-a7k"
        said = "Correct what the message names, then `playbook resume 20260219-a7k --retry`."
        assert error.guidance == guidance("PB-STEP-OWN", "20260219-a7k") == said

    def test_that_have_guidance_are_raised(self) -> None:
        elsewhere = (path for path in MODULES if path.name != "errors.py")
        raised = {code for path in elsewhere for code in codes_in(path)}
        assert_none(sorted(CODES.keys() - raised))

    def test_have_a_known_family_and_guidance_of_one_line(self) -> None:
        assert_none(code for code in CODES if not FAMILY.match(code))
        assert_none(text for text in CODES.values() if not text.endswith(".") or "\n" in text)


@pytest.mark.parametrize(
    ("modules", "heavy"), [(QUICK, {*HEAVY, "typing"}), (HOT, HEAVY)], ids=["quick", "hot"]
)
def test_hot_paths_import_nothing_heavy(modules: Sequence[str], heavy: set[str]) -> None:
    """In one process: what one module imports would be there for the next, too."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", PROBE.format(modules=modules, heavy=heavy)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        # no coverage, which would load much of this itself
        env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"},
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
