"""Parallel groups: members are checked, run and judged together and affect each other."""

from __future__ import annotations

from kernel.world import AGENT_FAILED, Scene, book, missing, step
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import Step
from playbook_supervisor.kernel.phases import steps_done
from playbook_supervisor.kernel.state import Change
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    EntryStatus,
    GateReason,
    Resolution,
    SessionStatus,
)
from playbook_supervisor.records import replace

A, B = step("a", group="g"), step("b", group="g")
ALWAYS, GATE, RETRY = Autonomy.GATE_ALWAYS, ErrorPolicy.GATE, ErrorPolicy.RETRY_ONCE


def group(*steps: Step) -> Scene:
    return Scene(book(*(steps or (A, B)), step("z")))


def asks(scene: Scene) -> tuple[str, ...]:
    return tuple(member.id for member in scene.check.members)


def test_adjacent_steps_of_one_group_are_checked_and_run_together() -> None:
    """kai FR7."""
    scene = group()
    assert scene.check.id == "before:a#1+b#1.0"
    events = scene.checked()
    assert [event.change for event in events] == [Change.LAUNCHED, Change.LAUNCHED]
    assert scene.running == ("a#1", "b#1")


def test_a_group_waits_for_every_member_even_if_one_has_failed() -> None:
    """kai FR22: the first member to return is not judged before the others."""
    scene = group()
    scene.checked()
    scene.returned("b#1", error=AGENT_FAILED)
    assert scene.running == ("a#1",)
    scene.returned("a#1")
    assert scene.check.id == "after:a#1+b#1.0"
    scene.checked()
    assert scene.entry("a#1").status is EntryStatus.DONE
    assert scene.entry("b#1").status is EntryStatus.FAILED
    assert scene.ended is SessionStatus.FAILED
    assert steps_done(scene.state) == 1


def test_no_member_starts_if_one_precondition_fails() -> None:
    scene = group(A, B, step("c", group="g", autonomy=Autonomy.SKIP))
    events = scene.checked(b=missing("spec_exists"))
    assert [event.change for event in events] == [Change.FAILED, Change.SKIPPED]
    assert scene.ended is SessionStatus.FAILED
    assert [entry.id for entry in scene.journal] == ["b#1", "c#1"]


# ── gates before ──────────────────────────────────────────────────────────────────────────


def test_gates_before_a_group_open_together_and_are_asked_one_at_a_time() -> None:
    """After the last answer all members are checked again and then run at once."""
    scene = group(replace(A, autonomy=ALWAYS), B, step("c", group="g", autonomy=ALWAYS))
    scene.checked()
    assert [entry.id for entry in scene.journal] == ["a#1", "c#1"]
    assert scene.gate.id == "a#1?1"
    scene.says("continue")
    assert scene.gate.id == "c#1?1"
    scene.says("continue")
    assert scene.check.id == "before:a#1+b#1+c#1.2"
    scene.checked()
    assert scene.running == ("a#1", "b#1", "c#1")
    assert [entry.id for entry in scene.journal] == ["a#1", "c#1", "b#1"]


def test_a_member_with_a_passed_gate_that_never_ran_is_settled_as_not_started() -> None:
    """Its answer still holds when the session is retried."""
    scene = group(replace(A, autonomy=ALWAYS), B)
    scene.checked()
    scene.says("continue")
    scene.checked(b=missing("spec_exists"))
    entry = scene.entry("a#1")
    assert (entry.status, entry.error_code) == (EntryStatus.FAILED, "PB-STATE-NOT-STARTED")
    assert entry.error == "another step of its group failed first"
    assert not entry.ran
    assert scene.ended is SessionStatus.FAILED
    scene.taken_up()
    scene.checked()
    assert scene.running == ("a#2", "b#2")


def test_a_member_with_an_answered_gate_waits_for_the_gates_of_the_others() -> None:
    scene = group(replace(A, autonomy=ALWAYS), replace(B, error_policy=GATE))
    scene.checked(b=missing("spec_exists"))
    scene.says("continue")
    scene.says("continue")
    scene.checked(b=missing("spec_exists"))
    assert (scene.gate.id, scene.gate.reason) == ("b#1?2", GateReason.PRECONDITION_FAIL)
    assert scene.entry("a#1").launched_at is None
    scene.says("accept")
    scene.checked(b=missing("spec_exists"))
    assert scene.running == ("a#1", "b#1")


# ── gates after, retries ──────────────────────────────────────────────────────────────────


def test_gates_after_a_group_are_asked_one_at_a_time() -> None:
    scene = group(replace(A, error_policy=GATE), replace(B, error_policy=GATE))
    scene.worked()
    scene.checked(a=missing("plan_exists"), b=missing("plan_exists"))
    assert scene.gate.id == "a#1?1"
    scene.says("accept")
    assert scene.gate.id == "b#1?1"
    scene.says("accept")
    assert asks(scene) == ("z#1",)


def test_retries_run_together_and_gates_come_before_them() -> None:
    scene = group(
        replace(A, error_policy=RETRY),
        replace(B, error_policy=GATE),
        step("c", group="g", policy=RETRY),
    )
    scene.worked()
    scene.checked(a=missing("plan_exists"), b=missing("plan_exists"), c=missing("plan_exists"))
    assert scene.gate.id == "b#1?1"
    scene.says("retry")
    assert asks(scene) == ("a#2", "b#2", "c#2")
    scene.checked()
    assert scene.running == ("a#2", "b#2", "c#2")


def test_taking_up_a_failed_group_runs_the_failed_and_the_due_members() -> None:
    scene = group(replace(A, error_policy=RETRY), B, step("c", group="g"))
    scene.worked()
    scene.checked(a=missing("plan_exists"), b=missing("plan_exists"))
    scene.taken_up()
    assert scene.entry("b#1").resolution is Resolution.RETRY
    assert scene.entry("a#1").resolution is None
    assert asks(scene) == ("a#2", "b#2")


# ── stopping, losing, beginning in the middle ─────────────────────────────────────────────


def test_abort_settles_every_entry_of_the_group() -> None:
    """As failed if the step ran, else as skipped; each has the resolution `abort`."""
    scene = group(replace(A, error_policy=GATE), B)
    scene.worked()
    scene.checked(a=missing("plan_exists"))
    scene.says("abort")
    assert scene.entry("a#1").resolution is Resolution.ABORT
    assert scene.entry("b#1").status is EntryStatus.DONE
    assert scene.ended is SessionStatus.ABORTED
