"""The contracts of an agent and of an executor, as checks for any test runner; ours pass them.

    import pytest
    from playbook_supervisor.testing import AGENT_CHECKS

    @pytest.mark.parametrize("check", AGENT_CHECKS, ids=lambda check: check.__name__)
    def test_my_agent_conforms(check, tmp_path):
        check(MyAgent(...), tmp_path)

Set up the agent under test to understand these commands, which it receives as `call.command`,
`call.prompt` and, without the slash, `call.step`:

    /works    prints something, writes works.txt into its working directory, succeeds
    /fails    prints something and fails
    /dies     is killed by SIGKILL
    /hangs    prints a line at once, then works for ever without further output; child processes,
              if any, hold an exclusive flock on hangs.lock as long as they live
    /shouts   prints a hundred lines of a hundred characters
    /colours  prints a line with terminal sequences and control characters

A check takes the agent and an empty folder, and raises ConformanceError, an AssertionError.

The checks of an executor take a trial, too, which says what it is to do:

    from playbook_supervisor.testing import EXECUTOR_CHECKS, ExecutorTrial

    TRIAL = ExecutorTrial(works=Task(...), fails=Task(...), hangs=Task(...))

    @pytest.mark.parametrize("check", EXECUTOR_CHECKS, ids=lambda check: check.__name__)
    def test_my_executor_conforms(check, tmp_path):
        check(MyExecutor(), TRIAL, tmp_path)
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from threading import Thread

from playbook_supervisor.agents.protocol import (
    Agent,
    Call,
    Message,
    Reply,
    Request,
    Running,
    can_continue,
)
from playbook_supervisor.executors.conformance import DEADLINE, expect, expect_gone
from playbook_supervisor.executors.conformance import EXECUTOR_CHECKS as EXECUTOR_CHECKS
from playbook_supervisor.executors.conformance import ConformanceError as ConformanceError
from playbook_supervisor.executors.conformance import ExecutorCheck as ExecutorCheck
from playbook_supervisor.executors.conformance import ExecutorTrial as ExecutorTrial
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.records import replace
from playbook_supervisor.system.process.process_groups import worker_alive

CAP = 1_000  # bytes of output that are kept
MARK = 200  # bytes that the mark of a cut may take

AgentCheck = Callable[[Agent, Path], None]


def call_for(
    command: str,
    folder: Path,
    *,
    wall: float | None = None,
    idle: float | None = None,
    cap: int = 1_000_000,
) -> Call:
    """The call of a check: `command` without its slash, in a new subfolder of `folder`."""
    cwd = folder / "repository"
    cwd.mkdir(parents=True, exist_ok=True)
    return Call(
        session="20260219-a7k",
        directive=f"{command}#1",
        step=command,
        attempt=1,
        command=f"/{command}",
        args="",
        feature="013-conformance",
        prompt=f"/{command}",
        cwd=cwd,
        worker_file=folder / "worker.json",
        wall=wall,
        idle=idle,
        cap=cap,
    )


def is_named_and_available(agent: Agent, folder: Path) -> None:
    """It has a name for the journal and is available."""
    del folder
    expect(agent.name == printable(agent.name).strip() != "", "its name is not printable")
    expect(agent.available() is None, f"it is not available: {agent.available()}")


def ends_with_exactly_one_outcome(agent: Agent, folder: Path) -> None:
    """The last message carries the outcome, and no other does."""
    for command in ("works", "fails"):
        messages = list(agent.run(call_for(command, folder)))
        carrying = [index for index, each in enumerate(messages) if each.outcome is not None]
        expect(carrying == [len(messages) - 1], f"/{command}: outcomes in messages {carrying}")


def streams_its_output(agent: Agent, folder: Path) -> None:
    """Its output arrives as messages and as the outcome's output."""
    messages = list(agent.run(call_for("works", folder)))
    expect(any(message.text for message in messages), "/works: it printed nothing")
    expect(_outcome(messages).output != "", "/works: the outcome has no output")


def works_in_the_directory_given(agent: Agent, folder: Path) -> None:
    """It writes into the call's directory, not into the runner's."""
    call = call_for("works", folder)
    outcome = _outcome(list(agent.run(call)))
    expect(outcome.ok, f"/works: {outcome.error}")
    expect((call.cwd / "works.txt").is_file(), "/works: works.txt is not in its directory")
    expect(not Path("works.txt").exists(), "/works: works.txt is in the runner's directory")


