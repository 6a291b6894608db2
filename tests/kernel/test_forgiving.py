"""Error policies that retry after a while, go on after a failure, or differ by error code."""

from __future__ import annotations

import pytest

from kernel.world import (
    AGENT_FAILED,
    BY_CODE,
    RETRY_TWICE,
    STEP_FAILED,
    Scene,
    book,
    lacking,
    missing,
    passed,
    step,
    verdict,
    without_output,
)
from playbook_supervisor.kernel.directives import Cancellation, Failure, Report
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.machine import evolve, replay
from playbook_supervisor.kernel.phases import current_step, failures, steps_done
from playbook_supervisor.kernel.state import Change
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    Decision,
    EntryStatus,
    GateReason,
    SessionStatus,
    Trigger,
)

CONTINUE, IGNORE = ErrorPolicy.CONTINUE, ErrorPolicy.IGNORE
TIMEOUT = Failure("PB-STEP-TIMEOUT", "ran for 10 s")


# ── continue ──────────────────────────────────────────────────────────────────────────────


def test_under_continue_a_failed_step_stays_failed_and_the_run_goes_on() -> None:
    scene = Scene(book(step("a", policy=CONTINUE), step("b")))
    scene.worked(STEP_FAILED)
    scene.checked(a=missing("plan_exists"))
    assert (scene.last.status, scene.last.decision) == (EntryStatus.FAILED, Decision.AUTO)
    assert scene.last.error == "exit status 1; plan_exists: plan_exists.md is missing"
    assert (current_step(scene.state), steps_done(scene.state)) == ("b", 1)
    scene.worked()
    scene.checked()
    assert scene.ended is SessionStatus.COMPLETED
    assert (steps_done(scene.state), failures(scene.state)) == (2, 1)


def test_a_run_whose_last_step_fails_under_continue_is_completed_with_a_failure() -> None:
    scene = Scene(book(step(policy=CONTINUE)))
    scene.worked()
    scene.checked(a=missing("plan_exists"))
    assert scene.ended is SessionStatus.COMPLETED
    assert failures(scene.state) == 1
    assert failures(replay(scene.playbook, scene.journal)) == 1


@pytest.mark.parametrize("policy", [CONTINUE, IGNORE])
def test_a_step_that_cannot_start_is_left_failed_and_the_run_goes_on(policy: ErrorPolicy) -> None:
    """An error that is ignored needs work that may count as done: here there is none."""
    scene = Scene(book(step("a", policy=policy), step("b")))
    scene.checked(a=missing("spec_exists"))
    assert (scene.last.status, scene.last.waived) == (EntryStatus.FAILED, ())
    assert scene.last.error_code == "PB-COND-PRECONDITION"
    assert not scene.last.ran
    assert current_step(scene.state) == "b"


def test_a_member_that_cannot_start_does_not_keep_its_group_from_starting() -> None:
    scene = Scene(book(step("a", policy=CONTINUE, group="g"), step("b", group="g")))
    scene.checked(a=missing("spec_exists"))
    assert scene.running == ("b#1",)
    scene.returned()
    scene.checked()
    assert scene.ended is SessionStatus.COMPLETED
    assert failures(scene.state) == 1


def test_a_group_waits_for_all_and_a_stop_outweighs_a_continue() -> None:
    scene = Scene(book(step("a", policy=CONTINUE, group="g"), step("b", group="g")))
    scene.worked(STEP_FAILED)
    scene.checked()
    assert scene.ended is SessionStatus.FAILED
    assert scene.entry("a#1").status is scene.entry("b#1").status is EntryStatus.FAILED
    scene.taken_up()
    assert [member.id for member in scene.check.members] == ["b#2"]


def test_a_member_that_never_started_runs_when_the_session_is_taken_up() -> None:
    """`continue` forgives a failure, not a start that another step prevented."""
    asked = step("a", policy=CONTINUE, autonomy=Autonomy.GATE_ALWAYS, group="g")
    scene = Scene(book(asked, step("b", group="g")))
    scene.checked()
    scene.says("continue")
    scene.checked(b=missing("spec_exists"))
    assert scene.entry("a#1").error_code == "PB-STATE-NOT-STARTED"
    assert scene.ended is SessionStatus.FAILED
    scene.taken_up()
    assert [member.id for member in scene.check.members] == ["a#2", "b#2"]


