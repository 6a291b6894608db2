"""Loops: a step is repeated for each item of a list, or until something holds."""

from __future__ import annotations

from typing import Any

import pytest

from kernel.world import AGENT_FAILED, Scene, book, held, missing, no_items, not_yet, passed, step
from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.directives import (
    Answer,
    Begun,
    Cancellation,
    Checked,
    Outcome,
    Probed,
    Report,
    Returned,
)
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.machine import decide, replay, require_known
from playbook_supervisor.kernel.model import Loop, OnFail, Step, item_number
from playbook_supervisor.kernel.phases import failures, steps_done
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    Condition,
    EntryStatus,
    SessionStatus,
    Trigger,
)
from playbook_supervisor.records import replace

LOOP = Loop("$list.json", "task", most=5)
TWO_AT_ONCE = replace(LOOP, at_once=2)
DONE = Condition.TASKS_DONE
BUILD = step("build", pre=(), post=(), for_each=LOOP)


def loop(build: Step = BUILD) -> Scene:
    return Scene(book(build, step("z", pre=(), post=())))


def asks(scene: Scene) -> tuple[str, ...]:
    return tuple(member.id for member in scene.check.members)


def runs(scene: Scene) -> tuple[str, ...]:
    return scene.running


def run(scene: Scene) -> None:
    """What is launched returns, and is judged."""
    scene.returned()
    scene.checked()


def test_all_items_run_again_where_a_later_step_sends_back_to_their_loop() -> None:
    """Also if there are fewer by now, or more."""
    judge = step("judge", pre=(), policy=ErrorPolicy.GATE, on_fail=OnFail("build", times=0))
    scene = Scene(book(BUILD, judge))
    scene.lists(2)
    run(scene)
    scene.checked()
    run(scene)
    scene.worked()
    scene.checked(judge=missing(*judge.postconditions))
    scene.says("back")
    assert scene.check.id == "before:build#1.0"
    scene.lists(1)
    assert runs(scene) == ("build[1]#2",)
    run(scene)
    assert asks(scene) == ("judge#2",)
    assert replay(scene.playbook, scene.journal) == scene.state


# ── items ─────────────────────────────────────────────────────────────────────────────────


def test_a_loop_is_checked_as_one_step_until_its_items_are_known() -> None:
    scene = loop()
    assert scene.check.id == "before:build#1.0"
    scene.lists(3)
    assert runs(scene) == ("build[1]#1",)
    assert (scene.last.items, scene.last.id) == (3, "build[1]#1")


def test_items_run_one_after_the_other() -> None:
    scene = loop()
    scene.lists(3)
    run(scene)
    assert asks(scene) == ("build[2]#1",)
    scene.checked()
    run(scene)
    scene.checked()
    run(scene)
    assert [entry.id for entry in scene.journal] == ["build[1]#1", "build[2]#1", "build[3]#1"]
    assert asks(scene) == ("z#1",)


def test_items_run_as_many_at_once_as_the_loop_says() -> None:
    scene = loop(replace(BUILD, for_each=TWO_AT_ONCE))
    scene.lists(3)
    assert runs(scene) == ("build[1]#1", "build[2]#1")
    scene.returned("build[2]#1")
    assert runs(scene) == ("build[1]#1",)
    run(scene)
    scene.checked()
    assert runs(scene) == ("build[3]#1",)


def test_a_loop_is_one_step_of_the_progress_and_counts_its_items_by_itself() -> None:
    scene = loop()
    scene.lists(2)
    run(scene)
    assert (steps_done(scene.state), scene.state.items) == (0, 2)
    scene.checked()
    run(scene)
    assert (steps_done(scene.state), scene.state.items) == (1, 0)


def test_the_journal_keeps_what_the_check_said_of_an_item() -> None:
    scene = loop()
    scene.lists(2, s1=Report(item="src/a.py"))
    assert scene.last.item == "src/a.py"


def test_a_loop_without_items_is_skipped() -> None:
    scene = loop()
    scene.checked(build=Report(passed_over="for_each: no items in $list.json"))
    assert (scene.last.id, scene.last.status) == ("build#1", EntryStatus.SKIPPED)
    assert asks(scene) == ("z#1",)


