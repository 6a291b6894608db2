"""How a project runs its tests is read from its own files; nothing is run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from playbook_supervisor.commands.install.proposals import Proposal, detect

PIP = ".venv/bin/python -m pip install -q"
SCRIPT = '{"scripts": {"test": "node --test"}}'


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def proposed(root: Path, files: dict[str, str] | None = None) -> Proposal | None:
    """The command as it is without a set-up."""
    found = detect(written(root, files or {}))
    return next((each for each in found if not each.setup), None)


@pytest.mark.parametrize(
    ("files", "run", "source"),
    [
        ({"Makefile": "test:\n\tpytest\n"}, "make test", "Makefile"),
        ({"Makefile": "all lint test: build\n"}, "make test", "Makefile"),
        ({"GNUmakefile": "test:\n", "Makefile": "all:\n"}, "make test", "GNUmakefile"),
        ({"justfile": 'test only="" *rest: build\n'}, "just test", "justfile"),
        ({"Justfile": "@test:\n    pytest\n"}, "just test", "Justfile"),
        ({"Taskfile.yml": "tasks:\n  test:\n    cmd: x\n"}, "task test", "Taskfile.yml"),
        ({"package.json": SCRIPT}, "npm test", "package.json"),
        ({"package.json": SCRIPT, "pnpm-lock.yaml": ""}, "pnpm test", "package.json"),
        ({"pytest.ini": "[pytest]\n"}, "python3 -m pytest", "pytest.ini"),
        (
            {"pyproject.toml": "[tool.pytest.ini_options]\n"},
            "python3 -m pytest",
            "pyproject.toml",
        ),
        (
            {"pyproject.toml": 'dev = ["pytest-cov>=5"]\n', "uv.lock": ""},
            "uv run python -m pytest",
            "pyproject.toml",
        ),
        ({"setup.cfg": "[tool:pytest]\n"}, "python3 -m pytest", "setup.cfg"),
        ({"tests/conftest.py": ""}, "python3 -m pytest", "tests/conftest.py"),
        ({"tox.ini": "[tox]\n"}, "tox", "tox.ini"),
        ({"noxfile.py": "def lint(s):\n  0\ndef tests(s):\n  0\n"}, "nox -s tests", "noxfile.py"),
        (
            {"tests/test_one.py": "import unittest\n"},
            "python3 -m unittest discover -s tests",
            "tests/test_one.py",
        ),
        ({"Rakefile": "Rake::TestTask.new do |t|\n"}, "rake test", "Rakefile"),
        ({"Rakefile": "task :test\n", "Gemfile": ""}, "bundle exec rake test", "Rakefile"),
        ({".rspec": "", "Gemfile": ""}, "bundle exec rspec", ".rspec"),
        ({"composer.json": '{"scripts": {"test": ["x"]}}'}, "composer test", "composer.json"),
        ({"phpunit.xml.dist": "<phpunit/>"}, "vendor/bin/phpunit", "phpunit.xml.dist"),
        ({"Cargo.toml": "[package]\n"}, "cargo test", "Cargo.toml"),
        ({"go.mod": "module x\n"}, "go test ./...", "go.mod"),
        ({"gradlew": "", "build.gradle": ""}, "./gradlew test", "gradlew"),
        ({"mvnw": "", "pom.xml": ""}, "./mvnw test", "mvnw"),
        ({"App.sln": ""}, "dotnet test", "App.sln"),
    ],
)
def test_the_project_says_how_its_tests_run(
    files: dict[str, str], run: str, source: str, tmp_path: Path
) -> None:
    found = proposed(tmp_path, files)
    assert found is not None
    assert (" ".join(found.run), found.source) == (run, source)


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"Makefile": "tests:\n\techo no\n"},
        {"Makefile": "test := 1\ntest ::= 1\n# test: later\nall:\n\techo test: x\n.PHONY: test\n"},
        {"justfile": 'test := "x"\ntest-all:\n  x\n'},
        {"Taskfile.yml": "tasks:\n  build:\n"},
        {"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'},
        {"package.json": '{"scripts": {"test": ["not", "text"]}}'},
        {"package.json": "[" * 100_000},
        {"package.json": "not JSON"},
        {"pyproject.toml": "[project]\n", "setup.cfg": "[metadata]\n", "uv.lock": ""},
        {"noxfile.py": "def lint(s):\n  0\n", "tests/test_one.py": "assert True\n"},
        {"Rakefile": "task :tests\n", "composer.json": "{}"},
        {"Makefile": "test:\n" + "x" * (1 << 20)},
    ],
)
def test_files_that_name_no_tests_propose_nothing(files: dict[str, str], tmp_path: Path) -> None:
    assert proposed(tmp_path, files) is None


def test_a_task_runner_comes_before_the_default_of_a_language(tmp_path: Path) -> None:
    files = {"Cargo.toml": "", "package.json": SCRIPT, "Makefile": "test:\n\tcargo test\n"}
    found = proposed(tmp_path, files)
    assert found == Proposal(("make", "test"), "Makefile")


def test_a_runner_of_node_is_told_not_to_watch_files(tmp_path: Path) -> None:
    found = proposed(tmp_path, {"package.json": SCRIPT})
    assert found is not None
    assert found.env == {"CI": "1"}


def test_a_file_outside_the_project_says_nothing(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("test:\n\trm -r /\n")
    root = tmp_path / "project"
    root.mkdir()
    (root / "Makefile").symlink_to(outside)
    assert proposed(root) is None


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "Makefile")
    os.mkfifo(tmp_path / "noxfile.py")
    assert proposed(tmp_path) is None


def test_text_that_is_not_utf_8_is_read_as_far_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_bytes(b"# \xff\xfe\ntest:\n\ttrue\n")
    assert proposed(tmp_path) == Proposal(("make", "test"), "Makefile")


@pytest.mark.parametrize(
    ("files", "setup", "run"),
    [
        ({"package.json": SCRIPT, "package-lock.json": ""}, ["npm ci"], "npm test"),
        ({"pytest.ini": "", "uv.lock": ""}, ["uv sync --frozen"], "uv run python -m pytest"),
        (
            {"Makefile": "test:\n", "uv.lock": "", "package-lock.json": ""},
            ["uv sync --frozen", "npm ci"],
            "make test",
        ),
        (
            {"pytest.ini": "", "requirements-dev.txt": ""},
            ["python3 -m venv .venv", f"{PIP} pytest -r requirements-dev.txt"],
            ".venv/bin/python -m pytest",
        ),
        (
            {
                "pyproject.toml": (
                    "[project]\n[project.optional-dependencies]\n"
                    'doc = ["sphinx"]\ntest = ["pytest"]\n'
                )
            },
            ["python3 -m venv .venv", f"{PIP} pytest -e .[test]"],
            ".venv/bin/python -m pytest",
        ),
        (
            {"setup.py": "", "tests/test_one.py": "import unittest\n"},
            ["python3 -m venv .venv", f"{PIP} -e ."],
            ".venv/bin/python -m unittest discover -s tests",
        ),
    ],
)
def test_what_the_tests_need_is_set_up_first_in_a_clean_room(
    files: dict[str, str], setup: list[str], run: str, tmp_path: Path
) -> None:
    first, *others = detect(written(tmp_path, files))
    assert [" ".join(each) for each in first.setup] == setup
    assert (" ".join(first.run), first.room) == (run, "clean")
    assert [(each.setup, each.room) for each in others] == [((), "clean"), ((), "here")]


def test_without_a_lock_file_a_clean_room_comes_before_the_checkout(tmp_path: Path) -> None:
    found = detect(written(tmp_path, {"Makefile": "test:\n"}))
    assert [(each.setup, each.room) for each in found] == [((), "clean"), ((), "here")]