def test_a_human_who_aborts_is_not_overruled_by_continue() -> None:
    scene = Scene(book(step("a", policy=CONTINUE, triggers=(Trigger.SUBAGENT_ERROR,)), step("b")))
    scene.worked(AGENT_FAILED)
    scene.checked()
    scene.says("abort")
    assert scene.ended is SessionStatus.ABORTED


def test_an_interrupted_attempt_is_no_failure_that_is_passed_by() -> None:
    scene = Scene(book(step("a", policy=CONTINUE)))
    scene.checked()
    scene.cancelled(Cancellation.INTERRUPT)
    assert [member.id for member in scene.check.members] == ["a#2"]


# ── ignore ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("error", [None, AGENT_FAILED])
def test_under_ignore_a_failed_step_is_done_and_its_error_code_waived(
    error: Failure | None,
) -> None:
    scene = Scene(book(step(policy=IGNORE)))
    scene.worked(error)
    scene.checked(a=missing("plan_exists"))
    code = error.code if error else "PB-COND-POSTCONDITION"
    assert (scene.last.status, scene.last.decision) == (EntryStatus.DONE, Decision.AUTO)
    assert (scene.last.error_code, scene.last.waived) == (code, (code,))
    assert "plan_exists.md is missing" in scene.last.error
    assert scene.ended is SessionStatus.COMPLETED
    assert failures(scene.state) == 0


# ── retry:N ───────────────────────────────────────────────────────────────────────────────


def test_a_retry_waits_twice_as_long_each_time_and_the_last_failure_stops() -> None:
    scene = Scene(book(step(policy=ErrorPolicy.read("retry:3"))))
    for wait in (1000, 2000, 4000):
        assert scene.check.not_before is None if wait == 1000 else scene.check.not_before
        scene.worked(STEP_FAILED)
        scene.checked()
        assert scene.check.not_before == (scene.last.completed_at or 0) + wait
        assert replay(scene.playbook, scene.journal) == scene.state
    scene.worked(STEP_FAILED)
    scene.checked()
    assert scene.ended is SessionStatus.FAILED
    assert [entry.attempt for entry in scene.journal] == [1, 2, 3, 4]


def test_the_retries_of_a_group_run_together_after_the_longest_wait() -> None:
    scene = Scene(book(*(step(name, policy=RETRY_TWICE, group="g") for name in "ab")))
    scene.worked(STEP_FAILED)
    scene.checked()
    assert scene.check.not_before == (scene.last.completed_at or 0) + 1000
    scene.checked()
    scene.returned("a#2", error=STEP_FAILED)
    scene.returned("b#2")
    scene.checked()
    assert [member.id for member in scene.check.members] == ["a#3"]
    assert scene.check.not_before == (scene.entry("a#2").completed_at or 0) + 2000


def test_a_retry_that_a_human_or_a_crash_asks_for_does_not_wait_and_uses_up_none() -> None:
    scene = Scene(book(step(policy=RETRY_TWICE, triggers=(Trigger.VERDICT_FAIL,))))
    scene.worked(STEP_FAILED)
    scene.checked()
    scene.checked()
    scene.cancelled(Cancellation.INTERRUPT)
    assert scene.check.not_before is None
    scene.worked()
    scene.checked(a=Report(findings=(verdict(),)))
    scene.says("retry")
    assert scene.check.not_before is None
    scene.worked(STEP_FAILED)
    scene.checked()
    assert scene.check.not_before == (scene.last.completed_at or 0) + 2000


def test_a_session_that_was_taken_up_again_does_not_wait() -> None:
    scene = Scene(book(step(policy=ErrorPolicy.read("retry:1"))))
    for _ in range(2):
        scene.worked(STEP_FAILED)
        scene.checked()
    scene.taken_up()
    assert scene.check.not_before is None


