"""`playbook fleet worker` and `playbook fleet submit`, as people run them."""

from __future__ import annotations

import json
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from support.bubblewrap import needs_bubblewrap
from support.controlled_time import eventually
from support.in_process import Result
from support.scratch_project import Process

from fleet.local_fleet import WORKS, Fleet
from playbook_supervisor.errors import FleetError
from playbook_supervisor.fleet.engine import worker
from playbook_supervisor.fleet.storage.rows import Row
from playbook_supervisor.records import replace

SLEEPS = WORKS.replace("say: planned,", "say: planned, seconds: 30,")
pytestmark = pytest.mark.measured


@contextmanager
def working(fleet: Fleet, *options: str) -> Iterator[Process]:
    with fleet.project.spawn("fleet", "worker", *options) as process:
        yield process


def ended(process: Process) -> Result:
    out, err = process.communicate(timeout=60)
    return Result(process.returncode, out.decode(), err.decode())


def test_a_worker_that_drains_ends_when_nothing_is_left_to_do(fleet: Fleet) -> None:
    first, second = fleet.submit(), fleet.submit()
    done = fleet.project.process("fleet", "worker", "--drain", "--slots", "2")
    assert done.code == 0, done.err
    assert {fleet.row(each).state for each in (first, second)} == {"waiting"}
    assert "Traceback" not in done.err
    workers = fleet.folder.parent / "state/playbook/fleet/workers"
    assert list(workers.iterdir()) == []


def test_a_signal_lets_a_worker_put_back_what_it_has_in_hand(fleet: Fleet) -> None:
    session = fleet.submit(script=SLEEPS)
    with working(fleet) as process:
        assert eventually(lambda: fleet.subjects(session)[2:] == ["Snapshot"])
        process.send_signal(signal.SIGTERM)
        done = ended(process)
    assert done.code == 128 + signal.SIGTERM
    assert "1 session put back or pushed first" in done.err
    assert fleet.row(session).state == "queued"


@pytest.mark.long
def test_what_a_killed_worker_leaves_is_put_back_and_removed_by_the_next(fleet: Fleet) -> None:
    settings = fleet.folder.parent / "config/playbook/worker.yaml"
    settings.write_text("transports: [file]\nlease: 6\n")
    session = fleet.submit(script=WORKS.replace("say: planned,", "say: planned, seconds: 4,"))
    with working(fleet) as process:
        assert eventually(lambda: fleet.subjects(session)[2:] == ["Snapshot"])
        process.kill()
    workers = fleet.folder.parent / "state/playbook/fleet/workers"
    assert len(list(workers.iterdir())) == 1
    done = fleet.project.process("fleet", "worker", "--drain")
    assert "taken (epoch 2), after its worker died" in done.err
    assert fleet.row(session).state == "waiting"
    assert list(workers.iterdir()) == []


def test_a_session_after_another_waits_until_that_is_completed(fleet: Fleet) -> None:
    agent = fleet.project.script(WORKS)
    submitted = ("fleet", "submit", "three", "--agent", agent)
    first = fleet.project.playbook(*submitted).out.strip()
    second = fleet.project.playbook(*submitted, "--after", first).out.strip()
    fleet.project.process("fleet", "worker", "--drain")
    assert (fleet.row(first).state, fleet.row(second).state) == ("waiting", "queued")
    fleet.answer(first, "continue")
    fleet.project.process("fleet", "worker", "--drain")
    assert (fleet.row(first).state, fleet.row(second).state) == ("completed", "waiting")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("fleet", "submit", "four"), "PB-ARG-PLAYBOOK"),
        (("fleet", "submit", "three", "--repo", "ext::sh -c id"), "PB-FLEET-REPOSITORY"),
        (
            ("fleet", "submit", "three", "--repo", "https://me:secret@example.org/x"),
            "PB-FLEET-REPOSITORY",
        ),
        (("fleet", "submit", "three", "--repo", "--upload-pack=id"), "PB-FLEET-REPOSITORY"),
        (("fleet", "submit", "three", "--base", "nowhere"), "PB-GIT-BASE"),
        (("fleet", "submit", "three", "--base", "--all"), "PB-ARG-BRANCH"),
        (("fleet", "submit", "three", "--branch", "../../x"), "PB-ARG-BRANCH"),
        (("fleet", "submit", "three", "--after", "20260101-abc"), "PB-STATE-NO-SESSION"),
        (("fleet", "submit", "three", "--pool", "No Such"), "PB-ARG-INVALID"),
    ],
)
def test_what_cannot_be_queued_leaves_nothing_behind(
    fleet: Fleet, words: tuple[str, ...], code: str
) -> None:
    before = fleet.origin.git("for-each-ref")
    done = fleet.project.playbook(*words)
    assert code in done.err
    assert done.code in (1, 3)
    assert "secret" not in done.err
    assert fleet.origin.git("for-each-ref") == before
    assert fleet.database.rows() == []


def test_what_was_queued_is_told_as_json(fleet: Fleet) -> None:
    done = fleet.project.playbook("fleet", "submit", "three", "--agent", "exec:./agent", "--json")
    told = json.loads(done.out)
    assert (told["playbook"], told["pool"]) == ("three", "default")
    assert told["session"] == fleet.database.rows()[0].id


