"""What the tests of executors share."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.task_run import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    folder = tmp_path / "repository"
    folder.mkdir()
    return Bench(folder)
