"""The agents of a run: those that its steps name, and one for all steps that name none.

Each is chosen once by its name, and all are looked at before anything is created. The embedded
agent, `--agent script:FILE`, plays every step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from playbook_supervisor.agents import registry
from playbook_supervisor.agents.protocol import Agent, Budget, command_layout
from playbook_supervisor.drivers.budget import NO_LIMITS, require_enforceable
from playbook_supervisor.errors import ArgumentError, PlaybookError
from playbook_supervisor.formats.sanitize import first_line, suggestion
from playbook_supervisor.kernel.model import CLIENT, SLASH, Playbook, Step
from playbook_supervisor.kernel.vocabulary import Autonomy
from playbook_supervisor.project.command_layouts import CLAUDE
from playbook_supervisor.project.expressions.references import interpolate, is_known
from playbook_supervisor.project.playbooks.child_playbooks import given
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.project.slash_commands import (
    CommandIndex,
    InstalledCommand,
    index_of,
)
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.store.creation import RunRequest, require_installed

_EMBEDDED = "script:"
_MOST = 200  # playbooks of a tree that are looked at, each with other values of its args

Shares = Mapping[str, tuple[Playbook, ...]]
"""Name of an agent → playbooks that have only the steps that it carries out. The name is empty for
the agent of the run, whose share has also the steps without an agent."""


def shares(
    playbook: Playbook, spec: str, children: Mapping[str, Playbook], values: Mapping[str, str]
) -> Shares:
    """The agents that a run needs, with their steps.

    `spec` is the value of `--agent`, `children` are the playbooks that its steps can reach, and
    `values` those of its args. A name that only an item of a loop tells is left as it is written.
    """
    found: dict[str, tuple[Playbook, ...]] = {}
    rest: list[Playbook] = []
    own = bool(spec)
    for each in _reached(playbook, children, values):
        named = {step.id: name_of(step, spec) for step in each.steps}
        runs = [step for step in each.steps if step.autonomy is not Autonomy.SKIP]
        own = own or any(step.needs_agent and not named[step.id] for step in runs)
        for step in (step for step in runs if named[step.id]):
            name = named[step.id]
            found[name] = (*found.get(name, ()), replace(each, steps=(step,)))
        others = tuple(step for step in each.steps if not named[step.id])
        rest.append(replace(each, steps=others))
    return {"": tuple(rest), **found} if own else found


def shares_of(request: RunRequest, spec: str = "") -> Shares:
    """Those of a run that is to begin."""
    return shares(request.tightened, spec, request.tightened_children, request.args)


def name_of(step: Step, spec: str) -> str:
    """The name of the step's agent; empty for that of the run."""
    return "" if spec.startswith(_EMBEDDED) else step.agent


def _reached(
    playbook: Playbook, children: Mapping[str, Playbook], values: Mapping[str, str]
) -> Iterator[Playbook]:
    """The playbook and those that its steps reach, with the agents that their args name."""
    due = [(playbook, dict(values))]
    for each, given_values in due:
        known = each.values(given_values)
        yield replace(
            each,
            steps=tuple(
                replace(step, agent=interpolate(step.agent, known).strip()) for step in each.steps
            ),
        )
        for step in each.steps:
            if step.autonomy is Autonomy.SKIP or step.child not in children:
                continue
            child, passed = children[step.child], given(step, known)
            below = {arg.name: passed.get(arg.name) or arg.default or "" for arg in child.args}
            if (child, below) not in due and len(due) < _MOST:
                due.append((child, below))


@dataclass(slots=True)
class Agents:
    """The agents of one run, each chosen when it is first needed. `spec` is what `--agent` takes;
    under other settings they are chosen again."""

    spec: str
    root: Path
    config: Config
    _chosen: dict[str, Agent] = field(default_factory=dict)

    def of(self, step: Step, config: Config) -> Agent:
        """The agent of a step that needs one. Errors as `named`."""
        if config != self.config:
            self.config, self._chosen = config, {}
        return self.named(name_of(step, self.spec))

    def named(self, name: str) -> Agent:
        """The agent of that name, that of the run for an empty one; errors as
        `agents.registry.choose`, and ArgumentError PB-ARG-AGENT for what is no name."""
        if name not in self._chosen:
            if wrong := unknown(name, self.config) if name else None:
                raise wrong
            self._chosen[name] = registry.choose(name or self.spec, self.config, self.root)
        return self._chosen[name]

    @property
    def all(self) -> tuple[Agent, ...]:
        """Those that were chosen so far."""
        return tuple(self._chosen.values())

    @property
    def label(self) -> str:
        """The names of those that were chosen; `none` without any."""
        names = dict.fromkeys(agent.name for agent in self._chosen.values())
        return ", ".join(names) or "none"


