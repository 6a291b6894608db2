"""Claude Code, headless: a fresh process for each call; the client expands the slash command.

The exit status proves nothing, so the result object is judged. Permissions come from the config and
are never bypassed: the client denies what its rules do not allow. A failure of the model's server
is retried before the first tool call, never after it. A usage limit is waited for if the config
says so; a conversation that had begun to work then continues.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from shutil import which
from threading import Event, Lock, Timer

from playbook_supervisor.agents.claude_control import OPTIONS, ClientInput, Dialogue
from playbook_supervisor.agents.claude_stream import Account, Stream
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
    environment,
    left_behind,
    not_started,
    of_policy,
    put_off,
    whole_output,
)
from playbook_supervisor.agents.protocol import Budget, Call, Message, Running
from playbook_supervisor.agents.requests import Asker
from playbook_supervisor.errors import ArgumentError, PlaybookError, PolicyError
from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.project.settings.config import Claude, Config
from playbook_supervisor.records import replace
from playbook_supervisor.system.disk.files import ensure_folder
from playbook_supervisor.system.process.processes import Worker

NAME = "claude"
TESTED = ("2.1.329", "2.1.332")
"""The versions of the client with which the tests run, the newest last."""
PAUSES = (1.0, 2.0, 4.0)
"""Seconds before each retry, where the model's server failed before the first tool call."""
_HOSTS = ("api.anthropic.com", "platform.claude.com")
"""Of the model, and of the login of a subscription."""
_ADDRESS = "ANTHROPIC_BASE_URL"
_CAP = 16_000_000  # bytes of one line of the stream: a tool's result may hold pictures
_FIRST_WAIT = 1.0  # seconds, at least, before the first try after a usage limit
_NEXT_WAIT = 60.0  # and before each further one
_INTERRUPTED = 5.0  # seconds in which a client that was put off ends by itself
_CLOCK_INTERVAL = 30.0  # seconds between two looks at the clock: a suspended machine loses time
_GO_ON = "The usage limit that stopped you has been reset. Continue where you stopped."
_DECIDED = """\
You were interrupted because calls of tools needed a person's decision; none was carried out.
The person has now decided. Make each of these calls again, with exactly the same input: the
decision is applied to it. A subagent that waited has ended: start it again, with the same prompt.
Then continue where you stopped."""
_MCP = "mcp__"  # the beginning of the name of an MCP server's tool
_SET_BY_CLIENT = """
AI_AGENT CLAUDECODE CLAUDE_CODE_CHILD_NOTES_DIR CLAUDE_CODE_CHILD_SESSION CLAUDE_CODE_ENTRYPOINT
CLAUDE_CODE_EXECPATH CLAUDE_CODE_MESSAGING_SOCKET CLAUDE_CODE_MESSAGING_TOKEN
CLAUDE_CODE_SESSION_ATTENDED CLAUDE_CODE_SESSION_ID CLAUDE_EFFORT CLAUDE_PID CLAUDE_PROJECT_DIR
"""
_OUTER_CLIENT = frozenset(_SET_BY_CLIENT.split())
"""Variables that an enclosing Claude Code sets for its children; ours must not inherit them."""


def create(argument: str, config: Config, root: Path) -> ClaudeAgent:
    """`--agent claude`. ArgumentError PB-ARG-AGENT if it has an argument."""
    del root
    if argument:
        raise ArgumentError(
            "PB-ARG-AGENT",
            "the agent claude takes no argument",
            guidance="Write --agent claude; the step sets the model, the config the permissions.",
        )
    return ClaudeAgent(config.claude)


class ClaudeAgent:
    """The `claude` on PATH, with the permissions of the config."""

    name = NAME
    keeps_budgets = True
    reads_claude_commands = True
    asks = True

    def __init__(self, config: Claude) -> None:
        self._config = config

    def available(self) -> str | None:
        return None if which(NAME) else f"{NAME} is not on PATH"

    def can_continue(self, call: Call) -> bool:
        """The client keeps its transcripts by folder, and each by the conversation's id."""
        if not re.fullmatch(r"[0-9a-fA-F-]{8,64}", call.conversation):
            return False
        return conversation_file(environment(call), call.cwd, call.conversation).is_file()

    def run(self, call: Call) -> Running:
        conversation = _Conversation(call, self._config)
        return Running(conversation.messages(), stop=conversation.stop)


def hosts(env: Mapping[str, str]) -> tuple[str, ...]:
    """The hosts that the client has to reach in that environment."""
    address = env.get(_ADDRESS, "").partition("://")[2].partition("/")[0].rpartition("@")[2]
    return (*_HOSTS, address) if address else _HOSTS


