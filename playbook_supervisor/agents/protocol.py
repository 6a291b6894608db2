"""The contract of a coding agent: what it is given, what it returns, and how a call is run.

An agent carries out one call and streams its output; the last message carries the outcome. It knows
nothing of other agents, of sessions or of the kernel's decisions.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from typing import Any, Literal, Protocol

from playbook_supervisor.errors import CODES, ArgumentError, PlaybookError
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.project.command_layouts import LAYOUTS
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import replace
from playbook_supervisor.system.isolation.sandbox import Sandbox
from playbook_supervisor.system.process.capture import capped, redact


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a call: model turns, tool calls, cost in dollars, and tokens.

    Tokens are weighed by their price, in tokens of input: people who pay by subscription have no
    cost to limit. None means no limit.
    """

    max_turns: int | None = None
    max_tool_calls: int | None = None
    max_cost_usd: float | None = None
    max_tokens: int | None = None


Shape = Mapping[str, Any]
"""The content of a request, as the journal keeps it: texts, numbers, lists and mappings."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the agent to a person before it goes on; `agents.requests` makes its `shape`.

    A `permission`'s has `tool`, `subject` (the command, path or URL, on one line), `input` (JSON
    text), `digest`, and perhaps `who`, `rule`, `path`, `description`, `agent` and `conversation`. A
    `question`'s has `tool`, `subject`, `digest`, perhaps `conversation`, and `questions`, each with
    `question`, `header`, `options` (`label` and `description`) and `multiple`.
    """

    kind: Literal["permission", "question"]
    shape: Shape


@dataclass(frozen=True, slots=True)
class Reply:
    """The decision of a person: a `resolution` of the gate, `allow`, `always`, `deny` or `answer`.

    `text` is what the agent is told about a denial, or the answer: a line for each question, with
    the number or the label of an option, or other words.
    """

    resolution: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One attempt at one step, as an agent receives it.

    `directive` is `implement#1`; `command` the resolved slash command, `/speckit.implement`;
    `prompt` what a person would type, command and args, or the prompt of a step that brings one;
    such a step names the only `tools` that the agent may use (None: what its own settings allow).
    `model` is empty for the default model.
    `feedback` is what a retry is told about the attempt before it, and empty for a first attempt.
    `env` is added to the parent's environment. `wall` and `idle` are deadlines in seconds, `cap`
    the bytes of output to keep. Every process of the call inherits `worker_file`, open and locked,
    and ends with the call; with us, too, unless it `outlives` us. They run in its `isolation`.
    The values in `secrets` never leave the agent. Only an agent that `keeps_budgets` is given a
    `budget`. `log`, if there is one, takes every line of output, safe and without secrets, also
    those beyond the cap; if the agent does not call it, its messages are logged.

    `ask` puts a request to a person and blocks until the reply; None: it is put off, the agent ends
    its process in an orderly way, and its outcome is ignored. The time in `ask` is part of neither
    `wall` nor `idle`; `spent` is how much of `wall` the attempt has used before. Without an `ask`
    the agent cannot ask. `conversation` is the one to continue, as the shape of its last request
    named it. `replies`, by the requests' digests, have not reached the agent; what they answer is
    not asked again. Calls that match `allowed_rules` need no permission, and those that match
    `forbidden_rules` are denied without a request.
    """

    session: str
    directive: str
    step: str
    attempt: int
    command: str
    args: str
    feature: str
    prompt: str
    cwd: Path
    model: str = ""
    feedback: str = ""
    tools: tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    worker_file: Path | None = None
    outlives: bool = False
    isolation: Sandbox | None = None
    wall: float | None = None
    idle: float | None = None
    cap: int = 1_000_000
    budget: Budget = field(default_factory=Budget)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    log: Callable[[str], None] | None = field(default=None, repr=False, compare=False)
    ask: Callable[[Request], Reply | None] | None = field(default=None, repr=False, compare=False)
    replies: Mapping[str, Reply] = field(default_factory=dict)
    conversation: str = ""
    allowed_rules: tuple[str, ...] = ()
    forbidden_rules: tuple[str, ...] = ()
    spent: float = 0.0

    @property
    def wall_left(self) -> float | None:
        """The seconds that the attempt may still take; None without a limit."""
        return None if self.wall is None else max(0.0, self.wall - self.spent)


@dataclass(frozen=True, slots=True)
class Message:
    """A line of the agent's output or, as the last message of a call, its outcome.

    A `notice` is about the call and not the agent's own; it is shown where output is not.
    """

    text: str = ""
    outcome: Outcome | None = None
    notice: bool = False


@dataclass(frozen=True, slots=True)
class Running:
    """A call in progress. One thread iterates over the messages; any other may call `stop`.

    `stop` ends the whole process group within two seconds and may be called twice or too late; the
    messages still end with an outcome. Dropping the iterator also stops the call.
    """

    messages: Iterator[Message]
    stop: Callable[[], None]

    def __iter__(self) -> Iterator[Message]:
        return self.messages


class Agent(Protocol):
    """The contract of a plugin, which `playbook_supervisor.testing` checks.

    Optional attributes describe it further: `keeps_budgets`, `command_layout`, `asks`, and
    `can_continue(call)`.
    """

    @property
    def name(self) -> str:
        """Its name in the journal (`agent.name`)."""

    def available(self) -> str | None:
        """The reason why it cannot be used on this machine, in one sentence, or None."""

    def run(self, call: Call) -> Running:
        """Start the call at once. Every failure is an outcome, never an exception."""


def keeps_budgets(agent: Agent) -> bool:
    """True if the agent measures its usage and stops at the limits of `Call.budget`."""
    return getattr(agent, "keeps_budgets", False) is True


def command_layout(agent: Agent) -> str:
    """Whose folders its slash commands are read from, a key of `command_layouts.LAYOUTS`.

    So a missing one is seen at once. Empty if that is not known.
    """
    layout = getattr(agent, "command_layout", "")
    return layout if isinstance(layout, str) and layout in LAYOUTS else ""


def asks(agent: Agent) -> bool:
    """True if the agent uses `Call.ask`."""
    return getattr(agent, "asks", False) is True


def can_continue(agent: Agent, call: Call) -> bool:
    """True if the conversation `call.conversation` is here, so that the agent can continue it."""
    check = getattr(agent, "can_continue", None)
    return bool(call.conversation and check is not None and check(call))


Factory = Callable[[str, Config, Path], Agent]
"""`(argument, config, root)`: `argument` is the part after the colon of `--agent NAME:…`."""


def resolve_path(path: str, root: Path) -> Path:
    """A path in a factory's argument: relative to the working directory, else to the repository."""
    here = Path.cwd() / path
    return here if here.exists() else root / path


