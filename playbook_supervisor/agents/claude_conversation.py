"""One call carried out by the client, in one process or in several if it has to retry.

A failure of the model's server is retried before the first tool call, never after it. A usage limit
is waited for if the config says so; a conversation that had begun to work then continues.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from threading import Event, Lock, Timer

from playbook_supervisor.agents.claude_control import ClientInput, Dialogue
from playbook_supervisor.agents.claude_stream import Stream
from playbook_supervisor.agents.claude_transcripts import conversation_file, ending, subagent_file
from playbook_supervisor.agents.claude_verdict import (
    Verdict,
    budget_failure,
    exhausted,
    judge,
    timestamp,
    unknown_command,
)
from playbook_supervisor.agents.process import (
    OutputMessages,
    badly_ended,
    ended_early,
    left_behind,
    not_started,
    put_off,
    whole_output,
)
from playbook_supervisor.agents.protocol import Budget, Call, Message
from playbook_supervisor.agents.requests import Asker
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.records import Record, field, replace
from playbook_supervisor.system.processes import Worker

PAUSES = (1.0, 2.0, 4.0)
"""Seconds before each retry, where the model's server failed before the first tool call."""

_CAP = 16_000_000  # bytes of one line of the stream: a tool's result may hold pictures
_FIRST_WAIT = 1.0  # seconds, at least, before the first try after a usage limit
_NEXT_WAIT = 60.0  # and before each further one
_INTERRUPTED = 5.0  # seconds in which a client that was put off ends by itself
_CLOCK_INTERVAL = 30.0  # seconds between two looks at the clock: a suspended machine loses time


class Client(Record):
    """How to start the client: `argv` takes what is left of the budget and a session to resume,
    `prompt` that session."""

    name: str
    argv: Callable[[Budget, str], Sequence[str]]
    prompt: Callable[[str], str]
    env: Mapping[str, str]
    allowed: tuple[str, ...] = ()
    waits: bool = False


class Account(Record, frozen=False):
    """The usage of a call over all its processes; `retries` counts those that started afresh.

    A resumed conversation reports its earlier usage again, so only its largest sum counts.
    """

    streams: list[Stream] = field(default_factory=list)
    retries: int = 0

    @property
    def turns(self) -> int:
        return sum(stream.turns for stream in self.streams)

    @property
    def tool_calls(self) -> int:
        return sum(stream.tool_calls for stream in self.streams)

    @property
    def weighed_tokens(self) -> int:
        return round(sum(self._largest("weighed_tokens").values()))

    def as_journaled(self, name: str, *, weighed: bool = False) -> dict[str, str | int | float]:
        """The journal's `agent`, without the unknown values; `weighed`: with the tokens' weight."""
        last = self.streams[-1] if self.streams else Stream()
        costs = self._largest("cost_usd")
        usage: dict[str, str | int | float | None] = {
            "name": name,
            "id": last.session or None,
            "model": next((each.model for each in reversed(self.streams) if each.model), None),
            "cost_usd": round(sum(costs.values()), 6) if costs else None,
            "input_tokens": sum(self._largest("input_tokens").values()) or None,
            "output_tokens": sum(self._largest("output_tokens").values()) or None,
            "weighed_tokens": (weighed and self.weighed_tokens) or None,
            "turns": self.turns or None,
            "retries": self.retries or None,
        }
        return {key: value for key, value in usage.items() if value is not None}

    def left_of(self, budget: Budget, session: str = "") -> Budget:
        """What the next process may use, in the conversation `session` or in a new one."""
        turns, cost, tokens = budget.max_turns, budget.max_cost_usd, budget.max_tokens
        others = sum(cost for id_, cost in self._largest("cost_usd").items() if id_ != session)
        return replace(
            budget,
            max_turns=None if turns is None else turns - self.turns,
            max_cost_usd=None if cost is None else cost - others,
            max_tokens=None if tokens is None else tokens - self.weighed_tokens,
        )

    @property
    def spent(self) -> dict[str, float]:
        """What was used of each limit of a `Budget`; without a cost that is not known."""
        costs = self._largest("cost_usd")
        return {
            "max_turns": self.turns,
            "max_tool_calls": self.tool_calls,
            "max_tokens": self.weighed_tokens,
            **({"max_cost_usd": sum(costs.values())} if costs else {}),
        }

    def overdrawn(self, budget: Budget) -> str:
        """The limit that only we enforce and that is exceeded; empty if none is."""
        spent = self.spent
        allowed = {name: getattr(budget, name) for name in ("max_tool_calls", "max_tokens")}
        over = (name for name, most in allowed.items() if most is not None and spent[name] > most)
        return next(over, "")

    def _largest(self, name: str) -> dict[str, float]:
        found: dict[str, float] = {}
        for stream in self.streams:
            if (number := getattr(stream.usage, name)) is not None:
                found[stream.session] = max(number, found.get(stream.session, 0))
        return found


