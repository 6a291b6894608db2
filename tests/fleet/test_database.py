"""Every transaction of the fleet, on SQLite and on PostgreSQL, also repeated and at once."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support.controlled_time import eventually

from fleet import migrated
from fleet.postgres import Server
from fleet.proxy import Proxy
from playbook_supervisor.errors import FleetError, PlaybookError
from playbook_supervisor.fleet.storage import address, connections, tables
from playbook_supervisor.fleet.storage import postgres as postgres_driver
from playbook_supervisor.fleet.storage.database import FleetDatabase
from playbook_supervisor.fleet.storage.rows import Lease, NewSession, Row, State
from playbook_supervisor.fleet.storage.taking import Kept
from playbook_supervisor.records import replace

SITE = "https://git.example/acme/site"
ID, OTHER, THIRD = "20261125-aaa", "20261125-bbb", "20261125-ccc"
GATE, CHOICES = "pr#1?1", ("continue", "abort")
ADA, ZOE = "Ada <ada@example.org>", "Zoe <zoe@example.org>"
LONG, SHORT = 60.0, 0.05
_numbers = count(1)


@pytest.fixture
def fleet(place: address.Address) -> Iterator[FleetDatabase]:
    with FleetDatabase.open(place) as opened:
        yield opened


@pytest.fixture
def served(postgres: Server) -> address.Address:
    return migrated.of_server(postgres)


def submit(fleet: FleetDatabase, id_: str = ID, *, after: str = "", url: str = SITE) -> None:
    fleet.submit(
        NewSession(
            id_, url, f"001-hello-{id_}", "auto-feature", "001", after=after, submitted_by=ADA
        )
    )


def row(fleet: FleetDatabase, id_: str = ID) -> Row:
    found = fleet.row(id_)
    assert found is not None
    return found


def take(fleet: FleetDatabase, id_: str = ID, seconds: float = LONG, worker: str = "w-1") -> Lease:
    lease = fleet.take(id_, worker, seconds)
    assert lease is not None
    return lease


def waiting(fleet: FleetDatabase, id_: str = ID) -> None:
    submit(fleet, id_)
    assert fleet.wait(take(fleet, id_), GATE, CHOICES)


def ready(fleet: FleetDatabase) -> list[str]:
    """The sessions that a worker could take, in their order; they are taken."""
    leases = iter(lambda: fleet.take_next(["default"], "w-9", LONG), None)
    return [lease.session for lease in leases if isinstance(lease, Lease)]


def code(call: Callable[[], Any]) -> str:
    with pytest.raises(PlaybookError) as caught:
        call()
    return caught.value.code


def change(place: address.Address, statement: str) -> None:
    """What another program could write into the database."""
    if place.file is not None:
        with sqlite3.connect(place.file) as file:
            file.execute(statement.replace("fleet.", "fleet_"))
        file.close()
    else:
        import psycopg

        with psycopg.connect(place.url) as server:
            server.execute(statement.encode())


# ── submitting ──────────────────────────────────────────────────────────────────────────────


def test_a_session_is_stored_and_queued(fleet: FleetDatabase) -> None:
    submit(fleet)
    stored = row(fleet)
    assert (stored.state, stored.epoch) == (State.QUEUED, 0)
    assert abs(stored.created_at - fleet.now()) < 5_000
    assert stored.since == stored.changed_at == stored.created_at
    assert fleet.row(OTHER) is None


def test_submitting_again_changes_nothing_and_another_session_is_refused(
    fleet: FleetDatabase,
) -> None:
    submit(fleet)
    take(fleet)
    submit(fleet)
    assert row(fleet).state is State.RUNNING
    assert code(lambda: submit(fleet, url="https://git.example/acme/api")) == "PB-FLEET-TAKEN"
    assert len(fleet.rows()) == 1


def test_sessions_after_others_begin_as_these_complete(fleet: FleetDatabase) -> None:
    submit(fleet)
    submit(fleet, OTHER, after=ID)
    submit(fleet, THIRD, after=OTHER)
    assert ready(fleet) == [ID]
    fleet.finish(Lease(ID, 1, "w-9", row(fleet)), State.COMPLETED)
    assert ready(fleet) == [OTHER]
    fleet.finish(Lease(OTHER, 1, "w-9", row(fleet)), State.COMPLETED)
    submit(fleet, "20261125-ddd", after=OTHER)
    assert ready(fleet) == [THIRD, "20261125-ddd"]
    unknown = "20261125-zzz"
    assert code(lambda: submit(fleet, "20261125-eee", after=unknown)) == "PB-STATE-NO-SESSION"


def test_a_session_after_a_failed_one_waits_until_that_is_retried(fleet: FleetDatabase) -> None:
    submit(fleet)
    submit(fleet, OTHER, after=ID)
    fleet.finish(take(fleet), State.FAILED)
    assert ready(fleet) == []
    assert fleet.due(["default"]) is None
    assert fleet.retry(ID).retry
    fleet.finish(take(fleet), State.COMPLETED)
    assert not row(fleet).retry
    assert ready(fleet) == [OTHER]


# ── leases ──────────────────────────────────────────────────────────────────────────────────


def test_one_worker_holds_a_session(fleet: FleetDatabase) -> None:
    submit(fleet)
    lease = take(fleet)
    assert (lease.epoch, lease.row.state, lease.row.worker) == (1, State.RUNNING, "w-1")
    assert fleet.take(ID, "w-2", LONG) is None
    assert fleet.take(ID, "w-2", LONG) is None
    assert fleet.take(OTHER, "w-2", LONG) is None
    renewed = fleet.renew(lease, LONG)
    assert renewed is not None
    assert renewed == ("", "")


def test_of_twenty_workers_one_gets_the_lease(place: address.Address) -> None:
    with FleetDatabase.open(place) as fleet:
        submit(fleet)
        ready = threading.Barrier(20)

        def attempt(number: int) -> Lease | None:
            ready.wait()
            return fleet.take(ID, f"w-{number}", LONG)

        with ThreadPoolExecutor(20) as pool:
            taken = [lease for lease in pool.map(attempt, range(20)) if lease]
    assert len(taken) == 1
    assert taken[0].epoch == 1


def test_a_lapsed_lease_is_neither_renewed_nor_in_the_way(fleet: FleetDatabase) -> None:
    submit(fleet)
    lapsed = take(fleet, seconds=SHORT)
    time.sleep(2 * SHORT)
    assert fleet.renew(lapsed, LONG) is None
    newer = take(fleet, worker="w-2")
    assert newer.epoch == 2
    assert not fleet.wait(lapsed, GATE, CHOICES)
    assert not fleet.finish(lapsed, State.COMPLETED)
    assert not fleet.stick(lapsed, "PB-BUG", "")
    assert fleet.put_off(lapsed, "PB-BUG", "") is None
    assert fleet.lift_epoch(lapsed, 9) is None
    assert fleet.answer_due(lapsed) is None
    fleet.need(lapsed, "9.9")
    assert row(fleet) == replace(newer.row)


def test_a_lapsed_lease_that_no_one_took_is_given_back_as_usual(fleet: FleetDatabase) -> None:
    submit(fleet)
    lapsed = take(fleet, seconds=SHORT)
    time.sleep(2 * SHORT)
    assert fleet.wait(lapsed, GATE, CHOICES)
    assert (row(fleet).state, row(fleet).gate) == (State.WAITING, GATE)
    assert fleet.take(ID, "w-2", LONG) is None


def test_what_was_carried_out_is_not_done_twice(fleet: FleetDatabase) -> None:
    submit(fleet)
    lease = take(fleet)
    assert fleet.put_off(lease, "PB-GIT-REMOTE", "away") is State.QUEUED
    assert fleet.put_off(lease, "PB-GIT-REMOTE", "away") is State.QUEUED
    assert row(fleet).failures == 1
    lease = take(fleet)
    assert fleet.wait(lease, GATE, CHOICES)
    fleet.answer(ID, GATE, "continue", ADA)
    assert fleet.wait(lease, GATE, CHOICES)
    assert row(fleet).state is State.QUEUED
    lease = take(fleet)
    assert fleet.stick(lease, "PB-FLEET-BRANCH", "no")
    fleet.retry(ID)
    assert fleet.stick(lease, "PB-FLEET-BRANCH", "no")
    assert fleet.retry(ID).state is State.QUEUED
    lease = take(fleet)
    assert fleet.finish(lease, State.COMPLETED)
    assert fleet.finish(lease, State.COMPLETED)


# ── workers that end ────────────────────────────────────────────────────────────────────────


def died(fleet: FleetDatabase, times: int) -> None:
    """Workers end with the session, that often."""
    for _ in range(times):
        take(fleet, seconds=SHORT)
        time.sleep(2 * SHORT)


def test_leases_that_lapse_in_a_row_are_counted_until_a_step_settles(fleet: FleetDatabase) -> None:
    submit(fleet)
    died(fleet, 3)
    lease = take(fleet)
    assert lease.row.deaths == 3
    fleet.put_off(lease, "PB-GIT-REMOTE", "away", seconds=0)
    lease = take(fleet)
    assert lease.row.deaths == 3
    fleet.settled(lease)
    assert row(fleet).deaths == 0
    fleet.stick(lease, "PB-FLEET-DIED", "its worker died 5 times during plan")
    assert fleet.retry(ID).deaths == 0


def test_a_session_with_which_workers_ended_is_taken_by_one_without_others(
    place: address.Address, fleet: FleetDatabase
) -> None:
    submit(fleet)
    submit(fleet, OTHER)
    died(fleet, 2)
    asked = (["default"], "w-2", LONG)
    taken = fleet.take_next(*asked, busy=True)
    assert isinstance(taken, Lease)
    assert taken.session == OTHER
    assert fleet.take_next(*asked, busy=True) is None  # others have some time to take it
    change(place, "UPDATE fleet.session SET lease_until = 1")
    assert fleet.take_next(*asked, busy=True) == Kept(ID)
    assert (row(fleet).state, row(fleet).worker) == (State.QUEUED, "w-2")
    assert fleet.take_next(["default"], "w-3", LONG) != Kept(ID)
    assert fleet.take_next(["default"], "w-3", LONG) is None
    assert fleet.keep(ID, "w-2", LONG)
    assert not fleet.keep(ID, "w-3", LONG)
    alone = fleet.take_next(*asked)
    assert isinstance(alone, Lease)
    assert (alone.session, alone.row.deaths) == (ID, 2)


def test_a_session_that_an_ended_worker_kept_is_taken_by_another(fleet: FleetDatabase) -> None:
    submit(fleet)
    died(fleet, 2)
    assert fleet.keep(ID, "w-2", 0.5)
    assert fleet.take_next(["default"], "w-3", LONG) is None
    assert eventually(lambda: fleet.take_next(["default"], "w-3", LONG) is not None)


# ── putting off ─────────────────────────────────────────────────────────────────────────────


def test_failures_put_a_session_off_and_the_twentieth_leaves_it_stuck(fleet: FleetDatabase) -> None:
    submit(fleet)
    pauses = []
    for number in range(1, 20):
        state = fleet.put_off(take(fleet), "PB-GIT-REMOTE", "the remote is away")
        assert state is State.QUEUED
        off = row(fleet)
        assert (off.failures, off.error) == (number, "PB-GIT-REMOTE")
        pauses.append((off.due_at - off.changed_at) / 1000)
        fleet.retry(ID)
    assert 3 <= pauses[0] <= 7
    assert 7 <= pauses[1] <= 13
    assert all(440 <= pause <= 760 for pause in pauses[8:])
    assert fleet.put_off(take(fleet), "PB-GIT-REMOTE", "the remote is away") is State.STUCK
    assert (row(fleet).state, row(fleet).said) == (State.STUCK, "the remote is away")
    assert fleet.retry(ID).failures == 0


def test_a_repository_that_refuses_five_times_leaves_its_session_stuck(
    fleet: FleetDatabase,
) -> None:
    submit(fleet)
    states = []
    for code_ in ["PB-GIT-REMOTE"] * 4 + ["PB-FLEET-REFUSED"] * 2:
        states.append(fleet.put_off(take(fleet), code_, "quota exceeded"))
        fleet.retry(ID)
    assert states == [State.QUEUED] * 5 + [State.STUCK]  # the outage before was no refusal


def test_a_session_that_waits_begins_to_count_failures_anew(fleet: FleetDatabase) -> None:
    submit(fleet)
    fleet.put_off(take(fleet), "PB-GIT-REMOTE", "away", seconds=None)
    fleet.retry(ID)
    fleet.wait(take(fleet), GATE, CHOICES, "that answer was refused")
    assert (row(fleet).failures, row(fleet).error) == (0, "")
    assert row(fleet).said == "that answer was refused"


def test_a_session_that_has_progressed_begins_to_count_failures_anew(fleet: FleetDatabase) -> None:
    submit(fleet)
    for _ in range(3):
        fleet.put_off(take(fleet), "PB-GIT-REMOTE", "away")
        fleet.retry(ID)
    fleet.put_off(take(fleet), "PB-GIT-REMOTE", "away", progressed=True)
    assert row(fleet).failures == 1


def test_a_cancelled_session_with_which_no_worker_can_go_on_has_ended(
    fleet: FleetDatabase,
) -> None:
    submit(fleet)
    fleet.stick(take(fleet), "PB-GIT-REMOTE", "away")
    assert row(fleet).state is State.STUCK
    fleet.cancel(ID, "not needed", ADA)
    fleet.stick(take(fleet), "PB-GIT-REMOTE", "away")
    assert (row(fleet).state, row(fleet).error) == (State.ABORTED, "PB-GIT-REMOTE")


def test_a_session_that_was_put_off_is_taken_when_it_is_due(
    place: address.Address, fleet: FleetDatabase
) -> None:
    submit(fleet)
    fleet.put_off(take(fleet), "", "back in a moment", seconds=LONG)
    due = fleet.due(["default"])
    assert due is not None
    assert LONG - 5 < due <= LONG
    assert ready(fleet) == []
    change(place, f"UPDATE fleet.session SET due_at = due_at - {1000 * LONG:.0f}")
    assert fleet.due(["default"]) == 0
    assert ready(fleet) == [ID]
    assert (row(fleet).due_at, row(fleet).failures) == (0, 0)


# ── answers ─────────────────────────────────────────────────────────────────────────────────


def test_an_answer_queues_the_session_and_goes_to_its_worker(
    fleet: FleetDatabase,
) -> None:
    waiting(fleet)
    fleet.answer(ID, GATE, "continue\nread it", ADA, "inbox")
    assert row(fleet).state is State.QUEUED
    lease = take(fleet)
    due = fleet.answer_due(lease)
    assert due is not None
    assert (due.gate, due.text, due.by, due.via) == (GATE, "continue\nread it", ADA, "inbox")
    assert due.role == fleet.role != ""
    assert abs(due.at - fleet.now()) < 5_000
    fleet.journaled(lease, GATE)
    assert fleet.answer_due(lease) is None


def test_of_twenty_answers_at_once_the_first_counts(place: address.Address) -> None:
    with FleetDatabase.open(place) as fleet:
        waiting(fleet)
        start = threading.Barrier(20)

        def answer(number: int) -> str:
            start.wait()
            try:
                fleet.answer(ID, GATE, f"continue {number}", ADA)
            except FleetError as error:
                return error.code
            return "accepted"

        with ThreadPoolExecutor(20) as pool:
            results = Counter(pool.map(answer, range(20)))
        assert results == {"accepted": 1, "PB-FLEET-ANSWERED": 19}
        assert ready(fleet) == [ID]


def test_a_gate_that_does_not_wait_takes_no_answer(fleet: FleetDatabase) -> None:
    submit(fleet)
    assert code(lambda: fleet.answer(ID, GATE, "continue", ADA)) == "PB-STATE-NO-GATE"
    assert code(lambda: fleet.answer(OTHER, GATE, "continue", ADA)) == "PB-STATE-NO-SESSION"
    assert code(lambda: fleet.answer("../x", GATE, "continue", ADA)) == "PB-STATE-NO-SESSION"
    fleet.wait(take(fleet), GATE, CHOICES)
    assert code(lambda: fleet.answer(ID, "pr#1?2", "continue", ADA)) == "PB-STATE-NO-GATE"
    fleet.answer(ID, GATE, "continue", ADA)
    assert code(lambda: fleet.answer(ID, GATE, "abort", ZOE)) == "PB-FLEET-ANSWERED"


def test_a_gate_that_is_open_again_takes_another_answer(fleet: FleetDatabase) -> None:
    waiting(fleet)
    fleet.answer(ID, GATE, "continue", ADA)
    lease = take(fleet)
    fleet.journaled(lease, GATE)
    fleet.wait(lease, GATE, CHOICES)
    fleet.answer(ID, GATE, "abort", ZOE)
    due = fleet.answer_due(take(fleet))
    assert due is not None
    assert due.text == "abort"


def test_an_answer_that_its_worker_did_not_journal_is_not_lost(fleet: FleetDatabase) -> None:
    waiting(fleet)
    fleet.answer(ID, GATE, "continue", ADA)
    fleet.wait(take(fleet), GATE, CHOICES)
    assert row(fleet).state is State.QUEUED
    due = fleet.answer_due(take(fleet))
    assert due is not None
    assert due.text == "continue"


def test_hostile_words_are_stored_without_what_a_terminal_would_obey(fleet: FleetDatabase) -> None:
    waiting(fleet)
    fleet.answer(ID, GATE, "con\x00tin\x1b[2Jue\n\ud800more", "Ada\n\x1b]0;x\x07")
    due = fleet.answer_due(take(fleet))
    assert due is not None
    assert (due.text, due.by) == ("continue\nmore", "Ada")


# ── cancelling and retrying ─────────────────────────────────────────────────────────────────


def test_a_cancellation_reaches_the_worker_by_the_next_renewal(fleet: FleetDatabase) -> None:
    submit(fleet)
    lease = take(fleet)
    fleet.cancel(ID, "not needed\nany more", ADA)
    renewed = fleet.renew(lease, LONG)
    assert renewed is not None
    assert renewed == ("not needed any more", ADA)
    assert fleet.finish(lease, State.ABORTED)
    assert code(lambda: fleet.cancel(ID, "again", ADA)) == "PB-STATE-ENDED"
    assert code(lambda: fleet.retry(ID)) == "PB-STATE-ENDED"


def test_a_cancelled_session_without_a_worker_is_queued_to_be_ended(fleet: FleetDatabase) -> None:
    waiting(fleet)
    before = row(fleet)
    fleet.cancel(ID, "no", ADA)
    fleet.cancel(ID, "no", ADA)
    after = row(fleet)
    assert (after.state, after.gate, after.since) == (State.QUEUED, GATE, before.since)
    assert take(fleet).row.cancel == "no"
    submit(fleet, OTHER, after=ID)
    fleet.cancel(OTHER, "", ADA)
    submit(fleet, THIRD)
    fleet.put_off(take(fleet, THIRD), "PB-GIT-REMOTE", "away")
    fleet.cancel(THIRD, "no", ADA)
    assert (row(fleet, THIRD).error, row(fleet, THIRD).said) == ("PB-GIT-REMOTE", "away")
    assert sorted(ready(fleet)) == [OTHER, THIRD]


def test_a_cancellation_that_came_before_the_gate_queues_the_session_at_once(
    fleet: FleetDatabase,
) -> None:
    submit(fleet)
    lease = take(fleet)
    fleet.cancel(ID, "no", ADA)
    fleet.wait(lease, GATE, CHOICES)
    assert row(fleet).state is State.QUEUED


def test_only_a_session_that_stands_still_is_retried(fleet: FleetDatabase) -> None:
    submit(fleet)
    assert fleet.retry(ID).state is State.QUEUED
    lease = take(fleet)
    assert fleet.retry(ID).state is State.RUNNING
    fleet.stick(lease, "PB-FLEET-BRANCH", "someone pushed")
    again = fleet.retry(ID)
    assert (again.state, again.error, again.said) == (State.QUEUED, "", "")


# ── upkeep ──────────────────────────────────────────────────────────────────────────────────


def test_a_lost_database_is_written_again_from_git(fleet: FleetDatabase) -> None:
    told = Row(ID, SITE, "001-hello", "auto-feature", "001", "default", State.QUEUED, epoch=4)
    stopped = replace(told, id=OTHER, state=State.WAITING, gate=GATE, choices=CHOICES)
    ended = replace(told, id=THIRD, state=State.COMPLETED)
    assert fleet.restore([told, stopped, ended]) == 3
    assert fleet.restore([told, stopped, ended]) == 0
    assert take(fleet).epoch == 5
    assert ready(fleet) == []
    assert row(fleet, OTHER).choices == CHOICES
    assert row(fleet, THIRD).state is State.COMPLETED


def test_an_older_copy_of_the_database_learns_what_git_knows(fleet: FleetDatabase) -> None:
    waiting(fleet)
    waiting(fleet, OTHER)
    waiting(fleet, THIRD)
    fleet.answer(THIRD, GATE, "continue", ADA)
    held = take(fleet, THIRD)
    newer = [replace(row(fleet, id_), epoch=7, state=State.WAITING) for id_ in (ID, OTHER, THIRD)]
    newer[0] = replace(newer[0], state=State.QUEUED, gate="", choices=())
    assert fleet.restore(newer) == 2
    assert (row(fleet).state, row(fleet).epoch) == (State.QUEUED, 7)
    assert (row(fleet, OTHER).state, row(fleet, OTHER).epoch) == (State.WAITING, 7)
    assert row(fleet, THIRD) == held.row


def test_an_answer_that_was_not_taken_survives_a_rebuild(fleet: FleetDatabase) -> None:
    waiting(fleet)
    fleet.answer(ID, GATE, "continue", ADA)
    fleet.restore([replace(row(fleet), state=State.WAITING, epoch=5)])
    assert row(fleet).state is State.QUEUED
    assert fleet.answer_due(take(fleet)) is not None


def test_old_sessions_are_removed_with_their_answers(fleet: FleetDatabase) -> None:
    waiting(fleet)
    fleet.answer(ID, GATE, "continue", ADA)
    fleet.finish(take(fleet), State.FAILED)
    submit(fleet, OTHER, after=ID)
    submit(fleet, THIRD)
    fleet.finish(take(fleet, THIRD), State.ABORTED)
    assert fleet.prune(fleet.now() - 60_000) == []
    assert fleet.prune(fleet.now() + 60_000) == [THIRD]
    fleet.cancel(OTHER, "", ADA)
    fleet.finish(take(fleet, OTHER), State.ABORTED)
    assert fleet.prune(fleet.now() + 60_000) == [ID, OTHER]
    assert fleet.rows() == []


# ── rows that nothing of ours has written ───────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("column", "junk"),
    [
        ("state", "'asleep'"),
        ("choices", "'[\"rm -rf\"]'"),
        ("after", "'../../etc'"),
        ("feature", "'001' || chr(27) || '[2J'"),
    ],
)
def test_a_damaged_row_is_left_out_and_named(
    place: address.Address, fleet: FleetDatabase, column: str, junk: str
) -> None:
    submit(fleet)
    submit(fleet, OTHER)
    if place.file is not None:
        junk = junk.replace("chr(", "char(")
    change(place, f"UPDATE fleet.session SET \"{column}\" = {junk} WHERE id = '{ID}'")
    assert [found.id for found in fleet.rows()] == [OTHER]
    assert list(fleet.notices) == [f"the row of session {ID} is damaged ({column}), and left out"]
    assert code(lambda: fleet.row(ID)) == "PB-FLEET-DATABASE"
    assert ready(fleet) == [OTHER]  # it is in no one's way
    told = Row(ID, SITE, "001-hello", "auto-feature", "001", "default", State.QUEUED, epoch=4)
    assert fleet.restore([told]) == 1
    assert [found.id for found in fleet.rows()] == [OTHER, ID]
    assert list(fleet.notices) == []
    assert ready(fleet) == [ID]


def test_a_hundred_rows_that_nothing_of_ours_wrote_hold_up_no_other(
    place: address.Address, fleet: FleetDatabase
) -> None:
    submit(fleet)
    columns = "id, repository, pool, state, priority"
    hostile = (f"('../../x{n}', 'ext::sh -c id', 'default', 'queued', 1000)" for n in range(100))
    change(place, f"INSERT INTO fleet.session ({columns}) VALUES {', '.join(hostile)}")
    assert ready(fleet) == [ID]
    assert [found.id for found in fleet.rows()] == [ID]
    assert len(fleet.notices) == 6
    assert fleet.notices[-1] == "95 more damaged rows are left out"


GRANTS = (
    "GRANT USAGE ON SCHEMA fleet",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON fleet.session, fleet.pool, fleet.start",
    "GRANT SELECT ON fleet.version",
    "GRANT SELECT, INSERT, DELETE, UPDATE (journaled) ON fleet.answer",
)


@pytest.fixture
def mallory(served: address.Address, postgres: Server) -> address.Address:
    """The database for another person, with the rights that the guide gives to all."""
    role = f"mallory{next(_numbers)}"
    postgres.create_role(role, "NOSUPERUSER")
    name = served.url.rpartition("/")[2]
    for statement in GRANTS:
        postgres.execute(f"{statement} TO {role}", name)
    return address.parse(postgres.url(name, user=role))


def test_the_role_beside_an_answer_is_the_servers_word(
    served: address.Address, mallory: address.Address
) -> None:
    with FleetDatabase.open(served) as fleet:
        waiting(fleet)
        with FleetDatabase.open(mallory) as other:
            mallorys = other.role
            assert mallorys.startswith("mallory")
            other.role = "playbook"
            other.answer(ID, GATE, "continue", ADA)
            assert code(lambda: other.answer(ID, GATE, "abort", ADA)) == "PB-FLEET-ANSWERED"
            submit(other, OTHER)
            assert len(other.rows()) == 2
        due = fleet.answer_due(take(fleet))
        assert due is not None
        assert due.role == mallorys


@pytest.mark.parametrize(
    "changes",
    [
        f"session = '{OTHER}'",
        "text = 'abort'",
        "journaled = false",
    ],
)
def test_what_a_person_has_answered_stays_as_it_was(
    served: address.Address, mallory: address.Address, changes: str
) -> None:
    """Neither with the documented rights, nor by a program of another version, nor the owner's."""
    with FleetDatabase.open(served) as fleet:
        waiting(fleet)
        waiting(fleet, OTHER)
        fleet.answer(ID, GATE, "continue", ADA)
        lease = take(fleet)
        fleet.journaled(lease, GATE)
        for place in (served, mallory):
            with pytest.raises(Exception, match=r"is not changed after|permission denied"):
                change(place, f"UPDATE fleet.answer SET {changes}")
        kept = fleet._run(lambda tx: tx.answer_to(ID, GATE))
        assert kept is not None
        assert (kept["text"], kept["by"], kept["journaled"]) == ("continue", ADA, True)


