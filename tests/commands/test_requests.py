"""Requests of programs that are ended while no session is driven."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import pytest
from support.scratch_project import Project

from playbook_supervisor.commands.api import rpc
from playbook_supervisor.commands.api.rpc import Deadline, Request
from playbook_supervisor.commands.driving import driving, resume_token
from playbook_supervisor.drivers.observers import Observer
from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.state import INTERRUPTED
from playbook_supervisor.sessions.gate import tokens
from playbook_supervisor.system.process.cancellation import Interrupted


def interrupted(*_: object, **__: object) -> NoReturn:
    raise Interrupted


def served(request: Request) -> StateError:
    with pytest.raises(StateError) as caught:
        rpc.serve(request, Observer())
    return caught.value


@pytest.fixture(autouse=True)
def _ended_by_a_signal(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.root)
    monkeypatch.setattr(driving, "run", interrupted)
    monkeypatch.setattr(resume_token, "resume", interrupted)


def test_that_has_begun_nothing_has_no_session(project: Project) -> None:
    error = served(Request(project.root, "auto-feature"))
    assert (error.code, error.message) == (INTERRUPTED, "a signal has ended the request")
    assert (error.session, error.resume_token) == ("", "")


def test_that_has_begun_a_session_gives_its_token(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tyr 11."""

    def run(*_: object, **__: object) -> NoReturn:
        assert project.playbook("begin", "auto-validate", "013").code == 0
        raise Interrupted

    monkeypatch.setattr(driving, "run", run)
    error = served(Request(project.root, "auto-validate"))
    assert error.session == project.session.name
    assert tokens.session_of(error.resume_token) == project.session.name


def test_that_resumes_keeps_its_token(project: Project) -> None:
    token = f"20260219-a7k~pr.1.1~{'0' * 32}"
    error = served(Request(project.root, token=token, approve=True))
    assert (error.session, error.resume_token) == ("20260219-a7k", token)


def test_whose_time_is_over_says_so(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """tyr 25."""

    @contextmanager
    def within(_: float | None) -> Iterator[Deadline]:
        deadline = Deadline()
        deadline.passed = True
        yield deadline

    monkeypatch.setattr(rpc, "within", within)
    error = served(Request(project.root, "auto-feature", timeout=1))
    assert error.code == "PB-STATE-DEADLINE"
