"""Gates: when one opens, what it offers, what each answer leaves in the journal."""

from __future__ import annotations

import pytest

from kernel.world import AGENT_FAILED, POLICIES, Scene, book, breaking, held, missing, step, verdict
from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.directives import (
    Answered,
    Cancellation,
    Failure,
    Finding,
    Probed,
    Report,
    Standing,
)
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.gates import CHOICES, question
from playbook_supervisor.kernel.model import Loop
from playbook_supervisor.kernel.phases import steps_done
from playbook_supervisor.kernel.state import Change, Gate
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    Decision,
    EntryStatus,
    GateReason,
    Place,
    Resolution,
    SessionStatus,
    Trigger,
)
from playbook_supervisor.records import replace

NO_CONDITIONS: tuple[Probed, ...] = ()


def found(*findings: Finding, name: str = "plan_exists") -> Report:
    """All conditions hold; these findings."""
    return Report(held(name).conditions, findings)


def said_by(scene: Scene, *, done: int, total: int) -> str:
    does = f"Run {scene.gate.member.step.command}"
    return question(scene.gate, scene.last, does, done=done, total=total)


# ── gate_always ───────────────────────────────────────────────────────────────────────────


def always() -> Scene:
    scene = Scene(book(step("pr", autonomy=Autonomy.GATE_ALWAYS)))
    scene.checked()
    return scene


def test_gate_always_asks_before_the_step() -> None:
    """kai FR24."""
    scene = always()
    assert scene.gate.id == "pr#1?1"
    assert (scene.gate.reason, scene.gate.place) == (GateReason.GATE_ALWAYS, Place.BEFORE)
    assert scene.gate.choices == (Resolution.CONTINUE, Resolution.SKIP, Resolution.ABORT)
    assert scene.last.decision is Decision.GATE
    assert scene.last.trigger is None
    assert scene.last.launched_at is None
    assert scene.status is SessionStatus.IN_PROGRESS


def test_continue_before_a_step_checks_again_and_then_runs_it() -> None:
    """kai FR38: the journal keeps the words and their author; the run continues."""
    scene = always()
    scene.says("continue", "looks fine, continue", by="Ann <ann@example.org>")
    assert scene.check.id == "before:pr#1.1"
    scene.checked()
    scene.returned()
    scene.checked()
    entry = scene.last
    assert entry.gates == (
        Gate(
            "pr#1?1",
            GateReason.GATE_ALWAYS,
            Place.BEFORE,
            opened_at=1000,
            answered_at=2000,
            by="Ann <ann@example.org>",
            text="looks fine, continue",
            resolution=Resolution.CONTINUE,
        ),
    )
    assert (entry.decision, entry.status) == (Decision.GATE, EntryStatus.DONE)
    assert (entry.human_response, entry.resolution) == ("looks fine, continue", Resolution.CONTINUE)
    assert (entry.started_at, entry.launched_at, entry.completed_at) == (1000, 3000, 5000)


def test_skip_before_a_step_keeps_the_decision_of_its_gate() -> None:
    scene = always()
    scene.says("skip", "not today, skip")
    assert (scene.last.status, scene.last.decision) == (EntryStatus.SKIPPED, Decision.GATE)
    assert scene.last.resolution is Resolution.SKIP
    assert scene.ended is SessionStatus.COMPLETED
    assert steps_done(scene.state) == 1


def test_abort_before_a_step_leaves_it_skipped_and_the_session_aborted() -> None:
    scene = always()
    scene.says("abort")
    assert (scene.last.status, scene.last.resolution) == (EntryStatus.SKIPPED, Resolution.ABORT)
    assert scene.ended is SessionStatus.ABORTED
    assert steps_done(scene.state) == 0


def test_preconditions_come_before_the_gate_of_gate_always() -> None:
    scene = Scene(book(step(autonomy=Autonomy.GATE_ALWAYS, policy=ErrorPolicy.GATE)))
    scene.checked(a=missing("spec_exists"))
    assert scene.gate.reason is GateReason.PRECONDITION_FAIL
    scene.says("continue")
    scene.checked()
    assert (scene.gate.id, scene.gate.reason) == ("a#1?2", GateReason.GATE_ALWAYS)
    assert scene.last.decision is Decision.GATE


# ── a precondition that fails under the policy `gate` ─────────────────────────────────────


