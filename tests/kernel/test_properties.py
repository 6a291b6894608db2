"""The ten properties of every playbook and every history, tested on generated ones."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from kernel import laws
from kernel.laws import Known, Moment, moment
from kernel.world import POLICIES, POST, PRE, Journal, any_legal, book, step
from playbook_supervisor.kernel.directives import Checked
from playbook_supervisor.kernel.machine import status, steps_done
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.state import State
from playbook_supervisor.kernel.vocabulary import Autonomy, Trigger


@st.composite
def playbooks(draw: st.DrawFn) -> Playbook:
    """One to five steps; adjacent ones may share a group."""
    groups = draw(st.lists(st.sampled_from(["", "", "g", "h"]), min_size=1, max_size=5))
    return book(
        *(
            step(
                f"s{number}",
                autonomy=draw(st.sampled_from([*Autonomy])),
                policy=draw(st.sampled_from(POLICIES)),
                pre=draw(st.sampled_from([(), PRE])),
                post=draw(st.sampled_from([(), POST])),
                triggers=tuple(draw(st.sets(st.sampled_from([*Trigger])))),
                # a group's members are neighbours: the letter and where its run began
                group=group and f"{group}{_run(groups, number)}",
            )
            for number, group in enumerate(groups)
        )
    )


def _run(groups: list[str], number: int) -> int:
    while number and groups[number - 1] == groups[number]:
        number -= 1
    return number


CHOICES = st.lists(st.integers(0, 2**16), max_size=80)


def history(playbook: Playbook, choices: list[int]) -> Iterator[Moment]:
    """The moments that these choices lead to; the clock sometimes goes back."""
    drawn = iter(choices)
    state, at = State(playbook), 0
    journal: Journal = ()
    try:
        while True:
            at += next(drawn) % 9 - 2
            said = any_legal(state, at, lambda among: next(drawn) % among)
            now = moment(Known.of(state, journal), said)
            yield now
            state, journal = now.after, now.written
    except StopIteration:
        return


def holds(law: laws.Law, playbook: Playbook, choices: list[int]) -> None:
    for now in history(playbook, choices):
        law(now)


@given(playbooks(), CHOICES)
def test_a_session_is_never_stuck(playbook: Playbook, choices: list[int]) -> None:
    """Property 1."""
    holds(laws.never_stuck, playbook, choices)


@given(playbooks(), CHOICES)
def test_the_journal_replays_to_the_state_after_every_write(
    playbook: Playbook, choices: list[int]
) -> None:
    """Property 2; kai NFR1, NFR2; cat FR-7.1."""
    holds(laws.replayable, playbook, choices)


@given(playbooks(), CHOICES)
def test_asking_twice_gives_the_same_directive(playbook: Playbook, choices: list[int]) -> None:
    """Property 3."""
    holds(laws.a_query, playbook, choices)


@given(playbooks(), CHOICES)
def test_an_unexpected_observation_is_refused_and_changes_nothing(
    playbook: Playbook, choices: list[int]
) -> None:
    """Property 4."""
    for now in history(playbook, choices):
        laws.refuses(now.after, now.written, now.observation.at)


@given(playbooks(), CHOICES)
def test_no_step_starts_early_or_is_skipped_without_a_reason(
    playbook: Playbook, choices: list[int]
) -> None:
    """Property 5; cat FR-3.2."""
    holds(laws.in_order, playbook, choices)


@given(playbooks(), CHOICES)
def test_a_gate_is_passed_only_by_an_answer_that_names_it(
    playbook: Playbook, choices: list[int]
) -> None:
    """Property 6; cat FR-6.2, SC-2."""
    holds(laws.passed_by_a_human, playbook, choices)


@given(playbooks(), CHOICES)
def test_a_trigger_that_fires_raises_a_gate_and_escalated_entries_name_theirs(
    playbook: Playbook, choices: list[int]
) -> None:
    """Property 7; kai FR27, FR39, S-M2."""
    holds(laws.escalated, playbook, choices)


@given(playbooks(), CHOICES)
def test_a_policy_begins_no_more_automatic_attempts_than_it_says(
    playbook: Playbook, choices: list[int]
) -> None:
    """Property 8."""
    holds(laws.retried_as_allowed, playbook, choices)


@given(playbooks(), CHOICES)
def test_a_retry_waits_until_a_time_that_the_journal_knows(
    playbook: Playbook, choices: list[int]
) -> None:
    holds(laws.waits, playbook, choices)


@given(playbooks(), CHOICES)
def test_only_a_policy_forgives_a_failure_and_every_one_is_counted(
    playbook: Playbook, choices: list[int]
) -> None:
    holds(laws.forgiven, playbook, choices)


@given(playbooks(), CHOICES)
def test_entries_are_in_the_order_of_their_start_and_never_end_before_it(
    playbook: Playbook, choices: list[int]
) -> None:
    """Property 9."""
    holds(laws.in_time, playbook, choices)


@given(playbooks(), CHOICES)
def test_only_playbook_journal_and_observation_decide(
    playbook: Playbook, choices: list[int]
) -> None:
    """The kernel's part of property 10; kai NFR4."""
    holds(laws.nothing_else_counts, playbook, choices)


@given(playbooks(), CHOICES)
def test_the_keys_of_every_entry_agree_and_every_transition_is_in_the_table(
    playbook: Playbook, choices: list[int]
) -> None:
    """kai FR37, D-JT."""
    for now in history(playbook, choices):
        laws.well_formed(now)
        laws.rows(now)


@given(playbooks(), CHOICES)
def test_a_check_is_never_asked_twice_under_one_id(playbook: Playbook, choices: list[int]) -> None:
    """So a late answer of a slow process never fits a later check."""
    answered = [
        now.observation.id
        for now in history(playbook, choices)
        if isinstance(now.observation, Checked)
    ]
    assert len(answered) == len(set(answered))


@given(playbooks(), CHOICES)
def test_progress_never_exceeds_the_playbook_and_is_complete_at_the_end(
    playbook: Playbook, choices: list[int]
) -> None:
    for now in history(playbook, choices):
        done = steps_done(now.after)
        assert steps_done(now.before) <= done <= len(playbook.steps)
        assert (done == len(playbook.steps)) == (status(now.after) == "completed")
