"""A call of an agent in one process after another: deadlines, retries, usage limits, its end.

The agent says how a process is started and how it is spoken to (`Client`, `Exchange`). A failure of
the model's server is retried before the first tool call, never after it. A usage limit is waited
for if the settings say so; a conversation that had begun to work then continues.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from threading import Event, Lock, Timer
from typing import Any

from playbook_supervisor.agents.process import (
    InputPipe,
    OutputMessages,
    badly_ended,
    ended_early,
    environment,
    left_behind,
    not_started,
    of_policy,
    put_off,
    whole_output,
)
from playbook_supervisor.agents.profiles import Profile
from playbook_supervisor.agents.protocol import Call, Message, Running, missing_program
from playbook_supervisor.agents.requests import Asker
from playbook_supervisor.agents.verdicts import Verdict, timestamp
from playbook_supervisor.errors import PlaybookError, PolicyError
from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.project.settings.config import AgentSettings
from playbook_supervisor.records import replace
from playbook_supervisor.system.disk.files import ensure_folder
from playbook_supervisor.system.isolation.sandbox import Sandbox
from playbook_supervisor.system.process.processes import Worker

PAUSES = (1.0, 2.0, 4.0)
"""Seconds before each retry, where the model's server failed before the first tool call."""
SILENCE = 1800.0
"""Seconds after which an agent other than Claude Code that says nothing is ended, unless the step
sets another limit: some never end by themselves when the model's answer breaks off."""
_CAP = 16_000_000  # bytes of one line of a stream: a tool's result may hold pictures
_FIRST_WAIT = 1.0  # seconds, at least, before the first try after a usage limit
_NEXT_WAIT = 60.0  # and before each further one
_INTERRUPTED = 5.0  # seconds in which an agent that was put off ends by itself
_GO_ON = "The usage limit that stopped you has been reset. Continue where you stopped."
_DECIDED = """\
You were interrupted because calls of tools needed a person's decision; none was carried out.
The person has now decided. Make each of these calls again, with exactly the same input: the
decision is applied to it. A subagent that waited has ended: start it again, with the same prompt.
Then continue where you stopped."""
_MODELS_OF_CLAUDE = frozenset({"", "default", "opus", "sonnet", "haiku", "opusplan"})
_CLOCK_INTERVAL = 30.0  # seconds between two looks at the clock: a suspended machine loses time


@dataclass(slots=True)
class Usage:
    """What an agent tells of its work; None or empty if it does not tell."""

    model: str = ""
    version: str = ""
    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    turns: int | None = None

    @property
    def tokens(self) -> int:
        return (self.input_tokens or 0) + (self.output_tokens or 0)

    def add(self, other: Usage) -> None:
        """Count the use of a further process, too."""
        self.model, self.version = other.model or self.model, other.version or self.version
        for name in ("cost_usd", "input_tokens", "output_tokens", "turns"):
            if (more := getattr(other, name)) is not None:
                setattr(self, name, (getattr(self, name) or 0) + more)

    def as_journaled(self, name: str, conversation: str, retries: int) -> dict[str, Any]:
        """The journal's `agent`, without what is not known."""
        known = {
            "name": name,
            "id": conversation,
            **{each.name: getattr(self, each.name) for each in fields(self)},
            "retries": retries or None,
        }
        return {key: value for key, value in known.items() if value not in (None, "")}


class Exchange(ABC):
    """What one process of an agent says, and what is told to it.

    `tool_calls` are those that it has begun. `silent`: neither has the model said anything nor
    called a tool. `said` are its last words. `over`: its work is done, and its input is closed;
    after `lingers` seconds more it is ended. `failure` was found while it runs: it is ended.
    `conversation` is the id by which it can be continued, if that is known. While it runs, `end`
    ends it, from any thread; afterwards, `errors` is what it wrote to its standard error.
    """

    lingers: float | None = None
    end: Callable[[], None] = staticmethod(lambda: None)
    errors = ""

    def __init__(self, argv: Sequence[str], stdin: bytes | InputPipe = b"") -> None:
        self.argv, self.stdin = argv, stdin
        self.conversation = self.said = ""
        self.tool_calls = 0
        self.silent, self.over = True, False
        self.failure: Failure | None = None
        self.usage = Usage()

    @abstractmethod
    def hear(self, line: str) -> Iterator[str]:
        """Take a line of its output, and yield those to show. May block for a person's decision."""

    @abstractmethod
    def verdict(self) -> Verdict | None:
        """How it has ended, once it has; None if it has told no result."""

    def cancel(self) -> None:
        """Ask it to end its turn: it is about to be ended. Any thread may call it."""
        return