def blocked() -> Scene:
    scene = Scene(book(step("tasks", policy=ErrorPolicy.GATE, triggers=tuple(Trigger))))
    scene.checked(tasks=missing("spec_exists"))
    return scene


def test_a_failing_precondition_opens_a_gate_under_the_policy_gate() -> None:
    """kai FR31: a gate, not an escalation; no trigger fires before the run."""
    scene = blocked()
    assert (scene.gate.reason, scene.gate.place) == (GateReason.PRECONDITION_FAIL, Place.BEFORE)
    assert scene.gate.choices == (
        Resolution.CONTINUE,
        Resolution.ACCEPT,
        Resolution.SKIP,
        Resolution.ABORT,
    )
    assert (scene.last.decision, scene.last.trigger) == (Decision.GATE, None)
    assert scene.last.failing == ("spec_exists",)
    assert scene.last.error == "spec_exists: spec_exists.md is missing"


def test_continue_checks_the_precondition_again_and_asks_again() -> None:
    scene = blocked()
    scene.says("continue")
    assert (scene.last.failing, scene.last.error_code) == ((), "")
    scene.checked(tasks=missing("spec_exists"))
    assert scene.gate.id == "tasks#1?2"
    scene.says("continue")
    scene.checked()
    assert scene.running == ("tasks#1",)
    assert scene.last.waived == ()


def test_accept_runs_the_step_and_journals_the_waived_condition() -> None:
    scene = blocked()
    scene.says("accept", "go on without the specification, accept")
    scene.checked(tasks=missing("spec_exists"))
    assert scene.running == ("tasks#1",)
    assert scene.last.waived == ("spec_exists",)
    assert scene.last.resolution is Resolution.ACCEPT


def test_a_waived_condition_with_new_evidence_opens_a_gate_again() -> None:
    scene = blocked()
    scene.says("accept")
    scene.checked(tasks=missing("spec_exists", as_waived=False))
    assert (scene.gate.id, scene.gate.reason) == ("tasks#1?2", GateReason.PRECONDITION_FAIL)


@pytest.mark.parametrize(
    ("word", "ended"), [("skip", SessionStatus.COMPLETED), ("abort", SessionStatus.ABORTED)]
)
def test_skip_and_abort_at_a_precondition_gate(word: str, ended: SessionStatus) -> None:
    scene = blocked()
    scene.says(word)
    assert (scene.last.status, scene.last.decision) == (EntryStatus.SKIPPED, Decision.GATE)
    assert scene.last.resolution == word
    assert scene.ended is ended


# ── after a failure ───────────────────────────────────────────────────────────────────────


def failed(
    *triggers: Trigger,
    policy: ErrorPolicy = ErrorPolicy.STOP,
    error: Failure | None = None,
    report: Report | None = None,
    autonomy: Autonomy = Autonomy.AUTO,
) -> Scene:
    """A step that was run and judged; its postcondition is missing unless `report` says so."""
    scene = Scene(book(step(policy=policy, triggers=triggers, autonomy=autonomy), step("b")))
    scene.worked(error)
    scene.checked(a=missing("plan_exists") if report is None else report)
    return scene


ALL_FAIL = Report(missing("plan_exists").conditions, (verdict(), breaking()))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("autonomy", [Autonomy.AUTO, Autonomy.GATE_ON_BREAKING])
@pytest.mark.parametrize(
    ("trigger", "error", "report"),
    [
        (Trigger.SUBAGENT_ERROR, AGENT_FAILED, found()),
        (Trigger.AGREEMENT_BREAKING, None, found(breaking())),
        (Trigger.VERDICT_FAIL, None, found(verdict())),
        (Trigger.POSTCONDITION_FAIL, None, missing("plan_exists")),
    ],
)
def test_a_declared_trigger_escalates_under_every_autonomy_and_policy(
    trigger: Trigger, error: Failure | None, report: Report, policy: ErrorPolicy, autonomy: Autonomy
) -> None:
    """kai FR27, FR28, FR39, S-T4, S-M2, D-T: a trigger comes before the error policy, always."""
    scene = failed(trigger, policy=policy, error=error, report=report, autonomy=autonomy)
    assert scene.gate.reason == trigger.value
    assert scene.gate.place is Place.AFTER
    assert (scene.last.decision, scene.last.trigger) == (Decision.ESCALATED, trigger)
    assert scene.last.error
    assert scene.last.failing
    assert scene.last.returned_at == 2000


