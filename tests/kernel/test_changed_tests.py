"""The gate about tests that have changed: when it opens, and what each answer leads to."""

from __future__ import annotations

import pytest

from kernel.world import (
    AGENT_FAILED,
    POLICIES,
    Scene,
    book,
    breaking,
    changed_tests,
    missing,
    no_items,
    not_yet,
    step,
    verdict,
    without_output,
)
from playbook_supervisor.kernel.answers import meanings_of
from playbook_supervisor.kernel.directives import Failure, Finding, Report
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.gates import PASSED_ALONE, question
from playbook_supervisor.kernel.model import Loop
from playbook_supervisor.kernel.state import Change
from playbook_supervisor.kernel.vocabulary import (
    Condition,
    Decision,
    EntryStatus,
    GateReason,
    Place,
    Resolution,
    SessionStatus,
    Trigger,
)

CHANGED = changed_tests("plan_exists")
CHANGED_BEFORE = changed_tests("spec_exists")


def together(*reports: Report, findings: tuple[Finding, ...] = ()) -> Report:
    conditions = [probed for report in reports for probed in report.conditions]
    return Report(tuple(conditions), findings)


def judged(
    report: Report = CHANGED,
    *,
    policy: ErrorPolicy = ErrorPolicy.STOP,
    triggers: tuple[Trigger, ...] = (),
    error: Failure | None = None,
) -> Scene:
    """A step that was run, and then judged by this report."""
    scene = Scene(book(step(policy=policy, triggers=triggers), step("b")))
    scene.worked(error)
    scene.checked(a=report)
    return scene


def asked(scene: Scene) -> tuple[GateReason, Place]:
    return scene.gate.reason, scene.gate.place


def said_by(scene: Scene) -> str:
    return question(scene.gate, scene.last, "", done=0, total=1)


# ── after a step ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("triggers", [(), tuple(Trigger)], ids=["no trigger", "every trigger"])
def test_changed_tests_are_asked_about_under_every_policy_and_trigger(
    policy: ErrorPolicy, triggers: tuple[Trigger, ...]
) -> None:
    scene = judged(policy=policy, triggers=triggers)
    assert asked(scene) == (GateReason.WITNESSES, Place.AFTER)
    assert scene.gate.choices == (
        Resolution.ACCEPT,
        Resolution.CONTINUE,
        Resolution.RETRY,
        Resolution.ABORT,
    )
    entry = scene.last
    assert (entry.decision, entry.trigger) == (Decision.GATE, None)
    assert (entry.error_code, entry.failing) == ("PB-COND-WITNESSES", ("plan_exists",))


@pytest.mark.parametrize(
    ("report", "error", "code"),
    [
        (together(CHANGED, missing("tasks_exists")), None, "PB-COND-POSTCONDITION"),
        (without_output(CHANGED), None, "PB-COND-POSTCONDITION"),
        (CHANGED, AGENT_FAILED, "PB-AGENT-FAILED"),
    ],
    ids=["a condition", "an output", "the agent"],
)
def test_beside_another_failure_changed_tests_fail_as_any_condition(
    report: Report, error: Failure | None, code: str
) -> None:
    scene = judged(report, error=error)
    assert (scene.ended, scene.last.error_code) == (SessionStatus.FAILED, code)
    assert "plan_exists" in scene.last.error


@pytest.mark.parametrize("finding", [verdict(), breaking()])
def test_a_declared_trigger_comes_before_changed_tests(finding: Finding) -> None:
    scene = judged(together(CHANGED, findings=(finding,)), triggers=(finding.trigger,))
    assert scene.gate.reason == finding.trigger.value
    undeclared = judged(together(CHANGED, findings=(finding,)))
    assert undeclared.gate.reason is GateReason.WITNESSES


def test_changed_tests_of_an_item_of_a_loop_are_asked_about() -> None:
    scene = Scene(book(step(for_each=Loop("$x", "y", 2))))
    scene.lists(2)
    scene.returned()
    scene.checked(**{"a[1]": CHANGED})
    assert scene.gate.id == "a[1]#1?1"
    assert asked(scene) == (GateReason.WITNESSES, Place.AFTER)


