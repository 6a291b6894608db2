"""The order for one step: checks, gates, runs, and the entries in the journal."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

from kernel.world import (
    AGENT_FAILED,
    STEP_FAILED,
    Scene,
    book,
    breaking,
    held,
    missing,
    step,
    verdict,
)
from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.directives import (
    Answer,
    Begun,
    Check,
    Checked,
    Failure,
    Outcome,
    Probed,
    Report,
    Returned,
    Run,
    Standing,
    describe,
)
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.machine import decide, directive, evolve, replay, require_known
from playbook_supervisor.kernel.phases import current_step, steps_done
from playbook_supervisor.kernel.state import Change, Entry, State, last_entries
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    Condition,
    Decision,
    EntryStatus,
    GateReason,
    Place,
    SessionStatus,
    Trigger,
)


def begun(*steps: Any) -> Scene:
    return Scene(book(*steps))


def test_a_new_session_is_pending_and_asks_for_a_check() -> None:
    scene = begun(step("plan"))
    assert scene.status is SessionStatus.PENDING
    assert scene.check.id == "before:plan#1.0"
    assert scene.check.place is Place.BEFORE
    assert scene.sees(Begun(0)) == ()
    assert scene.status is SessionStatus.PENDING


def test_an_auto_step_goes_from_check_to_done_without_a_human() -> None:
    """kai FR19, FR20: one event for each observation."""
    scene = begun(step("plan"))
    (launched,) = scene.checked()
    assert launched.change is Change.LAUNCHED
    assert launched.entry == Entry(
        "plan", EntryStatus.IN_PROGRESS, Decision.AUTO, started_at=1000, launched_at=1000
    )
    assert scene.running == ("plan#1",)
    scene.sees(Returned(3500, "plan#1", Outcome(output="wrote plan.md", agent={"turns": 3})))
    assert scene.last.returned_at == 3500
    assert scene.check.id == "after:plan#1.0"
    scene.now = 4000
    (done,) = scene.checked()
    assert done.change is Change.DONE
    assert done.entry == Entry(
        "plan",
        EntryStatus.DONE,
        Decision.AUTO,
        started_at=1000,
        completed_at=5000,
        returned_at=3500,
        evidence=("plan_exists: plan_exists.md, 3 lines",),
        output="wrote plan.md",
        agent={"turns": 3},
    )
    assert scene.ended is SessionStatus.COMPLETED


def test_a_step_without_conditions_is_checked_too() -> None:
    scene = begun(step(pre=(), post=()))
    scene.checked(a=Report())
    scene.returned()
    assert scene.check.id == "after:a#1.0"
    scene.checked(a=Report())
    assert scene.ended is SessionStatus.COMPLETED
    assert scene.last.evidence == ()


def test_a_skip_step_is_journaled_as_skipped_and_never_runs() -> None:
    """kai FR21: it has a check too, but its preconditions do not matter."""
    scene = begun(step("qa", autonomy=Autonomy.SKIP), step("pr"))
    scene.checked(qa=missing("spec_exists"))
    assert scene.last == Entry(
        "qa", EntryStatus.SKIPPED, Decision.SKIPPED, started_at=1000, completed_at=1000
    )
    assert scene.check.id == "before:pr#1.0"
    assert steps_done(scene.state) == 1


def test_steps_run_in_the_order_of_the_playbook() -> None:
    """kai FR1; cat FR-3.1, FR-3.2: a later step is not due before the earlier one is settled."""
    scene = begun(step("a"), step("b"), step("c"))
    for name in "abc":
        assert scene.check.id == f"before:{name}#1.0"
        assert current_step(scene.state) == name
        scene.worked()
        scene.checked()
    assert [entry.step_id for entry in scene.journal] == ["a", "b", "c"]
    assert scene.ended is SessionStatus.COMPLETED
    assert current_step(scene.state) == ""
    assert steps_done(scene.state) == 3


# ── preconditions ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("policy", [ErrorPolicy.STOP, ErrorPolicy.RETRY_ONCE])
def test_a_failing_precondition_fails_the_step_before_it_runs(policy: ErrorPolicy) -> None:
    """kai FR18, FR29: a retry cannot help a check of the file system; no trigger fires."""
    both = (Condition.SPEC_EXISTS, Condition.PLAN_EXISTS, Condition.TASKS_EXISTS)
    scene = begun(step(policy=policy, pre=both, triggers=tuple(Trigger)))
    found = missing("spec_exists", "plan_exists").conditions + held("tasks_exists").conditions
    scene.checked(a=Report(found, (breaking(), verdict())))
    assert scene.ended is SessionStatus.FAILED
    assert scene.last == Entry(
        "a",
        EntryStatus.FAILED,
        Decision.AUTO,
        started_at=1000,
        completed_at=1000,
        error="spec_exists: spec_exists.md is missing; plan_exists: plan_exists.md is missing",
        error_code="PB-COND-PRECONDITION",
        evidence=("tasks_exists: tasks_exists.md, 3 lines",),
    )
    assert not scene.last.ran


def test_a_precondition_that_cannot_be_checked_counts_as_failed() -> None:
    scene = begun(step())
    scene.checked(a=Report((Probed("spec_exists", Answer.ERROR, "permission denied"),)))
    assert scene.ended is SessionStatus.FAILED
    assert scene.last.error == "spec_exists: permission denied"


def test_a_precondition_that_fails_at_the_retry_ends_the_session() -> None:
    scene = begun(step(policy=ErrorPolicy.RETRY_ONCE))
    scene.worked()
    scene.checked(a=missing("plan_exists"))
    scene.checked(a=missing("spec_exists"))
    assert scene.ended is SessionStatus.FAILED
    assert [entry.error_code for entry in scene.journal] == [
        "PB-COND-POSTCONDITION",
        "PB-COND-PRECONDITION",
    ]


# ── the return ────────────────────────────────────────────────────────────────────────────


def test_a_return_is_journaled_with_its_error_before_it_is_judged() -> None:
    """cat FR-4.11, E-7: code, message, guidance and cause as the worker gave them."""
    scene = begun(step())
    scene.worked(Failure("PB-AGENT-CRASHED", "it died", "start it again", "signal 9"))
    entry = scene.last
    assert entry.status is EntryStatus.IN_PROGRESS
    assert entry.returned_at == 2000
    assert (entry.error_code, entry.error) == ("PB-AGENT-CRASHED", "it died")
    assert (entry.error_guidance, entry.error_cause) == ("start it again", "signal 9")
    assert entry.erred


def test_a_repeated_report_is_taken_in_and_changes_nothing() -> None:
    scene = begun(step("a"), step("b"))
    scene.worked()
    again = Returned(9000, "a#1", Outcome(AGENT_FAILED))
    before = scene.state
    assert scene.sees(again) == ()
    scene.checked()
    assert scene.sees(again) == ()
    scene.worked()
    assert scene.sees(again) == ()
    assert before.entries[0].error == ""
    assert not again.outcome.ok
    assert scene.entry("a#1").error == ""


def test_a_report_of_a_retried_attempt_is_not_a_report_of_the_next_one() -> None:
    scene = begun(step(policy=ErrorPolicy.RETRY_ONCE))
    scene.worked()
    scene.checked(a=missing("plan_exists"))
    scene.checked()
    assert scene.sees(Returned(9000, "a#1", Outcome())) == ()
    assert scene.running == ("a#2",)


def test_a_report_of_an_attempt_that_never_was_is_refused_also_for_a_settled_step() -> None:
    scene = begun(step(policy=ErrorPolicy.RETRY_ONCE), step("b"), step("c"))
    scene.worked()
    scene.checked(a=missing("plan_exists"))
    scene.worked()
    scene.checked()
    scene.worked()
    scene.checked()
    for real in ("a#1", "a#2", "b#1"):
        assert scene.sees(Returned(9000, real, Outcome())) == ()
    for unknown in ("a#3", "a#0", "a#02", "b#2", "c#2", "d#1"):
        with pytest.raises(StateError, match=f"{unknown} is not expected"):
            decide(scene.state, Returned(9000, unknown, Outcome()))
        with pytest.raises(StateError, match=f"{unknown} is not expected"):
            require_known(scene.state, unknown)


# ── postconditions and error policies ─────────────────────────────────────────────────────


@pytest.mark.parametrize("error", [None, AGENT_FAILED, STEP_FAILED])
def test_a_failing_postcondition_outweighs_the_success_of_the_agent(error: Failure | None) -> None:
    """kai FR19, FR29: `stop` stops."""
    scene = begun(step(), step("b"))
    scene.worked(error)
    scene.checked(a=missing("plan_exists"))
    assert scene.ended is SessionStatus.FAILED
    failing = "plan_exists: plan_exists.md is missing"
    assert scene.last.error == (f"{error.message}; {failing}" if error else failing)
    assert scene.last.error_code == (error.code if error else "PB-COND-POSTCONDITION")
    assert scene.last.decision is Decision.AUTO
    assert steps_done(scene.state) == 0


def test_a_worker_error_fails_the_step_even_if_all_postconditions_hold() -> None:
    scene = begun(step())
    scene.worked(STEP_FAILED)
    scene.checked()
    assert scene.ended is SessionStatus.FAILED
    assert (scene.last.error_code, scene.last.error) == ("PB-STEP-FAILED", "exit status 1")
    assert scene.last.evidence == ("plan_exists: plan_exists.md, 3 lines",)


def test_retry_once_tries_again_at_once_and_then_stops() -> None:
    """kai FR30."""
    scene = begun(step(policy=ErrorPolicy.RETRY_ONCE))
    scene.worked(AGENT_FAILED)
    scene.checked()
    assert scene.last.status is EntryStatus.FAILED
    assert scene.status is SessionStatus.IN_PROGRESS
    assert scene.check.id == "before:a#2.0"
    scene.worked()
    scene.checked(a=missing("plan_exists"))
    assert scene.ended is SessionStatus.FAILED
    assert [entry.attempt for entry in scene.journal] == [1, 2]


@pytest.mark.parametrize(
    ("triggers", "ended"),
    [((), SessionStatus.FAILED), ((Trigger.SUBAGENT_ERROR,), SessionStatus.IN_PROGRESS)],
)
def test_only_a_human_retries_a_lasting_error(
    triggers: tuple[Trigger, ...], ended: SessionStatus
) -> None:
    """A missing permission or a used-up limit would make the second attempt fail too."""
    lasting = Failure("PB-AGENT-PERMISSION", "not permitted", lasts=True)
    scene = begun(step(policy=ErrorPolicy.RETRY_ONCE, triggers=triggers))
    scene.worked(lasting)
    scene.checked()
    assert (scene.status, scene.last.error_lasts) == (ended, True)
    if triggers:
        scene.says("retry")
    else:
        scene.taken_up()
    scene.worked(AGENT_FAILED)
    scene.checked()
    assert scene.last.error_lasts is False
    if not triggers:
        assert scene.check.id == "before:a#3.0"  # the automatic one is still in store


def test_an_error_that_a_human_has_fixed_no_longer_counts_as_lasting() -> None:
    lasting = Failure("PB-AGENT-PERMISSION", "not permitted", lasts=True)
    scene = begun(step(policy=ErrorPolicy.RETRY_ONCE, triggers=(Trigger.SUBAGENT_ERROR,)))
    scene.worked(lasting)
    scene.checked()
    scene.says("continue")
    scene.checked(a=missing("plan_exists"))
    assert (scene.last.error_code, scene.last.error_lasts) == ("PB-COND-POSTCONDITION", False)


def test_a_retry_that_succeeds_leaves_both_attempts_in_the_journal() -> None:
    """kai FR37: one entry per attempt."""
    scene = begun(step(policy=ErrorPolicy.RETRY_ONCE))
    scene.worked(AGENT_FAILED)
    scene.checked()
    scene.worked()
    scene.checked()
    assert scene.ended is SessionStatus.COMPLETED
    assert [entry.status for entry in scene.journal] == [EntryStatus.FAILED, EntryStatus.DONE]
    assert scene.last.decision is Decision.AUTO


def test_a_gate_passed_before_the_work_does_not_use_up_the_retry() -> None:
    """The human allowed the run, which says nothing about a failure."""
    scene = begun(step(autonomy=Autonomy.GATE_ALWAYS, policy=ErrorPolicy.RETRY_ONCE))
    scene.checked()
    scene.says("continue")
    scene.worked(AGENT_FAILED)
    scene.checked()
    assert scene.check.id == "before:a#2.1"
    scene.worked(AGENT_FAILED)
    scene.checked()
    assert scene.ended is SessionStatus.FAILED
    assert len(scene.journal) == 2


def test_automatic_attempts_are_counted_across_the_retry_of_a_human() -> None:
    """kai FR30: 1 + 1 in the whole session, even if a person adds more."""
    scene = begun(step(policy=ErrorPolicy.RETRY_ONCE))
    for _ in range(2):
        scene.worked(AGENT_FAILED)
        scene.checked()
    scene.taken_up()
    scene.worked(AGENT_FAILED)
    scene.checked()
    assert scene.ended is SessionStatus.FAILED
    assert [entry.attempt for entry in scene.journal] == [1, 2, 3]


def test_the_retry_of_a_human_does_not_use_up_the_automatic_one() -> None:
    scene = begun(step(policy=ErrorPolicy.RETRY_ONCE, triggers=(Trigger.SUBAGENT_ERROR,)))
    scene.worked(AGENT_FAILED)
    scene.checked()
    scene.says("retry")
    scene.worked()
    scene.checked(a=missing("plan_exists"))
    assert scene.check.id.startswith("before:a#3.")


# ── what a later step relies on ───────────────────────────────────────────────────────────


def accepted(*, as_waived: bool) -> Scene:
    """A session at its second step; the first was accepted without its postcondition."""
    scene = begun(
        step("a", policy=ErrorPolicy.GATE),
        step("b", pre=(Condition.PLAN_EXISTS,), policy=ErrorPolicy.STOP),
    )
    scene.worked()
    scene.checked(a=missing("plan_exists"))
    scene.says("accept")
    scene.checked(b=missing("plan_exists", as_waived=as_waived))
    return scene


def test_a_waiver_of_one_step_is_asked_about_again_at_the_next_that_needs_it() -> None:
    """Under any error policy: `stop` would end the session, and no waiver applies unasked."""
    scene = accepted(as_waived=True)
    assert scene.entry("a#1").waived == ("plan_exists",)
    assert (scene.gate.id, scene.gate.reason) == ("b#1?1", GateReason.PRECONDITION_FAIL)
    assert scene.last.error.endswith("plan_exists.md is missing (waived for an earlier step)")
    scene.says("accept")
    scene.checked(b=missing("plan_exists"))
    assert scene.running == ("b#1",)
    assert scene.last.waived == ("plan_exists",)


def test_what_was_accepted_for_a_step_holds_for_its_later_attempts() -> None:
    scene = accepted(as_waived=True)
    scene.says("accept")
    scene.checked(b=missing("plan_exists"))
    scene.lost("b#1")
    scene.checked(b=missing("plan_exists"))
    assert scene.running == ("b#2",)
    assert scene.last.waived == ("plan_exists",)


def test_after_a_continue_that_fixed_nothing_the_question_is_asked_again() -> None:
    """Also where the evidence is another one by now, which the policy `stop` would not forgive."""
    for as_waived in (True, False):
        scene = accepted(as_waived=True)
        scene.says("continue")
        scene.checked(b=missing("plan_exists", as_waived=as_waived))
        assert scene.gate.id == "b#1?2"


def test_a_waiver_does_not_soften_another_failing_precondition() -> None:
    scene = begun(
        step("a", policy=ErrorPolicy.GATE),
        step("b", pre=(Condition.PLAN_EXISTS, Condition.SPEC_EXISTS), policy=ErrorPolicy.STOP),
    )
    scene.worked()
    scene.checked(a=missing("plan_exists"))
    scene.says("accept")
    scene.checked(b=missing("plan_exists", "spec_exists"))
    assert scene.ended is SessionStatus.FAILED


def test_a_waiver_ends_where_the_evidence_has_changed() -> None:
    scene = accepted(as_waived=False)
    assert scene.ended is SessionStatus.FAILED
    assert scene.last.error_code == "PB-COND-PRECONDITION"


# ── times ─────────────────────────────────────────────────────────────────────────────────


def test_times_never_go_back_even_if_the_clock_does() -> None:
    scene = begun(step())
    scene.now = 10_000
    scene.checked()
    scene.now = 0
    scene.returned()
    scene.checked()
    entry = scene.last
    assert (entry.started_at, entry.returned_at, entry.completed_at) == (11_000, None, 11_000)


# ── replaying and refusing ────────────────────────────────────────────────────────────────


def test_replaying_a_journal_gives_the_state_that_wrote_it() -> None:
    scene = begun(step("a"), step("b", policy=ErrorPolicy.GATE))
    scene.worked()
    scene.checked()
    scene.worked()
    scene.checked(b=missing("plan_exists"))
    assert replay(scene.playbook, scene.journal) == scene.state
    assert directive(replay(scene.playbook, scene.journal)) == scene.gate


def entry_of(name: str, attempt: int = 1, status: EntryStatus = EntryStatus.DONE) -> Entry:
    return Entry(name, status, Decision.AUTO, started_at=1, completed_at=2, attempt=attempt)


@pytest.mark.parametrize(
    ("entries", "recorded", "expected"),
    [
        ([entry_of("b")], "b#1", "a"),
        ([entry_of("zz")], "zz#1", "a"),
        ([entry_of("a", 2)], "a#2", "a#1"),
        ([entry_of("a", 1, EntryStatus.FAILED), entry_of("a", 2)], "a#2", "which is failed"),
        ([entry_of("a"), entry_of("a", 2)], "a#2", "expects b"),
        ([entry_of("a"), entry_of("b"), entry_of("b", 2)], "b#2", "nothing more"),
    ],
)
def test_a_journal_that_cannot_be_a_history_of_the_playbook_is_refused(
    entries: list[Entry], recorded: str, expected: str
) -> None:
    with pytest.raises(StateError) as refusal:
        replay(book(step("a"), step("b")), entries)
    assert refusal.value.code == "PB-STATE-DIVERGED"
    assert recorded in refusal.value.message
    assert expected in refusal.value.message


def test_a_refusal_names_what_was_given_and_what_is_outstanding() -> None:
    scene = begun(step("plan"))
    before = scene.state
    with pytest.raises(StateError) as refusal:
        scene.sees(Returned(0, "plan#1", Outcome()))
    assert refusal.value.code == "PB-STATE-REFUSED"
    assert refusal.value.message == (
        "plan#1 is not expected; outstanding is the check before:plan#1.0"
    )
    assert scene.state is before


def test_a_stale_check_is_refused_after_a_gate_has_been_answered() -> None:
    """Its id counts the gates, so that a slow process cannot answer a later check."""
    scene = begun(step(autonomy=Autonomy.GATE_ALWAYS))
    stale = Checked(9000, scene.check.id, {"a": held("spec_exists")})
    scene.checked()
    scene.says("continue")
    assert scene.check.id == "before:a#1.1"
    with pytest.raises(StateError, match=r"before:a#1\.0 is not expected"):
        scene.sees(stale)


def test_a_check_that_leaves_a_member_out_is_refused() -> None:
    scene = begun(step("a", group="g"), step("b", group="g"))
    with pytest.raises(StateError, match="outstanding is the check"):
        scene.sees(Checked(0, scene.check.id, {"a": held("spec_exists")}))


def test_every_directive_has_a_short_description() -> None:
    scene = begun(step(policy=ErrorPolicy.GATE))
    said = [describe(scene.asked)]
    scene.checked()
    said.append(describe(scene.asked))
    scene.returned()
    scene.checked(a=missing("plan_exists"))
    said.append(describe(scene.asked))
    scene.says("abort")
    said.append(describe(scene.asked))
    assert said == [
        "the check before:a#1.0",
        "the work of a#1",
        "the gate a#1?1",
        "nothing: the session is aborted",
    ]


# ── cost ──────────────────────────────────────────────────────────────────────────────────


def calls(work: Callable[[], object]) -> int:
    """The number of Python calls: a measure of cost that does not depend on the machine's load."""
    count = 0

    def seen(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call"

    former = sys.getprofile()
    gc.disable()  # a collection calls back into Python
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(former)
        gc.enable()
    return count


def cost_of_the_last_step(length: int) -> int:
    scene = begun(*(step(f"s{number}") for number in range(length)))
    for _ in range(length - 1):
        scene.worked()
        scene.checked()

    def last() -> None:
        state: State = scene.state
        for _ in range(3):
            asked = directive(state)
            observation: Checked | Returned
            if isinstance(asked, Check):
                observation = Checked(9, asked.id, {asked.members[0].step.id: Report()})
            else:
                assert isinstance(asked, Run)
                observation = Returned(9, asked.members[0].id, Outcome())
            for event in decide(state, observation):
                state = evolve(state, event)

    return calls(last)


def test_the_last_of_a_thousand_steps_costs_as_much_as_the_last_of_ten() -> None:
    assert cost_of_the_last_step(1000) == cost_of_the_last_step(10)


def cost_of_a_group(size: int) -> int:
    scene = begun(*(step(f"s{number}", group="g") for number in range(size)))

    def all_of_it() -> None:
        scene.worked()
        scene.checked()

    cost = calls(all_of_it)
    assert scene.ended is SessionStatus.COMPLETED
    return cost


@pytest.mark.long
def test_the_cost_of_a_group_grows_at_most_with_its_square() -> None:
    """Each event looks at each member once: twice the group, four times the work."""
    assert cost_of_a_group(200) < 4.5 * cost_of_a_group(100)


def test_the_last_entry_of_a_settled_step_is_found_in_the_journal() -> None:
    """The state itself keeps only a summary of settled steps."""
    scene = begun(step("a", pre=(), post=(), policy=ErrorPolicy.RETRY_ONCE), step("b", pre=()))
    scene.worked(AGENT_FAILED)
    scene.checked()
    scene.worked()
    scene.checked()
    scene.checked()
    assert not scene.state.attempts("a")
    last = last_entries(scene.journal)
    assert [entry.id for entry in last.values()] == ["a#2", "b#1"]
    assert last["a"].status is EntryStatus.DONE


def test_a_finding_without_a_declared_trigger_opens_no_gate() -> None:
    scene = begun(step())
    scene.worked()
    scene.checked(a=Report(held("plan_exists").conditions, (breaking(Standing.NEW), verdict())))
    assert scene.ended is SessionStatus.COMPLETED