def test_an_answer_in_a_file_is_not_changed_either(tmp_path: Path) -> None:
    place = migrated.of_file(tmp_path)
    with FleetDatabase.open(place) as fleet:
        waiting(fleet)
        fleet.answer(ID, GATE, "continue", ADA)
        with pytest.raises(sqlite3.Error, match="not changed after"):
            change(place, "UPDATE fleet.answer SET gate = 'pr#1?2', journaled = true")
        fleet.journaled(take(fleet), GATE)


# ── versions of the schema ──────────────────────────────────────────────────────────────────


def test_a_database_without_tables_is_refused_and_not_made(tmp_path: Path, database: str) -> None:
    file = tmp_path / "fleet.sqlite"
    for place in (address.of_file(file), address.parse(database)):
        assert code(lambda place=place: FleetDatabase.open(place)) == "PB-FLEET-NOT-UP"  # type: ignore[misc]
    assert not file.exists()


def test_a_newer_schema_is_refused_and_an_older_one_migrated(place: address.Address) -> None:
    change(place, "UPDATE fleet.version SET number = 99")
    assert code(lambda: FleetDatabase.open(place)) == "PB-FLEET-NEWER"
    assert code(lambda: FleetDatabase.migrate(place)) == "PB-FLEET-NEWER"
    for older in (0, tables.VERSION - 1):
        change(place, f"UPDATE fleet.version SET number = {older}")
        assert code(lambda: FleetDatabase.open(place)) == "PB-FLEET-NOT-UP"
        FleetDatabase.migrate(place)
        FleetDatabase.open(place).close()


