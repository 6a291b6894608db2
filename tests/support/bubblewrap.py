"""Tests that isolate programs for real need bubblewrap. `.ci/run` requires it."""

from __future__ import annotations

import os

import pytest

from playbook_supervisor.system.isolation import bubblewrap

REQUIRED = "PLAYBOOK_REQUIRE_BUBBLEWRAP"


def _why_not() -> str:
    why, _ = bubblewrap.problem()
    assert not (why and os.environ.get(REQUIRED)), f"{why}, and {REQUIRED} is set"
    return why


needs_bubblewrap = pytest.mark.skipif(bool(_why_not()), reason=_why_not() or "it works")
