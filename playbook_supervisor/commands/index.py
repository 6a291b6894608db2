"""`playbook index`: the generated list of playbooks."""

from __future__ import annotations

from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.errors import CheckError
from playbook_supervisor.project import library
from playbook_supervisor.sessions.session_clock import system_clock
from playbook_supervisor.system import checkout


def index(*, cwd: Path | None = None, check: bool = False) -> bool:
    """Rewrite the index if it is stale, and return whether it was.

    With `check` nothing is written; CheckError PB-CHECK-STALE if it is stale.
    """
    root = checkout.find(cwd or locate.current_folder()).root
    if not check:
        return library.write_index(root, system_clock())
    if why := library.index_is_stale(root):
        raise CheckError("PB-CHECK-STALE", why, where=library.INDEX)
    return False
