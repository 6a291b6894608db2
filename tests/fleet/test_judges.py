"""The judges of the fleet find each fault that they are there for, and accept what is right."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.controlled_time import eventually

from fleet import chains, ledger
from fleet.chains import Answer, Chain, Link

ONE, OTHER = "20261125-aaa", "20261125-bbb"


def line(event: str, at: float, directive: str = "plan#1", **given: str) -> str:
    session, machine = given.get("session", ONE), given.get("machine", "m1")
    step = directive.partition("#")[0]
    return f"{event} {session} {step} {directive} {given.get('pid', '7')} {at} {machine}"


def worked(begin: float, end: float, directive: str = "plan#1", **given: str) -> list[str]:
    return [*cut(begin, end - 1, directive, **given), line("end", end, directive, **given)]


def cut(begin: float, last: float, directive: str = "plan#1", **given: str) -> list[str]:
    beats = [begin + number for number in range(1, int(last - begin) + 1)]
    alive = [line("alive", beat, directive, **given) for beat in (*beats, last)]
    return [line("begin", begin, directive, **given), *alive]


class TestTheLedger:
    def test_says_who_worked_from_when_to_when(self) -> None:
        (found,) = ledger.attempts(worked(10.0, 12.5))
        assert (found.session, found.step, found.machine) == (ONE, "plan", "m1")
        assert (found.began, found.last, found.ended) == (10.0, 12.5, True)

    def test_is_refused_if_no_step_can_have_written_it(self) -> None:
        with pytest.raises(ValueError, match="has begun"):
            ledger.attempts([line("end", 10.0)])
        with pytest.raises(ValueError, match="twice"):
            ledger.attempts([line("begin", 10.0), line("begin", 11.0)])

    def test_is_what_the_program_of_the_steps_writes(self, tmp_path: Path) -> None:
        program, file = tmp_path / "step", tmp_path / "ledger"
        program.write_text(ledger.STEP)
        program.chmod(0o755)
        called = {
            "PLAYBOOK_SESSION": ONE,
            "PLAYBOOK_STEP": "plan",
            "PLAYBOOK_DIRECTIVE": "plan#2",
            "FLEET_LEDGER": str(file),
            "FLEET_MACHINE": "m1",
            "FLEET_WORK": "2",
        }
        before = ledger.now()
        with subprocess.Popen([program], env=os.environ | called, cwd=tmp_path):
            assert eventually(lambda: ledger.at_work(file) == {"m1"})
        assert ledger.at_work(file) == set()
        (found,) = ledger.read(file)
        assert (found.directive, found.number, found.ended) == ("plan#2", 2, True)
        assert before <= found.began < found.last <= ledger.now()
        assert round(found.last - found.began, 2) >= 2 * ledger.BEAT


class TestTwoAgentsAtOnce:
    def test_are_found_with_the_time_that_they_had_in_common(self) -> None:
        found = ledger.attempts(
            [*cut(10.0, 14.5), *worked(12.0, 20.0, "plan#2", pid="8", machine="m2")]
        )
        (overlap,) = ledger.overlaps(found)
        assert overlap.seconds == pytest.approx(2.5)
        assert "m1" in str(overlap)
        assert "m2" in str(overlap)

    def test_are_found_by_one_sign_of_life_after_a_thaw(self) -> None:
        late = line("alive", 30.0)
        successor = worked(25.0, 40.0, "plan#2", pid="8", machine="m2")
        (overlap,) = ledger.overlaps(ledger.attempts([*cut(10.0, 14.0), *successor, late]))
        assert (overlap.start, overlap.seconds) == (30.0, 0.0)

    def test_do_not_include_one_that_is_frozen(self) -> None:
        late = line("alive", 30.0)
        successor = worked(20.0, 25.0, "plan#2", pid="8", machine="m2")
        found = ledger.attempts([*cut(10.0, 14.0), *successor, late])
        assert found[0].periods == [(10.0, 14.0), (30.0, 30.0)]
        assert ledger.overlaps(found) == []

    def test_may_be_of_two_sessions(self) -> None:
        lines = [*worked(10.0, 14.0), *worked(12.0, 16.0, session=OTHER, pid="8")]
        assert ledger.overlaps(ledger.attempts(lines)) == []

    def test_may_follow_each_other(self) -> None:
        lines = [*worked(10.0, 14.0), *worked(14.0, 16.0, "tasks#1", pid="8")]
        assert ledger.overlaps(ledger.attempts(lines)) == []


class TestAnAttempt:
    def test_whose_id_two_processes_were_given_is_found(self) -> None:
        found = ledger.attempts([*cut(10.0, 11.0), *worked(20.0, 21.0, pid="8", machine="m2")])
        assert len(ledger.repeated(found)) == 1

    def test_that_begins_although_the_step_was_done_is_found(self) -> None:
        found = ledger.attempts([*worked(10.0, 11.0), *worked(12.0, 13.0, "plan#2", pid="8")])
        assert len(ledger.begun_after(found, {ONE: ["plan#1"]})) == 1

    def test_that_an_overtaken_worker_begins_late_is_found(self) -> None:
        found = ledger.attempts([*worked(10.0, 11.0, "plan#2"), *cut(12.0, 13.0, pid="8")])
        assert len(ledger.begun_after(found, {ONE: ["plan#2"]})) == 1

    def test_may_follow_one_that_was_cut_off_or_not_accepted(self) -> None:
        found = ledger.attempts([*cut(10.0, 11.0), *worked(12.0, 13.0, "plan#2", pid="8")])
        assert ledger.begun_after(found, {ONE: ["plan#2"]}) == []
        assert ledger.cut_off(found) == 1
        found = ledger.attempts([*worked(10.0, 11.0), *worked(12.0, 13.0, "plan#2", pid="8")])
        assert ledger.begun_after(found, {ONE: ["plan#2"]}) == []

    def test_that_is_done_by_the_journal_alone_is_found(self) -> None:
        found = ledger.attempts(cut(10.0, 11.0))
        assert len(ledger.not_worked(found, {ONE: ["plan#1"]})) == 1
        assert ledger.not_worked(ledger.attempts(worked(10.0, 11.0)), {ONE: ["plan#1"]}) == []


def test_the_most_at_once_is_counted_for_each_key() -> None:
    lines = [
        *worked(10.0, 14.0),
        *worked(12.0, 16.0, session=OTHER, pid="8"),
        *worked(14.0, 15.0, "tasks#1", pid="9"),
    ]
    found = ledger.attempts(lines)
    assert ledger.most_at_once(found, lambda each: each.session) == {ONE: 1, OTHER: 1}
    assert ledger.most_at_once(found, lambda _: "all") == {"all": 2}


# ── lines of commits ────────────────────────────────────────────────────────────────────────

FIRST = Link("c0", (), "snapshot", 0, "", "b")
CLAIM = Link("c1", ("c0",), "claim", 1, "w1", "b")
SNAPSHOT = Link("c2", ("c1", "h"), "snapshot", 1, "w1", "b", ("plan#1",))
AGAIN = Link("c3", ("c2",), "claim", 2, "w2", "b", ("plan#1",))
ANSWER = Answer("ship#1?1", "yes", "Ada")
END = Link("c4", ("c3", "h"), "snapshot", 2, "w2", "b", ("plan#1", "ship#1"), (ANSWER,), "done")


def chain(*links: Link, held: Sequence[str] = (), published: Link | None = END) -> Chain:
    return Chain(ONE, links, tuple(held), published)


RIGHT = chain(FIRST, CLAIM, SNAPSHOT, AGAIN, END, held=("c0", "c1", "c2", "c3", "c4"))


def test_a_right_line_passes_all_judges() -> None:
    assert chains.broken_lines(RIGHT) == []
    assert chains.dropped(RIGHT) == []
    assert chains.undone(RIGHT) == []
    assert chains.done_twice(RIGHT) == []
    assert chains.answers_lost(RIGHT, [ANSWER]) == []
    assert chains.answers_unasked(RIGHT, [ANSWER]) == []
    assert chains.ended_wrong({ONE: RIGHT}, {ONE: {"done"}}) == []
    assert chains.unpublished(RIGHT) == []


@pytest.mark.parametrize(
    "links",
    [
        pytest.param((CLAIM, SNAPSHOT), id="without a beginning"),
        pytest.param((FIRST, replace(SNAPSHOT, parents=("c0",))), id="without a claim"),
        pytest.param((FIRST, CLAIM, replace(AGAIN, epoch=1, parents=("c1",))), id="an epoch twice"),
        pytest.param((FIRST, CLAIM, replace(SNAPSHOT, worker="w9")), id="another's snapshot"),
        pytest.param((FIRST, CLAIM, replace(SNAPSHOT, parents=("c0",))), id="beside the claim"),
    ],
)
def test_a_broken_line_is_found(links: tuple[Link, ...]) -> None:
    assert len(chains.broken_lines(chain(*links))) == 1


def test_a_commit_that_was_accepted_and_is_gone_is_found() -> None:
    assert len(chains.dropped(replace(RIGHT, held=("c0", "c1", "cx", "c2", "c3", "c4")))) == 1


def test_what_was_done_or_answered_and_is_forgotten_is_found() -> None:
    forgotten = replace(END, commit="c5", parents=("c4",), done=("plan#1",), answers=())
    assert len(chains.undone(chain(*RIGHT.links, forgotten))) == 2


def test_a_step_that_is_done_twice_is_found() -> None:
    twice = replace(END, done=("plan#1", "plan#2", "ship#1"))
    assert len(chains.done_twice(chain(*RIGHT.links[:-1], twice))) == 1


def test_an_answer_that_is_lost_or_was_refused_or_counts_twice_is_found() -> None:
    other = Answer(ANSWER.gate, "no", "Grace")
    assert len(chains.answers_lost(RIGHT, [ANSWER, other])) == 1
    assert len(chains.answers_unasked(RIGHT, [other])) == 1
    twice = chain(*RIGHT.links[:-1], replace(END, answers=(ANSWER, other)))
    assert len(chains.answers_unasked(twice, [ANSWER, other])) == 1


def test_a_session_that_is_lost_or_has_not_ended_is_found() -> None:
    open_still = chain(FIRST, CLAIM, replace(SNAPSHOT, status="in_progress"))
    found = chains.ended_wrong({ONE: open_still}, {ONE: {"done"}, OTHER: {"done"}})
    assert found == [f"{ONE} is in_progress", f"{OTHER} is lost"]


def test_a_branch_that_does_not_say_how_its_session_ended_is_found() -> None:
    assert len(chains.unpublished(replace(RIGHT, published=None))) == 1
    assert len(chains.unpublished(replace(RIGHT, published=SNAPSHOT))) == 1


def test_a_session_that_was_aborted_before_its_branch_knew_it_is_not_missed_there() -> None:
    aborted = chain(*RIGHT.links[:-1], replace(END, status="aborted"), published=None)
    assert chains.unpublished(aborted) == []
    known = replace(SNAPSHOT, status="in_progress")
    assert len(chains.unpublished(replace(aborted, published=known))) == 1
