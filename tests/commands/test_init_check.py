"""`playbook init` tries the project's test command, and proposes it as the check `test`."""

from __future__ import annotations

import os

import pytest
from cli.terminal import Terminal
from support.in_process import Result
from support.scratch_project import Project

from playbook_supervisor.commands.install.proposals import Proposal, with_check
from playbook_supervisor.project.settings import config

FILE = config.FILE
CHANGE = ".playbooks/playbooks/auto-change.yaml"
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
    assert line.endswith(" checks: test: {run: [make, test], room: clean}, as Makefile says")
    assert tested.read(FILE) == (
        "# The settings of this project; `playbook schema config` describes every key.\n"
        "\n"
        "checks:\n"
        "  test: {run: [make, test], room: clean}\n"
    )
    assert argv(tested) == ("make", "test")


def npm(project: Project, script: str) -> None:
    """Let this stand for npm."""
    program = project.write("bin/npm", f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    project.env["PATH"] = f"{program.parent}:{os.environ['PATH']}"


def test_what_the_check_needs_is_in_its_environment(project: Project) -> None:
    npm(project, "[ $CI = 1 ]")
    project.write("package.json", NODE)
    project.playbook("init", "--yes")
    check = config.load(project.root).checks["test"]
    assert (check.argv, check.env) == (("npm", "test"), {"CI": "1"})


def makefile(project: Project, recipe: str) -> Result:
    """What `init --yes` says of a project whose tests are this program."""
    project.write("Makefile", f"test:\n\t@{recipe}\n")
    done = project.playbook("init", "--yes")
    assert done.code == 0, done.err
    return done


def test_a_command_that_runs_no_tests_is_not_proposed(project: Project) -> None:
    done = makefile(project, "echo nothing to test; exit 2")
    assert not (project.root / FILE).exists()
    assert "`make test` in a clean room: exit 2 in " in done.err
    assert "`make test` in the checkout: exit 2 in " in done.err
    assert (
        "auto-change left out: `make test` ran no tests; "
        '`playbook init --check "PROGRAM ARGUMENT"` adds the check\n'
    ) in done.err


def test_without_a_person_and_without_yes_nothing_is_run(project: Project) -> None:
    project.write("Makefile", "test:\n\ttouch ../ran\n")
    done = project.playbook("init")
    assert (done.code, "there is no terminal to ask at" in done.err) == (1, True)
    assert "trying" not in done.err
    assert not (project.root.parent / "ran").exists()


def test_tests_that_fail_already_are_proposed_and_said(project: Project) -> None:
    done = makefile(project, "echo 3 passed, 1 failed; exit 1")
    assert config.load(project.root).checks["test"].room == "clean"
    assert "these tests fail already" in done.err


@pytest.mark.long
def test_failing_tests_are_named_with_what_the_first_one_says(project: Project) -> None:
    project.write("test_one.py", "def test_a():\n    pass\n\n\ndef test_b():\n    assert 1 == 2\n")
    project.write("conftest.py", "")
    done = project.playbook("init", "--yes")
    said = "1 of 2 tests failed in "
    assert f"`python3 -m pytest` in a clean room: {said}" in done.err
    assert ': test_one::test_b ("assert 1 == 2")' in done.err


def test_where_tests_run_with_a_set_up_no_room_without_one_is_tried(project: Project) -> None:
    npm(project, "touch ready")
    project.write("package-lock.json", "{}")
    done = makefile(project, "cat ready && echo 3 passed, 1 failed; exit 1")
    tried = [line for line in done.err.splitlines() if line.startswith("trying ")]
    assert ["in a clean room" in line for line in tried] == [True, False]
    assert config.load(project.root).checks["test"].setup == (("npm", "ci"),)


def test_tests_that_need_an_ignored_file_run_in_the_checkout(project: Project) -> None:
    project.write(".gitignore", "made.txt\n")
    project.write("made.txt", "")
    done = makefile(project, "cat made.txt")
    assert config.load(project.root).checks["test"].room == "here"
    assert "they need files that git ignores" in done.err


def test_a_set_up_prepares_the_room_and_its_failure_is_said(project: Project) -> None:
    npm(project, "touch ready")
    project.write("package-lock.json", "{}")
    done = makefile(project, "cat ready")
    assert config.load(project.root).checks["test"].setup == (("npm", "ci"),)
    assert "trying `make test` in a clean room, as Makefile says, after `npm ci`" in done.err
    assert ", room ready in " in done.err
    (project.root / FILE).unlink()
    project.write("package-lock.json", "{ }")
    npm(project, "echo no network; exit 1")
    done = makefile(project, "true")
    assert config.load(project.root).checks["test"].setup == ()
    assert "its set-up `npm ci` ended with exit status 1" in done.err


REPORT = "<testsuite><testcase classname='calc' name='adds'/></testsuite>"


@pytest.mark.parametrize(
    ("script", "report", "said"),
    [
        (
            f'mkdir -p a/target/surefire-reports && echo "{REPORT}" > $_/a.xml',
            True,
            "1 test passed",
        ),
        ("echo 1 test passed", False, "exit 0 in "),
    ],
)
def test_reports_that_a_program_writes_by_itself_are_named_if_it_does(
    project: Project, script: str, *, report: bool, said: str
) -> None:
    project.write("mvnw", f"#!/bin/bash\n{script}\n").chmod(0o755)
    done = project.playbook("init", "--yes")
    assert f"`./mvnw test` in a clean room: {said}" in done.err
    expected = "**/target/surefire-reports/*.xml" if report else ""
    assert config.load(project.root).checks["test"].report == expected


def test_a_report_that_contradicts_its_exit_status_is_no_proposal(project: Project) -> None:
    failed = REPORT.replace("/></", "><failure/></testcase></")
    script = f'mkdir -p a/target/surefire-reports && echo "{failed}" > $_/a.xml'
    project.write("mvnw", f"#!/bin/bash\n{script}\n").chmod(0o755)
    done = project.playbook("init", "--yes")
    assert "it reports 1 failed test, but ended with exit status 0" in done.err
    assert not (project.root / FILE).exists()


@pytest.mark.parametrize("option", ["--no-check", "--dry-run"])
def test_tests_are_not_run_if_that_is_asked_for(project: Project, option: str) -> None:
    project.write("Makefile", "test:\n\ttouch ../ran\n")
    done = project.playbook("init", "--yes", option)
    assert done.code == 0, done.err
    assert "trying" not in done.err
    assert not (project.root / FILE).exists()
    assert ("checks: test: {run: [make, test]" in done.out) == (option == "--dry-run")


def test_settings_keep_every_byte_that_is_there(tested: Project) -> None:
    settings = "# Ours.\nagent:   claude # by default\n\nartifacts: {specs: features}\n"
    tested.write(FILE, settings)
    tested.playbook("init", "--yes")
    assert tested.read(FILE) == f"{settings}checks:\n  test: {{run: [make, test], room: clean}}\n"
    assert config.load(tested.root).agent == "claude"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("\n", "checks:\n  test: {run: [make, test], room: clean}\n"),
        (
            "# All defaults.",
            "# All defaults.\n\nchecks:\n  test: {run: [make, test], room: clean}\n",
        ),
        (
            "{agent: claude}\n",
            "{agent: claude, checks: {test: {run: [make, test], room: clean}}}\n",
        ),
        (
            "agent: claude\r\n",
            "agent: claude\r\nchecks:\r\n  test: {run: [make, test], room: clean}\r\n",
        ),
    ],
)
def test_any_settings_take_the_check(before: str, after: str) -> None:
    made = with_check(before.encode(), MAKE).decode()
    assert made.endswith(after)
    settings, problems = config.examine(made.encode(), FILE)
    assert not problems
    assert settings.checks["test"].argv == ("make", "test")