class Client(ABC):
    """An agent's program, for one call: what its processes are started with, and what they use."""

    name: str
    env: dict[str, str]
    isolation: Sandbox | None
    wait_for_limit = False
    silence: float | None = SILENCE

    @abstractmethod
    def exchange(self, conversation: str, asker: Asker) -> Exchange | Failure:
        """The next process, in that conversation or in a new one; or why there is none."""

    def usage(self, exchanges: Sequence[Exchange], retries: int) -> dict[str, Any]:
        """The journal's `agent`, over all processes; without what is not known."""
        used = Usage()
        for each in exchanges:
            used.add(each.usage)
        last = exchanges[-1].conversation if exchanges else ""
        return used.as_journaled(self.name, last, retries)

    def close(self) -> None:
        """Remove what the processes needed or left. Called once, when all have ended."""
        return


class ProgramAgent:
    """An agent whose program a profile describes; a relative path starts at the repository."""

    asks = True
    client: type[ProgramClient]

    def __init__(self, name: str, profile: Profile, settings: AgentSettings, root: Path) -> None:
        self.name, self.profile, self.settings = name, profile, settings
        program, *others = settings.acp or (profile.program, *(profile.acp or ()))
        self.argv = (str(root / program) if os.sep in program else program, *others)
        self.command_layout = profile.layout

    def available(self) -> str | None:
        wrong = missing_program(self.argv[0])
        how = f"; install it: {self.profile.install}" if self.profile.install else ""
        return wrong and wrong + how

    def run(self, call: Call) -> Running:
        return conversing(call, self.client(self, call))


class ProgramClient(Client):
    """The client of an agent with a profile."""

    def __init__(self, agent: ProgramAgent, call: Call) -> None:
        self.name, self.profile, self.settings = agent.name, agent.profile, agent.settings
        self.argv, self.call = agent.argv, call
        self.env = {**environment(call), **self.profile.env}
        self.isolation = self.isolated()
        self.wait_for_limit = self.settings.wait_for_limit

    def isolated(self) -> Sandbox | None:
        """The call's isolation, in which it reaches its hosts and keeps its conversations."""
        if self.call.isolation is None:
            return None
        opened, written = (
            [Path.home() / each for each in folders]
            for folders in (self.profile.homes, self.profile.state)
        )
        for folder in (*opened, *written):
            ensure_folder(folder)
        return self.call.isolation.reaching(self.profile.hosts).keeping(opened, written)

    @property
    def model(self) -> str:
        """The model; empty for its own default. `opus` is Claude's name for one, and no other's."""
        asked = self.call.model
        return self.settings.model if asked in _MODELS_OF_CLAUDE else asked


def prompt_of(call: Call, conversation: str) -> str:
    """What is said first in that conversation: the call's prompt, or that it goes on."""
    if not conversation:
        return call.prompt
    if conversation != call.conversation:
        return _GO_ON
    told = [reply.text for reply in call.replies.values() if reply.text]
    return "\n\n".join((_DECIDED, *(f"The person said: {words}" for words in told)))


def conversing(call: Call, client: Client) -> Running:
    """Start the call at once; its messages end with the outcome."""
    conversation = Conversation(call, client)
    return Running(conversation.messages(), stop=conversation.stop)