@pytest.mark.parametrize("policy", [ErrorPolicy.STOP, ErrorPolicy.GATE, ErrorPolicy.RETRY_ONCE])
def test_a_list_that_cannot_be_used_fails_the_step_without_a_gate(policy: ErrorPolicy) -> None:
    """A person cannot change it: the step that made the list is settled."""
    scene = loop(replace(BUILD, error_policy=policy))
    scene.checked(build=no_items())
    assert (scene.last.error_code, scene.ended) == ("PB-STEP-ITEMS", SessionStatus.FAILED)


def test_a_loop_that_failed_for_its_list_can_be_taken_up() -> None:
    scene = loop()
    scene.checked(build=no_items())
    scene.taken_up()
    assert scene.check.id == "before:build#2.0"
    scene.lists(1)
    run(scene)
    assert [entry.id for entry in scene.journal] == ["build#1", "build[1]#1"]
    assert replay(scene.playbook, scene.journal) == scene.state


def test_a_list_that_cannot_be_used_can_be_tolerated() -> None:
    scene = loop(replace(BUILD, error_policy=ErrorPolicy.CONTINUE))
    scene.checked(build=no_items())
    assert asks(scene) == ("z#1",)
    assert failures(scene.state) == 1


@pytest.mark.parametrize("items", [-1, 6])
def test_more_items_than_the_loop_allows_are_refused(items: int) -> None:
    scene = loop()
    found = {f"build[{number}]": Report() for number in range(1, 8)}
    with pytest.raises(StateError, match=r"before:build#1\.0"):
        scene.sees(Checked(1, scene.check.id, found, items))


def test_an_item_that_fails_ends_the_session() -> None:
    scene = loop()
    scene.lists(3)
    scene.returned(error=AGENT_FAILED)
    scene.checked()
    assert scene.ended is SessionStatus.FAILED
    scene.taken_up()
    assert asks(scene) == ("build[1]#2",)


def test_an_item_that_fails_and_is_tolerated_lets_the_others_run() -> None:
    scene = loop(replace(BUILD, error_policy=ErrorPolicy.CONTINUE))
    scene.lists(2)
    scene.returned(error=AGENT_FAILED)
    scene.checked()
    assert asks(scene) == ("build[2]#1",)
    assert failures(scene.state) == 1


def test_each_item_has_its_own_retry() -> None:
    scene = loop(replace(BUILD, error_policy=ErrorPolicy.RETRY_ONCE))
    scene.lists(2)
    for attempts in (("build[1]#1", "build[1]#2"), ("build[2]#1", "build[2]#2")):
        assert runs(scene) == attempts[:1]
        scene.returned(error=AGENT_FAILED)
        scene.checked()
        assert asks(scene) == attempts[1:]
        scene.checked()
        run(scene)
        if attempts[0] == "build[1]#1":
            scene.checked()
    assert asks(scene) == ("z#1",)


def test_conditions_and_skip_if_are_asked_for_each_item() -> None:
    scene = loop(replace(BUILD, preconditions=(DONE,), error_policy=ErrorPolicy.GATE))
    scene.lists(2, s1=passed())
    assert scene.journal[0].status is EntryStatus.SKIPPED
    scene.checked(**{"build[2]": missing(DONE)})
    assert scene.gate.id == "build[2]#1?1"
    scene.says("skip")
    assert asks(scene) == ("z#1",)


def test_an_interrupted_item_runs_again_and_a_settled_one_does_not() -> None:
    scene = loop()
    scene.lists(3)
    run(scene)
    scene.checked()
    scene.lost("build[2]#1")
    assert asks(scene) == ("build[2]#2",)
    assert replay(scene.playbook, scene.journal) == scene.state


def test_an_abort_between_two_items_is_journaled_at_the_one_that_is_due() -> None:
    scene = loop()
    scene.lists(3)
    run(scene)
    scene.cancelled(Cancellation.ABORT)
    assert (scene.last.id, scene.last.items) == ("build[2]#1", 3)
    assert scene.ended is SessionStatus.ABORTED


