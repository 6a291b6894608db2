"""Where our templates are: in the wheel inside the package, in a checkout beside it."""

from __future__ import annotations

from pathlib import Path


def folder() -> Path:
    """The folder of the templates. Only read from it."""
    here = Path(__file__).parent.parent.parent
    shipped = here / "_templates"
    return shipped if shipped.is_dir() else here.parent / "templates"
