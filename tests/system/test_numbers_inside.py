"""The numbers of processes in a namespace, as a process outside reads them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest
from support.bubblewrap import needs_bubblewrap

from playbook_supervisor.system.process import ancestry

MOST = 1 << 30


@pytest.fixture
def first() -> Iterator[int]:
    """The first program of a namespace, which waits for its input to end."""
    argv = ["bwrap", "--ro-bind", "/", "/", "--proc", "/proc", "--unshare-pid", "sh", "-c"]
    with subprocess.Popen(
        [*argv, "echo; cat; :"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as outer:
        assert outer.stdout is not None
        outer.stdout.readline()
        pid = outer.pid
        for _ in range(2):
            with open(f"/proc/{pid}/task/{pid}/children") as children:  # noqa: PTH123
                pid = int(children.read().split()[0])
        yield pid


@needs_bubblewrap
def test_the_first_program_and_its_numbers_are_known_outside(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ancestry.is_first_inside(first)
    monkeypatch.setattr(ancestry, "_acts_for", [])
    ancestry.act_for(first, "bwrap")
    assert (ancestry.caller(), ancestry.isolation()) == (first, "bwrap")
    assert (ancestry.numbered_inside(2), ancestry.numbered_inside(MOST)) == (first, 0)
    assert not ancestry.has_terminal()


def test_without_a_namespace_the_number_is_the_only_one() -> None:
    assert ancestry.numbered_inside(os.getpid()) == os.getpid()
    assert ancestry.is_first_inside(MOST)