class Conversation:
    """One call. It starts at once. Read `messages` to its end; any thread may call `stop`."""

    def __init__(self, call: Call, client: Client) -> None:
        self._call = call if call.idle else replace(call, idle=client.silence)
        self._client = client
        self._began = time.monotonic()
        self._waited = 0.0  # seconds spent on usage limits, which the deadline excludes
        self._limits = self._retries = 0
        self._stopped, self._starting = Event(), Lock()
        self._asker = Asker(call)
        self._exchanges: list[Exchange] = []
        self._worker: Worker | None = None
        self._not_started = self._start(call.conversation)

    def stop(self) -> None:
        self._stopped.set()
        with self._starting:
            worker = self._worker
        if worker is not None:
            if worker.returncode is None:
                self._exchanges[-1].cancel()
            worker.stop()
        for exchange in self._exchanges[-1:]:
            _close(exchange)

    def messages(self) -> Generator[Message, None, None]:
        try:
            try:
                outcome = yield from self._carry_out()
            except PolicyError as error:
                outcome = of_policy(error, self._client.name)
            agent = self._client.usage(self._exchanges, self._retries)
            yield Message(outcome=replace(outcome, agent=agent))
        finally:
            self.stop()
            self._client.close()

    def _carry_out(self) -> Generator[Message, None, Outcome]:
        output = OutputMessages(self._call)
        while self._not_started is None:
            exchange = self._exchanges[-1]
            verdict = yield from self._follow(exchange, output)
            if verdict.limit_ends and self._client.wait_for_limit:
                until = timestamp(verdict.limit_ends)
                yield Message(f"usage limit: waiting until {until}", notice=True)
                self._wait(verdict.limit_ends)
                resumed = exchange.conversation if self._tool_calls else self._call.conversation
                self._not_started = self._start(resumed)
            elif self._may_retry(verdict):
                pause = PAUSES[self._retries]
                reason = verdict.failure.message if verdict.failure else ""
                yield from output.messages(f"{reason}; trying again in {pause:g} s")
                left = self._time_left()
                self._stopped.wait(pause if left is None else max(0.0, min(pause, left)))
                self._retries += 1
                self._not_started = self._start(self._call.conversation)
            else:
                whole = whole_output(exchange.said, self._call)
                return Outcome(verdict.failure, whole, silent=exchange.silent)
        return Outcome(self._not_started)

    # ── a process ───────────────────────────────────────────────────────────────────────────

    def _start(self, conversation: str) -> Failure | None:
        """Start the agent, in that conversation or in a new one; or why that is impossible."""
        name = self._client.name
        left = self._time_left()
        if left is not None and left <= 0:
            return ended_early("wall", self._call, name).error
        exchange = self._client.exchange(conversation, self._asker)
        if isinstance(exchange, Failure):
            return exchange
        self._exchanges.append(exchange)
        stdin = exchange.stdin
        with self._starting:
            try:
                if self._stopped.is_set():
                    return ended_early("stop", self._call, name).error
                self._worker = Worker(
                    exchange.argv,
                    cwd=self._call.cwd,
                    env=self._client.env,
                    stdin=stdin.descriptor if isinstance(stdin, InputPipe) else stdin,
                    worker_file=self._call.worker_file,
                    outlives=self._call.outlives,
                    isolation=self._client.isolation,
                    wall=left,
                    idle=self._call.idle,
                    cap=_CAP,
                )
                exchange.end = self._worker.stop
            except PlaybookError as error:
                return not_started(error, name).error
            finally:
                if isinstance(stdin, InputPipe):
                    stdin.started()
        return None

    def _follow(
        self, exchange: Exchange, output: OutputMessages
    ) -> Generator[Message, None, Verdict]:
        worker = self._worker
        assert worker is not None  # noqa: S101 - it has been started
        over = failed = False
        for line in worker.lines():
            if failed:
                continue
            waited, off = self._asker.waited, self._asker.put_off
            for shown in exchange.hear(line):
                yield from output.messages(shown)
            worker.extend(self._asker.waited - waited)
            if self._asker.put_off and not off:
                after(_INTERRUPTED, worker.stop)
            if exchange.failure is not None:
                failed = True
                worker.stop()
            elif exchange.over and not over:
                over = True
                _close(exchange)
                if exchange.lingers is not None:
                    after(exchange.lingers, worker.stop)
        _close(exchange)
        output.log(worker.stderr)
        exchange.errors = worker.stderr
        yield from left_behind(worker)
        return self._verdict(exchange, worker)

    def _verdict(self, exchange: Exchange, worker: Worker) -> Verdict:
        name = self._client.name
        if exchange.failure is not None:
            return Verdict(exchange.failure)
        if self._asker.put_off:
            return Verdict(put_off(name).error)
        ended_it = worker.stopped_by
        if ended_it and not (ended_it == "stop" and exchange.over and not self._stopped.is_set()):
            return Verdict(ended_early(ended_it, self._call, name).error)
        return exchange.verdict() or Verdict(badly_ended(worker, self._call, name).error)

    # ── retries ─────────────────────────────────────────────────────────────────────────────

    @property
    def _tool_calls(self) -> int:
        return sum(exchange.tool_calls for exchange in self._exchanges)

    def _may_retry(self, verdict: Verdict) -> bool:
        return verdict.transient and not self._tool_calls and self._retries < len(PAUSES)

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


def _close(exchange: Exchange) -> None:
    if isinstance(exchange.stdin, InputPipe):
        exchange.stdin.close()


def after(seconds: float, act: Callable[[], None]) -> Timer:
    """Do that in so many seconds, unless the timer is cancelled or we have ended."""
    timer = Timer(seconds, act)
    timer.daemon = True
    timer.start()
    return timer