def test_the_first_trigger_in_the_order_of_the_vocabulary_is_journaled() -> None:
    named = []
    for first in range(len(Trigger)):
        declared = tuple(Trigger)[first:]
        scene = failed(*reversed(declared), error=AGENT_FAILED, report=ALL_FAIL)
        named.append(scene.last.trigger)
    assert named == list(Trigger)


def test_all_failures_are_reported_together() -> None:
    scene = failed(*Trigger, error=AGENT_FAILED, report=ALL_FAIL)
    assert scene.last.failing == (
        "plan_exists",
        "verdict_fail",
        "agreement_breaking",
        "subagent_error",
    )
    assert scene.last.error == (
        "the agent gave up; plan_exists: plan_exists.md is missing; "
        "verdict_fail: report.md:1: verdict: FAIL; agreement_breaking: check.md:3: Breaking: yes"
    )


def test_an_undeclared_failure_opens_a_gate_under_the_policy_gate() -> None:
    """kai FR31: the trigger is the one that describes the failure."""
    by_condition = failed(policy=ErrorPolicy.GATE)
    assert by_condition.last.trigger is Trigger.POSTCONDITION_FAIL
    by_agent = failed(policy=ErrorPolicy.GATE, error=AGENT_FAILED)
    assert by_agent.last.trigger is Trigger.SUBAGENT_ERROR
    assert by_agent.last.failing == ("plan_exists", "subagent_error")


@pytest.mark.parametrize(
    "reason", [GateReason.SUBAGENT_ERROR, GateReason.VERDICT_FAIL, GateReason.POSTCONDITION_FAIL]
)
def test_after_a_failure_there_are_four_choices(reason: GateReason) -> None:
    assert CHOICES[reason, Place.AFTER] == (
        Resolution.CONTINUE,
        Resolution.RETRY,
        Resolution.ACCEPT,
        Resolution.ABORT,
    )


def test_continue_after_a_failure_checks_again_and_ignores_the_old_error() -> None:
    """Conditions and reports only. The entry still shows the old error."""
    scene = failed(policy=ErrorPolicy.GATE, error=AGENT_FAILED)
    scene.says("continue", "fixed it, continue")
    assert scene.check.id == "after:a#1.1"
    scene.checked()
    entry = scene.entry("a#1")
    assert (entry.status, entry.decision) == (EntryStatus.DONE, Decision.ESCALATED)
    assert entry.trigger is Trigger.SUBAGENT_ERROR
    assert entry.human_response == "fixed it, continue"
    assert "the agent gave up" in entry.error
    assert entry.waived == ()
    assert scene.check.id == "before:b#1.0"


@pytest.mark.parametrize("policy", POLICIES)
def test_a_failure_after_continue_asks_again_under_every_policy(policy: ErrorPolicy) -> None:
    scene = failed(Trigger.SUBAGENT_ERROR, policy=policy, error=AGENT_FAILED)
    assert scene.gate.reason is GateReason.SUBAGENT_ERROR
    scene.says("continue")
    scene.checked(a=missing("plan_exists"))
    assert (scene.gate.id, scene.gate.reason) == ("a#1?2", GateReason.POSTCONDITION_FAIL)
    assert scene.last.trigger is Trigger.POSTCONDITION_FAIL
    assert scene.last.failing == ("plan_exists",)
    assert scene.last.error == "plan_exists: plan_exists.md is missing"
    assert scene.last.error_code == "PB-COND-POSTCONDITION"


def test_retry_leaves_the_attempt_failed_and_begins_the_next() -> None:
    scene = failed(Trigger.POSTCONDITION_FAIL)
    scene.says("retry", "again")
    assert (scene.last.status, scene.last.resolution) == (EntryStatus.FAILED, Resolution.RETRY)
    assert scene.check.id == "before:a#2.1"
    scene.worked()
    scene.checked()
    second = scene.entry("a#2")
    assert (second.status, second.decision, second.gates) == (EntryStatus.DONE, Decision.AUTO, ())


def test_a_human_can_retry_any_number_of_times() -> None:
    scene = failed(Trigger.POSTCONDITION_FAIL)
    for number in range(2, 6):
        scene.says("retry")
        scene.worked()
        scene.checked(a=missing("plan_exists"))
        assert scene.gate.id == f"a#{number}?1"


