"""One call carried out by the client: one process of it, or several where it has to try again.

What the model's server could not do is tried again before the first tool call, never after it. A
usage limit is waited for where the config says so; a conversation that had begun to work then goes
on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from threading import Event, Lock

from playbook_supervisor.agents.claude_account import Account
from playbook_supervisor.agents.claude_stream import Stream
from playbook_supervisor.agents.claude_verdict import (
    Verdict,
    exhausted,
    judge,
    second,
    spent,
    unknown,
)
from playbook_supervisor.agents.process import (
    OutputMessages,
    badly_ended,
    ended_early,
    harmless,
    not_started,
    whole_output,
)
from playbook_supervisor.agents.protocol import Budget, Call, Message
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.records import Record, replace
from playbook_supervisor.system.processes import Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PAUSES = (1.0, 2.0, 4.0)
"""Seconds before each new try, where the model's server failed before the first tool call."""

_CAP = 16_000_000  # bytes of one line of the stream: a tool's result may hold pictures
_SOONEST = 1.0  # seconds until a limit is tried for the first time
_LATER = 60.0  # and each time after that
_GLANCE = 30.0  # seconds between two looks at the clock: a machine that slept is late


class Client(Record):
    """How the client is called. `argv` is told what may be used, and a session to take up."""

    name: str
    argv: Callable[[Budget, str], Sequence[str]]
    env: Mapping[str, str]
    allowed: tuple[str, ...] = ()
    waits: bool = False


class Conversation:
    """Started at once. `messages` is to be read to its end; `stop` may come from any thread."""

    def __init__(self, call: Call, client: Client) -> None:
        self._call, self._client = call, client
        self._began = time.monotonic()
        self._waited = 0.0  # seconds that usage limits took: they are not the step's
        self._limits = 0
        self._account = Account()
        self._stopped, self._starting = Event(), Lock()
        self._worker: Worker | None = None
        self._hindrance = self._start()

    def stop(self) -> None:
        """End what runs, and start nothing more."""
        self._stopped.set()
        with self._starting:
            worker = self._worker
        if worker is not None:
            worker.stop()

    def messages(self) -> Generator[Message, None, None]:
        """What there is to be shown, and how it ended."""
        try:
            outcome = yield from self._carry_out()
            agent = self._account.as_journaled(self._client.name)
            yield Message(outcome=replace(outcome, agent=agent))
        finally:
            self.stop()

    def _carry_out(self) -> Generator[Message, None, Outcome]:
        spoken = OutputMessages(self._call)
        while self._hindrance is None:
            stream = Stream(root=str(self._call.cwd))
            self._account.streams.append(stream)
            verdict = yield from self._follow(stream, spoken)
            if verdict.limit_ends and self._client.waits:
                until = second(verdict.limit_ends)
                yield Message(f"usage limit: waiting until {until}", notice=True)
                self._wait(verdict.limit_ends)
                self._hindrance = self._start(stream.session if self._account.tool_calls else "")
            elif self._may_try_again(verdict):
                pause = PAUSES[self._account.retries]
                why = verdict.failure.message if verdict.failure else ""
                yield from spoken.messages(f"{why}; trying again in {pause:g} s")
                left = self._time_left()
                self._stopped.wait(pause if left is None else max(0.0, min(pause, left)))
                self._account.retries += 1
                self._hindrance = self._start()
            else:
                output = whole_output(str(stream.result.get("result") or ""), self._call)
                return Outcome(self._shown(verdict.failure), output)
        return Outcome(self._shown(self._hindrance))

    # ── a process ───────────────────────────────────────────────────────────────────────────

    def _start(self, session: str = "") -> Failure | None:
        """Start the client, in a conversation of its own or in that one; or why that cannot be."""
        left = self._time_left()
        if left is not None and left <= 0:
            return ended_early("wall", self._call, self._client.name).error
        budget = self._account.left_of(self._call.budget, session)
        if failure := exhausted(budget):
            return failure
        with self._starting:
            if self._stopped.is_set():
                return ended_early("stop", self._call, self._client.name).error
            try:
                self._worker = Worker(
                    self._client.argv(budget, session),
                    cwd=self._call.cwd,
                    env=self._client.env,
                    worker_file=self._call.worker_file,
                    wall=left,
                    idle=self._call.idle,
                    cap=_CAP,
                )
            except PlaybookError as error:
                return not_started(error, self._client.name).error
        return None

    def _follow(self, stream: Stream, spoken: OutputMessages) -> Generator[Message, None, Verdict]:
        """What the process says, until it ends or has gone too far; and what that means."""
        worker = self._worker
        assert worker is not None  # noqa: S101 - nothing hindered its start
        too_far: Failure | None = None
        for line in worker.lines():
            if too_far is not None:
                continue
            for said in stream.hear(line):
                yield from spoken.messages(said)
            allowed = self._call.budget.max_tool_calls
            if allowed is not None and self._account.tool_calls > allowed:
                too_far = spent("max_tool_calls")
            else:
                too_far = unknown(stream, self._call.command)
            if too_far is not None:
                worker.stop()
        if too_far is not None:
            return Verdict(too_far)
        if worker.stopped_by:
            return Verdict(ended_early(worker.stopped_by, self._call, self._client.name).error)
        verdict = judge(stream, self._client.allowed)
        return verdict or Verdict(badly_ended(worker, self._call, self._client.name).error)

    # ── trying again ────────────────────────────────────────────────────────────────────────

    def _may_try_again(self, verdict: Verdict) -> bool:
        return (
            verdict.transient
            and not self._account.tool_calls
            and self._account.retries < len(PAUSES)
        )

    def _wait(self, ends: int) -> None:
        """Until the limit has ended; where it ends again and again, for a minute at least."""
        began = time.monotonic()
        until = max(ends, time.time() + (_LATER if self._limits else _SOONEST))
        self._limits += 1
        while (left := until - time.time()) > 0 and not self._stopped.wait(min(left, _GLANCE)):
            continue
        self._waited += time.monotonic() - began

    def _time_left(self) -> float | None:
        if self._call.wall is None:
            return None
        return self._call.wall - (time.monotonic() - self._began - self._waited)

    def _shown(self, failure: Failure | None) -> Failure | None:
        """Without control characters and secrets, as all that leaves an agent."""
        if failure is None:
            return None
        message, guidance, cause = (
            harmless(text, self._call)
            for text in (failure.message, failure.guidance, failure.cause)
        )
        return replace(failure, message=message, guidance=guidance, cause=cause)