# ── by error code ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("error", "status", "ended"),
    [
        (STEP_FAILED, EntryStatus.FAILED, None),
        (AGENT_FAILED, EntryStatus.DONE, SessionStatus.COMPLETED),
        (None, EntryStatus.FAILED, SessionStatus.COMPLETED),
        (TIMEOUT, EntryStatus.FAILED, SessionStatus.FAILED),
    ],
)
def test_each_error_code_has_its_own_reaction(
    error: Failure | None, status: EntryStatus, ended: SessionStatus | None
) -> None:
    """cat FR-4.11."""
    scene = Scene(book(step(policy=BY_CODE)))
    scene.worked(error)
    scene.checked(a=missing("plan_exists"))
    assert scene.last.status is status
    if ended is None:
        assert scene.check.members[0].id == "a#2"
    else:
        assert scene.ended is ended


def test_retries_are_counted_over_all_error_codes() -> None:
    """Two codes that each allow one retry do not allow two."""
    once = {"default": "stop", "PB-STEP-FAILED": "retry_once", "PB-STEP-TIMEOUT": "retry_once"}
    scene = Scene(book(step(policy=ErrorPolicy.read(once))))
    scene.worked(STEP_FAILED)
    scene.checked()
    scene.worked(TIMEOUT)
    scene.checked()
    assert scene.ended is SessionStatus.FAILED


def test_a_precondition_may_ask_where_other_errors_stop() -> None:
    asks = ErrorPolicy.read({"default": "stop", "PB-COND-PRECONDITION": "gate"})
    scene = Scene(book(step(policy=asks)))
    scene.checked(a=missing("spec_exists"))
    assert scene.gate.reason is GateReason.PRECONDITION_FAIL


# ── what a step lacks, and what a playbook promises ───────────────────────────────────────


def test_a_step_that_lacks_data_fails_before_it_runs() -> None:
    scene = Scene(book(step(when="$plan.json.ok", policy=RETRY_TWICE)))
    scene.checked(a=lacking("when"))
    assert (scene.last.error_code, scene.last.error) == ("PB-STEP-DATA", "when: no such output")
    assert not scene.last.ran
    assert scene.ended is SessionStatus.FAILED


def test_a_human_may_let_a_step_run_without_its_data() -> None:
    scene = Scene(book(step(when="$plan.json.ok", policy=ErrorPolicy.GATE)))
    scene.checked(a=lacking("when"))
    assert scene.gate.reason is GateReason.PRECONDITION_FAIL
    scene.says("accept")
    scene.checked(a=lacking("when"))
    assert scene.running == ("a#1",)
    assert scene.last.waived == ("when",)


@pytest.mark.parametrize(
    "policy", [ErrorPolicy.STOP, ErrorPolicy.GATE, CONTINUE, IGNORE, RETRY_TWICE]
)
def test_a_missing_output_of_the_playbook_fails_its_last_step_whatever_the_policy(
    policy: ErrorPolicy,
) -> None:
    scene = Scene(book(step(policy=policy, last=True, triggers=(Trigger.POSTCONDITION_FAIL,))))
    scene.worked()
    scene.checked(a=without_output())
    assert (scene.last.error_code, scene.ended) == ("PB-COND-OUTPUT", SessionStatus.FAILED)
    assert scene.last.error == "output dist: dist is missing"
    scene.taken_up()
    scene.worked()
    scene.checked()
    assert scene.ended is SessionStatus.COMPLETED


@pytest.mark.parametrize("policy", [CONTINUE, IGNORE])
def test_no_policy_forgives_a_failure_that_leaves_an_output_missing(policy: ErrorPolicy) -> None:
    scene = Scene(book(step(policy=policy, last=True)))
    scene.worked(STEP_FAILED)
    scene.checked(a=without_output())
    assert (scene.last.error_code, scene.ended) == ("PB-COND-OUTPUT", SessionStatus.FAILED)
    assert scene.last.error == "exit status 1; output dist: dist is missing"


