"""Coding agents behind the headless runner: what one is, which there are, which is meant.

An agent carries out one call and streams what it says; the last message carries the outcome.
Agents know nothing of each other, of sessions or of the kernel's decisions (Catalyst FR-5).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from playbook_supervisor.errors import CODES, AgentError, ArgumentError, PlaybookError
from playbook_supervisor.formats.sanitize import did_you_mean, first_line, printable
from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.records import Record, field, replace

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from playbook_supervisor.project.config import Config


class Budget(Record):
    """What a call may use at most; None bounds nothing.

    `max_turns` answers of the model, `max_tool_calls`, and `max_cost_usd` dollars, 0 being none.
    """

    max_turns: int | None = None
    max_tool_calls: int | None = None
    max_cost_usd: float | None = None


class Call(Record, kw_only=True):
    """One attempt at one step, as an agent is given it (Catalyst FR-5.3).

    `directive` is `implement#1`; `command` the resolved slash command, `/speckit.implement`;
    `prompt` what a person would type, command and args; `model` empty where none was asked for.
    `env` comes on top of the parent's environment. `wall` and `idle` are deadlines in seconds,
    `cap` the bytes of output that are kept. Every process of the call inherits `worker_file`,
    open and locked. The values in `secrets` never leave the agent. An agent that cannot keep the
    `budget` says so (`keeps_budgets`) and is given none.
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
    env: Mapping[str, str] = field(default_factory=dict)
    worker_file: Path | None = None
    wall: float | None = None
    idle: float | None = None
    cap: int = 1_000_000
    budget: Budget = field(default_factory=Budget)
    secrets: tuple[str, ...] = field(default=(), repr=False)


class Message(Record):
    """Something the agent said, or, as the last of its call, the outcome.

    `notice`: whoever watches has to know it, also where what agents say is not shown.
    """

    text: str = ""
    outcome: Outcome | None = None
    notice: bool = False


class Running(Record):
    """A call under way. One thread iterates over the messages; `stop` may come from any other.

    `stop` ends the whole process group within two seconds, may be called twice or too late, and
    the messages still end with an outcome. Dropping the iterator stops the call as well.
    """

    messages: Iterator[Message]
    stop: Callable[[], None]

    def __iter__(self) -> Iterator[Message]:
        return self.messages


class Agent(Protocol):
    """What a plugin provides; `playbook_supervisor.testing` proves that it keeps its word."""

    @property
    def name(self) -> str:
        """How the journal names it (`agent.name`)."""
        ...

    def available(self) -> str | None:
        """Why it cannot be used on this machine, in one sentence, or None."""
        ...

    def run(self, call: Call) -> Running:
        """Start the call at once. Whatever goes wrong is an outcome, never an exception."""
        ...


Factory = Callable[[str, "Config", Path], Agent]
"""`(argument, config, root)`: `argument` is what stands behind the colon of `--agent NAME:…`."""

BUILT_IN: dict[str, str] = {
    "claude": "playbook_supervisor.agents.claude:create",
    "exec": "playbook_supervisor.agents.exec:create",
    "script": "playbook_supervisor.agents.script:create",
}
"""Name → the factory's place, imported when it is chosen."""

FIRST = "claude"
"""What is looked for where nobody says which agent is meant."""

ENTRY_POINTS = "playbook_supervisor.agents.registry"
"""The entry-point group in which a package offers a `Factory` of its own."""


def choose(spec: str, config: Config, root: Path) -> Agent:
    """The agent that is meant, ready to be used (Catalyst FR-5.6).

    `spec` is what `--agent` says: `exec:./my-agent --flag`, `script:FILE.yaml`, a name that the
    project's config or an installed package gives, or empty: then the config's `agent`, then what
    is found on the machine. ArgumentError PB-ARG-AGENT lists what there is; PB-AGENT-NONE says
    why none can be used; PB-AGENT-SCRIPT comes from a faulty script file.
    """
    wanted = spec.strip() or config.agent
    if not wanted:
        return _found_on_this_machine(config, root)
    agent = _make(wanted, config, root)
    reason = agent.available()
    if reason is not None:
        raise AgentError(
            "PB-AGENT-NONE",
            f"the agent {printable(wanted)} cannot be used: {reason}",
            guidance="Mend that, or name another agent: --agent exec:PROGRAM.",
        )
    return agent


def known(config: Config) -> tuple[str, ...]:
    """What `--agent` understands here, as a person would write it."""
    return (
        "claude",
        "exec:PROGRAM",
        "script:FILE.yaml",
        *sorted({*config.agents_exec, *_plugins()}),
    )


def keeps_budgets(agent: Agent) -> bool:
    """Whether the agent stops at what `Call.budget` says; one that does has an attribute for it."""
    return getattr(agent, "keeps_budgets", False) is True


def as_typed(path: str, root: Path) -> Path:
    """A path of `--agent`: from where the person stands, else from the repository's top."""
    here = Path.cwd() / path
    return here if here.exists() else root / path


