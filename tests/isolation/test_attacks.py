"""What hostile agents try, in real runs: none of it succeeds in isolation.

A judge outside watches; what the agents say is not believed.
"""

from __future__ import annotations

import os

import pytest
from support.bubblewrap import needs_bubblewrap

from isolation.attacks import attacks
from isolation.table import judged, rows, written

pytestmark = [
    needs_bubblewrap,
    pytest.mark.unmeasured,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a machine to attack"),
]

USERS = ("root", "ada")


def succeeded(user: str, room: str = "") -> list[str]:
    found = judged("required", user, room)
    tried = [each for each in attacks() if each.possible and not (room and each.moment != "once")]
    assert found.keys() == {(each.group, each.name) for each in tried}, "some were not tried"
    return [f"{group}: {name}: {seen}" for (group, name), seen in found.items() if seen]


@pytest.mark.long
@pytest.mark.parametrize("user", USERS)
def test_no_attack_succeeds_in_isolation(user: str) -> None:
    assert succeeded(user) == []


@pytest.mark.long
@pytest.mark.parametrize("room", ["here", "clean"])
def test_no_attack_of_a_check_succeeds_in_isolation(room: str) -> None:
    """Checks run what agents have written."""
    assert succeeded("root", room=room) == []


@pytest.mark.long
def test_what_succeeds_without_isolation_is_in_the_table() -> None:
    """So the attacks are real ones, and the judge sees them."""
    found = rows(judged("none"))
    said = written()
    assert found == {key: said[key] for key in found}
    assert {*said} == {(each.group, each.name) for each in attacks()}


def test_there_are_many_attacks_and_no_two_have_one_name() -> None:
    names = [(each.group, each.name) for each in attacks()]
    assert len({*names}) == len(names) >= 120
