"""The clients' tests are long. Where a client is not installed they are left out, and say so."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from claude.model import Script
from support.scratch_project import Project

from clients import installed
from clients.clients import Seat, seated
from clients.installed import EACH
from clients.model import everyones

REQUIRED = "PLAYBOOK_REQUIRE_CLIENTS"
Sit = Callable[..., AbstractContextManager[Seat]]
"""Put clients on a project's PATH, with a model behind them: `sit(project, script, "codex")`."""


@pytest.fixture
def sit() -> Sit:
    @contextmanager
    def seat(project: Project, script: Script, *names: str) -> Iterator[Seat]:
        for each in names:
            if installed.program(each) is None:
                missing = f"{each} is not installed: `make test-agents`"
                pytest.fail(missing) if os.environ.get(REQUIRED) else pytest.skip(missing)
        with everyones(script) as model, seated(project, model, *names) as made:
            yield made

    return seat


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What waits long is thorough, too, and the clients that not every long run drives."""
    for item in items:
        if item.nodeid.startswith("tests/clients/"):
            item.add_marker(pytest.mark.unmeasured)
            item.add_marker(pytest.mark.long)
            played = item.callspec.params if hasattr(item, "callspec") else {}
            if played.get("name", EACH[0]) not in EACH or played.get("scenario") == "broken":
                item.add_marker(pytest.mark.thorough)