def test_accept_after_a_failure_waives_everything_that_failed() -> None:
    scene = failed(*Trigger, error=AGENT_FAILED, report=ALL_FAIL)
    failing = scene.last.failing
    scene.says("accept")
    entry = scene.entry("a#1")
    assert (entry.status, entry.waived, entry.failing) == (EntryStatus.DONE, failing, ())
    assert entry.error_code == "PB-AGENT-FAILED"
    assert scene.check.id == "before:b#1.0"


def test_abort_after_a_failure_leaves_the_entry_failed() -> None:
    scene = failed(Trigger.POSTCONDITION_FAIL)
    scene.says("abort")
    assert (scene.last.status, scene.last.resolution) == (EntryStatus.FAILED, Resolution.ABORT)
    assert scene.last.decision is Decision.ESCALATED
    assert scene.ended is SessionStatus.ABORTED


# ── breaking changes ──────────────────────────────────────────────────────────────────────


def on_breaking(finding: Finding | None = None) -> Scene:
    scene = Scene(book(step("check", autonomy=Autonomy.GATE_ON_BREAKING)))
    scene.checked(check=found(*([finding] if finding else []), name="spec_exists"))
    return scene


def test_gate_on_breaking_runs_without_a_gate_if_nothing_is_breaking() -> None:
    """kai FR25."""
    assert on_breaking().running == ("check#1",)


def test_gate_on_breaking_asks_before_the_step_about_a_new_finding() -> None:
    """kai FR25."""
    scene = on_breaking(breaking())
    assert (scene.gate.reason, scene.gate.place) == (GateReason.AGREEMENT_BREAKING, Place.BEFORE)
    assert scene.gate.choices == (
        Resolution.ACCEPT,
        Resolution.CONTINUE,
        Resolution.SKIP,
        Resolution.ABORT,
    )
    assert scene.last.trigger is Trigger.AGREEMENT_BREAKING
    assert scene.last.decision is Decision.ESCALATED
    assert scene.last.failing == ("agreement_breaking",)
    assert scene.last.error == "agreement_breaking: check.md:3: Breaking: yes"


@pytest.mark.parametrize("standing", [Standing.ANSWERED, Standing.ACCEPTED])
def test_an_answered_finding_opens_no_gate_before_the_next_attempt(standing: Standing) -> None:
    """The retry was the answer to the report that the next attempt replaces."""
    assert on_breaking(breaking(standing)).running == ("check#1",)


def test_other_autonomies_do_not_look_for_breaking_changes_before_the_step() -> None:
    scene = Scene(book(step(triggers=(Trigger.AGREEMENT_BREAKING,))))
    scene.checked(a=found(breaking(), name="spec_exists"))
    assert scene.running == ("a#1",)


def test_accepting_a_breaking_change_lets_the_step_run() -> None:
    scene = on_breaking(breaking())
    scene.says("accept")
    assert scene.last.waived == ("agreement_breaking",)
    scene.checked(check=found(breaking(Standing.ACCEPTED), name="spec_exists"))
    assert scene.running == ("check#1",)
    assert scene.last.decision is Decision.ESCALATED


@pytest.mark.parametrize("standing", [Standing.NEW, Standing.ANSWERED])
def test_continue_at_an_unchanged_breaking_change_asks_again_and_names_accept(
    standing: Standing,
) -> None:
    scene = on_breaking(breaking())
    scene.says("continue")
    scene.checked(check=found(breaking(standing), name="spec_exists"))
    assert scene.gate.id == "check#1?2"
    again = said_by(scene, done=0, total=1)
    assert again.startswith("Still the case (answer accept to go on anyway): ")


def test_continue_after_a_fixed_breaking_change_runs_the_step() -> None:
    scene = on_breaking(breaking())
    scene.says("continue")
    scene.checked()
    assert scene.running == ("check#1",)
    assert scene.last.trigger is Trigger.AGREEMENT_BREAKING


def test_skip_at_a_breaking_change_before_a_step() -> None:
    scene = on_breaking(breaking())
    scene.says("skip")
    assert (scene.last.status, scene.last.decision) == (EntryStatus.SKIPPED, Decision.ESCALATED)
    assert scene.ended is SessionStatus.COMPLETED


@pytest.mark.parametrize("standing", [Standing.NEW, Standing.ANSWERED])
def test_gate_on_breaking_declares_the_trigger_agreement_breaking(standing: Standing) -> None:
    """kai FR25: it fires after the run too, unless the finding was accepted."""
    scene = on_breaking()
    scene.returned()
    scene.checked(check=found(breaking(standing)))
    assert (scene.gate.reason, scene.gate.place) == (GateReason.AGREEMENT_BREAKING, Place.AFTER)
    assert scene.gate.choices == (
        Resolution.ACCEPT,
        Resolution.CONTINUE,
        Resolution.RETRY,
        Resolution.ABORT,
    )
    assert scene.last.error_code == "PB-COND-TRIGGER"


