"""Beginning in the middle, stopping in the middle, and going on after a crash."""

from __future__ import annotations

import pytest

from kernel.world import AGENT_FAILED, Scene, book, breaking, held, missing, step
from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.directives import (
    Answer,
    Begun,
    Cancellation,
    Lost,
    Outcome,
    Probed,
    Report,
    Returned,
)
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.machine import directive, replay
from playbook_supervisor.kernel.phases import steps_done
from playbook_supervisor.kernel.recovery import finished
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    Condition,
    Decision,
    EntryStatus,
    Resolution,
    SessionStatus,
    Trigger,
)


def session(policy: ErrorPolicy = ErrorPolicy.STOP) -> Scene:
    return Scene(book(step("plan"), step("tasks", policy=policy), step("pr")))


# ── --from ────────────────────────────────────────────────────────────────────────────────


def test_beginning_at_a_later_step_journals_the_earlier_ones_as_skipped() -> None:
    """The entry quotes the `--from` that skipped it."""
    scene = session()
    scene.sees(Begun(500, "pr"))
    assert scene.journal == tuple(
        Entry(
            name,
            EntryStatus.SKIPPED,
            Decision.SKIPPED,
            started_at=500,
            completed_at=500,
            human_response="--from pr",
        )
        for name in ("plan", "tasks")
    )
    assert scene.check.id == "before:pr#1.0"
    assert steps_done(scene.state) == 2


def test_preconditions_of_the_first_step_of_a_session_are_checked() -> None:
    scene = session()
    scene.sees(Begun(500, "tasks"))
    scene.checked(tasks=missing("spec_exists"))
    assert scene.ended is SessionStatus.FAILED


def test_beginning_at_the_first_step_skips_nothing() -> None:
    scene = session()
    assert scene.sees(Begun(0, "plan")) == ()
    assert scene.check.id == "before:plan#1.0"


def test_a_session_begins_at_a_known_step_and_only_once() -> None:
    scene = session()
    with pytest.raises(StateError, match="a beginning is not expected"):
        scene.sees(Begun(0, "nowhere"))
    scene.checked()
    with pytest.raises(StateError, match="outstanding is the work of plan#1"):
        scene.sees(Begun(0))


# ── abort and interrupt ───────────────────────────────────────────────────────────────────


def test_abort_while_nothing_runs_journals_the_due_step_as_skipped() -> None:
    scene = session()
    scene.worked()
    scene.checked()
    scene.cancelled(Cancellation.ABORT)
    assert scene.last == Entry(
        "tasks",
        EntryStatus.SKIPPED,
        Decision.GATE,
        started_at=4000,
        completed_at=4000,
        human_response="abort",
        resolution=Resolution.ABORT,
    )
    assert scene.ended is SessionStatus.ABORTED
    assert steps_done(scene.state) == 1


def test_abort_of_a_step_that_is_due_again_names_its_next_attempt() -> None:
    scene = session()
    scene.checked()
    scene.lost("plan#1")
    scene.cancelled(Cancellation.ABORT)
    assert (scene.last.id, scene.last.status) == ("plan#2", EntryStatus.SKIPPED)


def test_abort_while_a_step_runs_settles_it_as_failed() -> None:
    scene = session()
    scene.checked()
    scene.cancelled(Cancellation.ABORT, "wrong feature")
    entry = scene.last
    assert (entry.status, entry.error_code) == (EntryStatus.FAILED, "PB-STATE-ABORTED")
    assert (entry.resolution, entry.human_response) == (Resolution.ABORT, "wrong feature")
    assert scene.ended is SessionStatus.ABORTED


def test_abort_keeps_the_error_of_the_worker() -> None:
    scene = session()
    scene.worked(AGENT_FAILED)
    scene.cancelled(Cancellation.ABORT)
    assert (scene.last.error_code, scene.last.error) == ("PB-AGENT-FAILED", "the agent gave up")


