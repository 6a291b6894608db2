"""What becomes of a task, whatever its executor does."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
from support.task_run import Bench, Faked, task

from playbook_supervisor.errors import GitError, PolicyError, StorageError
from playbook_supervisor.executors import protocol as module
from playbook_supervisor.executors.protocol import Context, Task, failed
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.system.process.process_groups import worker_alive

SECRET = "correct-horse-battery"


def raising(error: BaseException) -> Faked:
    def fail(_: Task, __: Context) -> Outcome:
        raise error

    return Faked(fail)


def printing(text: str, **more: Any) -> Faked:
    return Faked(lambda _, __: Outcome(output=text, **more))


# ── failures ────────────────────────────────────────────────────────────────────────────────


def test_an_exception_is_a_crash_of_the_executor(bench: Bench) -> None:
    """cat FR-4.11: a failure is data, with code, message and guidance."""
    error = bench.error(raising(ZeroDivisionError("by\x1b[31m zero")), task())
    assert error.code == "PB-STEP-CRASHED"
    assert error.message == "the executor cli raised ZeroDivisionError: by zero"


def test_an_executor_that_exits_or_returns_something_else_has_crashed(bench: Bench) -> None:
    assert "raised SystemExit" in bench.error(raising(SystemExit(0)), task()).message
    assert "no outcome" in bench.error(Faked(lambda _, __: "fine"), task()).message


@pytest.mark.parametrize(
    ("error", "code", "lasts"),
    [
        (StorageError("PB-IO-PROGRAM", "cannot start 'x'"), "PB-STEP-PROGRAM", True),
        (PolicyError("PB-POLICY-DENIED", "no"), "PB-POLICY-DENIED", True),
        (GitError("PB-GIT-FAILED", "no such branch", cause="fatal"), "PB-STEP-FAILED", False),
    ],
)
def test_an_error_that_is_raised_is_the_step_s_failure(
    bench: Bench, error: Exception, code: str, *, lasts: bool
) -> None:
    failure = bench.error(raising(error), task())
    assert (failure.code, failure.lasts) == (code, lasts)
    assert failure.message == str(error)
    if code == "PB-STEP-FAILED":
        assert failure.cause == "PB-GIT-FAILED: fatal"


# ── deadlines and stopping ──────────────────────────────────────────────────────────────────


def test_a_deadline_ends_a_program_and_all_that_it_started(bench: Bench) -> None:
    """tyr 25."""
    forks = f"{sys.executable} -c 'import time; time.sleep(600)' & exec sleep 600"
    (bench.folder / "forks").write_text(f"#!/bin/sh\n{forks}\n")
    (bench.folder / "forks").chmod(0o755)
    runs = Faked(lambda _, context: Outcome(output=context.run(["./forks"]).stdout))
    error = bench.error(runs, task(), bench.context(wall=0.3))
    assert error.code == "PB-STEP-TIMEOUT"
    assert error.message == "cli ran for more than 0.3 s"
    assert not worker_alive(bench.worker_file)


def test_silence_ends_a_program(bench: Bench) -> None:
    runs = Faked(lambda _, context: Outcome(output=context.run(["sleep", "600"]).stdout))
    error = bench.error(runs, task(), bench.context(idle=0.3))
    assert (error.code, error.message) == ("PB-STEP-TIMEOUT", "cli printed nothing for 0.3 s")


def test_an_executor_that_waits_without_a_program_is_told_of_its_deadline(bench: Bench) -> None:
    def waits(_: Task, context: Context) -> Outcome:
        assert context.remaining is not None
        ended = threading.Event()
        context.on_stop(ended.set)
        ended.wait()
        assert context.stopped
        return failed("PB-STEP-FAILED", "connection closed", output="so far")

    outcome = bench.outcome(Faked(waits), task(), bench.context(wall=0.2))
    assert outcome.error is not None
    assert outcome.error.code == "PB-STEP-TIMEOUT"
    assert outcome.output == "so far"


def test_an_executor_that_ignores_its_deadline_is_left_behind(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE", 0.2)
    forever = threading.Event()
    deaf = Faked(lambda _, __: forever.wait())
    error = bench.error(deaf, task(), bench.context(wall=0.2))
    forever.set()
    assert error.code == "PB-STEP-TIMEOUT"


def test_a_person_stops_it_from_another_thread(bench: Bench) -> None:
    context = bench.context()

    def runs(_: Task, inner: Context) -> Outcome:
        threading.Timer(0.2, context.stop).start()
        return Outcome(output=inner.run(["sleep", "600"]).stdout)

    error = bench.error(Faked(runs), task(), context)
    assert (error.code, error.message) == ("PB-STEP-CRASHED", "cli was stopped before it ended")
    assert not worker_alive(bench.worker_file)


def test_a_task_that_succeeded_as_it_was_stopped_has_succeeded(bench: Bench) -> None:
    context = bench.context()

    def ends(_: Task, __: Context) -> Outcome:
        context.stop()
        return Outcome(output="done")

    assert bench.outcome(Faked(ends), task(), context).ok


def test_an_end_that_fails_does_not_keep_the_others_from_ending(bench: Bench) -> None:
    context, ended = bench.context(), threading.Event()
    context.on_stop(lambda: 1 / 0)  # type: ignore[arg-type]
    context.on_stop(ended.set)
    context.stop()
    context.stop("wall")
    assert ended.is_set()
    assert context.why == "stop"


# ── programs ────────────────────────────────────────────────────────────────────────────────


def test_every_line_is_shown_and_logged_as_it_comes(bench: Bench) -> None:
    def runs(_: Task, context: Context) -> Outcome:
        context.say("before\x1b]0;title\x07\nafter")
        context.run([sys.executable, "-c", "import sys; print('out'); sys.stderr.write('err')"])
        context.run(["echo", "unheard"], quiet=True)
        return Outcome()

    bench.outcome(Faked(runs), task())
    assert sorted(bench.shown) == ["after", "before", "err", "out"]
    assert bench.logged == bench.shown


def test_a_process_that_a_program_leaves_behind_is_ended_and_named(bench: Bench) -> None:
    (bench.folder / "leaves").write_text("#!/bin/sh\nsleep 600 &\n")
    (bench.folder / "leaves").chmod(0o755)
    bench.outcome(
        Faked(lambda _, context: Outcome(output=context.run(["./leaves"]).stdout)), task()
    )
    assert "left processes behind, which were ended: sleep" in bench.notices[0]
    assert not worker_alive(bench.worker_file)


def test_a_program_that_the_project_forbids_is_refused_before_it_runs(bench: Bench) -> None:
    runs = Faked(lambda _, context: context.run(["sh", "-c", "touch made"]))
    assert bench.error(runs, task()).code == "PB-POLICY-DENIED"
    assert not (bench.folder / "made").exists()


# ── what an outcome may contain ─────────────────────────────────────────────────────────────


def test_a_secret_is_nowhere_in_what_is_kept(bench: Bench) -> None:
    """tyr 28."""

    def tells(_: Task, context: Context) -> Outcome:
        context.say(f"using {SECRET}")
        context.run(["echo", SECRET])
        disguised = f"{SECRET[:5]}\x00{SECRET[5:]}"
        error = failed("PB-STEP-FAILED", SECRET, guidance=SECRET, cause=disguised).error
        data = {SECRET: [SECRET, 1], "inner": {"deep": f"a {SECRET}"}}
        return Outcome(error=error, output=disguised, data=data, files=(SECRET,))

    context = bench.context(secrets=(SECRET,))
    outcome = bench.outcome(Faked(tells), task(), context)
    kept = f"{outcome} {outcome.error} {bench.shown} {bench.logged}"
    assert SECRET not in kept
    assert kept.count("[redacted]") >= 10


def test_output_keeps_its_tabs_and_lines_and_loses_control_characters(bench: Bench) -> None:
    outcome = bench.outcome(printing("a\tb\r\n\x1b[1mc\x07\n"), task())
    assert outcome.output == "a\tb\nc\n"


def test_output_beyond_the_cap_is_cut_and_marked(bench: Bench) -> None:
    """tyr 20, 25."""
    lines = [f"line {number}" for number in range(10_000)]

    def shouts(_: Task, context: Context) -> Outcome:
        for line in lines:
            context.say(line)
        return Outcome(output="\n".join(lines))

    outcome = bench.outcome(Faked(shouts), task(), bench.context(cap=1_000))
    assert "bytes left out" in outcome.output
    assert len(outcome.output) < 1_100
    assert bench.shown[-1] == "… cut: more than 1000 bytes of output"
    assert len(bench.shown) < 200
    assert bench.logged == lines
