"""A call carried out by one process: how it is told of the call, how its end is read.

What agents that start a program share. A zero exit status says that it came back, no more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from playbook_supervisor.agents.protocol import Call, Message, Running, capped, failed
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import first_line, printable
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.system.capture import redact
from playbook_supervisor.system.processes import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Why = Literal["wall", "idle", "stop"]

LAST_LINES = 5
"""So many of a program's last lines are the cause of its failure."""


def launch(argv: Sequence[str], call: Call, stdin: bytes, *, name: str) -> Running:
    """Start the program at once; if that fails, the only message is an outcome that says so."""
    try:
        worker = Worker(
            argv,
            cwd=call.cwd,
            env=environment(call),
            stdin=stdin,
            worker_file=call.worker_file,
            wall=call.wall,
            idle=call.idle,
            cap=call.cap,
        )
    except PlaybookError as error:
        outcome = not_started(error, name)
        return Running(iter((Message(outcome=outcome),)), stop=_nothing_to_stop)
    return Running(_follow(worker, call, name), stop=worker.stop)


def not_started(error: PlaybookError, name: str) -> Outcome:
    """The outcome of a call whose program could not be started."""
    said = f"{name} could not be started: {error.message}"
    return failed("PB-AGENT-FAILED", said, name=name, guidance=error.guidance, cause=error.cause)


def _nothing_to_stop() -> None:
    """It never started."""


def environment(call: Call) -> dict[str, str]:
    """Ours, the call's, and what a program is told of it beside the prompt; no NUL gets through."""
    told = {
        "PLAYBOOK_SESSION": call.session,
        "PLAYBOOK_STEP": call.step,
        "PLAYBOOK_DIRECTIVE": call.directive,
        "PLAYBOOK_COMMAND": call.command,
        "PLAYBOOK_ARGS": call.args,
        "PLAYBOOK_FEATURE": call.feature,
        "PLAYBOOK_MODEL": call.model,
    }
    given = {name: value.replace("\0", "") for name, value in told.items()}
    return {**os.environ, **call.env, **given}


def _follow(worker: Worker, call: Call, name: str) -> Iterator[Message]:
    """What the program says, line by line, up to the cap; then how it ended."""
    spoken = OutputMessages(call)
    try:
        for line in worker.lines():
            yield from spoken.messages(line)
        yield Message(outcome=_ended(worker, call, name))
    finally:
        worker.stop()


class OutputMessages:
    """Lines as messages, harmless and without secrets; what is beyond the cap is left out."""

    def __init__(self, call: Call) -> None:
        self._call, self._left = call, call.cap

    def messages(self, line: str) -> Iterator[Message]:
        said = redact(printable(line), self._call.secrets)
        if not said.strip() or self._left < 0:
            return
        self._left -= len(said.encode())
        cut = f"… cut: more than {self._call.cap} bytes of output"
        yield Message(said if self._left >= 0 else cut)


def whole_output(text: str, call: Call) -> str:
    """All that the agent said, sanitized and capped."""
    return capped(harmless(text, call).strip(), call.cap)


def harmless(text: str, call: Call) -> str:
    """Without control characters and, after that, without secrets: they could hide in them."""
    return redact(printable(text, keep_newlines=True), call.secrets)


def ended_early(why: Why, call: Call, name: str, output: str = "") -> Outcome:
    """The outcome of a call that a deadline or `stop` ended."""
    code, said, guidance = {
        "wall": ("PB-AGENT-TIMEOUT", f"{name} ran for more than {_seconds(call.wall)}", ""),
        "idle": ("PB-AGENT-TIMEOUT", f"{name} said nothing for {_seconds(call.idle)}", ""),
        "stop": (
            "PB-AGENT-CRASHED",
            f"{name} was stopped before it ended",
            "`playbook resume` runs the step again.",
        ),
    }[why]
    return failed(code, said, name=name, guidance=guidance, output=output)


def _seconds(deadline: float | None) -> str:
    return f"{deadline or 0:g} s"


def _ended(worker: Worker, call: Call, name: str) -> Outcome:
    output = whole_output(worker.stdout, call)
    if worker.stopped_by:
        return ended_early(worker.stopped_by, call, name, output)
    if worker.returncode == 0:
        return Outcome(output=output, agent={"name": name})
    return badly_ended(worker, call, name, output)


def badly_ended(worker: Worker, call: Call, name: str, output: str = "") -> Outcome:
    """The outcome of a program whose exit status says so; its last lines are the cause."""
    last, status = _last_lines(worker, call), worker.returncode
    so = f": {last[-1]}" if last else ""
    cause = "\n".join(last)
    if status is None or status < 0:
        said = f"{name} was killed by {_signal_name(status)}{so}"
        return failed("PB-AGENT-CRASHED", said, name=name, cause=cause, output=output)
    said = f"{name} ended with exit status {status}{so}"
    return failed("PB-AGENT-FAILED", said, name=name, cause=cause, output=output)


def _last_lines(worker: Worker, call: Call) -> list[str]:
    """What it said last on stderr or, if it kept silent there, on stdout."""
    for text in (worker.stderr, worker.stdout):
        lines = [first_line(line) for line in harmless(text, call).splitlines()]
        said = [line for line in lines if line]
        if said:
            return said[-LAST_LINES:]
    return []


def _signal_name(status: int | None) -> str:
    import signal

    try:
        return signal.Signals(-(status or 0)).name
    except ValueError:
        return f"signal {-(status or 0)}"
