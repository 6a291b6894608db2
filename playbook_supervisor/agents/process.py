"""A call carried out by one process: how it is told of the call, how its end is read.

What agents that start a program share. A zero exit status says that it came back, no more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from playbook_supervisor.agents import Call, Message, Running, failed
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.plain_text import first_line, printable
from playbook_supervisor.processes import Worker, redact

LAST_LINES = 5
"""So many of a program's last lines are the cause of its failure."""


def launch(argv: Sequence[str], call: Call, stdin: bytes, *, name: str) -> Running:
    """Start the program at once; if that fails, the only message is an outcome that says so."""
    try:
        worker = Worker(
            argv,
            cwd=call.cwd,
            env={**os.environ, **call.env, **_environment(call)},
            stdin=stdin,
            worker_file=call.worker_file,
            wall=call.wall,
            idle=call.idle,
            cap=call.cap,
        )
    except PlaybookError as error:
        said = f"{name} could not be started: {error.message}"
        outcome = failed(
            "PB-AGENT-FAILED", said, name=name, guidance=error.guidance, cause=error.cause
        )
        return Running(iter((Message(outcome=outcome),)), stop=_nothing_to_stop)
    return Running(_follow(worker, call, name), stop=worker.stop)


def _nothing_to_stop() -> None:
    """It never started."""


def _environment(call: Call) -> dict[str, str]:
    """What a program is told of its call beside the prompt; a NUL cannot be passed on."""
    told = {
        "PLAYBOOK_SESSION": call.session,
        "PLAYBOOK_STEP": call.step,
        "PLAYBOOK_DIRECTIVE": call.directive,
        "PLAYBOOK_COMMAND": call.command,
        "PLAYBOOK_ARGS": call.args,
        "PLAYBOOK_FEATURE": call.feature,
        "PLAYBOOK_MODEL": call.model,
    }
    return {name: value.replace("\0", "") for name, value in told.items()}


def _follow(worker: Worker, call: Call, name: str) -> Iterator[Message]:
    """What the program says, line by line, up to the cap; then how it ended."""
    left = call.cap
    try:
        for line in worker.lines():
            said = redact(printable(line), call.secrets)
            if not said.strip() or left < 0:
                continue
            left -= len(said.encode())
            yield Message(said if left >= 0 else f"… cut: more than {call.cap} bytes of output")
        yield Message(outcome=_ended(worker, call, name))
    finally:
        worker.stop()


def _harmless(text: str, call: Call) -> str:
    """Without control characters and, after that, without secrets: they could hide in them."""
    return redact(printable(text, keep_newlines=True), call.secrets)


def _ended(worker: Worker, call: Call, name: str) -> Outcome:
    output = first_line(_harmless(worker.stdout, call))
    stopped = {
        "wall": ("PB-AGENT-TIMEOUT", f"{name} ran for more than {call.wall} s", ""),
        "idle": ("PB-AGENT-TIMEOUT", f"{name} said nothing for {call.idle} s", ""),
        "stop": (
            "PB-AGENT-CRASHED",
            f"{name} was stopped before it ended",
            "`playbook resume` runs the step again.",
        ),
    }
    if worker.stopped_by:
        code, said, guidance = stopped[worker.stopped_by]
        return failed(code, said, name=name, guidance=guidance, output=output)
    status = worker.returncode
    if status == 0:
        return Outcome(output=output, agent={"name": name})
    last = _last_lines(worker, call)
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
        lines = [first_line(line) for line in _harmless(text, call).splitlines()]
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
