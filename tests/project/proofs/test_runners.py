"""What is known of runners: who runs the tests, how they report, and a test that must fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from playbook_supervisor.project.proofs.runners import (
    RUNNERS,
    Runner,
    alarm,
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
        ("timeout 60 .venv/bin/pytest", "", "pytest"),
        ("python -m unittest discover", "", "unittest"),
        ("node --test", "", "node"),
        ("npx vitest run", "", "vitest"),
        ("npx jest", "", "jest"),
        ("go test ./...", "", "go"),
        ("cargo nextest run", "", "cargo"),
        ("bundle exec rspec", "", "rspec"),
        ("go build", "", ""),
        ("make test", "tests/test_a.py", "pytest"),
        ("npm test", "jest.config.js a.test.js", "jest"),
        ("npm test", "a.test.js", "node"),
        ("make test", "Cargo.toml src/lib.rs", "cargo"),
        ("./test.sh", "README.md", ""),
    ],
)
def test_the_runner_is_the_one_that_is_named_else_the_one_whose_files_are_there(
    words: str, paths: str, name: str
) -> None:
    found = runner_of(words.split(), paths.split())
    assert (found.name if found else "") == name


def test_a_program_that_names_its_runner_is_asked_for_a_report() -> None:
    argv = ("timeout", "60", "pytest", "-q")
    asked = reporting_argv(BY_NAME["pytest"], argv)
    assert asked == (*argv, "--junitxml={report}", "--maxfail=0")
    node = reporting_argv(BY_NAME["node"], ("node", "--test", "a.js"))
    assert (node[:2], node[-1]) == (("node", "--test"), "a.js")
    assert reporting_argv(BY_NAME["pytest"], ("make", "test")) == ()
    assert reporting_argv(BY_NAME["cargo"], ("cargo", "test")) == ()


# ── a test that must fail ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "model", "path"),
    [
        ("pytest", "tests/test_a.py", "tests/test_*.py"),
        ("pytest", "tests/a_test.py", "tests/*_test.py"),
        ("jest", "src/a.test.tsx", "src/*.test.tsx"),
        ("vitest", "src/a.spec.ts", "src/*.spec.ts"),
        ("go", "pkg/a_test.go", "pkg/*_test.go"),
        ("cargo", "tests/a.rs", "tests/*.rs"),
        ("rspec", "spec/a_spec.rb", "spec/*_spec.rb"),
    ],
)
def test_it_stands_beside_a_test_and_is_named_like_it(name: str, model: str, path: str) -> None:
    found = alarm(BY_NAME[name], model, "package pkg\n", DIGITS, inside=False)
    assert Path(found.path).match(path)
    assert found.path != model
    assert found.test in found.text or found.test.removeprefix("test_") in found.text
    assert "{" not in found.path
    other = alarm(BY_NAME[name], model, "package pkg\n", DIGITS[::-1], inside=False)
    assert (other.path, other.text) != (found.path, found.text)


def test_it_is_in_the_package_of_its_model() -> None:
    found = alarm(BY_NAME["go"], "pkg/a_test.go", "// x\npackage pkg_test\n", DIGITS, inside=False)
    assert found.text.startswith("package pkg_test\n")


@pytest.mark.parametrize(
    ("runner", "model", "text", "argv"),
    [
        (BY_NAME["pytest"], "test_a.py", "", (sys.executable, "-m", "pytest", "-q")),
        (BY_NAME["unittest"], "test_a.py", "", (sys.executable, "-m", "unittest")),
        (BY_NAME["node"], "a.test.js", "", ("node", "--test")),
        (BY_NAME["node"], "a.test.mjs", "import a from './a.mjs';\n", ("node", "--test")),
    ],
)
def test_it_fails_by_itself(
    tmp_path: Path, runner: Runner, model: str, text: str, argv: tuple[str, ...]
) -> None:
    found = alarm(runner, model, text, DIGITS, inside=inside)
    (tmp_path / found.path).write_text(found.text)
    try:
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip(f"needs {argv[0]}")
    assert done.returncode == 1, done
    assert found.test in done.stdout + done.stderr


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
