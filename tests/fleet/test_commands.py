"""The commands around the fleet, as people type them: status, answer, cancel, and the upkeep."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
from cli.scripts import GATED
from cli.terminal import Terminal
from cli.test_child_playbooks import PUBLISH, TOP
from support.controlled_time import eventually
from support.git_repositories import put
from support.in_process import Result
from support.scratch_project import FEATURE, Project, remote

from fleet.postgres import Server
from playbook_supervisor.fleet.cli import rendering
from playbook_supervisor.fleet.commands import opening
from playbook_supervisor.fleet.commands.overview import FleetSession
from playbook_supervisor.fleet.engine.session_ref import Mirror
from playbook_supervisor.fleet.storage import address
from playbook_supervisor.fleet.storage.database import FleetDatabase
from playbook_supervisor.fleet.storage.rows import Lease, NewSession, Row, State
from playbook_supervisor.project.playbooks.schema import schema_text
from playbook_supervisor.records import replace
from playbook_supervisor.system.disk.files import locked
from playbook_supervisor.system.installation import command_for

SITE, API = "https://git.example/acme/site", "https://git.example/acme/api"
IDS = [f"20260219-{letter}7k" for letter in "abcdefgh"]
GATE = "pr#1?1"
CHOICES = ("continue", "skip", "abort")


@pytest.fixture
def up(project: Project) -> Project:
    """A project whose user has set up a fleet on this machine."""
    assert project.playbook("fleet", "up").code == 0
    return project


@pytest.fixture
def database(up: Project) -> Iterator[FleetDatabase]:
    with FleetDatabase.open(own(up)) as opened:
        yield opened


def own(project: Project) -> address.Address:
    return address.of_file(project.home / ".local/state/playbook/fleet/fleet.sqlite")


def row_of(database: FleetDatabase, id_: str) -> Row:
    row = database.row(id_)
    assert row is not None
    return row


def submit(database: FleetDatabase, id_: str, url: str = SITE, *, after: str = "") -> None:
    by = "Ada Example <ada@example.org>"
    database.submit(
        NewSession(
            id_, url, f"{FEATURE}-{id_}", "auto-feature", FEATURE, after=after, submitted_by=by
        )
    )


def take(database: FleetDatabase, id_: str, seconds: float = 90.0) -> Lease:
    lease = database.take(id_, "build-7-1f09ac", seconds)
    assert lease is not None
    return lease


def wait(database: FleetDatabase, id_: str, said: str = "") -> None:
    submit(database, id_)
    assert database.wait(take(database, id_), GATE, CHOICES, said)


def stick(database: FleetDatabase, id_: str) -> None:
    submit(database, id_)
    sentence = "someone pushed to the session's branch"
    assert database.stick(take(database, id_), "PB-FLEET-BRANCH", sentence)


def end(database: FleetDatabase, id_: str, state: State) -> None:
    submit(database, id_)
    assert database.finish(take(database, id_), state)


def refused(done: Result, code: str) -> str:
    """The message of the error, in one line with what it guides to."""
    assert done.code in (1, 3), done
    assert f"[{code}]" in done.err, done.err
    return " ".join(done.err.split())


# ── setting up ──────────────────────────────────────────────────────────────────────────────


def test_up_makes_a_file_that_only_its_user_can_read(project: Project) -> None:
    made = project.playbook("fleet", "up")
    file = own(project).file
    assert file is not None
    assert (made.code, made.out) == (0, f"made: sqlite:///{file}\n")
    assert file.stat().st_mode & 0o777 == 0o600
    again = project.playbook("fleet", "up")
    assert (again.code, again.out) == (0, f"ready: sqlite:///{file}\n")
    assert project.playbook("fleet", "migrate").out == f"up to date: sqlite:///{file}\n"


def test_without_a_fleet_its_commands_say_how_to_set_one_up(project: Project) -> None:
    for command in (
        ("fleet", "status"),
        ("fleet", "limits"),
        ("fleet", "retry", IDS[0]),
        ("fleet", "prune"),
    ):
        assert "`playbook fleet up`" in refused(project.playbook(*command), "PB-FLEET-NOT-UP")
    assert not (project.home / ".local/state/playbook/fleet").exists()


@pytest.mark.long
def test_up_says_who_must_migrate_a_server(project: Project, postgres: Server) -> None:
    project.env["PLAYBOOK_FLEET"] = url = postgres.url(postgres.create())
    said = refused(project.playbook("fleet", "up"), "PB-FLEET-NOT-UP")
    assert "`playbook fleet migrate` makes its tables" in said
    assert "dummy" not in said
    made = project.playbook("fleet", "migrate")
    shown = address.parse(url).shown
    assert (made.code, made.out) == (0, f"made: {shown}\n")
    assert project.playbook("fleet", "up").out == f"ready: {shown}\n"
    doctor = project.playbook("fleet", "doctor")
    assert f"ok  database: {shown} as playbook, answers in" in doctor.out
    assert "WRONG  worker.yaml: the database is shared" in doctor.out
    postgres.stop()
    assert refused(project.playbook("fleet", "status"), "PB-FLEET-DATABASE")
    assert "WRONG  database: the fleet's database cannot be used" in (
        project.playbook("fleet", "doctor").out
    )


def test_doctor_says_what_a_role_may_not_do(project: Project, postgres: Server) -> None:
    name = postgres.create()
    owner = {"PLAYBOOK_FLEET": postgres.url(name)}
    assert project.playbook("fleet", "migrate", env=owner).code == 0
    assert "ok  rights: playbook can" in project.playbook("fleet", "doctor", env=owner).out
    postgres.create_role("reader", "")
    postgres.execute("GRANT USAGE ON SCHEMA fleet TO reader", name)
    postgres.execute("GRANT SELECT ON ALL TABLES IN SCHEMA fleet TO reader", name)
    reader = {"PLAYBOOK_FLEET": postgres.url(name, user="reader")}
    assert project.playbook("fleet", "status", env=reader).code == 0
    done = project.playbook("fleet", "doctor", env=reader)
    assert "WRONG  rights: the fleet's database cannot be used (permission denied" in done.out
    postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")
    postgres.execute("DROP ROLE reader")


def test_the_settings_of_a_repository_can_name_the_database(project: Project) -> None:
    file = project.home / "elsewhere.sqlite"
    project.write(".playbooks/config.yaml", f"fleet: sqlite:///{file}\n")
    assert project.playbook("fleet", "up").out == f"made: sqlite:///{file}\n"
    assert project.playbook("fleet", "status").code == 0
    outside = project.playbook("fleet", "status", cwd=project.home)
    assert refused(outside, "PB-FLEET-NOT-UP")


# ── status ──────────────────────────────────────────────────────────────────────────────────


def test_status_shows_first_what_waits_for_a_person(up: Project, database: FleetDatabase) -> None:
    end(database, IDS[0], State.COMPLETED)
    end(database, IDS[1], State.FAILED)
    submit(database, IDS[2], API)
    submit(database, IDS[3], API)
    submit(database, IDS[4], after=IDS[3])
    stick(database, IDS[5])
    wait(database, IDS[6])
    submit(database, IDS[7])
    take(database, IDS[7])
    shown = up.playbook("fleet", "status", cwd=up.home)
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert [line[:12] for line in lines if line[0].isdigit()][:-1] == [
        *(IDS[6], IDS[5], IDS[7], IDS[2], IDS[3], IDS[4])
    ]
    assert f"{IDS[6]}  auto-feature  {FEATURE}  WAITS FOR A HUMAN at {GATE}, for" in lines[0]
    assert lines[1] == f"  playbook answer {IDS[6]} continue (or skip or abort)"
    text = " ".join(shown.out.split())
    assert "someone pushed to the session's branch [PB-FLEET-BRANCH]" in text
    assert f"then `playbook fleet retry {IDS[5]}`." in text
    assert "on build-7-1f09ac, its lease ends in 1 min" in text
    assert "1 before it" in text
    assert f"after {IDS[3]}, which is queued" in text
    assert f"ended in the last 24 hours: 1 completed, 1 failed ({IDS[1]})" in lines
    assert lines[-1] == "1 waiting for you, 1 stuck, 1 running, 3 queued"
    assert "playbook inbox" in shown.err


def test_status_says_why_a_session_does_not_run(up: Project, database: FleetDatabase) -> None:
    def queue(id_: str, pool: str = "default") -> Lease:
        database.submit(NewSession(id_, SITE, f"{FEATURE}-{id_}", "auto-feature", FEATURE, pool))
        return take(database, id_)

    database.put_off(queue(IDS[0]), "PB-GIT-REMOTE", "the repository cannot be reached")
    database.need(queue(IDS[1], pool="gpu"), "9.1.0")
    lapsed = queue(IDS[2])
    database.cancel(IDS[2], "superseded", "Ada")
    database.renew(lapsed, 0.001)
    wait(database, IDS[3], said="only ann@example.org may answer")
    end(database, IDS[4], State.FAILED)
    out = up.playbook("fleet", "status", "--all").out
    put_off, *_ = [line for line in out.splitlines() if line.startswith(IDS[0])]
    assert re.search(r"  queued for \S+ s, again in \S+ s after 1 failure  ", put_off)
    assert "  tried 1 time, last: the repository cannot be reached [PB-GIT-REMOTE]\n" in out
    assert "needs a worker with playbook 9.1.0, pool gpu" in out
    assert "its lease has lapsed" in out
    assert re.search(r"ago, to be cancelled, as Ada asked \S+ s ago  ", out)
    assert "  only ann@example.org may answer\n" in out
    ended = rf"failed, \d\.\d s ago  acme/site\n  playbook fleet retry {IDS[4]}\n"
    assert re.search(ended, out)


def test_a_cancelled_session_keeps_what_it_has_waited_for(
    up: Project, database: FleetDatabase
) -> None:
    wait(database, IDS[0])
    stick(database, IDS[1])
    submit(database, IDS[2])
    submit(database, IDS[3], after=IDS[2])
    for id_ in (IDS[0], IDS[1], IDS[3]):
        database.cancel(id_, "superseded", "Ada")
    out = " ".join(up.playbook("fleet", "status").out.split())
    waited = (
        rf"at gate {re.escape(GATE)} for \S+ s",
        r"stuck for \S+ s",
        rf"queued for \S+ s, after {IDS[2]}, which is queued",
    )
    for before in waited:
        assert re.search(rf"{before}.*?, to be cancelled, as Ada asked \S+ s ago acme/site", out)
    assert "someone pushed to the session's branch [PB-FLEET-BRANCH]" in out
    sessions = up.playbook("fleet", "status", "--json").json["sessions"]
    waits = {each["session"]: each["waits_for"] for each in sessions}
    assert {id_: (each["kind"], each["what"]) for id_, each in waits.items()} == {
        IDS[0]: ("gate", GATE),
        IDS[1]: ("repair", "PB-FLEET-BRANCH"),
        IDS[2]: ("turn", "default"),
        IDS[3]: ("session", IDS[2]),
    }
    assert all(each["cancel"]["by"] == "Ada" for each in sessions if "cancel" in each)


def test_status_says_that_an_answer_is_not_taken_up_yet(
    up: Project, database: FleetDatabase
) -> None:
    wait(database, IDS[0])
    assert up.playbook("answer", IDS[0], "continue").code == 0
    assert f"answered at {GATE}, not taken up yet, waits for a worker of pool default" in (
        up.playbook("fleet", "status").out
    )
    (session,) = up.playbook("fleet", "status", "--json").json["sessions"]
    assert (session["waits_for"]["kind"], session["waits_for"]["what"]) == ("answer", GATE)


def test_status_names_the_pool_that_has_no_room(up: Project, database: FleetDatabase) -> None:
    for id_, url in zip(IDS, (SITE, SITE, API), strict=False):
        submit(database, id_, url)
    take(database, IDS[0])
    assert up.playbook("fleet", "limits", "--per-repository", "1").code == 0

    def kinds() -> list[str]:
        sessions = up.playbook("fleet", "status", "--json").json["sessions"]
        return [each["waits_for"]["kind"] for each in sessions if each["state"] == "queued"]

    assert kinds() == ["limit", "turn"]
    assert up.playbook("fleet", "limits", "--in-all", "1").code == 0
    assert kinds() == ["limit", "limit"]
    out = up.playbook("fleet", "status").out
    assert "pool default has no room: `playbook fleet limits`" in out


def test_status_says_how_often_workers_have_died() -> None:
    hour = 3_600_000
    row = Row(IDS[0], SITE, "b", "auto-feature", "", "default", State.QUEUED, deaths=2, since=1)
    session = FleetSession(replace(row, changed_at=hour))
    said = "its worker died 2 times during its step: it is taken up alone"
    assert rendering.standing(session, hour) == (
        f"queued for 1 h, waits for a worker of pool default, {said}"
    )
    wait = session.waits_for(hour)
    assert wait is not None
    assert (wait.kind, wait.since) == ("worker", 1)
    taken = replace(row, state=State.RUNNING, deaths=1, worker="w", lease_until=2 * hour)
    said = "runs for 1 h on w, its worker died 1 time during its step"
    assert rendering.standing(FleetSession(taken), hour) == said


def test_status_as_json_conforms_to_its_schema(up: Project, database: FleetDatabase) -> None:
    wait(database, IDS[0], said="only ann@example.org may answer")
    stick(database, IDS[1])
    submit(database, IDS[2])
    database.put_off(take(database, IDS[2]), "PB-GIT-REMOTE", "the repository cannot be reached")
    submit(database, IDS[3], after=IDS[2])
    submit(database, IDS[4])
    take(database, IDS[4])
    database.cancel(IDS[4], "superseded", "Ada")
    end(database, IDS[5], State.ABORTED)
    shape = up.playbook("fleet", "status", "--json").json
    jsonschema.validate(shape, json.loads(schema_text("fleet")))
    assert shape["counts"] == {"waiting": 1, "stuck": 1, "running": 1, "queued": 2}
    first, stuck, running, *queued = shape["sessions"]
    assert first["gate"] == {"id": GATE, "choices": [*CHOICES]}
    assert first["notice"] == "only ann@example.org may answer"
    assert stuck["error"]["guidance"].endswith(f"`playbook fleet retry {IDS[1]}`.")
    assert running["cancel"] == {"text": "superseded", "by": "Ada"}
    assert {each["session"]: each.get("failures") for each in queued} == {IDS[2]: 1, IDS[3]: None}
    waits = [each["waits_for"] for each in (first, stuck, running, *queued)]
    assert [each["kind"] for each in waits] == ["gate", "repair", "cancel", "pause", "session"]
    assert waits[3]["until"] == queued[0]["due_at"]
    assert [each["session"] for each in shape["ended"]] == [IDS[5]]


def test_status_finds_one_session_by_a_part_of_its_id(up: Project, database: FleetDatabase) -> None:
    wait(database, IDS[0])
    end(database, IDS[1], State.COMPLETED)
    (one,) = up.playbook("fleet", "status", "b7k", "--json").json["sessions"]
    assert (one["session"], one["state"]) == (IDS[1], "completed")
    everything = up.playbook("fleet", "status", "--all", "--json").json["sessions"]
    assert [each["session"] for each in everything] == IDS[:2]
    said = refused(up.playbook("fleet", "status", "zzz"), "PB-STATE-NO-SESSION")
    assert "the fleet has no session zzz" in said


@pytest.mark.measured
def test_watching_prints_each_change(up: Project, database: FleetDatabase) -> None:
    submit(database, IDS[0])
    with up.spawn("fleet", "status", IDS[0], "--watch") as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().decode().endswith(": queued\n")
        lease = take(database, IDS[0])
        assert b"running on build-7" in watching.stdout.readline()
        database.stick(lease, "PB-FLEET-BRANCH", "someone pushed to the session's branch")
        assert b"STUCK: someone pushed" in watching.stdout.readline()
        database.retry(IDS[0])
        database.wait(take(database, IDS[0]), GATE, ("answer", "abort"))
        line = watching.stdout.readline().decode()
        assert line.endswith(f'WAITS FOR A HUMAN: playbook answer {IDS[0]} "…" (or abort)\n')
        database.cancel(IDS[0], "enough", "Ada")
        database.finish(take(database, IDS[0]), State.ABORTED)
        out, err = watching.communicate(timeout=60)
        assert out.decode().endswith(f"auto-feature {FEATURE}: aborted\n"), err
    assert watching.returncode == 0


@pytest.mark.measured
def test_watching_outlasts_a_database_that_is_away(project: Project, postgres: Server) -> None:
    project.env["PLAYBOOK_FLEET"] = url = postgres.url(postgres.create())
    assert project.playbook("fleet", "migrate").code == 0
    with FleetDatabase.open(address.parse(url)) as database:
        submit(database, IDS[0])
        with project.spawn("fleet", "status", IDS[0], "--watch") as watching:
            assert watching.stdout is not None
            assert watching.stderr is not None
            assert watching.stdout.readline().decode().endswith(": queued\n")
            postgres.stop()
            said = watching.stderr.readline().decode()
            assert said == "note: the fleet's database cannot be used; trying again\n"
            postgres.start()
            database.finish(take(database, IDS[0]), State.COMPLETED)
            assert watching.communicate(timeout=60)[0].endswith(b": completed\n")
    assert watching.returncode == 0


@pytest.mark.measured
def test_a_terminal_shows_the_counts_first(up: Project, database: FleetDatabase) -> None:
    wait(database, IDS[0])
    with Terminal(up, "fleet", "status", "--watch") as terminal:
        terminal.until(f"playbook answer {IDS[0]}")
        assert terminal.shown.index("1 waiting for you") < terminal.shown.index(IDS[0])
        submit(database, IDS[1])
        terminal.until("1 waiting for you, 1 queued")
        terminal.interrupt()
        assert terminal.end() == 130


def test_a_damaged_row_is_named_and_hides_no_other(up: Project, database: FleetDatabase) -> None:
    wait(database, IDS[0])
    wait(database, IDS[1])
    damage(up, IDS[0])
    shown = up.playbook("fleet", "status")
    assert IDS[1] in shown.out
    assert f"note: the row of session {IDS[0]} is damaged" in shown.err
    assert "WRONG  rows: the row of session" in up.playbook("fleet", "doctor").out


def run_to_gate(project: Project, playbook: str = "gated") -> str:
    agent = project.script("default: {say: done}")
    done = project.playbook("run", playbook, "--agent", agent, "--json")
    assert done.json["ending"] == "waiting", done.err
    id_: str = done.json["session"]
    return id_


def damage(project: Project, id_: str) -> None:
    """Write what nothing of ours would."""
    file = own(project).file
    assert file is not None
    connection = sqlite3.connect(file)
    with connection:
        connection.execute("UPDATE fleet_session SET pool = 'x y' WHERE id = ?", (id_,))
    connection.close()


# ── answer ──────────────────────────────────────────────────────────────────────────────────


def test_an_answer_reaches_the_fleet_from_any_folder(up: Project, database: FleetDatabase) -> None:
    wait(database, IDS[0])
    given = up.playbook("answer", IDS[0], "read", "the", "diff,", "continue", cwd=up.home)
    assert given.code == 0, given.err
    first, following = given.out.splitlines()
    assert first.endswith("pr#1 answered continue by Ada Example <ada@example.org>")
    assert following == f"next: a worker of the fleet continues {IDS[0]}"
    waiting = up.playbook("fleet", "status").out
    row = row_of(database, IDS[0])
    assert row.state is State.QUEUED
    answer = database.answer_due(take(database, IDS[0]))
    assert answer is not None
    assert (answer.gate, answer.text) == (GATE, "read the diff, continue")
    assert f"answered at {GATE}" in waiting
    second = up.playbook("answer", IDS[0], "abort")
    assert refused(second, "PB-FLEET-ANSWERED")


def test_an_answer_is_checked_as_at_a_gate_here(up: Project, database: FleetDatabase) -> None:
    wait(database, IDS[0])
    said = refused(up.playbook("answer", "a7k", "perhaps"), "PB-ARG-ANSWER")
    assert "Begin or end with one of: continue, skip, abort" in said
    no = refused(up.playbook("answer", "--session", IDS[0], "no"), "PB-ARG-ANSWER")
    assert "Skip this step, or abort the run?" in no
    wrong = up.playbook("answer", "--gate", "pr#1?2", IDS[0], "continue")
    assert "the gate pr#1?2 is not open; it is pr#1?1" in refused(wrong, "PB-STATE-REFUSED")
    assert up.playbook("answer", "--gate", GATE, IDS[0], "continue").code == 0
    stick(database, IDS[1])
    stuck = up.playbook("answer", IDS[1], "continue")
    assert "it is stuck" in refused(stuck, "PB-STATE-NO-GATE")


def test_a_gate_whose_choices_are_lost_is_not_answered(
    up: Project, database: FleetDatabase
) -> None:
    submit(database, IDS[0])
    database.wait(take(database, IDS[0]), GATE, ())
    said = refused(up.playbook("answer", IDS[0], "continue"), "PB-STATE-CORRUPT")
    assert f"`playbook fleet rebuild --repo {SITE}`" in said


def test_a_database_without_tables_is_no_fleet(project: Project, postgres: Server) -> None:
    project.env["PLAYBOOK_FLEET"] = postgres.url(postgres.create())
    assert refused(project.playbook("answer", IDS[0], "continue"), "PB-STATE-NO-SESSION")
    postgres.stop()
    for command in (("answer", IDS[0], "continue"), ("fleet", "up"), ("fleet", "migrate")):
        assert refused(project.playbook(*command), "PB-FLEET-DATABASE")


def test_a_session_of_this_repository_is_answered_here(
    up: Project, database: FleetDatabase
) -> None:
    up.write(".playbooks/playbooks/gated.yaml", GATED)
    id_ = run_to_gate(up)
    submit(database, id_)
    assert database.wait(take(database, id_), GATE, CHOICES)
    given = up.playbook("answer", id_, "abort")
    assert given.code == 0, given.err
    assert "publish#1" in given.out
    assert "fleet" not in given.out
    row = row_of(database, id_)
    assert row.state is State.WAITING


def test_an_unknown_session_is_the_repositorys_own_error(
    up: Project, database: FleetDatabase
) -> None:
    wait(database, IDS[0])
    assert refused(up.playbook("answer", IDS[1], "continue"), "PB-STATE-NO-SESSION")
    assert refused(up.playbook("answer", "continue"), "PB-STATE-NO-SESSION")
    outside = up.playbook("answer", IDS[1], "continue", cwd=up.home)
    assert refused(outside, "PB-STATE-NO-REPOSITORY")


def test_a_session_here_is_decided_without_a_module_of_the_fleet(up: Project) -> None:
    assert not [each for each in loaded_by(up, "answer", "continue") if "fleet" in each]


def test_where_no_fleet_is_set_up_its_packages_are_not_loaded(project: Project) -> None:
    loaded = loaded_by(project, "answer", IDS[0], "continue")
    assert "playbook_supervisor.fleet.place" in loaded
    assert not {"sqlite3", "psycopg"} & loaded


def loaded_by(project: Project, *command: str) -> set[str]:
    """The modules that are loaded once the command has ended."""
    probe = (
        f"import sys; sys.argv = ['playbook', *{command!r}]\n"
        "from playbook_supervisor.__main__ import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe],
        cwd=project.root,
        env=project.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "command",
    [
        ("answer", IDS[0], "continue"),
        ("fleet", "retry", "--stuck"),
    ],
)
def test_an_agents_shell_decides_nothing(
    up: Project, database: FleetDatabase, command: tuple[str, ...]
) -> None:
    wait(database, IDS[0])
    done = up.playbook(*command, env={"CLAUDECODE": "1"})
    assert "Claude Code runs this shell" in refused(done, "PB-STATE-HUMAN-ONLY")
    row = row_of(database, IDS[0])
    assert (row.state, row.cancel) == (State.WAITING, "")


# ── abort and retry ────────────────────────────────────────────────────────────────────────


def test_abort_keeps_the_reason_and_the_person(up: Project, database: FleetDatabase) -> None:
    wait(database, IDS[0])
    done = up.playbook("abort", "a7k", "-m", "superseded by 014", cwd=up.home)
    person = "Ada Example <ada@example.org>"
    assert done.out == f"{IDS[0]} cancelled by {person}\n"
    assert done.err == "next: a worker ends it; `playbook fleet status` shows when\n"
    row = row_of(database, IDS[0])
    assert (row.state, row.cancel, row.cancel_by) == (State.QUEUED, "superseded by 014", person)
    assert "to be cancelled" in up.playbook("fleet", "status").out
    end(database, IDS[1], State.COMPLETED)
    said = refused(up.playbook("abort", IDS[1]), "PB-STATE-ENDED")
    assert f"session {IDS[1]} is completed" in said


def test_retry_queues_what_is_stuck_or_failed(up: Project, database: FleetDatabase) -> None:
    stick(database, IDS[0])
    end(database, IDS[1], State.FAILED)
    end(database, IDS[2], State.ABORTED)
    wait(database, IDS[3])
    said = up.playbook("fleet", "retry", *IDS[:2]).out
    assert said == f"{IDS[0]} is queued again\n{IDS[1]} is queued again\n"
    assert {row_of(database, id_).state for id_ in IDS[:2]} == {State.QUEUED}
    assert refused(up.playbook("fleet", "retry", IDS[2]), "PB-STATE-ENDED")
    said = refused(up.playbook("fleet", "retry", IDS[3]), "PB-STATE-REFUSED")
    assert "is waiting" in said


def test_all_that_is_stuck_can_be_retried_at_once(up: Project, database: FleetDatabase) -> None:
    stick(database, IDS[0])
    stick(database, IDS[1])
    end(database, IDS[2], State.FAILED)
    assert up.playbook("fleet", "retry", "--stuck").out == "2 sessions queued again\n"
    assert [row_of(database, id_).state for id_ in IDS[:3]] == ["queued", "queued", "failed"]
    for wrong in ((), (IDS[0], "--stuck")):
        assert up.playbook("fleet", "retry", *wrong).code == 1


# ── limits ──────────────────────────────────────────────────────────────────────────────────


def test_limits_are_shown_set_one_by_one_and_removed(up: Project) -> None:
    def limits(*arguments: str) -> str:
        done = up.playbook("fleet", "limits", *arguments)
        assert done.code == 0, done.err
        return done.out

    assert limits() == "default: no limits\n"
    assert limits("--in-all", "4") == "default: 4 at once\n"
    assert limits("--per-repository", "1") == "default: 4 at once, 1 of one repository\n"
    assert limits("gpu", "--per-time", "2/10") == "gpu: 2 may start in 10 s\n"
    assert limits() == "default: 4 at once, 1 of one repository\n"
    assert limits("--none", "--in-all", "3") == "default: 3 at once\n"
    assert limits("--none") == "default: no limits\n"
    for wrong in (("--per-time", "often"), ("No Pool",), ("--in-all", "0")):
        assert up.playbook("fleet", "limits", *wrong).code == 1


# ── rebuild, prune, doctor ──────────────────────────────────────────────────────────────────


@dataclass
class Served:
    """A repository at its remote, and the mirror of it that workers of this machine have."""

    project: Project
    bare: Project
    mirror: Mirror

    def session(
        self, playbook: str = "gated", change: Callable[[Path], None] = lambda _: None
    ) -> str:
        """Push a session that waits at its gate. `change` is given its folder before."""
        commit, _ = self.mirror.base(FEATURE)
        clone = self.mirror.begin(commit, "session-branch", self.project.home / "clone")
        id_ = run_to_gate(Project(clone.path, self.project.home), playbook)
        change(clone.path / ".playbooks/sessions" / id_)
        clone.create(id_)
        clone.remove()
        return id_

    def rebuild(self) -> Result:
        return self.project.playbook("fleet", "rebuild", "--repo", str(self.bare.root))


@pytest.fixture
def served(up: Project) -> Served:
    for name, text in (("gated", GATED), ("top", TOP), ("publish", PUBLISH)):
        up.write(f".playbooks/playbooks/{name}.yaml", text)
    up.commit("Add playbooks")
    bare = remote(up)
    up.git("push", "-q", "origin", "main")
    bare.git("symbolic-ref", "HEAD", "refs/heads/main")
    settings = up.home / ".config/playbook/worker.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text("transports: [file]\n")
    return Served(up, bare, opening.mirror(str(bare.root)))


def test_a_lost_database_is_rebuilt_from_the_refs(up: Project, served: Served) -> None:
    session, where = served.session(), f"file://{served.bare.root}"
    made = served.rebuild()
    assert made.out == f"{where}: 1 session, 1 changed\n", made.err
    with FleetDatabase.open(own(up)) as database:
        row = row_of(database, session)
        assert (row.state, row.gate, row.choices) == (State.WAITING, "publish#1?1", CHOICES)
        assert (row.playbook, row.branch) == ("gated", "session-branch")
        assert served.rebuild().out == f"{where}: 1 session, 0 changed\n"


def test_a_rebuilt_session_keeps_the_answer_that_the_database_has(
    up: Project, served: Served
) -> None:
    session = served.session()
    served.rebuild()
    up.git("fetch", "-q", str(served.bare.root), f"refs/playbook/sessions/{session}")
    up.git("checkout", "-q", "FETCH_HEAD", "--", f".playbooks/sessions/{session}")
    given = up.playbook("answer", session, "abort")  # and not in the copy that is here
    assert "a worker of the fleet continues" in given.out, given.err
    served.mirror.claim(served.mirror.tip(session), 3, "another")
    served.rebuild()
    with FleetDatabase.open(own(up)) as database:
        row = row_of(database, session)
        assert (row.state, row.epoch) == (State.QUEUED, 3)
        answer = database.answer_due(take(database, session))
        assert answer is not None
        assert answer.text == "abort"


def test_what_the_refs_say_of_each_session_decides_its_state(up: Project, served: Served) -> None:
    child = served.session("top")

    def end(folder: Path) -> None:
        file = folder / "session.yaml"
        text = file.read_text().partition("gate:")[0].replace("in_progress", "completed")
        file.write_text(text)

    def begin(folder: Path) -> None:
        (folder / "journal.yaml").write_text("schema: 1\nentries: []\n")

    def damage(folder: Path) -> None:
        (folder / "session.yaml").write_text("schema: [\n")

    def rename(folder: Path) -> None:
        file = folder / "session.yaml"
        file.write_text(file.read_text().replace(folder.name, IDS[0]))

    ended, begun = served.session(change=end), served.session(change=begin)
    damaged, renamed = served.session(change=damage), served.session(change=rename)
    made = served.rebuild()
    assert f"note: {damaged} is left out: " in made.err
    assert f"note: {renamed} is left out: its session.yaml is that of {IDS[0]}" in made.err
    with FleetDatabase.open(own(up)) as database:
        assert len(database.rows()) == 3
        row = row_of(database, child)
        assert (row.state, row.gate) == (State.WAITING, "release#1/ask#1?1")
        assert row.choices == CHOICES
        assert row_of(database, ended).state is State.COMPLETED
        assert row_of(database, begun).state is State.QUEUED
        assert database.take_next(["default"], "w", 90.0).session == begun  # type: ignore[union-attr]


def test_an_error_of_submit_names_the_file_in_the_repository(up: Project, served: Served) -> None:
    up.write(".playbooks/playbooks/faulty.yaml", "name: faulty\nsteps: none\n")
    up.commit("Add a faulty playbook")
    up.git("push", "-q", "origin", "HEAD:main")
    where = f"at: file://{served.bare.root} main:.playbooks/playbooks"
    repository = ("--repo", str(served.bare.root))
    unknown = up.playbook("fleet", "submit", "nothing", *repository)
    assert f"{where} do:" in refused(unknown, "PB-ARG-PLAYBOOK")
    faulty = up.playbook("fleet", "submit", "faulty", *repository)
    assert f"{where}/faulty.yaml:1:1 do:" in refused(faulty, "PB-CHECK-INVALID")
    assert "playbook-clone-" not in unknown.err + faulty.err


def test_prune_removes_what_ended_sessions_have_left(up: Project, served: Served) -> None:
    session = served.session()
    served.rebuild()
    with FleetDatabase.open(own(up)) as database:
        assert up.playbook("abort", session).code == 0
        assert database.finish(take(database, session), State.ABORTED)
        end(database, IDS[0], State.COMPLETED)
        left = up.home / ".local/state/playbook/fleet/workers/killed-123/clone"
        (left / ".git").mkdir(parents=True)
        rooms = up.home / ".cache/playbook/rooms"
        for name, of in (("of-the-clone", left / ".git"), ("of-here", up.root / ".git")):
            record = {"repository": str(of), "check": "test", "size": 1}
            put(rooms / name, "room.json", json.dumps(record))
        young = up.playbook("fleet", "prune")
        said = "removed: 0 sessions, 0 refs, 1 folder of workers, 0 mirrors\n"
        assert young.out == f"{said}removed: the clean room of check test of {left}, 0.0 MB\n"
        assert not left.exists()
        assert [each.name for each in rooms.iterdir()] == ["of-here"]
        for folder in (served.mirror.folder, *(served.mirror.folder / "objects").glob("*")):
            os.utime(folder, (0, 0))
        assert "0 mirrors" in up.playbook("fleet", "prune").out  # a session needs it
        gone = up.playbook("fleet", "prune", "--older-than", "0", "--refs")
        assert gone.out.startswith("removed: 2 sessions, 1 ref, 0 folders of workers"), gone.err
        assert f"the ref of {IDS[0]} stays" in gone.err
        assert gone.code == 3
        assert database.rows() == []
    refs = served.bare.git("for-each-ref", "--format=%(refname)").split()
    assert refs == [f"refs/heads/{FEATURE}", "refs/heads/main"]


def test_prune_removes_a_mirror_that_no_session_needs(up: Project, served: Served) -> None:
    served.mirror.base()
    assert "0 mirrors" in up.playbook("fleet", "prune").out  # it is young
    for folder in (served.mirror.folder, *(served.mirror.folder / "objects").glob("*")):
        os.utime(folder, (0, 0))
    at_work = up.home / ".local/state/playbook/fleet/workers/another"
    at_work.mkdir(parents=True)
    with locked(at_work / "lock", timeout=0):
        assert "0 mirrors" in up.playbook("fleet", "prune").out
    assert up.playbook("fleet", "prune").out.endswith("1 folder of workers, 1 mirror\n")
    assert not served.mirror.folder.exists()


def test_doctor_finds_a_fleet_that_works(
    up: Project, database: FleetDatabase, served: Served
) -> None:
    bare = served.bare
    wait(database, IDS[0])
    before = bare.git("for-each-ref")
    done = up.playbook("fleet", "doctor", "--repo", str(bare.root))
    assert done.code == 0, done.out
    text = done.out
    assert "ok  sessions: 1 waiting\n" in text
    assert "ok  clock: as the database's\n" in text
    assert f"ok  repository file://{bare.root}: takes sessions, as refs/playbook/" in text
    assert bare.git("for-each-ref") == before
    refuse = "#!/bin/sh\ncase $1 in refs/playbook/*) exit 1;; esac\n"
    hook = bare.root / "hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(refuse)
    hook.chmod(0o755)
    done = up.playbook("fleet", "doctor", "--repo", str(bare.root))
    assert "takes sessions only as branches, playbook-sessions/ID" in done.out
    assert bare.git("for-each-ref") == before


def test_doctor_names_what_is_wrong_and_how_to_correct_it(
    up: Project, database: FleetDatabase
) -> None:
    stick(database, IDS[0])
    submit(database, IDS[1])
    take(database, IDS[1], seconds=0.05)
    submit(database, IDS[2])
    settings = up.home / ".config/playbook/worker.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text("repositories: ['https://git.example/acme/*']\nslot: 3\n")
    file = own(up).file
    assert file is not None
    file.chmod(0o644)

    def wrong() -> bool:
        return "WRONG  leases" in up.playbook("fleet", "doctor").out

    eventually(wrong)
    done = up.playbook("fleet", "doctor", "--repo", "http://git.example/x")
    assert done.code == 3
    text = done.out
    assert "WRONG  worker.yaml: slot: unknown key\n  do: Did you mean `slots`?" in text
    assert "WRONG  database file: other users can read or change it\n  do: chmod 600" in text
    assert f"WRONG  stuck: {IDS[0]}: someone pushed to the session's branch" in text
    assert f"WRONG  leases: {IDS[1]}: the lease has lapsed" in text
    assert "WRONG  repository http://git.example/x" in text
    assert "ok  git: git version" in text


@pytest.mark.parametrize(("free", "state"), [(1 << 40, "ok"), (1 << 20, "WRONG")])
def test_doctor_looks_at_the_disk_and_the_settings(
    up: Project, monkeypatch: pytest.MonkeyPatch, free: int, state: str
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    settings = up.home / ".config/playbook/worker.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text("repositories: ['https://git.example/acme/*']\npools: [gpu]\nslots: 1\n")
    out = up.playbook("fleet", "doctor", "--repo", "https://git.example/other/site").out
    assert f"{state}  disk: {free / (1 << 30):.1f} GiB free for clones in {up.home}" in out
    served = "serves https://git.example/acme/* by https, ssh; pools: gpu; 1 slot"
    assert f"ok  worker.yaml: {served}\n" in out
    assert "WRONG  repository https://git.example/other/site: workers here do not serve it" in out


def test_doctor_names_an_address_that_is_none(project: Project) -> None:
    done = project.playbook("fleet", "doctor", env={"PLAYBOOK_FLEET": "mysql://h/d"})
    assert "ok  worker.yaml" in done.out
    assert "WRONG  database: the address of the fleet's database has an unknown scheme" in done.out


def test_without_the_extra_a_server_cannot_be_used(project: Project) -> None:
    missing = "import sys; sys.modules['psycopg'] = None; sys.argv[1:] = ['fleet', 'status']; "
    run = "from playbook_supervisor.__main__ import program; program()"
    argv = [sys.executable, "-c", missing + run]
    env = {**project.environment, "PLAYBOOK_FLEET": "postgresql://127.0.0.1:1/fleet"}
    done = subprocess.run(argv, cwd=project.root, env=env, capture_output=True, text=True)
    assert done.returncode == 3
    assert "psycopg is missing [PB-STATE-NO-EXTRA]" in done.stderr
    assert f"Install it: {command_for('fleet')}" in done.stderr


def test_the_help_of_the_group_names_its_commands(project: Project, tmp_path: Path) -> None:
    shown = project.playbook("fleet", cwd=tmp_path)
    assert shown.code == 0
    assert all(
        f"\n  {name} " in shown.out
        for name in (
            "submit",
            "worker",
            "status",
            "up",
            "migrate",
            "limits",
            "rebuild",
            "prune",
            "retry",
            "doctor",
        )
    )
    assert refused(project.playbook("fleet", "rebuild"), "PB-ARG-USAGE")
