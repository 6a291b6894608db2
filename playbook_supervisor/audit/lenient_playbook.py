"""A playbook's outline: what an audit needs of it, read from a file of any version.

`schema.py` decides whether a playbook may run; this reader also accepts one that ran under older
or newer rules. Unknown words are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from playbook_supervisor.errors import CheckError
from playbook_supervisor.formats.strict_yaml import load
from playbook_supervisor.kernel.error_policy import ErrorPolicy, Reaction
from playbook_supervisor.kernel.gates import required_before
from playbook_supervisor.kernel.model import CHECKPOINT, Playbook
from playbook_supervisor.kernel.vocabulary import Autonomy

_TOLERANT = (Reaction.CONTINUE, Reaction.IGNORE)


@dataclass(frozen=True, slots=True)
class LooseStep:
    """A step. `conditional`: it has a `when` or a `skip_if`, so it may be skipped.

    `asked`: it has a gate before it in any case. `policy` is None if it is not known. `loop`: it
    runs once for each item of a list. `rounds` is how often it may run until its `until` holds, 0
    if it has none, None if that is not known. `back_to` is the step to which it sends back by
    itself, so many `times` at most.
    """

    id: str
    command: str = ""
    autonomy: str = ""
    policy: ErrorPolicy | None = None
    triggers: frozenset[str] = frozenset()
    postconditions: tuple[str, ...] = ()
    group: str = ""
    conditional: bool = False
    asked: bool = False
    loop: bool = False
    rounds: int | None = 0
    back_to: str = ""
    times: int = 0

    def tolerates(self, code: str) -> bool:
        """True if the run continues if the step fails with this error."""
        return self.policy is not None and self.policy.handling(code).reaction in _TOLERANT

    @property
    def declared(self) -> frozenset[str]:
        """The triggers that may fire, including the one that its autonomy implies."""
        if self.autonomy == Autonomy.GATE_ON_BREAKING:
            return self.triggers | {"agreement_breaking"}
        return self.triggers


@dataclass(frozen=True)
class LoosePlaybook:
    """A playbook: its name, and its steps in order."""

    name: str
    steps: tuple[LooseStep, ...]

    @cached_property
    def by_id(self) -> Mapping[str, LooseStep]:
        return {step.id: step for step in self.steps}

    @cached_property
    def phase_of(self) -> Mapping[str, int]:
        """Step id → its phase; adjacent steps of one group form a phase."""
        phases: dict[str, int] = {}
        phase, previous = -1, ""
        for step in self.steps:
            if not step.group or step.group != previous:
                phase += 1
            phases[step.id], previous = phase, step.group
        return phases


def read(data: bytes, source: str) -> LoosePlaybook | None:
    """The outline; None if the file has no readable steps."""
    try:
        top = load(data, source).data
    except CheckError:
        return None
    top = top if isinstance(top, dict) else {}
    steps = top.get("steps")
    if not isinstance(steps, list):
        return None
    planned = (_step(step) for step in steps if isinstance(step, Mapping))
    known = tuple(step for step in planned if step.id)
    return LoosePlaybook(_text(top, "name"), known) if known else None


def of(playbook: Playbook) -> LoosePlaybook:
    """The outline of a valid playbook."""
    steps = tuple(
        LooseStep(
            id=step.id,
            command=step.command,
            autonomy=step.autonomy,
            policy=step.error_policy,
            triggers=frozenset(step.escalation_triggers),
            postconditions=step.postconditions,
            group=step.parallel_group,
            conditional=bool(step.when or step.skip_if or step.for_each),
            loop=step.for_each is not None,
            rounds=step.rounds,
            asked=required_before(step) is not None,
            back_to=step.on_fail.back_to if step.on_fail else "",
            times=step.on_fail.times if step.on_fail else 0,
        )
        for step in playbook.steps
    )
    return LoosePlaybook(playbook.name, steps)


def _step(step: Mapping[str, object]) -> LooseStep:
    on_fail = step.get("on_fail")
    back = on_fail if isinstance(on_fail, Mapping) else {}
    return LooseStep(
        id=_text(step, "id"),
        command=_text(step, "command"),
        autonomy=_text(step, "autonomy"),
        policy=_policy(step),
        triggers=frozenset(_names(step, "escalation_triggers")),
        postconditions=_names(step, "postconditions"),
        group=_text(step, "parallel_group"),
        conditional=not {"when", "skip_if", "for_each"}.isdisjoint(step),
        loop="for_each" in step,
        rounds=_rounds(step),
        back_to=_text(back, "back_to"),
        times=_number(back.get("times", 1)) or 0,
        asked=(
            _text(step, "autonomy") == Autonomy.GATE_ALWAYS
            or "approval" in step
            or _text(step, "command").split(" ")[0] == CHECKPOINT
        ),
    )


def _rounds(step: Mapping[str, object]) -> int | None:
    until = step.get("until")
    if until is None:
        return 0
    return _number(until.get("max") if isinstance(until, Mapping) else None)


def _number(stated: object) -> int | None:
    return int(str(stated)) if str(stated).isdecimal() else None


def _policy(step: Mapping[str, object]) -> ErrorPolicy | None:
    try:
        return ErrorPolicy.read(step.get("error_policy"))
    except ValueError:
        return None


def _text(mapping: Mapping[str, object], key: str) -> str:
    value = mapping.get(key)
    return str(value) if isinstance(value, str) else ""


def _names(mapping: Mapping[str, object], key: str) -> tuple[str, ...]:
    """The names in a list; of a condition with a parameter (`file_exists: x`), its name."""
    items = mapping.get(key)
    return tuple(
        str(next(iter(item), "") if isinstance(item, Mapping) else item)
        for item in (items if isinstance(items, list) else ())
    )
