"""`docs/state-machine.md` is made from the kernel's tables and cannot drift."""

from __future__ import annotations

import runpy
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def test_the_page_of_the_state_machine_is_what_its_generator_makes() -> None:
    """`python tools/generate_state_machine.py` writes it anew."""
    generator = runpy.run_path(str(REPOSITORY / "tools" / "generate_state_machine.py"))
    written = (REPOSITORY / "docs" / "state-machine.md").read_text(encoding="utf-8")
    assert written == generator["page"]()