def test_the_next_schema_is_used_and_left_as_it_is(place: address.Address) -> None:
    """What a later version adds has defaults."""
    change(place, "ALTER TABLE fleet.session ADD COLUMN mood TEXT NOT NULL DEFAULT ''")
    change(place, f"UPDATE fleet.version SET number = {tables.VERSION + 1}")
    FleetDatabase.migrate(place)
    with FleetDatabase.open(place) as fleet:
        waiting(fleet)
        fleet.answer(ID, GATE, "continue", ADA)
        assert fleet.finish(take(fleet), State.COMPLETED)
    change(place, f"UPDATE fleet.version SET number = {tables.VERSION + 1}")


def test_several_may_migrate_at_once(tmp_path: Path, database: str) -> None:
    for place in (address.of_file(tmp_path / "fleet.sqlite"), address.parse(database)):
        with ThreadPoolExecutor(3) as pool:
            assert [*pool.map(FleetDatabase.migrate, [place] * 3)] == [None] * 3
        with FleetDatabase.open(place) as fleet:
            submit(fleet)


# ── when the database is away ───────────────────────────────────────────────────────────────


def test_a_file_that_is_no_database_is_an_error_of_ours(tmp_path: Path) -> None:
    file = tmp_path / "fleet.sqlite"
    file.write_text("these are not the bytes of a database " * 100)
    place = address.of_file(file)
    assert code(lambda: FleetDatabase.open(place)) == "PB-FLEET-DATABASE"
    assert code(lambda: FleetDatabase.migrate(place)) == "PB-FLEET-DATABASE"


