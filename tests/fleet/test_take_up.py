"""What can go wrong in the middle of a take-up: a call that fails, a child that does not react."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from support.controlled_time import eventually

from fleet.local_fleet import ADA, WORKS, Fleet
from playbook_supervisor.errors import FleetError, GitError
from playbook_supervisor.fleet.engine import outcome
from playbook_supervisor.fleet.engine.lease import LeaseKeeper, Term
from playbook_supervisor.fleet.engine.session_ref import SessionClone
from playbook_supervisor.fleet.engine.worker import work
from playbook_supervisor.fleet.storage.database import FleetDatabase
from playbook_supervisor.fleet.storage.rows import State
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.kernel.vocabulary import Decision, EntryStatus
from playbook_supervisor.records import replace
from playbook_supervisor.system.process.leash_process import now

SLEEPS = WORKS.replace("say: planned,", "say: planned, seconds: 30,")
_ADVANCE = "playbook_supervisor.fleet.engine.advance"


def child(fleet: Fleet) -> int:
    (file,) = (fleet.folder / "one").glob("*/child")
    pid = int(json.loads(file.read_text())["pid"])
    (program,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(program)


@pytest.mark.long
def test_a_cancelled_session_whose_runner_does_not_react_is_aborted_all_the_same(
    fleet: Fleet,
) -> None:
    session = fleet.submit(script=SLEEPS)
    fleet.term = Term(9.0)
    with fleet.advancing(session):
        assert eventually(lambda: fleet.subjects(session)[2:] == ["Snapshot"])
        os.kill(child(fleet), signal.SIGSTOP)
        fleet.database.cancel(session, "not needed", ADA)
    assert fleet.row(session).state is State.ABORTED
    assert "not needed" in fleet.journal(session)


def test_work_is_not_lost_because_a_snapshot_cannot_be_made_for_a_moment(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = fleet.submit()
    fails = iter((True, False, True, False))
    snapshot = SessionClone.snapshot

    def full(*args: object, **options: object) -> object:
        if next(fails, False):
            raise GitError("PB-GIT-FAILED", "no space left on the device")
        return snapshot(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(SessionClone, "snapshot", full)
    assert fleet.advance(session).state is State.WAITING
    assert fleet.journal(session).count("step_id: plan") == 1


def test_an_unreachable_agent_is_tried_again_only_if_nothing_else_would_be() -> None:
    def entry(step: str, **values: Any) -> Entry:
        made = Entry(step, EntryStatus.DONE, Decision.AUTO, started_at=10, completed_at=20)
        return replace(made, **values)

    failed: dict[str, Any] = {"status": EntryStatus.FAILED, "error_code": "PB-AGENT-RATE"}
    before = entry("plan")
    last = entry("tasks", started_at=20, completed_at=30, **failed)
    assert outcome.unreachable([before, last])
    assert not outcome.unreachable([entry("beside", started_at=20, completed_at=25), last])
    assert not outcome.unreachable([entry("beside", started_at=20, completed_at=None), last])
    assert not outcome.unreachable([before, replace(last, agent={"turns": 2})])
    assert not outcome.unreachable([])


def test_a_lease_that_was_lost_before_the_child_began_ends_it_at_once(fleet: Fleet) -> None:
    session = fleet.submit()
    lease = fleet.database.take(session, "one", 0.1)
    assert lease is not None
    happened: list[str] = []
    with LeaseKeeper(fleet.database, lease, Term(0.1), now(), fleet.told.append) as keeper:
        assert eventually(lambda: not keeper.held)
        keeper.watch(lambda _: None, lambda *_: None, lambda: happened.append("lost"))
    assert happened == ["lost"]


def test_a_lease_that_another_worker_has_is_neither_renewed_nor_raised(fleet: Fleet) -> None:
    session = fleet.submit()
    lease = fleet.database.take(session, "one", 90.0)
    assert lease is not None
    lost: list[str] = []
    with LeaseKeeper(fleet.database, lease, Term(1.5), now(), fleet.told.append) as keeper:
        keeper.watch(lambda _: None, lambda *_: None, lambda: lost.append("lost"))
        assert fleet.database.lift_epoch(lease, 7) is not None
        assert eventually(lambda: lost == ["lost"])
        with pytest.raises(FleetError, match="no longer holds the lease"):
            keeper.require()
    with LeaseKeeper(fleet.database, lease, Term(), now(), fleet.told.append) as keeper:
        with pytest.raises(FleetError, match="no longer holds the lease"):
            keeper.lift(9)
        assert not keeper.held
    row = fleet.row(session)
    assert (row.epoch, row.state) == (7, State.RUNNING)


def test_a_child_learns_at_once_of_a_cancellation_that_came_before_it(fleet: Fleet) -> None:
    session = fleet.submit()
    fleet.database.cancel(session, "not needed", ADA)
    lease = fleet.database.take(session, "one", 90.0)
    assert lease is not None
    words: list[str] = []
    with LeaseKeeper(fleet.database, lease, Term(), now(), fleet.told.append) as keeper:
        keeper.watch(lambda _: None, lambda *said: words.extend(said), lambda: None)
    assert words == ["not needed", ADA]


@pytest.mark.long
def test_a_renewal_that_fails_for_whatever_reason_is_tried_again(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = fleet.database.take(fleet.submit(), "one", 90.0)
    assert lease is not None
    renew = FleetDatabase.renew
    fails = iter((ZeroDivisionError("oops"), OSError("closed")))

    def sometimes(*args: object) -> object:
        for error in fails:
            raise error
        return renew(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(FleetDatabase, "renew", sometimes)
    renewed: list[float] = []
    with LeaseKeeper(fleet.database, lease, Term(6.0), now(), fleet.told.append) as keeper:
        keeper.watch(renewed.append, lambda *_: None, lambda: None)
        assert eventually(lambda: len(renewed) == 2)
    assert fleet.told.count("the lease is not renewed: ZeroDivisionError") == 1


def test_a_worker_whose_terminal_is_gone_goes_on(fleet: Fleet) -> None:
    session = fleet.submit()

    def gone(*_: object) -> None:
        raise BrokenPipeError

    work(fleet.database, fleet.settings, drain=True, tell=gone, log=gone)
    assert fleet.row(session).state is State.WAITING
