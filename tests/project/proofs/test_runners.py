"""What is known of runners: who runs the tests, how they report, and a test that must fail."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.git_repositories import put

from playbook_supervisor.project.proofs.runners import (
    RUNNERS,
    alarm,
    is_data,
    owned,
    reporting_argv,
    runner_of,
    spliced,
)

BY_NAME = {runner.name: runner for runner in RUNNERS}
DIGITS = "0123456789abcdef"


@pytest.mark.parametrize(
    ("words", "paths", "name"),
    [
        ("python -m pytest -q", "", "pytest"),
        ("python -m unittest discover", "", "unittest"),
        ("node --test", "", "node"),
        ("npx vitest run", "", "vitest"),
        ("go test ./...", "", "go"),
        ("cargo nextest run", "", "cargo"),
        ("go build", "", ""),
        ("make test", "tests/test_a.py", "pytest"),
        ("npm test", "jest.config.js a.test.js", "jest"),
        ("./test.sh", "README.md", ""),
    ],
)
def test_the_runner_is_the_one_that_is_named_else_the_one_whose_files_are_there(
    words: str, paths: str, name: str
) -> None:
    found = runner_of(words.split(), paths.split())
    assert (found.name if found else "") == name


@pytest.mark.parametrize(
    ("words", "recipe", "name"),
    [
        ("npm test", '{"scripts": {"test": "vitest run"}, "jest": {}}', "vitest"),
        ("make check", "lint:\n\truff .\ntest: lint\n\tpytest\ncheck:\n\tgo test ./...\n", "go"),
        ("make test", "test:\n\t./run\n", "pytest"),
        ("npx jest", '{"scripts": {"test": "vitest run"}}', "jest"),
    ],
)
def test_a_rule_or_a_script_that_names_its_runner_counts_more_than_the_files(
    words: str, recipe: str, name: str
) -> None:
    found = runner_of(words.split(), ["tests/test_a.py"], recipe.encode())
    assert found is not None
    assert found.name == name


def test_a_program_that_names_its_runner_is_asked_for_a_report() -> None:
    argv = ("timeout", "60", "pytest", "-q")
    asked = reporting_argv(BY_NAME["pytest"], argv)
    assert asked[:5] == (*argv, "--junitxml={report}")
    node = reporting_argv(BY_NAME["node"], ("node", "--test", "a.js"))
    assert (node[:2], node[-1]) == (("node", "--test"), "a.js")
    assert reporting_argv(BY_NAME["pytest"], ("make", "test")) == ()
    assert reporting_argv(BY_NAME["go"], ("go", "test")) == ()


def test_a_program_goes_on_after_a_failure_whatever_its_own_arguments_are() -> None:
    asked = reporting_argv(BY_NAME["cargo"], ("cargo", "test", "--", "--nocapture"))
    assert asked == ("cargo", "test", "--no-fail-fast", "--", "--nocapture")


# ── a test that must fail ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "model", "path"),
    [
        ("pytest", "tests/test_a.py", "tests/test_as_*.py"),
        ("vitest", "src/a.spec.ts", "src/as_*.spec.ts"),
        ("go", "pkg/a_test.go", "pkg/as_*_test.go"),
        ("rspec", "spec/a_spec.rb", "spec/as_*_spec.rb"),
    ],
)
def test_it_stands_after_a_test_and_is_named_like_it(name: str, model: str, path: str) -> None:
    found = alarm(BY_NAME[name], model, b"package pkg\n", DIGITS, inside=False)
    assert Path(found.path).match(path)
    assert found.path > model
    assert found.test in found.text or found.test.removeprefix("test_") in found.text
    assert found.mark not in found.text  # it is said by the test alone, and only if it fails
    other = alarm(BY_NAME[name], model, b"package pkg\n", DIGITS[::-1], inside=False)
    assert (other.path, other.text) != (found.path, found.text)


def test_it_is_in_the_package_of_its_model() -> None:
    found = alarm(BY_NAME["go"], "pkg/a_test.go", b"// x\npackage pkg_test\n", DIGITS, inside=False)
    assert found.text.startswith("package pkg_test\n")


MODULES = "import test from 'node:test';\n"
COMMON = "const test = require('node:test');\n"


@pytest.mark.parametrize(
    ("name", "model", "text", "argv"),
    [
        ("pytest", "test_a.py", "", (sys.executable, "-m", "pytest", "-q")),
        ("pytest", "test_a.py", "import unittest\n", (sys.executable, "-m", "unittest")),
        ("unittest", "test_a.py", "", (sys.executable, "-m", "unittest")),
        ("node", "a.test.js", COMMON, ("node", "--test")),
        ("node", "a.test.cjs", COMMON, ("node", "--test")),
        ("node", "a.test.mjs", MODULES, ("node", "--test")),
        ("go", "a_test.go", "package a\n", ("go", "test", "a_test.go")),
        ("rspec", "spec/a_spec.rb", "", ("rspec",)),
    ],
)
def test_it_fails_by_itself_at_the_end_of_a_file(
    tmp_path: Path, name: str, model: str, text: str, argv: tuple[str, ...]
) -> None:
    if shutil.which(argv[0]) is None:
        pytest.skip(f"needs {argv[0]}")
    found = alarm(BY_NAME[name], model, text.encode(), DIGITS, inside=name != "go")
    put(tmp_path, model, found.text if name == "go" else text.rstrip() + found.text)
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done
    assert found.test in done.stdout + done.stderr
    assert found.mark in done.stdout + done.stderr


def test_files_that_tests_read_have_none() -> None:
    read = ["a/fixtures/a.test.js", "tests/data/test_a.py", "x/node_modules/y/a.test.js"]
    assert [path for path in [*read, "tests/test_data.py"] if not is_data(path)] == [
        "tests/test_data.py"
    ]


# ── shared files ────────────────────────────────────────────────────────────────────────────

TOML = b'[project]\nname = "a"\n\n[tool.pytest.ini_options]\naddopts = "-q"\n\n[tool.ruff]\nx = 1\n'
SECTIONS = r"tool\.pytest(?:\..*)?"
JSON = b'{"name": "a", "scripts": {"test": "node --test"}}'


def test_only_the_sections_of_the_runner_are_its_own() -> None:
    assert owned(SECTIONS, "pyproject.toml", TOML).startswith(b"[tool.pytest.ini_options]\n")
    assert b"ruff" not in owned(SECTIONS, "pyproject.toml", TOML)
    assert owned("scripts", "package.json", JSON) == b'{"scripts": {"test": "node --test"}}'
    assert owned("scripts", "package.json", b'{"name": "a"}') == b""
    assert owned("scripts", "package.json", b"no json") == b"no json"
    assert owned("scripts", "package.json", b"[]") == b"[]"


def test_a_shared_file_takes_the_sections_of_the_other_side() -> None:
    changed = TOML.replace(b'"-q"', b'"-k zero"').replace(b'"a"', b'"b"')
    made = spliced("pyproject.toml", changed, TOML, SECTIONS)
    assert b'name = "b"' in made
    assert b'addopts = "-q"' in made
    assert b"zero" not in made
    assert spliced("pyproject.toml", TOML, TOML, SECTIONS) == TOML
    assert spliced("pyproject.toml", b"[tool.pytest]\na = 1\n", b"", SECTIONS) == b""
    assert spliced("pyproject.toml", b"[a]\nb = 1", b"[tool.pytest]\n", SECTIONS) == (
        b"[a]\nb = 1\n[tool.pytest]\n"
    )


def test_package_json_takes_the_keys_of_the_other_side() -> None:
    changed = b'{"name": "b", "scripts": {"test": "true"}}'
    made = spliced("package.json", changed, JSON, "scripts")
    assert made == (b'{\n  "name": "b",\n  "scripts": {\n    "test": "node --test"\n  }\n}\n')
    assert spliced("package.json", b"no json", JSON, "scripts") == JSON
    assert spliced("package.json", b'{"scripts": {}}', b"", "scripts") == b""


RUST = """\
pub fn add() {}

#[cfg(test)]
mod tests {
    #[test]
    fn adds() {}
}

#[test]
#[ignore]
fn alone() {
    add();
}

#[cfg(test)]
mod more;
#[cfg(not(test))]
pub fn other() {}
"""


def test_tests_in_a_source_file_of_rust_are_told_from_its_code() -> None:
    pattern = BY_NAME["cargo"].shared["*.rs"]
    text = RUST.encode()
    assert spliced("src/lib.rs", text, b"", pattern).split() == (
        b"pub fn add() {} #[cfg(not(test))] pub fn other() {}".split()
    )
    tests = owned(pattern, "src/lib.rs", text)
    assert tests.count(b"fn") == 2
    assert tests.endswith(b"mod more;\n")
    code = b"pub fn add() { }\n"
    assert spliced("src/lib.rs", code, text, pattern) == code + tests
    unended = b"#[cfg(test)]\nmod tests {\n    fn x() {}\n"
    assert owned(pattern, "src/lib.rs", unended) == b""