def argv_of(kind: str, argument: str, root: Path) -> list[str]:
    """The argument of `--agent KIND:…`, split by POSIX quoting. ArgumentError PB-ARG-AGENT."""
    try:
        argv = shlex.split(argument)
    except ValueError as error:
        message = f"cannot parse the command after {kind}: {error}"
        guidance = f"Close every quotation mark: --agent \"{kind}:my-agent 'one argument'\"."
        raise ArgumentError("PB-ARG-AGENT", message, guidance=guidance) from error
    if not argv or not argv[0]:
        raise ArgumentError("PB-ARG-AGENT", f"no program follows {kind}:")
    if os.sep in argv[0]:
        argv[0] = str(resolve_path(argv[0], root))
    return argv


def missing_program(program: str) -> str | None:
    """The reason why it cannot be started, or None."""
    if which(program) is not None:
        return None
    wrong = "is not an executable file" if os.sep in program else "is not on PATH"
    return f"{printable(program)} {wrong}"


def carry_out(
    agent: Agent,
    call: Call,
    on_line: Callable[[str], None],
    *,
    on_start: Callable[[Running], None] | None = None,
    on_notice: Callable[[str], None] | None = None,
) -> Outcome:
    """Run the call to its end and return its outcome, even if the agent raises.

    `on_line` receives each line of output, safe for a terminal, and `on_notice` those that are
    notices; `on_start` receives the running call, so that another thread can stop it. An agent that
    raises, or ends without an outcome, has failed.
    """
    outcome: Outcome | None = None
    whole = _WholeOutput(call)
    try:
        running = agent.run(whole.call)
        if on_start is not None:
            on_start(running)
        for message in running:
            if message.text:
                whole.add_message(message.text, notice=message.notice)
            if message.text and message.notice and on_notice is not None:
                on_notice(printable(message.text))
            elif message.text:
                on_line(printable(message.text))
            outcome = message.outcome or outcome
    except PlaybookError as error:
        outcome = failed("PB-AGENT-FAILED", error.message, cause=error.code, name=agent.name)
    except Exception as error:  # a plugin's fault is a failed step, not the end of the run
        message_text = f"the agent {agent.name} raised {type(error).__name__}: {error}"
        outcome = failed("PB-AGENT-CRASHED", message_text, name=agent.name)
    if outcome is None:
        message_text = f"the agent {agent.name} ended without an outcome"
        outcome = failed("PB-AGENT-FAILED", message_text, name=agent.name)
    if outcome.silent is None:
        outcome = replace(outcome, silent=not (whole.spoke or outcome.output.strip()))
    return _sanitized(outcome, call)


class _WholeOutput:
    """Logs what the agent itself logs or, if it never does, its messages; notices in any case."""

    def __init__(self, call: Call) -> None:
        self._log, self._logs_itself, self.spoke = call.log, False, False
        self._secrets = call.secrets
        self.call = replace(call, log=self._add_line)

    def _add_line(self, line: str) -> None:
        self._logs_itself = self.spoke = True
        if self._log is not None:
            self._log(line)

    def add_message(self, text: str, *, notice: bool) -> None:
        self.spoke = self.spoke or not notice
        if self._log is not None and (notice or not self._logs_itself):
            self._log(redact(printable(text), self._secrets))


def failed(
    code: str, message: str, *, name: str, guidance: str = "", cause: str = "", output: str = ""
) -> Outcome:
    """The outcome of a failed call; `code` begins with `PB-AGENT-`."""
    failure = Failure(code, message, guidance or CODES[code], cause)
    return Outcome(error=failure, output=output, agent={"name": name})


def _sanitized(outcome: Outcome, call: Call) -> Outcome:
    error = outcome.error
    if error is not None:
        error = replace(
            error,
            message=redact(printable(error.message), call.secrets),
            guidance=redact(printable(error.guidance), call.secrets),
            cause=redact(printable(error.cause, keep_newlines=True), call.secrets),
        )
    output = redact(printable(outcome.output, keep_newlines=True), call.secrets)
    output = capped(output, call.cap)
    return replace(outcome, error=error, output=output)
