"""Tests against the real client. Where it or tmux is missing they are left out, and say so."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.scratch_project import Project

from claude import playbooks
from claude.client import NEWEST, Client, program, running
from claude.model import Model, Script
from claude.recorder import Recorder
from claude.runner import ONE, STRAIGHT, TWO, Headless
from claude.terminal import Terminal, tmux

REQUIRED = "PLAYBOOK_REQUIRE_CLAUDE"

Start = Callable[..., Client]
Open = Callable[..., Terminal]
Sit = Callable[[Script], Terminal]

FREE = ("--permission-mode", "acceptEdits", "--allowedTools", "Bash,Write,Agent,Skill")
"""With this nothing but gates asks for permission."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """No scenario is measured, for each starts dozens of processes; most run in the long suite."""
    for item in items:
        if item.nodeid.startswith("tests/claude/"):
            item.add_marker(pytest.mark.unmeasured)
            if not item.get_closest_marker("smoke"):
                item.add_marker(pytest.mark.long)


def leave_out(reason: str) -> None:
    """Skip the test, or fail where nothing may be left out."""
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(f"{reason}, and {REQUIRED} is set")
    pytest.skip(reason)


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    """Watches every client of this test."""
    return Recorder(tmp_path / "recorder")


@pytest.fixture(params=["pinned", "newest"])
def each_client(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the test with the pinned client, and with the newest that was tested."""
    if request.param == "pinned":
        yield
        return
    if not NEWEST.exists():
        pytest.skip(f"{NEWEST} is missing: `make .venv/newest-client`")
    with running(NEWEST):
        yield


@pytest.fixture
def start(project: Project, request: pytest.FixtureRequest) -> Iterator[Start]:
    """Make a client for a script: `start(script)`, or in another project `start(script, other)`.

    Nothing that it starts outlives the test. The recorder watches it where the test asks for one:
    each hook that it sees costs a process.
    """
    if program() is None:
        leave_out("the pinned claude-agent-sdk wheel brings no client for this platform")
    watched = "recorder" in request.fixturenames
    settings = request.getfixturevalue("recorder").settings if watched else None
    with ExitStack() as stack:

        def client(script: Script, where: Project = project) -> Client:
            model = stack.enter_context(Model(script))
            return stack.enter_context(Client(where, model, settings=settings))

        yield client


@pytest.fixture(scope="session")
def prepared(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What projects with the tool installed start from, made once."""
    return playbooks.furnished(pristine, tmp_path_factory.mktemp("prepared"))


@pytest.fixture
def furnished(prepared: Path, tmp_path: Path, home: Path) -> Project:
    """A project with the tool installed, in which nothing has been run."""
    made = Project.copied(prepared, tmp_path / "project", home=home)
    made.gh("none")
    return made


@pytest.fixture
def headless(start: Start, project: Project) -> Headless:
    """Put the client on the project's PATH as `claude`, with this model behind it."""
    project.write(".playbooks/playbooks/one.yaml", ONE)
    project.write(".playbooks/playbooks/two.yaml", TWO)
    project.write(".playbooks/playbooks/straight.yaml", STRAIGHT)

    def put(script: Script, **env: str) -> Client:
        client = start(script)
        real = shlex.join([*client.model.network.enter, str(program())])
        on_path = client.scratch / "bin/claude"
        on_path.write_text(f'#!/bin/sh\nexec {real} "$@"\n')
        on_path.chmod(0o755)
        client.env |= env
        project.env |= client.environment
        return client

    return put


@pytest.fixture
def open_terminal(start: Start) -> Iterator[Open]:
    """Start a client's terminal interface: `open_terminal(client, *args)`."""
    if tmux() is None:
        leave_out("tmux is not on PATH")
    with ExitStack() as stack:

        def terminal(client: Client, *args: str) -> Terminal:
            return stack.enter_context(Terminal(client, *args))

        yield terminal


@pytest.fixture
def sit(start: Start, open_terminal: Open) -> Sit:
    """Sit down at a terminal with this model, and with `FREE`."""
    return lambda model: open_terminal(start(model), *FREE)
