"""Approvals and checkpoints: gates that the playbook asks for."""

from __future__ import annotations

from typing import Any

import pytest

from kernel.world import AGENT_FAILED, Scene, book, held, missing, step, without_output
from playbook_supervisor.kernel.directives import Cancellation
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.gates import question
from playbook_supervisor.kernel.model import Step
from playbook_supervisor.kernel.state import Change, Entry
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    Decision,
    EntryStatus,
    GateReason,
    Place,
    Resolution,
    SessionStatus,
)

CONTINUE, RETRY, SKIP, ABORT = (
    Resolution.CONTINUE,
    Resolution.RETRY,
    Resolution.SKIP,
    Resolution.ABORT,
)


def asked(scene: Scene) -> tuple[GateReason, Place, tuple[Resolution, ...]]:
    gate = scene.gate
    return gate.reason, gate.place, gate.choices


# ── approval: required ────────────────────────────────────────────────────────────────────


def test_a_step_that_needs_approval_asks_before_it_runs() -> None:
    scene = Scene(book(step("send", approval=True)))
    scene.checked()
    assert asked(scene) == (GateReason.APPROVAL, Place.BEFORE, (CONTINUE, SKIP, ABORT))
    assert scene.last.decision is Decision.GATE
    assert scene.last.launched_at is None
    scene.says("continue", "send it, continue")
    scene.checked()
    assert scene.running == ("send#1",)


ASKED_BEFORE: list[dict[str, Any]] = [
    {"approval": True},
    {"tools": ("Write",)},
    {"autonomy": Autonomy.GATE_ALWAYS},
]


@pytest.mark.parametrize("asks", ASKED_BEFORE)
def test_what_was_allowed_before_a_step_holds_for_its_later_attempts(asks: dict[str, Any]) -> None:
    scene = Scene(book(step("send", policy=ErrorPolicy.RETRY_ONCE, **asks)))
    scene.checked()
    scene.says("continue")
    scene.worked(AGENT_FAILED)
    scene.checked()
    scene.checked()
    assert scene.running == ("send#2",)
    scene.returned(error=AGENT_FAILED)
    scene.checked()
    assert scene.ended is SessionStatus.FAILED
    scene.taken_up()
    scene.checked()
    assert scene.running == ("send#3",)
    scene.lost("send#3")
    scene.checked()
    assert scene.running == ("send#4",)


@pytest.mark.parametrize("asks", ASKED_BEFORE[:2])
def test_one_question_covers_gate_always(asks: dict[str, Any]) -> None:
    scene = Scene(book(step("send", autonomy=Autonomy.GATE_ALWAYS, **asks)))
    scene.checked()
    scene.says("continue")
    scene.checked()
    assert scene.running == ("send#1",)
    assert [gate.reason for gate in scene.last.gates] == [
        GateReason.APPROVAL if "approval" in asks else GateReason.TOOLS
    ]


def test_an_approval_in_a_group_comes_before_any_of_it_runs() -> None:
    scene = Scene(book(step("a", group="g"), step("send", group="g", approval=True)))
    scene.checked()
    assert scene.gate.member.id == "send#1"
    scene.says("continue")
    scene.checked()
    assert scene.running == ("a#1", "send#1")


# ── a checkpoint step ─────────────────────────────────────────────────────────────────────


def checkpoint() -> Scene:
    scene = Scene(book(step("look", command="checkpoint", pre=(), post=()), step("b")))
    scene.checked()
    return scene


def test_a_checkpoint_asks_and_runs_nothing() -> None:
    """cat FR-6.1."""
    scene = checkpoint()
    assert asked(scene) == (GateReason.CHECKPOINT, Place.BEFORE, (CONTINUE, SKIP, ABORT))
    scene.says("continue")
    (event,) = scene.checked()
    assert event.change is Change.RETURNED
    assert scene.check.place is Place.AFTER
    scene.checked()
    look = scene.entry("look#1")
    assert (look.status, look.decision) == (EntryStatus.DONE, Decision.GATE)
    assert (look.started_at, look.completed_at) == (1000, 4000)
    scene.checked()
    assert scene.running == ("b#1",)


def test_a_checkpoint_can_say_what_the_person_is_to_do_and_see_that_it_is_done() -> None:
    scene = Scene(book(step("sign", command="checkpoint", pre=(), policy=ErrorPolicy.GATE)))
    scene.checked()
    scene.says("continue")
    scene.checked()
    scene.checked(sign=missing("plan_exists"))
    assert asked(scene)[0] is GateReason.POSTCONDITION_FAIL
    scene.says("continue")
    scene.checked()
    assert scene.ended is SessionStatus.COMPLETED


def test_a_retried_checkpoint_is_not_asked_twice() -> None:
    scene = Scene(book(step("sign", command="checkpoint", pre=(), policy=ErrorPolicy.GATE)))
    scene.checked()
    scene.says("continue")
    scene.checked()
    scene.checked(sign=missing("plan_exists"))
    scene.says("retry")
    scene.checked()
    assert scene.check.place is Place.AFTER
    assert scene.check.members[0].id == "sign#2"