def test_an_accepted_change_is_checked_again_and_waives_nothing() -> None:
    scene = judged()
    scene.says("accept", "the old test was wrong, accept")
    assert scene.check.id == "after:a#1.1"
    assert (scene.last.settled, scene.last.failing, scene.last.waived) == (False, (), ())
    scene.checked()
    entry = scene.entry("a#1")
    assert (entry.status, entry.resolution) == (EntryStatus.DONE, Resolution.ACCEPT)
    assert (entry.waived, entry.evidence) == ((), ("plan_exists: plan_exists.md, 3 lines",))
    assert scene.check.id == "before:b#1.0"


def test_tests_that_change_again_after_an_accept_are_asked_about_again() -> None:
    scene = judged()
    scene.says("accept")
    scene.checked(a=CHANGED)
    assert scene.gate.id == "a#1?2"
    assert said_by(scene).startswith("The tests have changed again: a has changed tests, or ")
    scene.says("continue")
    scene.checked(a=CHANGED)
    assert said_by(scene).startswith("Still to be decided: a has changed tests, or ")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("word", ["accept", "continue"])
def test_what_fails_when_changed_tests_are_checked_again_is_asked_about(
    word: str, policy: ErrorPolicy
) -> None:
    scene = judged(policy=policy)
    scene.says(word)
    scene.checked(a=missing("plan_exists"))
    assert asked(scene) == (GateReason.POSTCONDITION_FAIL, Place.AFTER)


def test_a_checkpoint_is_asked_after_changed_tests_were_accepted() -> None:
    scene = Scene(book(step(checkpoint=True)))
    scene.worked()
    scene.checked(a=CHANGED)
    scene.says("accept")
    scene.checked()
    assert asked(scene) == (GateReason.CHECKPOINT, Place.AFTER)


def test_a_step_that_is_sent_back_for_its_tests_uses_up_no_retry() -> None:
    scene = judged(policy=ErrorPolicy.RETRY_ONCE)
    scene.says("retry", "keep the old test, retry")
    scene.worked()
    scene.checked(a=missing("plan_exists"))
    scene.worked()
    scene.checked()
    assert [entry.id for entry in scene.journal] == ["a#1", "a#2", "a#3"]
    assert scene.last.status is EntryStatus.DONE


def test_an_abort_for_changed_tests_ends_the_session() -> None:
    scene = judged(policy=ErrorPolicy.IGNORE)
    scene.says("abort")
    assert (scene.ended, scene.last.status) == (SessionStatus.ABORTED, EntryStatus.FAILED)


# ── rounds ────────────────────────────────────────────────────────────────────────────────


def in_rounds(*reports: Report) -> Scene:
    scene = Scene(book(step(until=(Condition.TASKS_DONE,), rounds=2)))
    for report in reports:
        scene.worked()
        scene.checked(a=report)
    return scene


def test_changed_tests_do_not_prevent_another_round() -> None:
    scene = in_rounds(together(CHANGED, not_yet("tasks_done")))
    assert (scene.last.error_code, scene.check.id) == ("PB-COND-UNTIL", "before:a#2.0")


def test_changed_tests_are_asked_about_once_a_round_has_done_the_rest() -> None:
    scene = in_rounds(together(CHANGED, not_yet("tasks_done")), CHANGED)
    assert (scene.gate.id, scene.gate.reason) == ("a#2?1", GateReason.WITNESSES)


def test_an_until_that_is_about_changed_tests_asks_instead_of_running_again() -> None:
    scene = in_rounds(changed_tests("tasks_done"))
    assert (scene.gate.id, scene.gate.reason) == ("a#1?1", GateReason.WITNESSES)


