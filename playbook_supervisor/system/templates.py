"""Where the files are that we ship to be copied: in the wheel beside us, in a checkout above us."""

from __future__ import annotations

from pathlib import Path


def folder() -> Path:
    """The folder of the templates, for reading only."""
    here = Path(__file__).parent.parent
    shipped = here / "_templates"
    return shipped if shipped.is_dir() else here.parent / "templates"