def test_a_file_that_another_process_locks_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_BUSY", 0.5)
    place = migrated.of_file(tmp_path)
    other = sqlite3.connect(tmp_path / "fleet.sqlite", isolation_level=None)
    with FleetDatabase.open(place) as fleet:
        submit(fleet)
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        assert code(lambda: fleet.take(ID, "w", LONG)) == "PB-FLEET-DATABASE"
        assert time.monotonic() - began < 5
        assert row(fleet).state is State.QUEUED  # reading goes on
        other.execute("ROLLBACK")
        take(fleet)
    other.close()


def test_a_server_that_cannot_be_used_is_an_error_without_the_password(postgres: Server) -> None:
    place = address.parse(postgres.url("postgres", password="dummy-and-wrong"))
    with pytest.raises(FleetError) as caught:
        FleetDatabase.open(place)
    error = caught.value
    assert (error.code, error.where) == ("PB-FLEET-DATABASE", place.shown)
    assert error.cause
    assert "dummy" not in f"{error.message} {error.where} {error.cause}"


def test_a_restarted_server_is_used_again_without_an_error(
    served: address.Address, postgres: Server
) -> None:
    with FleetDatabase.open(served) as fleet:
        submit(fleet)
        lease = take(fleet)
        postgres.restart(hard=True)
        assert fleet.renew(lease, LONG) is not None
        postgres.stop(hard=True)
        assert code(lambda: fleet.renew(lease, LONG)) == "PB-FLEET-DATABASE"
        postgres.start()
        assert fleet.renew(lease, LONG) is not None


