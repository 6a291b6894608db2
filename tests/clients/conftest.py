"""The clients' tests are all long."""

from __future__ import annotations

from pathlib import Path

import pytest

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