def test_a_session_begins_behind_a_loop_but_never_inside_it() -> None:
    scene = loop()
    with pytest.raises(StateError):
        scene.sees(Begun(1, "build[2]"))
    scene.sees(Begun(1, "z"))
    assert (scene.last.id, scene.last.status) == ("build#1", EntryStatus.SKIPPED)


def test_a_report_of_a_settled_item_is_repeated_and_of_no_item_refused() -> None:
    scene = loop()
    scene.lists(2)
    run(scene)
    for over in (False, True):
        if over:
            scene.checked()
            run(scene)
        assert decide(scene.state, Returned(scene.now, "build[1]#1", Outcome())) == ()
        require_known(scene.state, "build[1]#1")
        for name in (
            "build[3]#1",
            "build[1]#2",
            "build[0]#1",
            "build[01]#1",
            "build[x]#1",
            "z[1]#1",
        ):
            with pytest.raises(StateError, match="is not expected"):
                decide(scene.state, Returned(scene.now, name, Outcome()))


# ── gates ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "asking",
    [
        {"autonomy": Autonomy.GATE_ALWAYS},
        {"approval": True},
        {"tools": ("Write",)},
        {"tools": ("Write",), "autonomy": Autonomy.GATE_ALWAYS},
    ],
)
def test_the_gate_of_a_loop_is_asked_once_for_all_its_items(asking: dict[str, Any]) -> None:
    scene = loop(replace(BUILD, for_each=TWO_AT_ONCE, **asking))
    scene.lists(3)
    assert scene.gate.id == "build[1]#1?1"
    assert [entry.id for entry in scene.journal] == ["build[1]#1"]
    scene.says("continue")
    scene.checked()
    assert runs(scene) == ("build[1]#1", "build[2]#1")
    run(scene)
    scene.checked()
    assert runs(scene) == ("build[3]#1",)
    assert replay(scene.playbook, scene.journal) == scene.state


def test_a_person_who_skips_a_loop_at_its_gate_skips_all_items() -> None:
    scene = loop(replace(BUILD, for_each=TWO_AT_ONCE, autonomy=Autonomy.GATE_ALWAYS))
    scene.lists(5)
    scene.says("skip")
    assert [entry.id for entry in scene.journal] == ["build[1]#1"]
    assert asks(scene) == ("z#1",)
    assert steps_done(scene.state) == 1
    assert replay(scene.playbook, scene.journal) == scene.state


def test_the_gate_of_a_loop_is_asked_at_the_first_item_that_is_not_passed_over() -> None:
    scene = loop(replace(BUILD, autonomy=Autonomy.GATE_ALWAYS))
    scene.lists(3, s1=passed())
    scene.checked()
    assert scene.gate.id == "build[2]#1?1"


# ── until ─────────────────────────────────────────────────────────────────────────────────

REPEATED = step("build", pre=(), post=(), until=(DONE,), rounds=3)


def test_a_step_runs_again_until_its_conditions_hold() -> None:
    scene = loop(REPEATED)
    scene.worked()
    scene.checked(build=not_yet(DONE))
    assert (scene.last.status, scene.last.error_code) == (EntryStatus.FAILED, "PB-COND-UNTIL")
    assert asks(scene) == ("build#2",)
    scene.worked()
    scene.checked(build=held(DONE))
    assert (scene.last.id, scene.last.status) == ("build#2", EntryStatus.DONE)


def rounds(scene: Scene, number: int) -> None:
    for _ in range(number):
        scene.worked()
        scene.checked(build=not_yet(DONE))


def test_after_its_last_round_what_does_not_hold_is_a_failed_postcondition() -> None:
    scene = loop(REPEATED)
    rounds(scene, 3)
    assert [entry.error_code for entry in scene.journal] == [
        "PB-COND-UNTIL",
        "PB-COND-UNTIL",
        "PB-COND-POSTCONDITION",
    ]
    assert scene.ended is SessionStatus.FAILED


def test_a_trigger_fires_after_the_last_round_only() -> None:
    scene = loop(replace(REPEATED, escalation_triggers=(Trigger.POSTCONDITION_FAIL,)))
    rounds(scene, 3)
    assert scene.gate.id == "build#3?1"
    scene.says("retry")
    rounds(scene, 1)
    assert scene.gate.id == "build#4?1"