def test_a_human_may_accept_a_failure_with_the_output_that_it_leaves_missing() -> None:
    scene = Scene(book(step(last=True, triggers=(Trigger.SUBAGENT_ERROR,))))
    scene.worked(AGENT_FAILED)
    scene.checked(a=without_output())
    scene.says("accept")
    assert scene.ended is SessionStatus.COMPLETED
    assert scene.last.waived == ("output dist", "subagent_error")


# ── passed over ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("autonomy", Autonomy)
def test_a_step_that_is_passed_over_neither_runs_nor_asks(autonomy: Autonomy) -> None:
    """Its preconditions and gates count for nothing."""
    scene = Scene(book(step("a", autonomy=autonomy, when="$plan.approved"), step("b")))
    scene.checked(a=passed(missing("spec_exists")))
    assert (scene.last.status, scene.last.decision) == (EntryStatus.SKIPPED, Decision.SKIPPED)
    assert scene.last.evidence == ("when: $plan.approved is false",)
    assert (scene.last.error, scene.last.error_code) == ("", "")
    assert current_step(scene.state) == "b"


def test_a_step_that_has_run_is_not_passed_over() -> None:
    """What it made may be why `skip_if` holds now."""
    scene = Scene(book(step(policy=ErrorPolicy.RETRY_ONCE, when="$plan.approved")))
    scene.worked(STEP_FAILED)
    scene.checked()
    scene.checked(a=passed())
    assert scene.running == ("a#2",)


def test_a_step_whose_gate_a_human_answered_is_not_passed_over() -> None:
    scene = Scene(book(step(autonomy=Autonomy.GATE_ALWAYS, when="$plan.approved")))
    scene.checked()
    scene.says("continue")
    scene.checked(a=passed())
    assert scene.running == ("a#1",)


def test_a_step_that_could_not_start_may_be_passed_over_when_it_is_due_again() -> None:
    scene = Scene(book(step(when="$plan.approved")))
    scene.checked(a=missing("spec_exists"))
    scene.taken_up()
    scene.checked(a=passed())
    assert scene.last.id == "a#2"
    assert scene.ended is SessionStatus.COMPLETED


def test_a_member_that_is_passed_over_does_not_keep_its_group() -> None:
    scene = Scene(book(step("a", group="g", when="$plan.approved"), step("b", group="g")))
    scene.checked(a=passed())
    assert scene.running == ("b#1",)


@pytest.mark.parametrize("autonomy", [Autonomy.AUTO, Autonomy.SKIP])
def test_a_last_step_that_is_passed_over_answers_for_the_outputs(autonomy: Autonomy) -> None:
    scene = Scene(book(step("a"), step("b", autonomy=autonomy, last=True)))
    scene.worked()
    scene.checked()
    scene.checked(b=without_output(passed()))
    assert (scene.last.id, scene.last.error_code) == ("b#1", "PB-COND-OUTPUT")
    scene.taken_up()
    scene.checked(b=passed())
    assert scene.ended is SessionStatus.COMPLETED


def test_the_events_of_a_step_that_is_passed_over_say_so() -> None:
    scene = Scene(book(step(when="$plan.approved")))
    before = scene.state
    (event,) = scene.checked(a=passed())
    assert event.change is Change.SKIPPED
    assert evolve(before, event) == scene.state


def test_a_check_names_the_steps_that_may_still_be_passed_over() -> None:
    asked = step("b", autonomy=Autonomy.GATE_ALWAYS, group="g")
    scene = Scene(book(step("a", group="g", policy=ErrorPolicy.RETRY_ONCE), asked))
    named = [scene.check.untried]
    scene.checked()
    scene.says("continue")
    named.append(scene.check.untried)
    scene.checked()
    scene.returned("a#1", error=STEP_FAILED)
    scene.returned("b#1")
    named.append(scene.check.untried)
    scene.checked()
    named.append(scene.check.untried)
    assert named == [("a", "b"), ("a",), (), ()]