class Conversation:
    """Starts at once. Read `messages` to its end; any thread may call `stop`."""

    def __init__(self, call: Call, client: Client) -> None:
        self._call, self._client = call, client
        self._began = time.monotonic()
        self._waited = 0.0  # seconds spent on usage limits, which the deadline excludes
        self._limits = 0
        self._account = Account()
        self._stopped, self._starting = Event(), Lock()
        self._asker = Asker(call)
        self._worker: Worker | None = None
        self._input: ClientInput | None = None
        self._not_started = self._start(call.conversation)

    def stop(self) -> None:
        """Stop the running process, and start no other."""
        self._stopped.set()
        with self._starting:
            worker = self._worker
        if worker is not None:
            worker.stop()
        if self._input is not None:
            self._input.close()

    def messages(self) -> Generator[Message, None, None]:
        """The output to show, then the outcome."""
        try:
            outcome = yield from self._carry_out()
            weighed = self._call.budget.max_tokens is not None
            agent = self._account.as_journaled(self._client.name, weighed=weighed)
            yield Message(outcome=replace(outcome, agent=agent))
        finally:
            self.stop()

    def _carry_out(self) -> Generator[Message, None, Outcome]:
        output = OutputMessages(self._call)
        while self._not_started is None:
            stream = Stream(root=str(self._call.cwd))
            self._account.streams.append(stream)
            verdict = yield from self._follow(stream, output)
            if verdict.limit_ends and self._client.waits:
                until = timestamp(verdict.limit_ends)
                yield Message(f"usage limit: waiting until {until}", notice=True)
                self._wait(verdict.limit_ends)
                worked = self._account.tool_calls
                resumed = stream.session if worked else self._call.conversation
                self._not_started = self._start(resumed)
            elif self._may_retry(verdict):
                pause = PAUSES[self._account.retries]
                reason = verdict.failure.message if verdict.failure else ""
                yield from output.messages(f"{reason}; trying again in {pause:g} s")
                left = self._time_left()
                self._stopped.wait(pause if left is None else max(0.0, min(pause, left)))
                self._account.retries += 1
                self._not_started = self._start(self._call.conversation)
            else:
                whole = whole_output(str(stream.result.get("result") or stream.said), self._call)
                return Outcome(verdict.failure, whole, silent=stream.silent)
        return Outcome(self._not_started)

    # ── a process ───────────────────────────────────────────────────────────────────────────

    def _start(self, session: str) -> Failure | None:
        """Start the client, in that conversation or in a new one; or why that is impossible."""
        left = self._time_left()
        if left is not None and left <= 0:
            return ended_early("wall", self._call, self._client.name).error
        budget = self._account.left_of(self._call.budget, session)
        if failure := exhausted(budget):
            return failure
        with self._starting:
            if self._stopped.is_set():
                return ended_early("stop", self._call, self._client.name).error
            asks = self._call.ask is not None
            self._input = ClientInput(self._client.prompt(session)) if asks else None
            try:
                self._worker = Worker(
                    self._client.argv(budget, session),
                    cwd=self._call.cwd,
                    env=self._client.env,
                    stdin=self._input.descriptor if self._input else b"",
                    worker_file=self._call.worker_file,
                    outlives=self._call.outlives,
                    wall=left,
                    idle=self._call.idle,
                    cap=_CAP,
                )
            except PlaybookError as error:
                return not_started(error, self._client.name).error
            finally:
                if self._input is not None:
                    self._input.started()
        return None

    def _follow(self, stream: Stream, output: OutputMessages) -> Generator[Message, None, Verdict]:
        """Show the process's output until it ends or has to be stopped, and judge it."""
        worker = self._worker
        assert worker is not None  # noqa: S101 - it has been started
        failure: Failure | None = None
        dialogue = Dialogue(self._call, self._asker, self._input) if self._input else None
        for line in worker.lines():
            if failure is not None:
                continue
            for shown in stream.feed(line):
                yield from output.messages(shown)
            if dialogue is not None:
                self._reply(dialogue, line, stream, worker)
            if limit := self._account.overdrawn(self._call.budget):
                failure = budget_failure(limit, self._call.budget, self._account.spent)
            else:
                failure = unknown_command(stream, self._call.command)
            if failure is not None:
                worker.stop()
        if self._input is not None:
            self._input.close()
        output.log(worker.stderr)
        yield from left_behind(worker)
        if failure is not None:
            return Verdict(failure)
        if self._asker.put_off:
            return Verdict(put_off(self._client.name).error)
        if worker.stopped_by:
            return Verdict(ended_early(worker.stopped_by, self._call, self._client.name).error)
        self._read_transcripts(stream)
        verdict = judge(stream, self._client.allowed, self._call.budget, self._account.spent)
        return verdict or Verdict(badly_ended(worker, self._call, self._client.name).error)

    def _read_transcripts(self, stream: Stream) -> None:
        """Learn which hook stopped the work, and what a command did in a context of its own."""
        if not re.fullmatch(r"[\w-]+", stream.session):
            return
        own = conversation_file(self._client.env, self._call.cwd, stream.session)
        if stream.result.get("terminal_reason") == "hook_stopped":
            stream.hook = ending(own).hook
        elif not stream.turns and (forks := [each for each in stream.forks if each.isalnum()]):
            ends = [ending(subagent_file(own, fork)) for fork in forks]
            stream.hook = ends[-1].hook
            stream.silent = all(end.silent for end in ends)

    def _reply(self, dialogue: Dialogue, line: str, stream: Stream, worker: Worker) -> None:
        """Let a person decide what the client asks, in time that is not the client's."""
        assert self._input is not None  # noqa: S101 - there is a dialogue
        waited, off = self._asker.waited, self._asker.put_off
        dialogue.hear(line, stream.session)
        worker.extend(self._asker.waited - waited)
        stream.decided |= dialogue.denied
        if stream.over:
            self._input.close()
        if self._asker.put_off and not off:
            stopping = Timer(_INTERRUPTED, worker.stop)
            stopping.daemon = True
            stopping.start()

    # ── retries ─────────────────────────────────────────────────────────────────────────────

    def _may_retry(self, verdict: Verdict) -> bool:
        return (
            verdict.transient
            and not self._account.tool_calls
            and self._account.retries < len(PAUSES)
        )

    def _wait(self, ends: int) -> None:
        """Wait for the limit's end, and for at least a minute if it is not the first limit."""
        began = time.monotonic()
        until = max(ends, time.time() + (_NEXT_WAIT if self._limits else _FIRST_WAIT))
        self._limits += 1
        while (left := until - time.time()) > 0:
            if self._stopped.wait(min(left, _CLOCK_INTERVAL)):
                break
        self._waited += time.monotonic() - began

    def _time_left(self) -> float | None:
        if (wall := self._call.wall_left) is None:
            return None
        return wall - (time.monotonic() - self._began - self._waited - self._asker.waited)