def test_a_branch_belongs_to_one_open_session(fleet: Fleet) -> None:
    words = ("fleet", "submit", "three", "--agent", "exec:./agent")
    assert fleet.project.playbook(*words, "--branch", "mine").code == 0
    done = fleet.project.playbook(*words, "--branch", "mine")
    assert "PB-GIT-TAKEN" in done.err
    assert fleet.project.playbook(*words).code == 0
    assert fleet.project.playbook(*words).code == 0
    assert len({row.branch for row in fleet.database.rows()}) == 3


def test_two_who_submit_at_once_get_a_branch_each(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fleet.submit()
    rows = type(fleet.database).rows
    blind: Iterator[list[Row]] = iter([[]])
    monkeypatch.setattr(
        type(fleet.database), "rows", lambda *_, **kind: next(blind, rows(fleet.database, **kind))
    )
    second = fleet.submit()
    assert fleet.row(first).branch != fleet.row(second).branch
    assert len(fleet.origin.git("for-each-ref", "refs/playbook").splitlines()) == 2


def test_a_checkout_without_a_remote_has_nothing_to_submit(fleet: Fleet) -> None:
    fleet.project.git("remote", "rename", "origin", "elsewhere")
    assert fleet.project.playbook("fleet", "submit", "three", "--agent", "exec:./agent").code == 0
    fleet.project.git("remote", "remove", "elsewhere")
    done = fleet.project.playbook("fleet", "submit", "three")
    assert "has no remote" in done.err
    assert "--repo URL" in done.err


def test_commands_that_claude_code_would_lack_are_missed_before_anything_is_queued(
    fleet: Fleet,
) -> None:
    fleet.project.git("rm", "-q", "-r", ".claude")
    fleet.project.commit("Remove the commands")
    fleet.project.git("push", "-q")
    done = fleet.project.playbook("fleet", "submit", "three", "--agent", "claude")
    assert "PB-CHECK-COMMAND" in done.err
    assert fleet.database.rows() == []


@pytest.mark.long
def test_a_database_that_is_away_is_told_once_and_its_return_too(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = fleet.submit()
    due, away = type(fleet.database).due, FleetError("PB-FLEET-DATABASE", "it is away")
    answers = iter([True, True, False, True])

    def sometimes(*arguments: Any) -> float | None:
        if next(answers, False):
            raise away
        return due(*arguments)

    monkeypatch.setattr(type(fleet.database), "due", sometimes)
    monkeypatch.setattr(worker, "_LOOK", 0.2)
    settings = replace(fleet.settings, lease=4.0)

    def tell(_: str, sentence: str) -> None:
        fleet.told.append(sentence)

    assert worker.work(fleet.database, settings, drain=True, tell=tell, log=tell) == 0
    away_and_back = ["it is away; trying again", "the database is back"]
    told = [each for each in fleet.told if each in away_and_back]
    assert told == away_and_back * 2
    assert fleet.row(session).state == "waiting"


def test_a_worker_lets_its_sessions_end_before_it_takes_one_that_ended_workers(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = fleet.submit(script=WORKS.replace("say: planned,", "say: planned, seconds: 4,"))
    deadly, other = fleet.submit(), fleet.submit()
    file = fleet.database.address.file
    assert file
    monkeypatch.setattr(worker, "_LOOK", 0.2)
    told: list[tuple[str, str]] = []

    def change(what: str) -> None:
        with closing(sqlite3.connect(file, timeout=10)) as rows, rows:
            rows.execute(f"UPDATE fleet_session SET {what}")

    def arrive() -> None:
        assert eventually(lambda: any(session == slow for session, _ in told))
        change(f"pool = 'default', since = 1, deaths = 2 WHERE id = '{deadly}'")
        assert eventually(lambda: fleet.row(deadly).worker != "")
        change(f"pool = 'default' WHERE id = '{other}'")

    change(f"pool = 'later' WHERE id <> '{slow}'")
    arriving = threading.Thread(target=arrive)
    arriving.start()
    settings = replace(fleet.settings, lease=6.0)
    assert (
        worker.work(
            fleet.database,
            settings,
            drain=True,
            tell=lambda *said: told.append(said),
            log=lambda *_: None,
        )
        == 0
    )
    arriving.join()
    turns = [session for session, sentence in told if sentence.startswith(("taken", "waits at"))]
    assert turns == [slow, slow, deadly, deadly, other, other]
    assert (deadly, worker._ALONE) in told


def test_tab_completes_the_open_sessions_of_the_fleet(fleet: Fleet) -> None:
    session = fleet.submit()
    line = f"playbook abort {session[:4]}"
    asked = {"_PLAYBOOK_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": "2"}
    assert session in fleet.project.playbook(env=asked).out


@needs_bubblewrap
def test_a_worker_isolates_its_sessions_if_it_is_told_to(fleet: Fleet) -> None:
    session = fleet.submit()
    done = fleet.project.process("fleet", "worker", "--drain", "--isolation", "required")
    assert fleet.row(session).state == "waiting", done.err
    assert "isolation: bwrap" in fleet.journal(session)


def test_a_worker_serves_only_its_pools(fleet: Fleet) -> None:
    session = fleet.submit()
    done = fleet.project.process("fleet", "worker", "--drain", "--pools", "nightly")
    assert (done.code, fleet.row(session).state) == (0, "queued")
    done = fleet.project.process("fleet", "worker", "--drain", "--pools", "--upload-pack=x")
    assert done.code == 1
    assert "is no name of a pool" in done.err
