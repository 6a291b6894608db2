"""What keeps a project in order: init, index, repair."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from playbook_supervisor.errors import CheckError

if TYPE_CHECKING:
    from playbook_supervisor.installer import Plan


def plan(*, cwd: Path | None = None) -> Plan:
    """What `init` would do here, file by file. Writes nothing; refuses what cannot be."""
    from playbook_supervisor import installer

    return installer.plan(cwd or Path.cwd())


def install(plan: Plan) -> None:
    """Do it (kai FR42, NFR11). Nothing foreign is overwritten."""
    from playbook_supervisor import installer

    installer.apply(plan, _now())


def index(*, cwd: Path | None = None, check: bool = False) -> bool:
    """Bring the index up to date; whether it was not. With `check` it is only an error."""
    from playbook_supervisor import checkout, library

    root = checkout.find(cwd or Path.cwd()).root
    if not check:
        return library.write_index(root, _now())
    stale = library.index_is_stale(root)
    if stale:
        raise CheckError("PB-CHECK-STALE", stale, where=library.INDEX)
    return False


def _now() -> int:
    return time.time_ns() // 1_000_000