def test_checks_of_the_project_are_left_alone(tested: Project) -> None:
    tested.write(FILE, "checks: {lint: {run: [make, lint]}}\n")
    done = tested.playbook("init", "--yes")
    assert done.code == 0, done.err
    assert tested.read(FILE) == "checks: {lint: {run: [make, lint]}}\n"
    assert FILE not in done.out
    assert "the tests" not in done.err


def test_a_project_without_tests_is_told_how_to_add_them(project: Project) -> None:
    done = project.playbook("init", "--yes")
    assert not (project.root / FILE).exists()
    (line,) = [line for line in done.err.splitlines() if "the tests" in line]
    assert line == (
        "auto-change left out: no file names a command that runs the tests; "
        '`playbook init --check "PROGRAM ARGUMENT"` adds the check'
    )


def test_a_person_at_a_terminal_is_asked(tested: Project) -> None:
    with Terminal(tested, "init") as terminal:
        terminal.until("trying `make test` in a clean room, as Makefile says")
        terminal.until("`make test` in a clean room: exit 0 in ")
        terminal.until("test: {run: [make, test], room: clean}")
        terminal.type("n\n")
        terminal.until("Install auto-change now? It begins only once there is a check `test`.")
        terminal.type("\n")
        terminal.until("Write these files?")
        terminal.type("\n")
        assert terminal.end() == 0
    assert not (tested.root / FILE).exists()
    assert not (tested.root / CHANGE).exists()


