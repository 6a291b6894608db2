"""A playbook as data: frozen, already valid, knowing nothing of files or YAML.

`schema.py` is what makes one from text; whoever holds a `Playbook` may rely on its rules.
"""

from __future__ import annotations

from functools import cached_property

from playbook_supervisor.kernel.vocabulary import Autonomy, Condition, ErrorPolicy, Trigger
from playbook_supervisor.records import Record


class Arg(Record):
    """A declared parameter (kai data model, Arg)."""

    name: str
    description: str
    required: bool


class Step(Record):
    """A single unit of work (kai data model, Step, and `model` from its real playbooks).

    `command` begins with `/` and holds no blank; `args` is text with `{{arg}}` in it, not yet
    interpolated. `model` and `parallel_group` are empty where the author gave none.
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
"""What is due together: one step, or the neighbouring steps of one parallel group."""


class Playbook(Record, slots=False):
    """An ordered workflow (kai data model, Playbook). At least one step."""

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
        """The step of that id; KeyError if there is none."""
        return self._by_id[step_id]

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """The steps in order, neighbours of one `parallel_group` taken together (kai FR7)."""
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