def concurrent_calls_do_not_interfere(agent: Agent, folder: Path) -> None:
    """A parallel group runs several calls of one agent at the same time."""
    calls = [call_for("works", folder / name) for name in ("first", "second")]
    for running in [agent.run(call) for call in calls]:
        outcome = _outcome(list(running))
        expect(outcome.ok, f"/works, two at once: {outcome.error}")
    for call in calls:
        expect((call.cwd / "works.txt").is_file(), "/works, two at once: a file is missing")


def a_failure_has_message_and_guidance(agent: Agent, folder: Path) -> None:
    """A failure is an outcome with a code, a message and guidance, never an exception."""
    for command in ("fails", "dies"):
        error = _error(list(agent.run(call_for(command, folder))), f"/{command}")
        expect(error.code.startswith("PB-AGENT-"), f"/{command}: its code is {error.code}")
        expect(error.message != "", f"/{command}: no message")
        expect(error.guidance != "", f"/{command}: no guidance")


def the_wall_deadline_ends_it(agent: Agent, folder: Path) -> None:
    """It runs for at most `wall` seconds, and no process remains."""
    _times_out(agent, call_for("hangs", folder, wall=DEADLINE))


def the_idle_deadline_ends_it(agent: Agent, folder: Path) -> None:
    """It prints nothing for at most `idle` seconds, and no process remains."""
    _times_out(agent, call_for("hangs", folder, idle=DEADLINE))


def every_process_holds_the_worker_file(agent: Agent, folder: Path) -> None:
    """So an orphan is found after its runner was killed."""
    call = call_for("hangs", folder)
    running = agent.run(call)
    try:
        next(iter(running))
        held = call.worker_file is not None and worker_alive(call.worker_file)
        expect(held, "/hangs: no process holds the worker file")
    finally:
        running.stop()
        messages = list(running)
    expect(messages[-1:] != [], "/hangs, stopped: there is no outcome")
    _all_gone(call)


def stopping_ends_it_from_another_thread(agent: Agent, folder: Path) -> None:
    """Ctrl-C and `abort`: the process group ends, and the messages still end with an outcome."""
    call = call_for("hangs", folder)
    running = agent.run(call)
    messages = iter(running)
    next(messages)
    stopper = Thread(target=running.stop)
    stopper.start()
    _error(list(messages), "/hangs, stopped")
    stopper.join()
    running.stop()
    _all_gone(call)


def stopping_too_late_changes_nothing(agent: Agent, folder: Path) -> None:
    """Stopping a call that has ended has no effect."""
    running = agent.run(call_for("works", folder))
    outcome = _outcome(list(running))
    running.stop()
    expect(outcome.ok, f"/works: {outcome.error}")


def dropping_the_messages_stops_it(agent: Agent, folder: Path) -> None:
    """A runner that drops the messages leaves no process."""
    call = call_for("hangs", folder)
    running: Running | None = agent.run(call)
    messages = iter(running or ())
    next(messages)
    running = None
    del messages
    gc.collect()
    _all_gone(call)


def its_output_is_capped(agent: Agent, folder: Path) -> None:
    """Messages and the outcome's output are each cut at `cap` bytes."""
    messages = list(agent.run(call_for("shouts", folder, cap=CAP)))
    shown = sum(len(message.text.encode()) for message in messages)
    expect(shown <= CAP + MARK, f"/shouts: {shown} bytes of messages, {CAP} were allowed")
    kept = len(_outcome(messages).output.encode())
    expect(kept <= CAP + MARK, f"/shouts: {kept} bytes of output, {CAP} were allowed")


def its_output_is_sanitized(agent: Agent, folder: Path) -> None:
    """Messages and outcome contain no control character and no terminal sequence."""
    messages = list(agent.run(call_for("colours", folder)))
    outcome = _outcome(messages)
    for text in (*(message.text for message in messages), *outcome.output.split("\n")):
        expect(text == printable(text), f"/colours: {text!r} is not harmless")


AGENT_CHECKS: tuple[AgentCheck, ...] = (
    is_named_and_available,
    ends_with_exactly_one_outcome,
    streams_its_output,
    works_in_the_directory_given,
    concurrent_calls_do_not_interfere,
    a_failure_has_message_and_guidance,
    the_wall_deadline_ends_it,
    the_idle_deadline_ends_it,
    every_process_holds_the_worker_file,
    stopping_ends_it_from_another_thread,
    stopping_too_late_changes_nothing,
    dropping_the_messages_stops_it,
    its_output_is_capped,
    its_output_is_sanitized,
)
"""All checks, for a parametrised test."""


