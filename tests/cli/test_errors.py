"""Errors: what, where, how to fix it, and the exit code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from pytest_mock import MockerFixture
from support.in_process import Result
from support.scratch_project import Project

from cli.scripts import GATED, WORKS, conforms
from playbook_supervisor.cli import dispatch
from playbook_supervisor.cli.app import SUMMARIES, invoke, load
from playbook_supervisor.errors import ArgumentError

pytestmark = pytest.mark.measured

BUG = """
import sys
from playbook_supervisor import __main__
from playbook_supervisor.cli import dispatch
from playbook_supervisor.project.playbooks import library

def playbooks(root):
    raise RuntimeError(f"out of\\x1b[31m luck in {root}")

library.playbooks = playbooks
sys.exit(__main__.main())
"""


def with_a_bug(project: Project, *args: str, **env: str) -> Result:
    done = subprocess.run(
        [sys.executable, "-c", BUG, *args],
        cwd=project.root,
        env={**project.environment, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def test_an_error_says_what_where_and_how_to_fix_it(project: Project, tmp_path: Path) -> None:
    """cat SC-4, EX-1, EX-3, PL-3: three lines at most, never a traceback."""
    cases = [
        (["list"], tmp_path, 3, "PB-STATE-NO-REPOSITORY"),
        (["next"], tmp_path, 3, "PB-STATE-NO-REPOSITORY"),
        (["runn"], project.root, 1, "PB-ARG-USAGE"),
        (["run"], project.root, 1, "PB-ARG-USAGE"),
        (["run", "auto-feature", "--mode", "fast"], project.root, 1, "PB-ARG-USAGE"),
        (["--log-level", "loud", "list"], project.root, 1, "PB-ARG-USAGE"),
        (["status", "\x1b[31mred"], project.root, 3, "PB-STATE-NO-SESSION"),
        (["answer", "continue"], project.root, 3, "PB-STATE-NO-SESSION"),
    ]
    for args, where, code, name in cases:
        done = project.playbook(*args, cwd=where)
        lines = done.err.splitlines()
        assert (done.code, done.out) == (code, ""), args
        assert lines[0].startswith("error: ")
        assert lines[0].endswith(f"[{name}]")
        assert lines[-1].startswith("  do: ")
        assert len(lines) <= 3
        assert "\x1b" not in done.err


def test_usage_errors_say_which_help_to_read(project: Project) -> None:
    """cat EX-1."""
    assert "Did you mean 'playbook run'?" in project.playbook("runn").err
    assert "See `playbook run --help`." in project.playbook("run").err
    assert "no such option" in project.playbook("list", "--al").err
    assert project.playbook("next", "--wat").code == 1


TAKE_TEXT = [
    (name, parameter)
    for name in sorted(SUMMARIES)
    for parameter in load(name).params
    if not getattr(parameter, "is_flag", False) and parameter.name != "args"
]


def test_empty_values_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as `--session "$ID"` with an unset variable."""
    monkeypatch.chdir(tmp_path)  # where nothing could be meant
    assert len(TAKE_TEXT) > 50
    for command, parameter in TAKE_TEXT:
        if command == "claude":  # its arguments are the client's
            continue
        others = [
            "plan#1"
            for each in load(command).params
            if each is not parameter and isinstance(each, click.Argument) and each.required
        ]
        name = [parameter.opts[0]] if isinstance(parameter, click.Option) else []
        said = [*name, parameter.human_readable_name][0]
        with pytest.raises(ArgumentError) as caught:
            invoke([command, *others, *name, *[""] * max(parameter.nargs, 1)])
        assert caught.value.message.startswith(f"invalid value for '{said}'"), command
    assert caught.value.guidance == f"See `playbook {command} --help`."


@pytest.mark.parametrize(
    "words",
    [
        ["report", "plan#1", "--error", ""],
        ["check", ""],
        ["answer", "", "continue"],
        ["resume", "--session="],
    ],
    ids=" ".join,
)
def test_empty_words_are_never_ignored(project: Project, words: list[str]) -> None:
    done = project.playbook(*words)
    what, cure = done.err.splitlines()
    assert (done.code, done.out) == (1, "")
    assert what.endswith("': it is empty; is a variable not set? [PB-ARG-USAGE]")
    assert cure == f"  do: See `playbook {words[0]} --help`."


