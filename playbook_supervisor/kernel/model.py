"""A playbook as data, immutable and already valid.

`project/schema.py` makes one from a file and checks all rules, so code that is given a `Playbook`
need not check them again.
"""

from __future__ import annotations

from functools import cached_property

from playbook_supervisor.kernel.vocabulary import Autonomy, Condition, ErrorPolicy, Trigger
from playbook_supervisor.records import Record


class Arg(Record):
    """A declared parameter of a playbook (kai data model, Arg)."""

    name: str
    description: str
    required: bool


class Step(Record):
    """One unit of work (kai data model, Step; `model` comes from kai's real playbooks).

    `command` begins with `/` and contains no space. `args` is text in which each `{{arg}}` is still
    to be replaced. `model` and `parallel_group` are empty if the playbook does not set them.
    """

    id: str
    command: str
    autonomy: Autonomy
    error_policy: ErrorPolicy
    args: str = ""
    model: str = ""
    preconditions: tuple[Condition, ...] = ()
    postconditions: tuple[Condition, ...] = ()
    escalation_triggers: tuple[Trigger, ...] = ()
    parallel_group: str = ""


Phase = tuple[Step, ...]
"""The steps that are due together: one step, or the adjacent steps of one parallel group."""


class Playbook(Record, slots=False):
    """An ordered list of steps, at least one (kai data model, Playbook)."""

    name: str
    description: str
    version: str
    args: tuple[Arg, ...]
    steps: tuple[Step, ...]

    @cached_property
    def _by_id(self) -> dict[str, Step]:
        return {step.id: step for step in self.steps}

    def __contains__(self, step_id: str) -> bool:
        return step_id in self._by_id

    def step(self, step_id: str) -> Step:
        """The step with this id; KeyError if there is none."""
        return self._by_id[step_id]

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """The steps in order, adjacent steps of one `parallel_group` as one phase (kai FR7)."""
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
        """Step id → index into `phases`."""
        return {step.id: index for index, phase in enumerate(self.phases) for step in phase}
