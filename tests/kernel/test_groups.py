"""Parallel groups: members are checked, run and judged together and affect each other."""

from __future__ import annotations

import pytest

from kernel.world import AGENT_FAILED, Scene, book, missing, step
from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.directives import Begun, Cancellation, Outcome, Returned
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import Step
from playbook_supervisor.kernel.phases import steps_done
from playbook_supervisor.kernel.state import Change
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    Decision,
    EntryStatus,
    GateReason,
    Resolution,
    SessionStatus,
    Trigger,
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


def test_two_adjacent_groups_are_two_phases() -> None:
    scene = group(A, B, step("c", group="h"))
    scene.worked()
    scene.checked()
    assert asks(scene) == ("c#1",)


def test_no_member_starts_if_one_precondition_fails() -> None:
    scene = group(A, B, step("c", group="g", autonomy=Autonomy.SKIP))
    events = scene.checked(b=missing("spec_exists"))
    assert [event.change for event in events] == [Change.FAILED, Change.SKIPPED]
    assert scene.ended is SessionStatus.FAILED
    assert [entry.id for entry in scene.journal] == ["b#1", "c#1"]


def test_a_group_does_not_wait_for_a_skipped_member() -> None:
    scene = group(A, replace(B, autonomy=Autonomy.SKIP))
    scene.checked()
    assert scene.running == ("a#1",)
    assert scene.entry("b#1").decision is Decision.SKIPPED


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


def test_a_member_skipped_at_its_gate_lets_the_others_run() -> None:
    scene = group(replace(A, autonomy=ALWAYS), B)
    scene.checked()
    scene.says("skip")
    assert asks(scene) == ("b#1",)
    scene.worked()
    scene.checked()
    assert asks(scene) == ("z#1",)


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


def test_no_gate_opens_if_another_member_fails() -> None:
    scene = group(replace(A, autonomy=ALWAYS), B, step("c", group="g", policy=GATE))
    scene.checked(b=missing("spec_exists"), c=missing("spec_exists"))
    assert [entry.id for entry in scene.journal] == ["b#1"]
    assert scene.ended is SessionStatus.FAILED


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


def test_continue_is_judged_before_the_retries_start() -> None:
    scene = group(replace(A, error_policy=RETRY), replace(B, error_policy=GATE))
    scene.worked()
    scene.checked(a=missing("plan_exists"), b=missing("plan_exists"))
    scene.says("continue")
    assert scene.check.id == "after:b#1.1"
    scene.checked()
    assert scene.check.id == "before:a#2.1"


def test_after_a_final_failure_open_gates_are_asked_and_retries_do_not_start() -> None:
    scene = group(replace(A, error_policy=RETRY), B, step("c", group="g", policy=GATE))
    scene.worked()
    scene.checked(**{name: missing("plan_exists") for name in "abc"})
    assert scene.status is SessionStatus.IN_PROGRESS
    assert scene.gate.id == "c#1?1"
    scene.says("retry")
    assert scene.ended is SessionStatus.FAILED
    assert len(scene.journal) == 3


def test_taking_up_a_failed_group_runs_the_failed_and_the_due_members() -> None:
    scene = group(replace(A, error_policy=RETRY), B, step("c", group="g"))
    scene.worked()
    scene.checked(a=missing("plan_exists"), b=missing("plan_exists"))
    scene.taken_up()
    assert scene.entry("b#1").resolution is Resolution.RETRY
    assert scene.entry("a#1").resolution is None
    assert asks(scene) == ("a#2", "b#2")


def test_members_settle_in_any_order_but_are_journaled_in_the_order_of_their_start() -> None:
    scene = group(replace(A, escalation_triggers=(Trigger.POSTCONDITION_FAIL,)), B)
    scene.worked()
    scene.checked(a=missing("plan_exists"))
    assert [entry.settled for entry in scene.journal] == [False, True]
    scene.says("accept")
    assert [entry.id for entry in scene.journal] == ["a#1", "b#1"]


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


def test_abort_at_one_gate_settles_the_members_with_open_or_answered_gates() -> None:
    scene = group(*(step(name, group="g", autonomy=ALWAYS) for name in "abc"))
    scene.checked()
    scene.says("continue")
    scene.says("abort", "enough, abort")
    assert [(entry.status, entry.resolution, entry.human_response) for entry in scene.journal] == [
        (EntryStatus.SKIPPED, Resolution.ABORT, "enough, abort")
    ] * 3
    assert scene.ended is SessionStatus.ABORTED
    assert steps_done(scene.state) == 0


def test_abort_while_a_group_runs_fails_every_running_member() -> None:
    scene = group()
    scene.checked()
    scene.returned("a#1")
    scene.cancelled(Cancellation.ABORT)
    assert [(entry.status, entry.error_code, entry.error) for entry in scene.journal] == [
        (EntryStatus.FAILED, "PB-STATE-ABORTED", "aborted before it was judged"),
        (EntryStatus.FAILED, "PB-STATE-ABORTED", "aborted while it ran"),
    ]
    assert scene.sees(Returned(9000, "a#1", Outcome())) == ()
    with pytest.raises(StateError, match="b#1 is not expected"):
        scene.sees(Returned(9000, "b#1", Outcome()))


def test_an_interrupt_fails_running_members_and_keeps_returned_ones() -> None:
    scene = group()
    scene.checked()
    scene.returned("a#1")
    scene.cancelled(Cancellation.INTERRUPT)
    assert scene.entry("b#1").error_code == "PB-STATE-INTERRUPTED"
    assert scene.check.id == "after:a#1.0"
    scene.checked()
    assert scene.check.id == "before:b#2.0"


def test_a_lost_member_runs_again_after_the_others_are_judged() -> None:
    scene = group()
    scene.checked()
    scene.lost("a#1")
    assert scene.running == ("b#1",)
    scene.returned("b#1")
    scene.checked()
    assert asks(scene) == ("a#2",)


def test_a_session_can_begin_in_the_middle_of_a_group() -> None:
    scene = group()
    scene.sees(Begun(0, "b"))
    assert asks(scene) == ("b#1",)