def test_an_arg_of_a_playbook_may_be_empty(project: Project) -> None:
    """An empty value of a required arg counts as missing."""
    done = project.playbook("run", "auto-validate", "", "--dry-run")
    assert "auto-validate: feature is missing [PB-ARG-INVALID]" in done.err
    optional = GATED.replace("args: []", "args: [{name: note, description: n, required: false}]")
    project.write(".playbooks/playbooks/gated.yaml", optional)
    agent = project.script(WORKS)
    assert project.playbook("run", "gated", "", "--agent", agent, "--dry-run").code == 0


def test_commands_with_json_print_their_errors_as_one_object(project: Project) -> None:
    for args, code in (
        (["next", "--json"], "PB-STATE-NO-SESSION"),
        (["run", "auto-feature", "--json"], "PB-ARG-INVALID"),
        (["run", "--json"], "PB-ARG-USAGE"),
        (["list", "--json", "extra"], "PB-ARG-USAGE"),
    ):
        done = project.playbook(*args)
        shape = conforms("error", done.json)
        assert shape["error"]["code"] == code
        assert f"[{code}]" in done.err
    details = project.playbook("run", "auto-feature", "--json").json["error"]["details"]
    assert details[0].startswith("feature (required)")
    assert project.playbook("answer", "--", "--json").out == ""


def test_debug_shows_a_traceback(project: Project) -> None:
    for args in (["--debug", "list", "x"], ["answer", "x", "--debug"]):
        done = project.playbook(*args)
        assert "Traceback" in done.err
        assert done.err.splitlines()[-1].startswith("  do: ")


class TestABugOfOurs:
    def test_exits_with_70_and_writes_a_report(self, project: Project, tmp_path: Path) -> None:
        done = with_a_bug(project, "list", "--log-level=debug", TMPDIR=str(tmp_path))
        assert done.code == 70
        assert "Traceback" not in done.err
        assert "internal error: RuntimeError: out of luck" in done.err
        (report,) = tmp_path.glob("playbook-bug-*.txt")
        assert f"  at: {report}" in done.err
        text = report.read_text("utf-8")
        assert re.match(r"playbook \d+\.\d+\.\d+, Python 3", text)
        assert "\nplaybook list --log-level\n" in text
        assert "RuntimeError: out of" in text
        assert str(project.home) not in text
        assert report.stat().st_mode & 0o077 == 0

    def test_reports_no_value_of_an_option(self, project: Project, tmp_path: Path) -> None:
        """Also of one that is the first word."""
        bug = BUG.replace("library.playbooks = playbooks", "dispatch._parsed_by_click = playbooks")
        done = subprocess.run(
            [sys.executable, "-c", bug, "--token=hunter2", "list"],
            cwd=project.root,
            env={**project.environment, "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        (report,) = tmp_path.glob("playbook-bug-*")
        assert done.returncode == 70
        assert "playbook --token" in report.read_text()
        assert "hunter2\n" not in report.read_text().partition("Traceback")[0]

    def test_that_is_the_interpreters_for_lack_of_memory_is_a_limit(
        self, project: Project, mocker: MockerFixture
    ) -> None:
        """It raises a SystemError first, and then there is no memory for a report either."""
        mocker.patch.object(dispatch, "_parsed_by_click", side_effect=SystemError("no exception"))
        mocker.patch("tempfile.mkstemp", side_effect=MemoryError)
        done = project.playbook("list")
        assert done.code == 3
        assert done.err.startswith("error: a limit of this system: not enough memory [PB-IO-LIMIT]")

    def test_is_shown_even_if_no_report_can_be_written(self, project: Project) -> None:
        program = "import tempfile; tempfile.tempdir = '/nonexistent/folder'" + BUG
        done = subprocess.run(
            [sys.executable, "-c", program, "list", "--debug"],
            cwd=project.root,
            env=project.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 70
        assert "the report could not be written: No such file" in done.stderr
        assert "Traceback" in done.stderr


def test_an_ascii_terminal_shows_ascii_signs(project: Project) -> None:
    project.process("begin", "auto-validate", "013")
    done = project.process("next", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.code == 0
    assert " | auto-validate | " in done.out