def test_abort_after_an_answered_gate_leaves_the_step_skipped() -> None:
    scene = Scene(book(step(autonomy=Autonomy.GATE_ALWAYS)))
    scene.checked()
    scene.says("continue")
    scene.cancelled(Cancellation.ABORT)
    assert (scene.last.status, scene.last.resolution) == (EntryStatus.SKIPPED, Resolution.ABORT)
    assert scene.last.gates[-1].resolution is Resolution.CONTINUE


@pytest.mark.parametrize("policy", [ErrorPolicy.STOP, ErrorPolicy.RETRY_ONCE])
def test_a_session_that_has_ended_cannot_be_aborted(policy: ErrorPolicy) -> None:
    scene = session()
    scene.checked(plan=missing("spec_exists"))
    with pytest.raises(StateError, match="outstanding is nothing: the session is failed"):
        scene.cancelled(Cancellation.ABORT)


def test_an_interrupt_settles_running_steps_and_leaves_the_session_in_progress() -> None:
    scene = session()
    scene.checked()
    scene.cancelled(Cancellation.INTERRUPT)
    assert (scene.last.status, scene.last.error_code) == (
        EntryStatus.FAILED,
        "PB-STATE-INTERRUPTED",
    )
    assert scene.last.resolution is None
    assert scene.status is SessionStatus.IN_PROGRESS
    assert scene.check.id == "before:plan#2.0"


def test_an_interrupt_leaves_an_open_gate_open_with_the_same_id() -> None:
    scene = Scene(book(step(autonomy=Autonomy.GATE_ALWAYS)))
    scene.checked()
    before = scene.gate
    assert scene.cancelled(Cancellation.INTERRUPT) == ()
    assert scene.gate == before


# ── lost work ─────────────────────────────────────────────────────────────────────────────


def test_a_crash_leaves_the_same_directive_outstanding_with_the_same_id() -> None:
    """Every journal can be read again and continued."""
    scene = Scene(book(step(autonomy=Autonomy.GATE_ALWAYS, policy=ErrorPolicy.GATE)))
    asked = [scene.asked]
    scene.checked()
    asked.append(scene.asked)
    assert directive(replay(scene.playbook, scene.journal)) == scene.asked
    scene.says("continue")
    asked.append(scene.asked)
    assert directive(replay(scene.playbook, scene.journal)) == scene.asked
    scene.checked()
    asked.append(scene.asked)
    assert directive(replay(scene.playbook, scene.journal)) == scene.asked
    assert len(set(map(str, asked))) == 4


def test_a_returned_step_is_judged_after_a_crash_and_never_runs_again() -> None:
    """cat NFR-1.2."""
    scene = session()
    scene.worked()
    assert directive(replay(scene.playbook, scene.journal)) == scene.check
    with pytest.raises(StateError):
        scene.lost("plan#1")


def test_lost_work_that_had_finished_counts_as_returned() -> None:
    """It is judged like any other attempt, triggers included."""
    scene = Scene(book(step(triggers=(Trigger.AGREEMENT_BREAKING,))))
    scene.checked()
    scene.lost("a#1", finished=True)
    assert (scene.last.recovered, scene.last.returned_at) == (True, 2000)
    scene.checked(a=Report(held("plan_exists").conditions, (breaking(),)))
    assert scene.gate.id == "a#1?1"
    scene.says("accept")
    assert scene.last.recovered
    assert scene.ended is SessionStatus.COMPLETED


def test_a_late_report_of_recovered_work_changes_nothing() -> None:
    scene = session()
    scene.checked()
    scene.lost("plan#1", finished=True)
    assert scene.sees(Returned(9000, "plan#1", Outcome(AGENT_FAILED))) == ()
    with pytest.raises(StateError):
        scene.sees(Lost(9000, "plan#1", finished=True))


