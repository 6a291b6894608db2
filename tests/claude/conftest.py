"""Tests against the real client. Where it or tmux is missing they are left out, and say so."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from project import Project

from claude.client import Client, program
from claude.model import Model, Reply, Request
from claude.recorder import Recorder

REQUIRED = "PLAYBOOK_REQUIRE_CLAUDE"
required = os.environ.get(REQUIRED) == "1"


def left_out(reason: str) -> None:
    if required:
        pytest.fail(f"{reason}, and {REQUIRED}=1 requires it")
    pytest.skip(reason)


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "recorder")


StartClient = Callable[[Callable[[Request], Reply]], Client]


@pytest.fixture
def start(project: Project, recorder: Recorder) -> Iterator[StartClient]:
    """Make a client for a script; the recorder watches it, and nothing outlives the test."""
    if program() is None:
        left_out("the pinned claude-agent-sdk wheel brings no client for this platform")
    with ExitStack() as stack:

        def client(reply: Callable[[Request], Reply]) -> Client:
            model = stack.enter_context(Model(reply))
            return stack.enter_context(Client(project, model, settings=recorder.settings))

        yield client
