"""A call carried out by one process: its environment, its output, and the outcome of its exit.

Shared by the agents that start a program. A zero exit status only means that the program ended.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, Literal

from playbook_supervisor.agents.protocol import Call, Message, Running, failed
from playbook_supervisor.errors import PlaybookError, PolicyError
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.system.process.capture import bad_end, capped, redact
from playbook_supervisor.system.process.leash import abandoned
from playbook_supervisor.system.process.processes import Worker

Why = Literal["wall", "idle", "stop", "deadline"]


def launch(argv: Sequence[str], call: Call, stdin: bytes, *, name: str) -> Running:
    """Start the program at once; if that fails, the only message is the failed outcome."""
    try:
        worker = Worker(
            argv,
            cwd=call.cwd,
            env=environment(call),
            stdin=stdin,
            worker_file=call.worker_file,
            outlives=call.outlives,
            isolation=call.isolation,
            wall=call.wall_left,
            idle=call.idle,
            cap=call.cap,
        )
    except PlaybookError as error:
        failure = Message(outcome=not_started(error, name))
        return Running(iter((failure,)), stop=lambda: None)
    return Running(_follow(worker, call, name), stop=worker.stop)


def not_started(error: PlaybookError, name: str) -> Outcome:
    """The outcome where the program could not be started."""
    message = f"{name} could not be started: {error.message}"
    return failed("PB-AGENT-FAILED", message, name=name, guidance=error.guidance, cause=error.cause)


def of_policy(error: PolicyError, name: str) -> Outcome:
    """The outcome of a call that made what its isolation cannot keep it from making."""
    return failed(error.code, error.message, name=name, guidance=error.guidance)


def put_off(name: str) -> Outcome:
    """The outcome of a call that ended because a person did not decide at once."""
    message = f"{name} was put off until a person decides"
    return failed("PB-AGENT-PERMISSION", message, name=name)


def environment(call: Call) -> dict[str, str]:
    """Our environment, the call's additions and its fields as `PLAYBOOK_…`; NULs are removed."""
    fields = {
        "PLAYBOOK_SESSION": call.session,
        "PLAYBOOK_STEP": call.step,
        "PLAYBOOK_DIRECTIVE": call.directive,
        "PLAYBOOK_COMMAND": call.command,
        "PLAYBOOK_ARGS": call.args,
        "PLAYBOOK_FEATURE": call.feature,
        "PLAYBOOK_MODEL": call.model,
        "PLAYBOOK_FEEDBACK": call.feedback,
    }
    if call.tools is not None:
        fields["PLAYBOOK_TOOLS"] = ",".join(call.tools)
    variables = {name: value.replace("\0", "") for name, value in fields.items()}
    return {**os.environ, **call.env, **variables}


def _follow(worker: Worker, call: Call, name: str) -> Iterator[Message]:
    output = OutputMessages(call)
    try:
        try:
            for line in worker.lines():
                yield from output.messages(line)
        except PolicyError as error:
            yield Message(outcome=of_policy(error, name))
            return
        output.log(worker.stderr)
        yield from left_behind(worker)
        yield Message(outcome=_ended(worker, call, name))
    finally:
        worker.stop()


def left_behind(worker: Worker) -> Iterator[Message]:
    """Notices that name the processes that were still running when the program had ended."""
    for sentence in abandoned(worker.left, worker.kept):
        yield Message(sentence, notice=True)


class OutputMessages:
    """Turns lines into messages, up to the call's cap, and logs all: sanitized, without secrets."""

    def __init__(self, call: Call) -> None:
        self._call, self._left = call, call.cap

    def messages(self, line: str) -> Iterator[Message]:
        text = redact(printable(line), self._call.secrets)
        if not text.strip():
            return
        if self._call.log is not None:
            self._call.log(text)
        if self._left < 0:
            return
        self._left -= len(text.encode())
        cut = f"… cut: more than {self._call.cap} bytes of output"
        yield Message(text if self._left >= 0 else cut)

    def log(self, text: str) -> None:
        if self._call.log is not None and (kept := _harmless(text, self._call)):
            self._call.log(kept)


def whole_output(text: str, call: Call) -> str:
    """The output of the call, sanitized, without secrets, capped."""
    return capped(_harmless(text, call), call.cap)


def _harmless(text: str, call: Call) -> str:
    """Without control characters, and then without secrets, which these could disguise."""
    return redact(printable(text, keep_newlines=True), call.secrets).strip()


def ended_early(why: Why, call: Call, name: str, output: str = "") -> Outcome:
    """The outcome where a deadline or `stop` ended the call."""
    code, guidance = "PB-AGENT-TIMEOUT", ""
    if why == "wall":
        message = f"{name} ran for more than {call.wall or 0:g} s"
    elif why == "idle":
        message = f"{name} printed nothing for {call.idle or 0:g} s"
    else:
        code, message = "PB-AGENT-CRASHED", f"{name} was stopped before it ended"
        guidance = "`playbook resume` runs the step again."
    return failed(code, message, name=name, guidance=guidance, output=output)


def _ended(worker: Worker, call: Call, name: str) -> Outcome:
    output = whole_output(worker.stdout, call)
    if worker.stopped_by:
        return ended_early(worker.stopped_by, call, name, output)
    if worker.returncode == 0:
        return Outcome(output=output, agent={"name": name})
    return badly_ended(worker, call, name, output)


def badly_ended(worker: Worker, call: Call, name: str, output: str = "") -> Outcome:
    """The outcome of an exit status other than 0; the last lines are the cause."""
    status = worker.returncode or 0
    code = "PB-AGENT-CRASHED" if status < 0 else "PB-AGENT-FAILED"
    message, cause = bad_end(name, status, (worker.stderr, worker.stdout), call.secrets)
    hint = worker.hint
    return failed(code, message, name=name, guidance=hint, cause=cause, output=output)


class InputPipe:
    """The standard input of a process: lines of JSON, written by a thread of its own.

    So a process that does not read blocks no reader. `descriptor` is what the process reads from;
    `started` closes ours of it.
    """

    def __init__(self) -> None:
        self.descriptor, self._writing = os.pipe()
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        threading.Thread(target=self._write, daemon=True).start()

    def started(self) -> None:
        """The process has its copy of the descriptor, or there is no process."""
        os.close(self.descriptor)

    def send(self, line: Mapping[str, Any]) -> None:
        self._lines.put(json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        """The process reads to the end of what was sent. May be called twice."""
        self._lines.put(None)

    def _write(self) -> None:
        with os.fdopen(self._writing, "wb", 0) as pipe:
            while (line := self._lines.get()) is not None:
                try:
                    while line:  # a pipe may take a part
                        line = line[pipe.write(line) or 0 :]
                except OSError:  # the process has ended
                    return
