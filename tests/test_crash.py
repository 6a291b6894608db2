"""SIGKILL at every write and at any time: nothing is corrupt, lost, or done twice.

kai NFR2: after any kill, `resume` continues from the journal.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from support import crash_points

FEW = 8
KILLS = int(os.environ.get("CRASH_KILLS", "60"))
"""How many kills at random moments. A release must survive `CRASH_KILLS=1000`."""


def shards(number: int) -> list[Any]:
    """The first is in the short suite, the one in the middle in the long one."""
    half = number // 2
    others = (
        pytest.param(
            shard, number, marks=pytest.mark.long if shard == half else pytest.mark.thorough
        )
        for shard in range(1, number)
    )
    return [(0, number), *others]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("shard", "of"), shards(64))
def test_a_run_killed_at_any_write_is_resumed_to_its_end(
    tmp_path: Path, shard: int, of: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """kai S-M4; cat FR-7.1, NFR-1.2."""
    found = crash_points.points(tmp_path / "work", shard, of)
    assert found["broken"] == []
    assert found["points"] > 100
    assert found["kills"] >= found["points"] // of - 1
    with capsys.disabled():
        print(f"\nkills survived: {found['kills']} of every {of}th of {found['points']} writes")


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("shard", "of"), shards(16))
def test_a_beginning_killed_at_any_write_is_whole_or_not_there(
    tmp_path: Path, shard: int, of: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bare `resume` knows agent, mode, deadlines and the first step; nothing else is left."""
    found = crash_points.beginnings(tmp_path / "work", shard, of)
    assert found["broken"] == []
    assert found["kills"] >= found["points"] // of - 1 > 2
    with capsys.disabled():
        print(f"\nkills survived: {found['kills']} of every {of}th of {found['points']} writes")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kills", [FEW, pytest.param(KILLS - FEW, marks=pytest.mark.long)])
def test_a_run_killed_at_random_moments_is_resumed_to_its_end(
    tmp_path: Path, kills: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """kai S-M1."""
    found = crash_points.times(tmp_path / "work", kills, 20260219 + kills)
    assert found["broken"] == []
    assert found["kills"] >= kills
    with capsys.disabled():
        print(f"\nkills survived: {found['kills']} at random, in {found['sessions']} sessions")
