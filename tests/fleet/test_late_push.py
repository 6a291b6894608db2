"""A remote that is away or refuses holds no slot for long, and costs no step."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.controlled_time import eventually

from fleet import chains
from fleet.local_fleet import ADA, FREE, WORKS, Fleet
from playbook_supervisor.fleet.engine.advance import LocalWorker
from playbook_supervisor.fleet.engine.lease import Term
from playbook_supervisor.fleet.engine.session_ref import Mirror
from playbook_supervisor.fleet.storage.rows import State

_ADVANCE = "playbook_supervisor.fleet.engine.advance"
PUSHED, NOT_PUSHED = "its last snapshot is pushed", "its last snapshot is not pushed"
TAKES_TIME = WORKS.replace("say: planned,", "say: planned, seconds: 1,")
PROTECTED = "refs/heads/*) echo branches are protected >&2; exit 1;;"
FROZEN = "*) echo this repository is frozen >&2; exit 1;;"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A remote is waited for for a second."""
    monkeypatch.setattr(f"{_ADVANCE}._AGAIN", 1.0)


@pytest.fixture
def session(fleet: Fleet) -> str:
    """A session without gates whose first step takes a second."""
    fleet.project.write(".playbooks/playbooks/free.yaml", FREE)
    fleet.project.commit("Add a playbook without gates")
    fleet.project.git("push", "-q", "origin", "HEAD")
    return fleet.submit("free", TAKES_TIME)


@contextmanager
def away_from_the_first_step_on(
    fleet: Fleet, session: str, worker: LocalWorker | None = None
) -> Iterator[Path]:
    """The remote is away when a take-up of the session is over; where it is meanwhile."""
    aside = fleet.origin.root.with_name("aside.git")
    with fleet.advancing(session, worker or "one"):
        assert eventually(lambda: fleet.subjects(session)[2:] == ["Snapshot"])
        fleet.origin.root.rename(aside)
    try:
        yield aside
    finally:
        aside.rename(fleet.origin.root)


def refuse(fleet: Fleet, what: str) -> Path:
    """Let a hook of the remote refuse that: a case of a shell with the name of the reference."""
    hook = fleet.origin.root / "hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\ncase "$1" in {what} esac\n')
    hook.chmod(0o755)
    return hook


def pushing() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "late push"]


# ── away ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("soon")
def test_a_step_that_settled_while_the_remote_was_away_does_not_run_again(
    fleet: Fleet, session: str
) -> None:
    with away_from_the_first_step_on(fleet, session):
        row = fleet.row(session)
        assert (row.state, row.error) == (State.QUEUED, "PB-GIT-REMOTE")
        assert list((fleet.folder / "one").iterdir()) == []
    assert eventually(lambda: PUSHED in fleet.told)
    assert fleet.journal(session).count("status: done") == 1
    fleet.database.retry(session)
    assert fleet.advance(session, "two").state is State.COMPLETED
    chain = chains.read(fleet.origin.root)[session]
    assert chains.broken_lines(chain) == chains.undone(chain) == chains.done_twice(chain) == []