def from_anywhere(spec: str, root: Path) -> str:
    """What `--agent` would have to say in any other folder to mean this agent."""
    import shlex

    name, _, argument = spec.strip().partition(":")
    if name == "script":
        return f"{name}:{as_typed(argument, root)}"
    if name == "exec":
        program, *others = shlex.split(argument)
        whole = str(as_typed(program, root)) if os.sep in program else program
        return f"{name}:{shlex.join([whole, *others])}"
    return spec


def carry_out(
    agent: Agent,
    call: Call,
    hear: Callable[[str], None],
    *,
    under_way: Callable[[Running], None] | None = None,
    note: Callable[[str], None] | None = None,
) -> Outcome:
    """Run the call to its end and return its outcome, whatever the agent does.

    `hear` gets each line of text, harmless for a terminal, and `note` those that are notices;
    `under_way` the running call, so that another thread can stop it. An agent that raises, or ends
    without an outcome, has failed.
    """
    outcome: Outcome | None = None
    try:
        running = agent.run(call)
        if under_way is not None:
            under_way(running)
        for message in running:
            if message.text:
                hear(printable(message.text))
                if message.notice and note is not None:
                    note(printable(message.text))
            outcome = message.outcome or outcome
    except PlaybookError as error:
        outcome = failed("PB-AGENT-FAILED", error.message, cause=error.code, name=agent.name)
    except Exception as error:  # a plugin's fault is a failed step, not the end of the run
        said = f"the agent {agent.name} raised {type(error).__name__}: {error}"
        outcome = failed("PB-AGENT-CRASHED", said, name=agent.name)
    if outcome is None:
        said = f"the agent {agent.name} ended without saying how"
        outcome = failed("PB-AGENT-FAILED", said, name=agent.name)
    return _harmless(outcome)


def failed(
    code: str, message: str, *, name: str, guidance: str = "", cause: str = "", output: str = ""
) -> Outcome:
    """The outcome of a call that went wrong; `code` begins with `PB-AGENT-`."""
    failure = Failure(code, message, guidance or CODES[code], cause)
    return Outcome(error=failure, output=output, agent={"name": name})


def _harmless(outcome: Outcome) -> Outcome:
    error = outcome.error
    if error is not None:
        error = replace(
            error,
            message=printable(error.message),
            guidance=printable(error.guidance),
            cause=printable(error.cause, keep_newlines=True),
        )
    return replace(outcome, error=error, output=first_line(outcome.output))


def _make(wanted: str, config: Config, root: Path) -> Agent:
    name, _, argument = wanted.partition(":")
    if name in BUILT_IN:
        return _import(BUILT_IN[name])(argument, config, root)
    if wanted in config.agents_exec:
        from playbook_supervisor.agents.exec import ExecAgent

        return ExecAgent(wanted, config.agents_exec[wanted], root)
    plugins = _plugins()
    if name in plugins:
        return _load(plugins[name])(argument, config, root)
    near = did_you_mean(name, [*BUILT_IN, *config.agents_exec, *plugins])
    hint = f" (did you mean {near}?)" if near else ""
    raise ArgumentError(
        "PB-ARG-AGENT",
        f"there is no agent {printable(name)}{hint}; there are {', '.join(known(config))}",
        details=known(config),
    )


def _found_on_this_machine(config: Config, root: Path) -> Agent:
    """Claude Code, else the first of those that packages bring (Catalyst FR-10.2)."""
    reasons = []
    factories = {FIRST: partial(_import, BUILT_IN[FIRST])}
    for name, entry_point in sorted(_plugins().items()):
        factories[name] = partial(_load, entry_point)
    for name, load in factories.items():
        try:
            agent = load()("", config, root)
            reason = agent.available()
        except PlaybookError as error:
            reason = error.message
        else:
            if reason is None:
                return agent
        reasons.append(f"{name}: {reason}")
    raise AgentError(
        "PB-AGENT-NONE",
        "no agent was named, none is configured and none is found on this machine",
        guidance="Install Claude Code (`claude` on PATH), or name another: --agent exec:PROGRAM or"
        " script:FILE.yaml, or `agent:` in .playbooks/config.yaml.",
        details=tuple(reasons),
    )


def _plugins() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {entry_point.name: entry_point for entry_point in entry_points(group=ENTRY_POINTS)}


def _load(entry_point: EntryPoint) -> Factory:
    try:
        factory: Factory = entry_point.load()
    except Exception as error:
        raise AgentError(
            "PB-AGENT-NONE",
            f"the agent {entry_point.name} of {entry_point.value} cannot be loaded",
            cause=f"{type(error).__name__}: {error}",
            guidance="Reinstall the package that provides it, or name another agent.",
        ) from error
    return factory


def _import(place: str) -> Factory:
    from importlib import import_module

    module, _, name = place.partition(":")
    factory: Factory = getattr(import_module(module), name)
    return factory
