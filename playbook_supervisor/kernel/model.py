"""A playbook as data, immutable and already valid.

`project/playbooks/schema.py` makes one from a file and checks all rules, so code that is given a
`Playbook` need not check them again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, wraps
from typing import TypeVar

from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.vocabulary import (
    ArgType,
    Autonomy,
    OutputFormat,
    Transform,
    Trigger,
)
from playbook_supervisor.records import Record, field, replace

T = TypeVar("T")
S = TypeVar("S")

FIRST_VERSION = "1.0"
"""The version of kai's playbooks, which have slash commands and conditions without parameters."""
SLASH = "slash"
"""The namespace of a slash command; every other namespace is the first word of `command`."""
CHECKPOINT = "checkpoint"  # the namespace of a step that is a gate and nothing else
PLAYBOOK = "playbook"  # the namespace of a step that runs another playbook, its child
MAX_DEPTH = 10  # the greatest depth of children, unless the playbook says otherwise
AGENT_NAMESPACES = frozenset({SLASH, "markdown", "prompt"})
"""The namespaces whose steps an agent carries out; executors carry out all others."""
CLIENT = "claude"
"""The agent whose subagents carry out the steps of a session that a client drives."""


class Arg(Record):
    """A declared parameter. `values` are an enum's; `default` is text as a person would give it."""

    name: str
    description: str
    required: bool
    type: ArgType = ArgType.STRING
    values: tuple[str, ...] = ()
    default: str | None = None
    transform: Transform | None = None
    secret: bool = False


class Limits(Record):
    """The most that a step, or all steps of a playbook, may use; None for no limit of its own."""

    timeout_seconds: float | None = None
    idle_timeout_seconds: float | None = None
    max_output_bytes: int | None = None
    max_cost_usd: float | None = None
    max_tokens: int | None = None
    max_turns: int | None = None
    max_tool_calls: int | None = None


NO_LIMITS = Limits()
MOST_ITEMS = 100  # the most items of a loop, unless it says otherwise


class Reviewers(Record):
    """The reviewers of what a playbook makes: people, teams or roles."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


NO_REVIEWERS = Reviewers()


class OnFail(Record):
    """The earlier step to which a failed step sends back by itself, at most so many `times`."""

    back_to: str
    times: int = 1


class Loop(Record):
    """The items that a step is repeated for: those of a list that a step or an arg brought.

    `source` is `$plan.json.tasks` or `$files`; `{{name}}` stands for the item. A list of more than
    `most` items is refused before the first. `at_once` items run together. An item for which
    `where` does not hold is passed over.
    """

    source: str
    name: str
    most: int = MOST_ITEMS
    at_once: int = 1
    where: str = ""


class Step(Record):
    """One unit of work.

    `command` is a slash command, which contains no space, or a namespace and what it works on
    (`cli make test`). `args` is text in which each `{{arg}}` is still to be replaced. Conditions
    are named by their canonical text: `plan_exists`, `command_succeeds=test`. `options` is the
    `with:` of the file and `output_schema` a JSON Schema, both as JSON text; `stdin` and `when`
    refer to earlier steps (`$build.stdout`); the paths in `outputs` must exist after the step.
    `approval` asks for a gate before the step that only a person passes, `checkpoint` for one after
    it. The step runs again until all of `until` hold, at most `rounds` times.
    A step with `for_each` is a loop: it is never run itself, but once for each item, as the steps
    `build[1]`, `build[2]` and so on, whose `item` are names and the values that they stand for, and
    which may say why they are `passed_over`.
    `cache` names the files on which its output depends, if a recorded one may stand in for a run.
    `agent` is the name of the agent that carries it out, if that is not the run's.
    `also: uncommitted` lets a `commit` take what was there before the session.
    With `undo`, what a failed attempt has changed and committed is undone before the run goes on.
    Text is empty if the playbook does not set it.
    """

    id: str
    command: str
    autonomy: Autonomy
    error_policy: ErrorPolicy
    args: str = ""
    agent: str = ""
    model: str = ""
    preconditions: tuple[str, ...] = ()
    postconditions: tuple[str, ...] = ()
    escalation_triggers: tuple[Trigger, ...] = ()
    parallel_group: str = ""
    title: str = ""
    options: str = ""
    stdin: str = ""
    output: OutputFormat = OutputFormat.TEXT
    output_schema: str = ""
    when: str = ""
    skip_if: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    cwd: str = ""
    tools: tuple[str, ...] = ()
    limits: Limits = NO_LIMITS
    feedback: bool = True
    approval: bool = False
    checkpoint: bool = False
    also: str = ""
    undo: bool = False
    on_fail: OnFail | None = None
    cache: tuple[str, ...] | None = None
    for_each: Loop | None = None
    until: tuple[str, ...] = ()
    rounds: int = 0
    item: tuple[tuple[str, str], ...] = ()
    passed_over: str = ""

    @property
    def namespace(self) -> str:
        return SLASH if self.command.startswith("/") else self.command.split(maxsplit=1)[0]

    @property
    def is_checkpoint(self) -> bool:
        return self.namespace == CHECKPOINT

    @property
    def has_child(self) -> bool:
        """True if its work is a child session: the child is interrupted or lost, and not it."""
        return self.namespace == PLAYBOOK

    @property
    def child(self) -> str:
        """The name of the playbook that it runs, which is that of its file; empty without one."""
        file = self.child_reference.rpartition("/")[2]
        return file.rpartition(".")[0] or file

    @property
    def child_reference(self) -> str:
        """The child as the step names it: by a name, or by a path from the repository's top."""
        return self.command.partition(" ")[2] if self.namespace == PLAYBOOK else ""

    @property
    def conditions(self) -> tuple[str, ...]:
        """All that it names, those that skip it last."""
        return (*self.preconditions, *self.judging, *self.skip_if)

    @property
    def judging(self) -> tuple[str, ...]:
        return (*self.postconditions, *self.until)

    @property
    def needs_agent(self) -> bool:
        return self.namespace in AGENT_NAMESPACES

    @property
    def by_client(self) -> bool:
        """True if an agent of the client carries it out where a client drives the session."""
        return self.needs_agent and self.agent in ("", CLIENT)