def test_an_accepted_breaking_change_does_not_fire_again() -> None:
    scene = on_breaking()
    scene.returned()
    scene.checked(check=found(breaking(Standing.ACCEPTED)))
    assert scene.ended is SessionStatus.COMPLETED
    assert scene.last.decision is Decision.AUTO


@pytest.mark.parametrize("standing", Standing)
def test_a_failed_verdict_always_fires(standing: Standing) -> None:
    """Only breaking changes can be accepted; every other trigger always escalates."""
    scene = failed(Trigger.VERDICT_FAIL, report=found(verdict(standing)))
    assert scene.gate.reason is GateReason.VERDICT_FAIL


def test_a_retry_after_a_breaking_change_runs_without_a_gate_before_it() -> None:
    scene = on_breaking()
    scene.returned()
    scene.checked(check=found(breaking()))
    scene.says("retry")
    scene.checked(check=found(breaking(Standing.ANSWERED), name="spec_exists"))
    assert scene.running == ("check#2",)


def test_a_later_gate_overwrites_the_trigger_and_the_decision_stays_escalated() -> None:
    """kai FR28: all gates stay in the journal, a line each."""
    scene = on_breaking(breaking())
    scene.says("accept")
    scene.checked()
    scene.returned()
    scene.checked(check=Report(missing("plan_exists").conditions, (breaking(),)))
    scene.says("continue")
    scene.checked(check=missing("plan_exists"))
    entry = scene.last
    assert entry.decision is Decision.ESCALATED
    assert entry.trigger is Trigger.POSTCONDITION_FAIL
    assert [(gate.id, gate.reason, gate.place) for gate in entry.gates] == [
        ("check#1?1", GateReason.AGREEMENT_BREAKING, Place.BEFORE),
        ("check#1?2", GateReason.AGREEMENT_BREAKING, Place.AFTER),
        ("check#1?3", GateReason.POSTCONDITION_FAIL, Place.AFTER),
    ]
    assert entry.waived == ("agreement_breaking",)


def test_a_precondition_gate_after_an_escalation_stays_escalated() -> None:
    step_ = step("check", autonomy=Autonomy.GATE_ON_BREAKING, policy=ErrorPolicy.GATE)
    scene = Scene(book(step_))
    scene.checked(check=found(breaking(), name="spec_exists"))
    scene.says("continue")
    scene.checked(check=missing("spec_exists"))
    assert scene.gate.reason is GateReason.PRECONDITION_FAIL
    assert scene.last.decision is Decision.ESCALATED
    assert scene.last.trigger is Trigger.AGREEMENT_BREAKING


# ── answers ───────────────────────────────────────────────────────────────────────────────


def test_a_repeated_continue_cannot_pass_the_next_gate() -> None:
    """The answer was meant for `pr#1?1`, the gate before the step."""
    scene = Scene(book(step("pr", autonomy=Autonomy.GATE_ALWAYS, policy=ErrorPolicy.GATE)))
    scene.checked()
    meant = Answered(9000, scene.gate.id, Resolution.CONTINUE, "continue")
    scene.sees(meant)
    scene.worked()
    scene.checked(pr=missing("plan_exists"))
    assert scene.gate.id == "pr#1?2"
    with pytest.raises(StateError, match=r"pr#1\?1 is not expected; .* the gate pr#1\?2"):
        scene.sees(meant)


def test_a_choice_that_the_gate_does_not_offer_is_refused() -> None:
    scene = always()
    before = scene.state
    for resolution in (Resolution.ACCEPT, Resolution.RETRY):
        with pytest.raises(StateError) as refusal:
            scene.says(resolution)
        assert refusal.value.code == "PB-STATE-REFUSED"
    assert scene.state is before


def test_aborting_a_session_at_an_open_gate_answers_that_gate() -> None:
    scene = failed(Trigger.POSTCONDITION_FAIL)
    (event,) = scene.cancelled(Cancellation.ABORT, "no longer needed")
    assert event.change is Change.FAILED
    gate = scene.last.gates[-1]
    assert (gate.resolution, gate.text, gate.by) == (Resolution.ABORT, "no longer needed", "Ann")
    assert scene.ended is SessionStatus.ABORTED


