"""What the tests of drivers share."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.stored_sessions import Scene, unsynced


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return unsynced(monkeypatch, tmp_path)