@pytest.mark.parametrize("how", [pytest.param("paused", marks=pytest.mark.long), "held"])
def test_a_silent_server_holds_a_call_up_for_no_longer_than_it_may(
    served: address.Address, postgres: Server, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_driver, "_WAIT", 1.0)
    monkeypatch.setitem(postgres_driver._DEFAULTS, "connect_timeout", 2)
    name = served.url.rpartition("/")[2]
    with Proxy(postgres.port) as proxy:
        place = address.parse(postgres.url(name, port=proxy.port))
        with FleetDatabase.open(place) as fleet:
            submit(fleet)
            lease = take(fleet)
            {"paused": postgres.pause, "held": proxy.hold}[how]()
            for _ in range(2):  # with a connection of before, and with a new one
                began = time.monotonic()
                assert code(lambda: fleet.renew(lease, LONG)) == "PB-FLEET-DATABASE"
                assert time.monotonic() - began < 5
            postgres.heal()
            proxy.heal()
            assert eventually(lambda: _renewed(fleet, lease))


@pytest.mark.long
def test_a_client_that_freezes_within_a_transaction_does_not_block_others(
    served: address.Address,
) -> None:
    with FleetDatabase.open(served) as fleet, FleetDatabase.open(served) as frozen:
        submit(fleet)
        lease = take(fleet)

        thawed = threading.Event()

        def freeze() -> None:  # as a stopped process would leave it
            with suppress(FleetError):  # its connection may be gone
                frozen._run(lambda tx: (tx.get(ID), thawed.wait(30)))

        client = threading.Thread(target=freeze)
        client.start()
        began = time.monotonic()
        while not _renewed(fleet, lease):
            assert time.monotonic() - began < 15
        thawed.set()
        client.join()


def _renewed(fleet: FleetDatabase, lease: Lease) -> bool:
    try:
        return fleet.renew(lease, LONG) is not None
    except FleetError:
        return False