# ── questions ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("scene", "said"),
    [
        (always(), "Run /do.pr (step pr) now: continue, skip it, or abort? 3/8 steps done."),
        (
            blocked(),
            "tasks cannot start: spec_exists: spec_exists.md is missing. Fix it and continue, "
            "accept it as it is, skip the step, or abort? 3/8 steps done.",
        ),
        (
            on_breaking(breaking()),
            "A breaking change was found before check: agreement_breaking: check.md:3: Breaking: "
            "yes. Accept it and go on, continue to check again, skip the step, or abort? "
            "3/8 steps done.",
        ),
        (
            failed(Trigger.AGREEMENT_BREAKING, report=found(breaking())),
            "a found a breaking change: agreement_breaking: check.md:3: Breaking: yes. Accept it "
            "and go on, continue to check again, retry the step, or abort? 3/8 steps done.",
        ),
        (
            failed(Trigger.SUBAGENT_ERROR, error=AGENT_FAILED, report=found()),
            "The agent failed at a: the agent gave up. Fix it and continue, retry the step, "
            "accept it as it is, or abort? 3/8 steps done.",
        ),
        (
            failed(Trigger.VERDICT_FAIL, report=found(verdict())),
            "The verdict of a is not PASS: verdict_fail: report.md:1: verdict: FAIL. "
            "Fix it and continue, retry the step, accept it as it is, or abort? 3/8 steps done.",
        ),
        (
            failed(Trigger.POSTCONDITION_FAIL),
            "a has ended, but plan_exists: plan_exists.md is missing. Fix it and continue, retry "
            "the step, accept it as it is, or abort? 3/8 steps done.",
        ),
    ],
)
def test_a_question_says_what_happened_what_is_asked_and_the_progress(
    scene: Scene, said: str
) -> None:
    """kai FR24: one or two sentences, made of the entry alone."""
    assert said_by(scene, done=3, total=8) == said


def test_a_question_names_no_agent_where_a_program_failed() -> None:
    program = step(triggers=(Trigger.SUBAGENT_ERROR,), command="cli make")
    scene = Scene(book(program))
    scene.worked(Failure("PB-STEP-EXIT", "make ended with exit status 2"))
    scene.checked(a=found())
    said = said_by(scene, done=0, total=1)
    assert said.startswith("a failed: make ended with exit status 2. Fix it and continue,")


def test_a_question_names_the_item_of_a_loop() -> None:
    looped = step(triggers=(Trigger.SUBAGENT_ERROR,), command="cli make", for_each=Loop("$l", "x"))
    scene = Scene(book(looped))
    scene.lists(2, s1=replace(held("spec_exists"), item="x" * 60))
    scene.returned(error=Failure("PB-STEP-FAILED", "make ended with exit status 2"))
    scene.checked()
    said = said_by(scene, done=0, total=1)
    assert said.startswith(f"a[1] ({'x' * 39}…) failed: make ended with exit status 2. Fix it")


@pytest.mark.parametrize("error", ["the build\n  is broken " + "and so on " * 999, "x" * 9999])
def test_a_question_is_short_even_if_the_error_is_long(error: str) -> None:
    """kai S-U2: the choices come after the error and must not be cut off."""
    failure = Failure("PB-AGENT-FAILED", error)
    scene = failed(Trigger.SUBAGENT_ERROR, error=failure, report=found())
    said = said_by(scene, done=0, total=2)
    assert said.startswith(f"The agent failed at a: {' '.join(error.split())[:30]}")
    assert "… Fix it and continue, retry the step, accept it as it is, or abort?" in said
    assert len(said) < 400


def test_a_question_copes_with_braces_in_the_error_and_with_no_error() -> None:
    scene = failed(Trigger.SUBAGENT_ERROR, error=Failure("PB-AGENT-FAILED", "{0} {x}"))
    assert "{0} {x}" in said_by(scene, done=0, total=2)
    silent = failed(
        Trigger.SUBAGENT_ERROR, error=Failure("PB-AGENT-FAILED", ""), report=Report(NO_CONDITIONS)
    )
    assert "something is missing" in said_by(silent, done=0, total=2)


def test_every_gate_has_choices_and_offers_abort() -> None:
    assert all(Resolution.ABORT in choices for choices in CHOICES.values())
    assert {reason for reason, _ in CHOICES} == set(GateReason)