def unknown(name: str, config: Config) -> ArgumentError | None:
    """PB-ARG-AGENT if a step cannot name its agent so; an agent with an argument, such as
    `exec:PROGRAM`, gets a name in the settings."""
    names = registry.names(config)
    if name in names:
        return None
    near = suggestion(name, names)
    return ArgumentError(
        "PB-ARG-AGENT",
        f"there is no agent of the name {first_line(name, 60)!r}{near}",
        guidance="Name it under `agents` in .playbooks/config.yaml, or use one of these: "
        f"{', '.join(names)}.",
    )


def require_known(request: RunRequest, spec: str) -> None:
    """ArgumentError PB-ARG-AGENT for a step whose agent no machine can have with these settings."""
    for name, playbooks in shares_of(request, spec).items():
        wrong = unknown(name, request.config) if name and is_known(name) else None
        if wrong:
            raise _of_step(wrong, playbooks)


def _of_step(error: PlaybookError, playbooks: Sequence[Playbook]) -> PlaybookError:
    said = f"step {playbooks[0].steps[0].id}: {error.message}"
    cure = error.guidance
    if error.code == "PB-AGENT-NONE":
        cure = "Install it, or give the step another agent."
    return type(error)(error.code, said, guidance=cure, details=error.details)


def chosen(found: Shares, spec: str, config: Config, root: Path) -> Agents:
    """All of these agents. Errors as `Agents.named`; those of a name say which step has it."""
    agents = Agents(spec, root, config)
    for name, playbooks in found.items():
        if not is_known(name):
            continue
        try:
            agents.named(name)
        except PlaybookError as error:
            if not name:
                raise
            raise _of_step(error, playbooks) from error
    return agents


def admit(
    agents: Agents, found: Shares, request: RunRequest, root: Path, limits: Budget = NO_LIMITS
) -> None:
    """Each agent keeps the limits, and has the commands of its steps. ArgumentError PB-ARG-AGENT,
    CheckError PB-CHECK-COMMAND."""
    for name, playbooks in found.items():
        if not is_known(name):
            continue
        agent = agents.named(name)
        require_enforceable(agent, limits, playbooks)
        layout = command_layout(agent)
        if not name and layout == CLAUDE:
            request.require_commands(root)
        else:
            steps = (step for each in playbooks for step in each.steps if step.namespace == SLASH)
            commands = dict.fromkeys(step.command for step in steps)
            require_installed(commands, root, layout, playbooks[0].name)


def of_claude(agents: Agents, found: Shares) -> Iterator[Playbook]:
    """The shares of agents that read Claude Code's files."""
    for name, playbooks in found.items():
        if is_known(name) and command_layout(agents.named(name)) == CLAUDE:
            yield from playbooks


def admit_beside_client(request: RunRequest, root: Path) -> None:
    """The agents of the steps that are not given to a client's own. Errors as `chosen`, `admit`."""
    found = {name: each for name, each in shares_of(request).items() if name not in ("", CLIENT)}
    admit(chosen(found, "", request.config, root), found, request, root)


@dataclass(slots=True)
class Commands:
    """The slash commands of a run, each where the agent of its step looks for it."""

    shares: Shares
    agents: Agents | None
    spec: str
    config: Config
    root: Path
    _indexes: dict[str, CommandIndex | None] = field(default_factory=dict)

    def agent_of(self, step: Step) -> str:
        """The name of the step's agent; empty for that of the run."""
        return name_of(step, self.spec)

    def resolve(self, step: Step) -> InstalledCommand | None:
        """The step's command as it is installed; None if it is not, or if that is not known."""
        name = self.agent_of(step)
        if name not in self._indexes:
            spec = name or self.spec or self.config.agent
            chosen = self.agents is not None and name in self.shares and is_known(name)
            layout = (
                command_layout(self.agents.named(name))
                if self.agents is not None and chosen
                else registry.layout_of(spec, self.config, self.root)
            )
            self._indexes[name] = index_of(self.root, home=Path.home(), layout=layout or CLAUDE)
        index = self._indexes[name]
        return index.resolve(step.command) if index is not None else None