def test_rounds_use_up_no_retries() -> None:
    scene = loop(replace(REPEATED, error_policy=ErrorPolicy.RETRY_ONCE))
    rounds(scene, 4)
    assert [entry.error_code for entry in scene.journal][2:] == ["PB-COND-POSTCONDITION"] * 2
    assert scene.ended is SessionStatus.FAILED


def test_a_round_that_was_lost_counts_as_none() -> None:
    scene = loop(REPEATED)
    scene.checked()
    scene.lost("build#1")
    rounds(scene, 2)
    assert asks(scene) == ("build#4",)


def test_a_failure_of_another_kind_is_no_round() -> None:
    scene = loop(replace(REPEATED, postconditions=(Condition.PLAN_EXISTS,)))
    scene.worked()
    both = (*not_yet(DONE).conditions, *missing(Condition.PLAN_EXISTS).conditions)
    scene.checked(build=Report(both))
    assert (scene.last.error_code, scene.ended) == ("PB-COND-POSTCONDITION", SessionStatus.FAILED)


def test_a_person_who_mends_the_rest_lets_the_next_round_begin() -> None:
    scene = loop(
        replace(REPEATED, postconditions=(Condition.PLAN_EXISTS,), error_policy=ErrorPolicy.GATE)
    )
    scene.worked()
    scene.checked(build=missing(Condition.PLAN_EXISTS))
    scene.says("continue")
    scene.checked(build=not_yet(DONE))
    assert asks(scene) == ("build#2",)


def test_each_item_of_a_loop_has_its_own_rounds() -> None:
    scene = loop(replace(REPEATED, for_each=LOOP))
    scene.lists(2)
    scene.returned()
    scene.checked(**{"build[1]": not_yet(DONE)})
    assert asks(scene) == ("build[1]#2",)


# ── journals that this program did not write ──────────────────────────────────────────────


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"items": 0}, id="no number of items"),
        pytest.param({"items": 6}, id="more than the loop allows"),
        pytest.param({"items": 3}, id="another number than before"),
        pytest.param({"step_id": "build[1]"}, id="the first item again"),
        pytest.param({"step_id": "z[1]"}, id="an item of no loop"),
        pytest.param({"step_id": "build[01]"}, id="no item"),
    ],
)
def test_a_journal_whose_items_do_not_fit_diverges(changed: dict[str, Any]) -> None:
    scene = loop(replace(BUILD, for_each=TWO_AT_ONCE))
    scene.lists(2)
    first, second = scene.journal
    with pytest.raises(StateError, match="the journal records"):
        replay(scene.playbook, [first, replace(second, **changed)])


def test_a_journal_that_begins_inside_a_loop_diverges() -> None:
    scene = loop()
    scene.lists(2)
    with pytest.raises(StateError, match="the journal records"):
        replay(scene.playbook, [replace(scene.last, step_id="build[2]")])


def test_a_step_that_is_no_loop_has_no_items() -> None:
    scene = loop(step("build", pre=(), post=()))
    scene.checked()
    with pytest.raises(StateError, match="the journal records"):
        replay(scene.playbook, [replace(scene.last, items=2)])


@pytest.mark.parametrize(
    "name", ["build", "build[0]", "build[01]", "build[²]", "build[1", "build[1]]"]
)
def test_only_a_number_from_1_in_brackets_names_an_item(name: str) -> None:
    assert item_number(name) == 0


def test_data_that_when_lacks_fail_a_loop_without_a_gate() -> None:
    scene = loop(replace(BUILD, when="$list.json.ok", error_policy=ErrorPolicy.GATE))
    lacking = Probed("when", Answer.ERROR, "no such output", code="PB-STEP-DATA")
    scene.checked(build=Report((lacking,)))
    assert (scene.last.error_code, scene.ended) == ("PB-STEP-DATA", SessionStatus.FAILED)


def test_a_loop_of_which_a_check_says_nothing_is_passed_over_and_never_run_itself() -> None:
    scene = loop()
    scene.sees(Checked(scene.tick(), scene.check.id, {"build": Report()}))
    assert (scene.last.step_id, scene.last.status) == ("build", EntryStatus.SKIPPED)
