"""`cli` steps run a program without a shell."""

from __future__ import annotations

import sys

from support.task_run import Bench, task

from playbook_supervisor.executors.cli import CliExecutor

CLI = CliExecutor()


def python(code: str, *words: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code, *words)


def test_a_program_s_output_is_the_step_s(bench: Bench) -> None:
    """tyr 14: no shell reads its words."""
    outcome = bench.outcome(CLI, task("echo", "a b", "$HOME", "*", "; rm -rf /"))
    assert outcome.ok
    assert outcome.output == "a b $HOME * ; rm -rf /\n"
    assert bench.shown == ["a b $HOME * ; rm -rf /"]


def test_it_runs_in_the_step_s_folder_with_its_variables_and_input(bench: Bench) -> None:
    code = "import os, sys; print(os.getcwd(), os.environ['A'], os.environ['B'], sys.stdin.read())"
    options = {"env": {"B": "ours"}, "stdin": "typed"}
    made = task(*python(code), env={"A": "theirs", "B": "theirs"}, options=options)
    assert bench.outcome(CLI, made).output == f"{bench.folder} theirs ours typed\n"


def test_the_output_of_an_earlier_step_comes_before_the_text_of_the_file(bench: Bench) -> None:
    made = task("cat", stdin="earlier", options={"stdin": "text"})
    assert bench.outcome(CLI, made).output == "earlier"


def test_another_exit_status_fails_with_the_last_lines(bench: Bench) -> None:
    code = "import sys; print('1 failed'); sys.exit('Error: boom')"
    outcome = bench.outcome(CLI, task(*python(code)))
    assert outcome.error is not None
    assert outcome.error.code == "PB-STEP-FAILED"
    assert outcome.error.message == f"{sys.executable} ended with exit status 1: Error: boom"
    assert outcome.error.cause == "Error: boom"
    assert outcome.output == "1 failed\n"


def test_a_killed_program_has_crashed(bench: Bench) -> None:
    error = bench.error(CLI, task(*python("import os; os.kill(os.getpid(), 9)")))
    assert (error.code, error.message) == (
        "PB-STEP-CRASHED",
        f"{sys.executable} was killed by SIGKILL",
    )


def test_a_program_that_is_not_there_fails_for_good(bench: Bench) -> None:
    error = bench.error(CLI, task("no-such-program"))
    assert (error.code, error.lasts) == ("PB-STEP-PROGRAM", True)
    assert "no-such-program" in error.message
    assert bench.error(CLI, task()).message == "`cli` names no program"


def test_hostile_words_are_only_words(bench: Bench) -> None:
    assert bench.error(CLI, task("echo", "a\0b")).code == "PB-STEP-PROGRAM"
    assert (
        bench.error(CLI, task("no\x1b[31m-such")).message
        == "cannot start 'no\\x1b[31m-such': No such file or directory"
    )