Phase = tuple[Step, ...]
"""The steps that are due together: one step, the adjacent steps of one parallel group, or items."""


def base_of(step_id: str) -> str:
    """The step of the playbook: `build` for its item `build[2]`, and for itself."""
    return step_id.partition("[")[0]


def item_number(step_id: str) -> int:
    """The number of the item in its loop, from 1: 2 for `build[2]`; 0 for any other step."""
    number = step_id.partition("[")[2].removesuffix("]")
    known = number.isascii() and number.isdecimal() and step_id == item_id(step_id, int(number))
    return int(number) if known else 0


def item_id(step_id: str, number: int) -> str:
    """`build[2]`, the step for the second item of the loop `build`."""
    return f"{base_of(step_id)}[{number}]"


class Playbook(Record, slots=False):
    """An ordered list of steps, at least one.

    `max_depth` is how deep the children of its steps may be: 1 lets them have none of their own.
    A session's playbook can `bind` the step of an item to the values that the item gives it.
    """

    name: str
    description: str
    version: str
    args: tuple[Arg, ...]
    steps: tuple[Step, ...]
    owner: str = ""
    reviewers: Reviewers = NO_REVIEWERS
    outputs: tuple[str, ...] = ()
    limits: Limits = NO_LIMITS
    max_depth: int = MAX_DEPTH
    bind: Callable[[Step], Step] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def _by_id(self) -> dict[str, Step]:
        return {step.id: step for step in self.steps}

    def __contains__(self, step_id: str) -> bool:
        return step_id in self._by_id or self._is_item(step_id)

    def step(self, step_id: str) -> Step:
        """The step with this id, which may be an item of a loop; KeyError if there is none."""
        if self._is_item(step_id):
            loop = self._by_id[base_of(step_id)]
            item = replace(loop, id=step_id, for_each=None, when="")  # it is asked for the loop
            return self.bind(item) if self.bind else item
        return self._by_id[step_id]

    def _is_item(self, step_id: str) -> bool:
        if not item_number(step_id):
            return False
        loop = self._by_id.get(base_of(step_id))
        return loop is not None and loop.for_each is not None

    def values(self, given: Mapping[str, str], step: Step | None = None) -> dict[str, str]:
        """Each declared arg's value, empty if not given, and what the item `step` stands for."""
        values = {arg.name: given.get(arg.name, "") for arg in self.args}
        return {**values, **dict(step.item)} if step else values

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """The steps in order, adjacent steps of one `parallel_group` as one phase."""
        phases: list[list[Step]] = []
        for step in self.steps:
            group = step.parallel_group
            if group and phases and phases[-1][-1].parallel_group == group:
                phases[-1].append(step)
            else:
                phases.append([step])
        return tuple(tuple(phase) for phase in phases)

    @cached_property
    def phase_of(self) -> dict[str, int]:
        return {step.id: index for index, phase in enumerate(self.phases) for step in phase}

    def back_from(self, step_id: str, *, judged: bool) -> tuple[str, ...]:
        """The earlier steps to which a gate of this step can send back, the one that it offers
        first: that of its `on_fail` or of the nearest one before it; where work was `judged`, else
        the nearest step whose work an agent does. Empty if there is none."""
        here = self._by_id[base_of(step_id)]
        earlier = [step for step in self.steps if self.phase_of[step.id] < self.phase_of[here.id]]
        named = [step.on_fail.back_to for step in (*earlier, here) if step.on_fail]
        worked = [step.id for step in earlier if judged and (step.needs_agent or step.has_child)]
        if not (offered := (named or worked)[-1:]):
            return ()
        others = (step.id for step in reversed(earlier) if step.id != offered[0])
        return (*offered, *others)


def cached_query(query: Callable[[S], T]) -> Callable[[S], T]:
    """A function of a state or of a playbook that is computed once for each of them, as
    `cached_property` would."""
    key = query.__qualname__

    @wraps(query)
    def cached(state: S) -> T:
        known = state.__dict__
        if key not in known:
            known[key] = query(state)
        result: T = known[key]
        return result

    return cached
