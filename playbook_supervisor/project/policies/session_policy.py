"""The policies that apply to one session: those of the project when the session began.

A policy can only make a step stricter. The demands are stored with the session, so that they also
apply on another machine and after the project has changed its policies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase

from playbook_supervisor.errors import ConditionError, PolicyError
from playbook_supervisor.formats.fields import Fields, UnfitError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.strict_yaml import load_of_session
from playbook_supervisor.formats.versions import current
from playbook_supervisor.formats.yaml_writer import pair
from playbook_supervisor.kernel.model import Playbook, Step, base_of
from playbook_supervisor.kernel.vocabulary import Autonomy, GateReason, Mode, Resolution
from playbook_supervisor.project.expressions.requirement import requirement
from playbook_supervisor.records import Record, replace

FILE = "policy.yaml"
SCHEMA = 1
ROLE = "role:"
"""Begins a pattern of `answered_by` that is compared with the role of the fleet's database."""
LADDER = (Autonomy.AUTO, Autonomy.GATE_ON_BREAKING, Autonomy.GATE_ALWAYS)
"""The requirements that a policy may make, the strictest last."""

_HEADER = b"# What the policies of the project required when this session began.\n"


class Demand(Record):
    """The demand of one rule on one step; `policy` is the name of the rule's file.

    `answered_by` holds for the gates of one `reason`, or of all. `forbid` are rules for calls that
    the step's agent may not make: they are denied, without a question. `playbook` is the child
    whose step it is; empty for a step of the session itself.
    """

    step: str
    policy: str
    autonomy: Autonomy | None = None
    postconditions: tuple[str, ...] = ()
    answered_by: tuple[str, ...] = ()
    playbook: str = ""
    reason: GateReason | None = None
    forbid: tuple[str, ...] = ()


class Effect(Record):
    """A demand's effect on a step: its changes, who may answer, what its agent may not do."""

    step: str
    policy: str
    was: Autonomy
    autonomy: Autonomy
    postconditions: tuple[str, ...] = ()
    answered_by: tuple[str, ...] = ()
    reason: GateReason | None = None
    forbid: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """`gate_always instead of auto, also spec_exists, answered by *@example.org`."""
        words = [f"{self.autonomy} instead of {self.was}"] if self.autonomy != self.was else []
        words += [f"also {condition}" for condition in self.postconditions]
        what = f"{self.reason} answered by" if self.reason else "answered by"
        words += [f"{what} {' or '.join(self.answered_by)}"] if self.answered_by else []
        words += [f"never {rule}" for rule in self.forbid]
        return ", ".join(words)


class Policy(Record):
    """All demands on a session's steps, and on those of its children, in the order of the files."""

    demands: tuple[Demand, ...] = ()

    def of(self, step_id: str) -> Iterator[Demand]:
        """The demands on a step of the session itself; those on a loop are on each of its items."""
        name = base_of(step_id)
        return (each for each in self.demands if each.step == name and not each.playbook)

    def child(self, name: str) -> Policy:
        """The policy for a session of the child of this name."""
        its = (demand for demand in self.demands if demand.playbook == name)
        return Policy(tuple(replace(demand, playbook="") for demand in its))

    def people(self, step_id: str, reason: GateReason | None = None) -> tuple[Demand, ...]:
        """The demands that restrict who may answer the gates of a step. All must agree.

        Those on gates of another `reason` are left out; without a reason, those on one alone.
        """
        return tuple(
            demand
            for demand in self.of(step_id)
            if demand.answered_by and demand.reason in (None, reason)
        )

    def answerers(self, step_id: str, reason: GateReason | None) -> tuple[str, ...]:
        """Who may answer such a gate of a step, a line for each policy; empty where anyone may."""
        return tuple(
            f"{' or '.join(demand.answered_by)} (policy {demand.policy})"
            for demand in self.people(step_id, reason)
        )

    def forbidden(self, step_id: str) -> tuple[str, ...]:
        """The rules for calls that the agent of a step may not make."""
        return tuple(dict.fromkeys(rule for demand in self.of(step_id) for rule in demand.forbid))

    def admit(
        self,
        step_id: str,
        reason: GateReason | None,
        resolution: Resolution,
        by: str,
        role: str = "",
    ) -> None:
        """PolicyError PB-POLICY-ANSWER unless `by` may give this answer at such a gate of the step.

        `by` is a git identity, or `autonomous`, which is not a person. `role` is the role of the
        fleet's database that gave the answer, empty outside of a fleet. Anyone may abort: that lets
        nothing pass, and a session must not depend on people who are away.
        """
        if resolution is not Resolution.ABORT:
            restricted = self.people(step_id, reason)
            _admit(restricted, step_id, by, "PB-POLICY-ANSWER", "answer for", role)

    def admit_start(self, playbook: Playbook, start: str, who: Callable[[], str]) -> None:
        """PolicyError PB-POLICY-SKIP unless `who` may skip the steps before `start` (`--from`)."""
        passed = [step.id for step in playbook.steps]
        passed = passed[: passed.index(start)] if start in passed else []
        if guarded := [step_id for step_id in passed if self.people(step_id)]:
            by = who()
            for step_id in guarded:
                _admit(self.people(step_id), step_id, by, "PB-POLICY-SKIP", "skip")