def test_the_playbook_can_be_had_without_the_check(tested: Project) -> None:
    with Terminal(tested, "init") as terminal:
        terminal.until("Add `test: ")
        terminal.type("n\n")
        terminal.until("Install auto-change now?")
        terminal.type("y\n")
        terminal.until("Write these files?")
        terminal.type("\n")
        terminal.until("; `playbook init --check")
        assert terminal.end() == 0
    assert not (tested.root / FILE).exists()
    assert (tested.root / CHANGE).exists()


def test_an_answer_that_is_neither_yes_nor_no_is_asked_again(tested: Project) -> None:
    with Terminal(tested, "init") as terminal:
        terminal.until("Add `test: ")
        for said in ("?", "maybe"):
            terminal.type(f"{said}\n")
            terminal.until("Answer y or n; Enter means y. y lets playbooks prove their work by it")
            terminal.until("Add `test: ")
        terminal.type("\n")
        terminal.until("Write these files?")
        terminal.type("yes\n")
        assert terminal.end() == 0
    assert argv(tested) == ("make", "test")


def test_the_end_of_the_input_is_no_answer(tested: Project) -> None:
    with Terminal(tested, "init") as terminal:
        terminal.until("Add `test: ")
        terminal.type("\x04")
        terminal.until("the input ended without an answer [PB-ARG-USAGE]")
        assert terminal.end() == 1
    assert not (tested.root / ".playbooks/install.yaml").exists()


def test_what_came_to_nothing_is_tried_again_only_if_files_changed(project: Project) -> None:
    makefile(project, "exit 2")
    again = project.playbook("init", "--yes")
    assert "nothing to do" in again.err
    assert "`make test` ran no tests, and no file has changed since" in again.err
    assert "trying" not in again.err
    makefile(project, "true")
    assert argv(project) == ("make", "test")


@pytest.mark.parametrize(
    "before", ["", "checks:\n  lint: {run: [make, lint]}\n  test: {run: [tox], room: here}\n"]
)
def test_a_person_can_name_the_command(tested: Project, before: str) -> None:
    if before:
        tested.write(FILE, before)
    done = tested.playbook("init", "--yes", "--check", "make --silent test")
    assert done.code == 0, done.err
    assert argv(tested) == ("make", "--silent", "test")
    assert ("lint" in config.load(tested.root).checks) == bool(before)
    again = tested.playbook("init", "--yes", "--check", "make --silent test")
    assert "nothing to do" in again.err
    assert "trying" not in again.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nowhere --at-all", "`nowhere --at-all` runs no tests: cannot start 'nowhere'"),
        ("make test && true", "is not one program with its arguments"),
        ("make 'test", "is not one program with its arguments"),
    ],
)
def test_a_command_that_does_not_run_is_refused(tested: Project, line: str, said: str) -> None:
    done = tested.playbook("init", "--yes", "--check", line)
    assert (done.code, said in done.err) == (1, True), done.err
    assert not (tested.root / ".playbooks/install.yaml").exists()
