"""The stamp of the fleet's rows: other after every change but a renewal, and via of answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from playbook_supervisor.fleet.storage import address
from playbook_supervisor.fleet.storage.database import FleetDatabase
from playbook_supervisor.fleet.storage.rows import Lease, NewSession, State

ID, GATE = "20261125-aaa", "pr#1?1"


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_every_change_of_the_rows_but_a_renewal_changes_their_stamp(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = address.of_file(tmp_path / "fleet/fleet.sqlite")
    if kind == "postgres":
        place = address.parse(request.getfixturevalue("database"))
    FleetDatabase.migrate(place)
    with FleetDatabase.open(place) as fleet:
        leases: list[Lease] = []

        def take() -> None:
            lease = fleet.take(ID, "w", 60)
            assert lease
            leases.append(lease)

        new = NewSession(ID, "https://git.example/a", "b", "p", "f")
        changes: list[Callable[[], object]] = [
            lambda: fleet.submit(new),
            take,
            lambda: fleet.put_off(leases[-1], "PB-GIT-REMOTE", "away", seconds=60),
            lambda: fleet.retry(ID),
            take,
            lambda: fleet.wait(leases[-1], GATE, ("continue", "abort")),
            lambda: fleet.answer(ID, GATE, "continue", "Ada", via="inbox"),
            take,
            lambda: fleet.cancel(ID, "no", "Ada"),
            lambda: fleet.finish(leases[-1], State.ABORTED),
        ]
        known = {fleet.stamp()}
        for number, change in enumerate(changes):
            change()
            stamp = fleet.stamp()
            assert stamp not in known, number
            known.add(stamp)
            if leases and number in (1, 4, 7):
                assert fleet.renew(leases[-1], 60)
                assert fleet.stamp() == stamp
            if number == 7:
                answer = fleet.answer_due(leases[-1])
                assert answer
                assert (answer.via, answer.role) == ("inbox", fleet.role)