def test_changed_tests_fail_with_the_last_round() -> None:
    both = together(CHANGED, not_yet("tasks_done"))
    scene = in_rounds(both, both)
    assert (scene.ended, scene.last.error_code) == (SessionStatus.FAILED, "PB-COND-POSTCONDITION")


# ── before a step ─────────────────────────────────────────────────────────────────────────


def before(report: Report = CHANGED_BEFORE, policy: ErrorPolicy = ErrorPolicy.STOP) -> Scene:
    scene = Scene(book(step(policy=policy)))
    scene.checked(a=report)
    return scene


@pytest.mark.parametrize("policy", POLICIES)
def test_changed_tests_before_a_step_are_asked_about_under_every_policy(
    policy: ErrorPolicy,
) -> None:
    scene = before(policy=policy)
    assert asked(scene) == (GateReason.WITNESSES, Place.BEFORE)
    assert scene.gate.choices == (
        Resolution.ACCEPT,
        Resolution.CONTINUE,
        Resolution.SKIP,
        Resolution.ABORT,
    )
    assert scene.last.failing == ("spec_exists",)


@pytest.mark.parametrize("word", ["accept", "continue"])
def test_changed_tests_before_a_step_are_checked_again_and_not_waived(word: str) -> None:
    scene = before()
    scene.says(word)
    assert scene.check.id == "before:a#1.1"
    scene.checked(a=CHANGED_BEFORE)
    assert scene.gate.id == "a#1?2"
    scene.says(word)
    scene.checked()
    assert scene.running == ("a#1",)
    assert scene.last.waived == ()


def test_a_step_is_skipped_for_changed_tests() -> None:
    scene = before()
    scene.says("skip")
    assert (scene.ended, scene.last.status) == (SessionStatus.COMPLETED, EntryStatus.SKIPPED)


def test_beside_another_precondition_changed_tests_fail_as_any() -> None:
    scene = before(together(CHANGED_BEFORE, missing("plan_exists")))
    assert (scene.ended, scene.last.error_code) == (SessionStatus.FAILED, "PB-COND-PRECONDITION")
    assert scene.last.error.startswith("spec_exists: ")


def test_a_precondition_that_fails_after_an_answer_about_tests_is_asked_about() -> None:
    scene = before()
    scene.says("accept")
    scene.checked(a=missing("spec_exists"))
    assert asked(scene) == (GateReason.PRECONDITION_FAIL, Place.BEFORE)


def test_a_loop_without_its_list_fails_and_does_not_ask_about_tests() -> None:
    scene = Scene(book(step(for_each=Loop("$x", "y", 2))))
    scene.checked(a=together(CHANGED_BEFORE, no_items()))
    assert (scene.ended, scene.last.error_code) == (SessionStatus.FAILED, "PB-STEP-ITEMS")
    alone = Scene(book(step(for_each=Loop("$x", "y", 2))))
    (event,) = alone.checked(a=CHANGED_BEFORE)
    assert (event.change, event.entry.error_code) == (Change.FAILED, "PB-COND-PRECONDITION")


# ── words ─────────────────────────────────────────────────────────────────────────────────


def test_a_question_about_tests_says_what_has_changed_and_what_can_be_done() -> None:
    assert said_by(judged()) == (
        "a has changed tests, or what they rest on: plan_exists: 2 tests differ. Accept this "
        "change, continue to check again, retry the step, or abort? 0/1 step done."
    )
    assert said_by(before()) == (
        "Before a tests have changed, or what they rest on: spec_exists: 2 tests differ. Accept "
        "this change, continue to check again, skip the step, or abort? 0/1 step done."
    )


def test_only_a_person_decides_about_tests_and_is_told_what_an_answer_does() -> None:
    assert GateReason.WITNESSES not in PASSED_ALONE
    meanings = meanings_of(GateReason.WITNESSES)
    assert meanings[Resolution.ACCEPT] == "accept this change of the tests and check again"
    assert meanings[Resolution.CONTINUE] == "check again"
    assert meanings[Resolution.RETRY] == "run the step again"