# ── agents that ask ─────────────────────────────────────────────────────────────────────────


def an_allowed_call_is_carried_out(agent: Agent, folder: Path) -> None:
    """It asks for the permission to write, once, and goes on when it is given."""
    call, asked = _asking(folder, Reply("allow"))
    outcome = _outcome(list(agent.run(call)))
    expect(outcome.ok, f"/asks, allowed: {outcome.error}")
    expect((call.cwd / "asks.txt").is_file(), "/asks, allowed: asks.txt is not there")
    kinds = [request.kind for request in asked]
    expect(kinds == ["permission"], f"/asks, allowed: it asked {kinds}")
    missing = {"tool", "subject", "input", "digest"} - asked[0].shape.keys()
    expect(not missing, f"/asks: its request lacks {', '.join(sorted(missing))}")


def a_denied_call_is_not_carried_out(agent: Agent, folder: Path) -> None:
    """Its outcome is its own affair: it may have found another way."""
    call, _ = _asking(folder, Reply("deny", "not today"))
    _outcome(list(agent.run(call)))
    expect(not (call.cwd / "asks.txt").exists(), "/asks, denied: asks.txt is there")


def put_off_it_ends_and_continues(agent: Agent, folder: Path) -> None:
    """It ends with an outcome and leaves no process; its conversation continues with the reply."""
    call, asked = _asking(folder, None)
    _outcome(list(agent.run(call)))
    expect(not (call.cwd / "asks.txt").exists(), "/asks, put off: asks.txt is there")
    _all_gone(call)
    shape = asked[0].shape
    later = replace(
        call,
        conversation=shape.get("conversation", ""),
        replies={shape["digest"]: Reply("allow")},
    )
    expect(can_continue(agent, later), "/asks, put off: it cannot continue")
    outcome = _outcome(list(agent.run(later)))
    expect(outcome.ok, f"/asks, continued: {outcome.error}")
    expect((call.cwd / "asks.txt").is_file(), "/asks, continued: asks.txt is not there")
    expect(len(asked) == 1, "/asks, continued: it asked again")


def what_was_replied_is_not_asked_in_a_new_conversation(agent: Agent, folder: Path) -> None:
    """On another machine the step runs again, with the replies that are in the journal."""
    call, asked = _asking(folder, None)
    _outcome(list(agent.run(call)))
    again = replace(call, replies={asked[0].shape["digest"]: Reply("allow")})
    outcome = _outcome(list(agent.run(again)))
    expect(outcome.ok, f"/asks, again: {outcome.error}")
    expect(len(asked) == 1, "/asks, again: it asked again")


ASKING_CHECKS: tuple[AgentCheck, ...] = (
    an_allowed_call_is_carried_out,
    a_denied_call_is_not_carried_out,
    put_off_it_ends_and_continues,
    what_was_replied_is_not_asked_in_a_new_conversation,
)
"""The checks of an agent that `asks`; its command `/asks` asks to write asks.txt."""


def _asking(folder: Path, reply: Reply | None) -> tuple[Call, list[Request]]:
    """A call whose requests get this reply, and the list of its requests."""
    asked: list[Request] = []

    def ask(request: Request) -> Reply | None:
        asked.append(request)
        return reply

    return replace(call_for("asks", folder), ask=ask), asked


def _times_out(agent: Agent, call: Call) -> None:
    error = _error(list(agent.run(call)), "/hangs with a deadline")
    expect(error.code == "PB-AGENT-TIMEOUT", f"/hangs with a deadline: its code is {error.code}")
    _all_gone(call)


def _outcome(messages: list[Message]) -> Outcome:
    outcome = messages[-1].outcome if messages else None
    if outcome is None:
        raise ConformanceError("the last message carries no outcome")
    return outcome


def _error(messages: list[Message], label: str) -> Failure:
    error = _outcome(messages).error
    if error is None:
        raise ConformanceError(f"{label}: it succeeded")
    return error


def _all_gone(call: Call) -> None:
    for file in (call.worker_file, call.cwd / "hangs.lock"):
        expect_gone(file, "/hangs: one of its processes is still running")