def _argv(call: Call, config: Claude, budget: Budget, session: str) -> list[str]:
    """Values are joined to their options, and the prompt follows `--`: none can be an option."""
    options = {
        "output-format": "stream-json",
        "permission-mode": config.permission_mode,
        "model": call.model,
        "append-system-prompt": call.feedback,
        "max-turns": budget.max_turns,
        "max-budget-usd": None if budget.max_cost_usd is None else f"{budget.max_cost_usd:.6f}",
        "resume": session,
    }
    given = [f"--{name}={value}" for name, value in options.items() if value]
    rules = (*config.allowed_tools, *(call.tools or ()), *call.allowed_rules)
    given += [f"--allowedTools={rule}" for rule in rules]
    given += [f"--disallowedTools={rule}" for rule in call.forbidden_rules]
    given += _restriction(call.tools)
    if call.ask is not None:
        return [NAME, "-p", "--verbose", *given, *OPTIONS]
    return [NAME, "-p", "--verbose", *given, "--", _prompt(call, session)]


def _prompt(call: Call, session: str) -> str:
    if not session:
        return call.prompt
    if session != call.conversation:
        return _GO_ON
    told = [reply.text for reply in call.replies.values() if reply.text]
    return "\n\n".join((_DECIDED, *(f"The person said: {words}" for words in told)))


def _restriction(tools: tuple[str, ...] | None) -> list[str]:
    """The options that leave no other tools; `Bash(git *)` is a rule for the tool `Bash`."""
    if tools is None:
        return []
    names = dict.fromkeys(rule.partition("(")[0].strip() for rule in tools)
    built_in = [name for name in names if not name.startswith(_MCP)]
    no_servers = [] if len(built_in) < len(names) else ["--strict-mcp-config"]
    return [f"--tools={','.join(built_in)}", *no_servers]


class _Conversation:
    """One call. It starts at once. Read `messages` to its end; any thread may call `stop`."""

    def __init__(self, call: Call, config: Claude) -> None:
        self._call, self._config = call, config
        self._env = {
            name: value for name, value in environment(call).items() if name not in _OUTER_CLIENT
        }
        sandbox = call.isolation
        self._isolation = sandbox.reaching(hosts(self._env)) if sandbox is not None else None
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
        self._stopped.set()
        with self._starting:
            worker = self._worker
        if worker is not None:
            worker.stop()
        if self._input is not None:
            self._input.close()

    def messages(self) -> Generator[Message, None, None]:
        try:
            try:
                outcome = yield from self._carry_out()
            except PolicyError as error:
                outcome = of_policy(error, NAME)
            weighed = self._call.budget.max_tokens is not None
            agent = self._account.as_journaled(NAME, weighed=weighed)
            yield Message(outcome=replace(outcome, agent=agent))
        finally:
            self.stop()

    def _carry_out(self) -> Generator[Message, None, Outcome]:
        output = OutputMessages(self._call)
        while self._not_started is None:
            stream = Stream(root=str(self._call.cwd))
            self._account.streams.append(stream)
            verdict = yield from self._follow(stream, output)
            if verdict.limit_ends and self._config.wait_for_limit:
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
            return ended_early("wall", self._call, NAME).error
        budget = self._account.left_of(self._call.budget, session)
        if failure := exhausted(budget):
            return failure
        with self._starting:
            if self._stopped.is_set():
                return ended_early("stop", self._call, NAME).error
            asks = self._call.ask is not None
            if self._call.isolation is not None:  # what is made in the home is gone afterwards
                ensure_folder(conversation_file(self._env, self._call.cwd, "").parent)
            self._input = ClientInput(_prompt(self._call, session)) if asks else None
            try:
                self._worker = Worker(
                    _argv(self._call, self._config, budget, session),
                    cwd=self._call.cwd,
                    env=self._env,
                    stdin=self._input.descriptor if self._input else b"",
                    worker_file=self._call.worker_file,
                    outlives=self._call.outlives,
                    isolation=self._isolation,
                    wall=left,
                    idle=self._call.idle,
                    cap=_CAP,
                )
            except PlaybookError as error:
                return not_started(error, NAME).error
            finally:
                if self._input is not None:
                    self._input.started()
        return None

    def _follow(self, stream: Stream, output: OutputMessages) -> Generator[Message, None, Verdict]:
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
            return Verdict(put_off(NAME).error)
        if worker.stopped_by:
            return Verdict(ended_early(worker.stopped_by, self._call, NAME).error)
        self._read_transcripts(stream)
        verdict = judge(stream, self._config.allowed_tools, self._call.budget, self._account.spent)
        return verdict or Verdict(badly_ended(worker, self._call, NAME).error)

    def _read_transcripts(self, stream: Stream) -> None:
        """Learn which hook stopped the work, and what a command did in a context of its own."""
        if not re.fullmatch(r"[\w-]+", stream.session):
            return
        own = conversation_file(self._env, self._call.cwd, stream.session)
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
