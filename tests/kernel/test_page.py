"""`docs/state-machine.md` is generated from the kernel's tables."""

from __future__ import annotations

import runpy
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    """`python tools/generate_state_machine.py` writes it again."""
    generator = runpy.run_path(str(REPOSITORY / "tools" / "generate_state_machine.py"))
    written = (REPOSITORY / "docs" / "state-machine.md").read_text(encoding="utf-8")
    assert written == generator["page"]()
