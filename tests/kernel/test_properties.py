"""The laws of every playbook and every history, tested on generated ones."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from kernel import laws
from kernel.laws import Known, Moment, moment
from kernel.world import POLICIES, POST, PRE, Journal, any_legal, book, step
from playbook_supervisor.kernel.directives import Checked
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.phases import status, steps_done
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


def refuses(now: Moment) -> None:
    laws.refuses(now.after, now.written, now.observation.at)


LAWS = (*laws.LAWS, laws.a_query, laws.nothing_else_counts, laws.rows, refuses)


@given(playbooks(), CHOICES)
def test_every_law_holds(playbook: Playbook, choices: list[int]) -> None:
    """kai FR27, FR37, FR39, NFR1, NFR2, NFR4, S-M2, D-JT; cat FR-3.2, FR-6.2, FR-7.1, SC-2."""
    for now in history(playbook, choices):
        for law in LAWS:
            law(now)


@given(playbooks(), CHOICES)
def test_no_check_is_asked_twice_under_one_id_and_progress_ends_with_the_playbook(
    playbook: Playbook, choices: list[int]
) -> None:
    """So a late answer of a slow process never fits a later check."""
    answered = []
    for now in history(playbook, choices):
        if isinstance(now.observation, Checked):
            answered.append(now.observation.id)
        done = steps_done(now.after)
        assert steps_done(now.before) <= done <= len(playbook.steps)
        assert (done == len(playbook.steps)) == (status(now.after) == "completed")
    assert len(answered) == len(set(answered))
