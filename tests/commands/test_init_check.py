"""`playbook init` proposes the project's test command as the check `test`."""

from __future__ import annotations

import pytest
from cli.terminal import Terminal
from support.scratch_project import Project

from playbook_supervisor.commands.install.survey import Proposal, with_check
from playbook_supervisor.project.settings import config

FILE = config.FILE
MAKE = Proposal(("make", "test"), "Makefile")
NODE = '{"scripts": {"test": "node --test"}}'


@pytest.fixture
def tested(project: Project) -> Project:
    """A project whose Makefile runs its tests."""
    project.write("Makefile", "test:\n\ttrue\n")
    return project


def argv(project: Project, name: str = "test") -> tuple[str, ...]:
    return config.load(project.root).checks[name].argv


def test_the_check_is_written_with_yes_and_named_in_the_plan(tested: Project) -> None:
    done = tested.playbook("init", "--yes")
    assert done.code == 0, done.err
    (line,) = [line for line in done.out.splitlines() if FILE in line]
    assert line.startswith("write ")
    assert line.endswith(" checks: test: {run: [make, test]}, as Makefile says")
    assert tested.read(FILE) == (
        "# The settings of this project; `playbook schema config` describes every key.\n"
        "\n"
        "checks:\n"
        "  test: {run: [make, test]}\n"
    )
    assert argv(tested) == ("make", "test")


def test_a_second_run_changes_nothing(tested: Project) -> None:
    tested.playbook("init", "--yes")
    done = tested.playbook("init", "--yes")
    assert {line.split()[0] for line in done.out.splitlines()} == {"keep"}


def test_what_the_check_needs_is_in_its_environment(project: Project) -> None:
    project.write("package.json", NODE)
    project.playbook("init", "--yes")
    check = config.load(project.root).checks["test"]
    assert (check.argv, check.env) == (("npm", "test"), {"CI": "1"})


def test_settings_keep_every_byte_that_is_there(tested: Project) -> None:
    settings = "# Ours.\nagent:   claude # by default\n\nartifacts: {specs: features}\n"
    tested.write(FILE, settings)
    tested.playbook("init", "--yes")
    assert tested.read(FILE) == f"{settings}checks:\n  test: {{run: [make, test]}}\n"
    assert config.load(tested.root).agent == "claude"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "checks:\n  test: {run: [make, test]}\n"),
        ("\n", "checks:\n  test: {run: [make, test]}\n"),
        ("# All defaults.", "# All defaults.\n\nchecks:\n  test: {run: [make, test]}\n"),
        ("{agent: claude}\n", "{agent: claude, checks: {test: {run: [make, test]}}}\n"),
        ("{}\n", "{checks: {test: {run: [make, test]}}}\n"),
        ("agent: claude", "agent: claude\nchecks:\n  test: {run: [make, test]}"),
        ("agent: claude\r\n", "agent: claude\r\nchecks:\r\n  test: {run: [make, test]}\r\n"),
    ],
)
def test_any_settings_take_the_check(before: str, after: str) -> None:
    made = with_check(before.encode(), MAKE).decode()
    assert made.endswith(after)
    settings, problems = config.examine(made.encode(), FILE)
    assert not problems
    assert settings.checks["test"].argv == ("make", "test")


@pytest.mark.parametrize("checks", ["{}", "{lint: {run: [make, lint]}}"])
def test_checks_of_the_project_are_left_alone(tested: Project, checks: str) -> None:
    tested.write(FILE, f"checks: {checks}\n")
    done = tested.playbook("init", "--yes")
    assert done.code == 0, done.err
    assert tested.read(FILE) == f"checks: {checks}\n"
    assert FILE not in done.out
    assert "the tests" not in done.err


def test_a_project_without_tests_is_told_how_to_add_them(project: Project) -> None:
    done = project.playbook("init", "--yes")
    assert not (project.root / FILE).exists()
    (line,) = [line for line in done.err.splitlines() if "the tests" in line]
    assert line == (
        "no file names a command that runs the tests; add it to .playbooks/config.yaml: "
        "`checks: {test: {run: [PROGRAM, ARGUMENT]}}`"
    )


def test_a_person_at_a_terminal_is_asked(tested: Project) -> None:
    with Terminal(tested, "init") as terminal:
        terminal.until("The tests run with `make test`, says Makefile.")
        terminal.until("test: {run: [make, test]}")
        terminal.type("n\n")
        terminal.until("Write these files?")
        terminal.type("\n")
        assert terminal.end() == 0
    assert not (tested.root / FILE).exists()
    with Terminal(tested, "init") as terminal:
        terminal.until("Add `test: ")
        terminal.type("\n")
        terminal.until("Write these files?")
        terminal.type("\n")
        assert terminal.end() == 0
    assert argv(tested) == ("make", "test")


def test_update_does_not_touch_the_settings(tested: Project) -> None:
    tested.playbook("init", "--yes")
    tested.write(FILE, "agent: claude\n")
    done = tested.playbook("update")
    assert done.code == 0, done.err
    assert tested.read(FILE) == "agent: claude\n"


def test_a_folder_in_the_way_is_a_conflict_and_nothing_is_written(tested: Project) -> None:
    (tested.root / FILE).mkdir(parents=True)
    done = tested.playbook("init", "--yes")
    assert done.code == 3
    assert FILE in done.err
    assert not (tested.root / ".playbooks/install.yaml").exists()
