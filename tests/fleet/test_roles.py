"""Roles of the database, to the end: what one writes is journaled as its own, and a policy says
whose answer counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import psycopg
import pytest

from fleet import migrated
from fleet.local_fleet import ADA, Fleet
from fleet.postgres import Server
from fleet.test_guide import shown
from playbook_supervisor.fleet.storage import address
from playbook_supervisor.fleet.storage.database import FleetDatabase
from playbook_supervisor.fleet.storage.rows import State

GATE = "tasks#1?1"
POLICY = "- match: {step: tasks}\n  answered_by: ['role:release*']\n"
_numbers = count(1)
Role = Callable[[str], address.Address]


@pytest.fixture
def role(postgres: Server, fleet: Fleet) -> Iterator[Role]:
    """Give a fleet on PostgreSQL to the test; its result makes a role with the guide's rights."""
    place = migrated.of_server(postgres)
    name = place.url.rpartition("/")[2]
    fleet.project.write(".playbooks/policies/who.yaml", POLICY)
    fleet.project.commit("Let the role release decide")
    fleet.project.git("push", "-q")

    def made(kind: str) -> address.Address:
        named = f"{kind}_{next(_numbers)}"  # roles are the whole server's
        postgres.create_role(named, "NOSUPERUSER")
        for statement in shown("grants").strip().split(";\n")[1:]:
            postgres.execute(statement.replace("fleet_user", named), name)
        return address.parse(postgres.url(name, user=named))

    with FleetDatabase.open(place) as database:
        fleet.database = database
        yield made


def test_only_the_answer_of_the_role_that_a_policy_names_counts(fleet: Fleet, role: Role) -> None:
    session = fleet.submit()
    assert fleet.advance(session).state is State.WAITING
    mallory, release = role("mallory"), role("release")
    with psycopg.connect(mallory.url, autocommit=True) as other:
        other.execute(
            "INSERT INTO fleet.answer (session, gate, text, by, role) VALUES (%s, %s, %s, %s, %s)",
            (session, GATE, "continue", ADA, "release_1"),
        )
        other.execute("UPDATE fleet.session SET state = 'queued' WHERE id = %s", (session,))
    row = fleet.advance(session)
    assert row.state is State.WAITING
    assert "as the database role mallory" in row.said
    with FleetDatabase.open(release) as database:
        database.answer(session, GATE, "continue", ADA)
    assert fleet.advance(session).state is State.COMPLETED
    assert "role: release" in fleet.journal(session)
    assert fleet.audit().code == 0


@pytest.mark.long
def test_an_answer_is_not_moved_to_a_gate_that_its_writer_never_saw(
    fleet: Fleet, role: Role
) -> None:
    first, second = fleet.submit(), fleet.submit()
    for session in (first, second):
        assert fleet.advance(session).state is State.WAITING
    mallory, release = role("mallory"), role("release")
    with FleetDatabase.open(release) as database:
        database.answer(first, GATE, "continue", ADA)
    with psycopg.connect(mallory.url, autocommit=True) as other:
        for key in (f"session = '{second}'", "gate = 'implement#1?1'"):
            with pytest.raises(psycopg.Error, match="permission denied"):
                other.execute(f"UPDATE fleet.answer SET {key}, journaled = true".encode())
        other.execute(
            "INSERT INTO fleet.answer SELECT %s, gate, text, by, role, via, at FROM fleet.answer",
            (second,),
        )
        other.execute("UPDATE fleet.session SET state = 'queued' WHERE id = %s", (second,))
    assert fleet.advance(second).state is State.WAITING  # a copy is mallory's
    assert fleet.advance(first).state is State.COMPLETED
