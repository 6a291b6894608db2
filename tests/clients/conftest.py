"""The clients' tests: all are long, and their projects lie on a disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.scratch_project import Project

from clients.installed import EACH


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those of the clients that not every long run drives are thorough, too."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.unmeasured)
            item.add_marker(pytest.mark.long)
            played = getattr(item, "callspec", None)
            if played and played.params.get("name", EACH[0]) not in EACH:
                item.add_marker(pytest.mark.thorough)


@pytest.fixture
def project(pristine: Path) -> Iterator[Project]:
    """Not below /dev, where tests lie in memory: Codex's sandbox has a /dev of its own."""
    with tempfile.TemporaryDirectory(prefix="clients-", ignore_cleanup_errors=True) as folder:
        place = Path(folder).resolve()
        (place / "home").mkdir()
        yield Project.copied(pristine, place / "project", home=place / "home")