def test_a_checkpoint_in_a_group_waits_with_the_others() -> None:
    scene = Scene(
        book(step("look", command="checkpoint", group="g"), step("b", group="g", approval=True))
    )
    scene.checked()
    scene.says("continue")
    scene.says("continue")
    changes = {event.entry.step_id: event.change for event in scene.checked()}
    assert changes == {"look": Change.RETURNED, "b": Change.LAUNCHED}
    assert scene.running == ("b#1",)
    scene.returned()
    assert [member.id for member in scene.check.members] == ["look#1", "b#1"]


def test_a_gate_beside_a_passed_checkpoint_starts_nothing() -> None:
    sign = step("look", command="checkpoint", group="g")
    scene = Scene(book(sign, step("b", group="g", policy=ErrorPolicy.GATE)))
    scene.checked()
    scene.says("continue")
    scene.checked(b=missing("spec_exists"))
    assert scene.gate.member.id == "b#1"
    assert scene.entry("look#1").returned_at is None


def test_the_last_checkpoint_answers_for_the_outputs_of_the_playbook() -> None:
    scene = Scene(book(step("look", command="checkpoint", last=True)))
    scene.checked()
    scene.says("continue")
    scene.checked()
    scene.checked(look=without_output(held("plan_exists")))
    assert scene.last.error_code == "PB-COND-OUTPUT"
    assert scene.ended is SessionStatus.FAILED


# ── checkpoint: true ──────────────────────────────────────────────────────────────────────


def looked_at(policy: ErrorPolicy = ErrorPolicy.STOP) -> Scene:
    scene = Scene(book(step("plan", checkpoint=True, policy=policy), step("b")))
    scene.worked()
    scene.checked()
    return scene


def test_a_checkpoint_after_a_step_asks_once_it_is_done() -> None:
    """cat FR-6.2."""
    scene = looked_at()
    assert asked(scene) == (GateReason.CHECKPOINT, Place.AFTER, (CONTINUE, RETRY, ABORT))
    scene.says("continue")
    scene.checked()
    assert scene.entry("plan#1").status is EntryStatus.DONE
    assert scene.entry("plan#1").decision is Decision.GATE
    scene.checked()
    assert scene.running == ("b#1",)


def test_a_step_can_be_sent_back_at_its_checkpoint() -> None:
    """The answer is no failure of the step: it uses up no retry."""
    scene = looked_at(ErrorPolicy.RETRY_ONCE)
    scene.says("retry", "shorter, please: retry")
    first = scene.entry("plan#1")
    assert (first.status, first.error_code) == (EntryStatus.FAILED, "PB-COND-SENT-BACK")
    assert first.error == "sent back at its checkpoint"
    scene.worked(AGENT_FAILED)
    scene.checked()
    scene.worked()
    scene.checked()
    assert scene.gate.id == "plan#3?1"


def test_a_failing_step_asks_about_its_failure_and_then_at_its_checkpoint() -> None:
    scene = Scene(book(step("plan", checkpoint=True, policy=ErrorPolicy.GATE)))
    scene.worked()
    scene.checked(plan=missing("plan_exists"))
    assert asked(scene)[0] is GateReason.POSTCONDITION_FAIL
    scene.says("continue")
    scene.checked()
    assert asked(scene)[0] is GateReason.CHECKPOINT


def test_what_fails_after_a_checkpoint_asks_again() -> None:
    scene = looked_at()
    scene.says("continue")
    scene.checked(plan=missing("plan_exists"))
    assert asked(scene)[0] is GateReason.POSTCONDITION_FAIL


def aborted(scene: Scene) -> Entry:
    assert scene.ended is SessionStatus.ABORTED
    return scene.entry("plan#1")


def test_an_abort_at_a_checkpoint_says_so() -> None:
    scene = looked_at()
    scene.says("abort")
    entry = aborted(scene)
    assert (entry.status, entry.error_code) == (EntryStatus.FAILED, "PB-STATE-ABORTED")
    assert entry.error == "aborted at its checkpoint"


def test_an_abort_of_the_session_at_a_checkpoint_is_its_answer() -> None:
    scene = looked_at()
    scene.cancelled(Cancellation.ABORT)
    assert aborted(scene).resolution is ABORT


# ── questions ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("asking", "text"),
    [
        (
            step(approval=True),
            "a needs your approval: Run cli ./send, as shown below. Continue, skip it, or abort?",
        ),
        (step(command="checkpoint"), "Run cli ./send Continue, skip this checkpoint, or abort?"),
    ],
)
def test_the_question_says_what_is_asked(asking: Step, text: str) -> None:
    scene = Scene(book(asking))
    scene.checked()
    said = question(scene.gate, scene.last, "Run cli ./send", done=0, total=1)
    assert said == f"{text} 0/1 step done."