def test_lost_work_that_had_not_finished_runs_again_as_the_next_attempt() -> None:
    scene = session()
    scene.checked()
    scene.lost("plan#1")
    first = scene.entry("plan#1")
    assert (first.status, first.error_code) == (EntryStatus.FAILED, "PB-STATE-INTERRUPTED")
    assert first.error == "interrupted before it returned"
    scene.checked()
    assert scene.running == ("plan#2",)


def test_a_late_report_of_an_interrupted_attempt_is_refused() -> None:
    scene = session()
    scene.checked()
    scene.lost("plan#1")
    scene.checked()
    with pytest.raises(StateError, match=r"plan#1 is not expected; .* the work of plan#2"):
        scene.sees(Returned(9000, "plan#1", Outcome()))


def test_recovery_does_not_use_up_the_retry() -> None:
    """A crash is not a failure of the step, before the retry or after it."""
    scene = Scene(book(step(policy=ErrorPolicy.RETRY_ONCE)))
    scene.checked()
    scene.lost("a#1")
    scene.worked(AGENT_FAILED)
    scene.checked()
    scene.checked()
    scene.lost("a#3")
    scene.worked(AGENT_FAILED)
    scene.checked()
    assert scene.ended is SessionStatus.FAILED
    assert [entry.error_code for entry in scene.journal] == [
        "PB-STATE-INTERRUPTED",
        "PB-AGENT-FAILED",
        "PB-STATE-INTERRUPTED",
        "PB-AGENT-FAILED",
    ]


def probed(*, held: bool) -> Probed:
    return Probed(Condition.PLAN_EXISTS, Answer.HELD if held else Answer.NOT_HELD, "plan.md")


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ((), False),
        (((probed(held=True), True),), True),
        (((probed(held=True), False),), False),
        (((probed(held=False), True),), False),
        (((probed(held=True), True), (probed(held=True), False)), True),
        (((probed(held=True), True), (probed(held=False), True)), False),
    ],
)
def test_lost_work_had_finished_if_all_holds_and_something_changed(
    conditions: tuple[tuple[Probed, bool], ...], expected: bool
) -> None:
    """A step without postconditions leaves no evidence."""
    assert finished(conditions) is expected


# ── taking up again ───────────────────────────────────────────────────────────────────────


def test_a_failed_session_can_be_resumed() -> None:
    scene = session()
    scene.worked()
    scene.checked(plan=missing("plan_exists"))
    scene.taken_up()
    assert scene.entry("plan#1").resolution is Resolution.RETRY
    assert scene.entry("plan#1").completed_at == 3000
    assert scene.status is SessionStatus.IN_PROGRESS
    scene.worked()
    scene.checked()
    assert scene.check.id == "before:tasks#1.0"


def test_a_failed_precondition_is_checked_again_when_the_session_is_resumed() -> None:
    scene = session()
    scene.checked(plan=missing("spec_exists"))
    scene.taken_up()
    scene.checked(plan=missing("spec_exists"))
    assert scene.ended is SessionStatus.FAILED
    scene.taken_up()
    scene.checked()
    assert scene.running == ("plan#3",)


def test_only_a_failed_session_can_be_resumed() -> None:
    scene = session()
    with pytest.raises(StateError, match="a retry of the session is not expected"):
        scene.taken_up()
    scene.cancelled(Cancellation.ABORT)
    with pytest.raises(StateError):
        scene.taken_up()
    complete = Scene(book(step()))
    complete.worked()
    complete.checked()
    with pytest.raises(StateError):
        complete.taken_up()


def test_no_settled_step_ever_runs_again() -> None:
    """kai FR32; cat FR-7.4, NFR-1.2; tyr 4."""
    scene = session()
    scene.worked()
    scene.checked()
    scene.worked()
    scene.checked(tasks=missing("plan_exists"))
    done = scene.entry("plan#1")
    scene.taken_up()
    assert scene.check.id == "before:tasks#2.0"
    assert scene.entry("plan#1") == done