@pytest.mark.long
@pytest.mark.usefixtures("soon")
def test_the_next_take_up_of_the_same_worker_begins_after_the_late_push(
    fleet: Fleet, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playbook_supervisor.fleet.engine.late_push._LONGER", 100.0)
    worker = fleet.worker("one")
    with away_from_the_first_step_on(fleet, session, worker):
        fleet.database.retry(session)
        assert fleet.advance(session, worker).failures == 2
    fleet.database.retry(session)
    assert fleet.advance(session, worker).state is State.COMPLETED
    assert fleet.subjects(session)[:5] == ["Snapshot", "Claim", "Snapshot", "Snapshot", "Claim"]


@pytest.mark.usefixtures("soon")
def test_a_late_push_is_dropped_once_another_worker_has_claimed_the_session(
    fleet: Fleet, session: str
) -> None:
    with away_from_the_first_step_on(fleet, session) as aside:
        other = Mirror(fleet.folder / "other.git", f"file://{aside}", ("file",))
        other.claim(other.tip(session), fleet.row(session).epoch + 1, "two")
    assert eventually(lambda: any(each.startswith(NOT_PUSHED) for each in fleet.told))
    assert fleet.subjects(session) == ["Snapshot", "Claim", "Snapshot", "Claim"]
    fleet.database.retry(session)
    assert fleet.advance(session, "three").state is State.COMPLETED
    assert chains.broken_lines(chains.read(fleet.origin.root)[session]) == []


@pytest.mark.usefixtures("soon")
def test_a_late_push_ends_with_its_worker(fleet: Fleet, session: str) -> None:
    with away_from_the_first_step_on(fleet, session):
        assert pushing()
        fleet.stopping.set()
        assert eventually(lambda: not pushing())
    assert fleet.subjects(session) == ["Snapshot", "Claim", "Snapshot"]


@pytest.mark.long
def test_a_session_is_cancelled_while_its_remote_is_waited_for(fleet: Fleet, session: str) -> None:
    fleet.term = Term(9.0)
    aside = fleet.origin.root.with_name("aside.git")
    with fleet.advancing(session):
        assert eventually(lambda: fleet.subjects(session)[2:] == ["Snapshot"])
        fleet.origin.root.rename(aside)
        assert eventually(lambda: any("not pushed yet" in each for each in fleet.told))
        fleet.database.cancel(session, "not needed", ADA)
        cancelled = time.monotonic()
    assert time.monotonic() - cancelled < 15
    assert fleet.row(session).state is State.QUEUED
    aside.rename(fleet.origin.root)
    assert fleet.advance(session).state is State.ABORTED
    assert "not needed" in fleet.journal(session)


# ── refused ─────────────────────────────────────────────────────────────────────────────────


def test_a_remote_that_refuses_frees_the_slot_and_is_quoted(fleet: Fleet, session: str) -> None:
    with fleet.advancing(session):
        assert eventually(lambda: fleet.subjects(session)[2:] == ["Snapshot"])
        refuse(fleet, FROZEN)
        assert eventually(lambda: any("not pushed yet" in each for each in fleet.told))
        refused = time.monotonic()
    assert time.monotonic() - refused < 30
    row = fleet.row(session)
    assert (row.state, row.error) == (State.QUEUED, "PB-FLEET-REFUSED")
    assert "this repository is frozen" in row.said
    assert not pushing()


def test_a_cancelled_session_ends_although_its_remote_refuses(fleet: Fleet, session: str) -> None:
    refuse(fleet, FROZEN)
    fleet.database.cancel(session, "not needed", ADA)
    rows = [fleet.advance(session) for _ in range(5)]
    assert [row.state for row in rows] == [State.QUEUED] * 4 + [State.ABORTED]
    assert all(row.due_at - row.changed_at < 7_000 for row in rows)
    assert "ended, not in its journal" in fleet.told[-1]


def test_a_session_waits_at_its_gate_although_its_branch_is_refused(fleet: Fleet) -> None:
    hook, session = refuse(fleet, PROTECTED), fleet.submit()
    row = fleet.advance(session)
    assert (row.state, row.gate) == (State.WAITING, "tasks#1?1")
    assert row.branch in row.said
    assert "branches are protected" in row.said
    assert fleet.kept(session, "plan.md") == "# Plan"
    fleet.answer(session, "continue")
    row = fleet.advance(session)
    assert (row.state, row.error) == (State.STUCK, "PB-FLEET-BRANCH-REFUSED")
    assert "branches are protected" in row.said
    assert fleet.kept(session, "made.py") == "1"
    hook.unlink()
    fleet.database.retry(session)
    row = fleet.advance(session)
    assert (row.state, row.said) == (State.COMPLETED, "")
    subject = fleet.origin.git("log", "-1", "--format=%s", row.branch)
    assert subject == f"Record session {session}: completed"


# ── deaths ──────────────────────────────────────────────────────────────────────────────────


def test_a_session_whose_worker_died_five_times_is_stuck_and_names_the_step(
    fleet: Fleet, session: str
) -> None:
    fleet.die_with(session, 5)
    row = fleet.advance(session)
    assert (row.state, row.error) == (State.STUCK, "PB-FLEET-DIED")
    assert row.said == "its worker died 5 times during plan#1"
    assert fleet.database.retry(session).deaths == 0


def test_a_session_is_aborted_however_often_its_worker_died(fleet: Fleet, session: str) -> None:
    fleet.die_with(session, 5)
    fleet.database.cancel(session, "not needed", ADA)
    assert fleet.advance(session).state is State.ABORTED
    assert "not needed" in fleet.journal(session)


@pytest.mark.long
def test_deaths_no_longer_count_once_a_step_has_settled(fleet: Fleet, session: str) -> None:
    fleet.die_with(session, 2)
    deaths = []
    with fleet.advancing(session):
        while (row := fleet.row(session)).state is not State.COMPLETED:
            done = fleet.journal(session).count("status: done")
            deaths.append((row.deaths, done))
            time.sleep(0.05)
    assert (2, 0) in deaths
    assert 0 in {count for count, _ in deaths}
