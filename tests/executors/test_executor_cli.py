"""`cli` steps run a program without a shell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.controlled_time import shorten_grace
from support.task_run import Bench, task

from playbook_supervisor.executors.cli import CliExecutor
from playbook_supervisor.system.process.process_groups import worker_alive

CLI = CliExecutor()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    folder = tmp_path / "repository"
    folder.mkdir()
    return Bench(folder)


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


def test_the_last_lines_of_stdout_tell_where_stderr_is_silent(bench: Bench) -> None:
    code = "print('one'); print('two'); print(); raise SystemExit(3)"
    error = bench.error(CLI, task(*python(code)))
    assert error.message.endswith("exit status 3: two")
    assert error.cause == "one\ntwo"
    assert bench.error(CLI, task("false")).message == "false ended with exit status 1"


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


def test_a_program_that_ignores_sigterm_and_has_forked_is_ended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_grace(monkeypatch)
    code = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
print("deaf", flush=True)
time.sleep(600)
"""
    error = bench.error(CLI, task(*python(code)), bench.context(wall=1.0))
    assert error.code == "PB-STEP-TIMEOUT"
    assert "deaf" in bench.shown
    assert not worker_alive(bench.worker_file)


def test_a_program_that_closes_its_output_is_waited_for(bench: Bench) -> None:
    code = "import os, time; os.close(1); os.close(2); time.sleep(0.3); open('late', 'w').close()"
    assert bench.outcome(CLI, task(*python(code))).ok
    assert (bench.folder / "late").exists()


def test_a_hundred_megabytes_of_output_are_survived(bench: Bench) -> None:
    code = "import sys; [sys.stdout.write('x' * 1_000_000) for _ in range(100)]; print('end')"
    outcome = bench.outcome(CLI, task(*python(code)), bench.context(cap=10_000))
    assert outcome.ok
    assert outcome.output.endswith("xend\n")
    assert "99,990,004 bytes left out" in outcome.output
    assert sum(map(len, bench.shown)) < 10_100


def test_a_program_that_does_not_read_its_input_succeeds(bench: Bench) -> None:
    assert bench.outcome(CLI, task("true", stdin="x" * 1_000_000)).ok