def _admit(
    demands: tuple[Demand, ...], step_id: str, by: str, code: str, deed: str, role: str = ""
) -> None:
    for demand in demands:
        if not _among(by, role, demand.answered_by):
            person = by or "a person without a git identity"
            who = "autonomous mode" if by == Mode.AUTONOMOUS else person
            who += f", as the database role {role}," if role else ""
            wanted = f"the policy {demand.policy} requires {' or '.join(demand.answered_by)}"
            raise PolicyError(code, f"{who} may not {deed} `{step_id}`: {wanted}")


def _among(by: str, role: str, patterns: tuple[str, ...]) -> bool:
    """True if the e-mail address or the role matches; `*` is any person, even without an address.

    Without a role, as outside of a fleet, no pattern of roles matches.
    """
    mail = by.rpartition("<")[2].removesuffix(">") if by.endswith(">") else ""

    def matches(pattern: str) -> bool:
        if pattern.startswith(ROLE):
            return bool(role) and fnmatchcase(role, pattern.removeprefix(ROLE))
        return fnmatchcase(mail.casefold(), pattern.casefold())

    return by != Mode.AUTONOMOUS and any(map(matches, patterns))


# ── tightening ──────────────────────────────────────────────────────────────────────────────


def tightened(playbook: Playbook, policy: Policy) -> Playbook:
    """The playbook with all demands applied: what the session runs."""
    if not policy.demands:
        return playbook
    return replace(playbook, steps=tuple(_held(step, policy) for step in playbook.steps))


def effects(playbook: Playbook, policy: Policy) -> tuple[Effect, ...]:
    """The changes of the policy in the author's playbook, by step and demand."""
    return tuple(effect for step in playbook.steps for effect in _effects(step, policy))


def _held(step: Step, policy: Policy) -> Step:
    for demand in policy.of(step.id):
        step = _tighter(step, demand)
    return step


def _effects(step: Step, policy: Policy) -> Iterator[Effect]:
    for demand in policy.of(step.id):
        before, step = step, _tighter(step, demand)
        added = step.postconditions[len(before.postconditions) :]
        if step != before or demand.answered_by or demand.forbid:
            kept = (demand.answered_by, demand.reason, demand.forbid)
            yield Effect(step.id, demand.policy, before.autonomy, step.autonomy, added, *kept)


def _tighter(step: Step, demand: Demand) -> Step:
    """The step with one demand applied.

    A step that the playbook skips gets a gate: a person decides whether to run it.
    """
    autonomy = step.autonomy
    if autonomy is Autonomy.SKIP and (demand.autonomy or demand.postconditions):
        autonomy = Autonomy.GATE_ALWAYS
    elif autonomy is not Autonomy.SKIP and demand.autonomy:
        autonomy = max(autonomy, demand.autonomy, key=LADDER.index)
    postconditions = tuple(dict.fromkeys((*step.postconditions, *demand.postconditions)))
    return replace(step, autonomy=autonomy, postconditions=postconditions)


# ── in the session's folder ─────────────────────────────────────────────────────────────────


def emit_policy(policy: Policy) -> bytes:
    """The policy.yaml, a line for each demand."""
    shape = policy_to_json(policy)
    return _HEADER + "".join(pair(key, value, 0) for key, value in shape.items()).encode()


def policy_to_json(policy: Policy) -> dict[str, object]:
    """A policy with the keys of its file. Empty keys of a demand are left out."""
    return {"schema": SCHEMA, "demands": [demand_to_json(demand) for demand in policy.demands]}


def policy_from_json(shape: Mapping[str, object]) -> Policy:
    """The inverse of `policy_to_json`. UnfitError, a ValueError, if it is not valid."""
    demands = []
    for number, fields in enumerate(Fields(shape).each("demands"), 1):
        try:
            demands.append(_demand(fields))
        except UnfitError as unfit:
            raise UnfitError("demands", f"in line {number}, {unfit}") from None
    return Policy(tuple(demands))


def read_policy(data: bytes, source: str) -> Policy:
    """The policy.yaml of a session. StateError PB-STATE-CORRUPT or -NEWER with its place."""
    document = load_of_session(data, source)
    try:
        shape = document.data if isinstance(document.data, dict) else {}
        number = Fields(shape).integer("schema", least=1)
        return policy_from_json(current(FILE, number, shape, source, document))
    except UnfitError as unfit:
        raise document.corrupt((unfit.key,), str(unfit)) from None


def demand_to_json(demand: Demand) -> dict[str, object]:
    """One demand with the keys of the file."""
    shape: dict[str, object] = {
        "step": demand.step,
        "policy": demand.policy,
        "autonomy": demand.autonomy and demand.autonomy.value,
        "postconditions": list(demand.postconditions),
        "answered_by": list(demand.answered_by),
        "reason": demand.reason and demand.reason.value,
        "forbid": list(demand.forbid),
        "playbook": demand.playbook,
    }
    return {key: value for key, value in shape.items() if value}


def _demand(fields: Fields) -> Demand:
    autonomy = fields.maybe_word("autonomy", Autonomy)
    if autonomy is Autonomy.SKIP:
        raise UnfitError("autonomy", "cannot be skip")
    return Demand(
        step=fields.required("step"),
        policy=fields.required("policy"),
        autonomy=autonomy,
        postconditions=tuple(map(_condition, fields.texts("postconditions"))),
        answered_by=fields.texts("answered_by"),
        playbook=fields.text("playbook"),
        reason=fields.maybe_word("reason", GateReason),
        forbid=fields.texts("forbid"),
    )


def _condition(name: str) -> str:
    try:
        flaw = requirement(name).flaw
    except ConditionError as error:
        flaw = error.message
    if flaw:
        raise UnfitError("postconditions", f"{first_line(name, 60)!r} is no condition: {flaw}")
    return name
