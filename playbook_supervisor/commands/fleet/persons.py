"""Who may decide in a fleet, and the name that is kept of them."""

from __future__ import annotations

import os
from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.drivers import own_agents
from playbook_supervisor.drivers.claude_code import authorization
from playbook_supervisor.errors import StateError
from playbook_supervisor.system.git_process import identity


def require_person(command: str) -> None:
    """StateError PB-STATE-HUMAN-ONLY if an agent runs this, of ours or of Claude Code.

    A session of a fleet may belong to any repository, so an agent of any repository counts.
    """
    own_agents.require_none_anywhere(command)
    if authorization.inside(os.environ):
        raise StateError(
            "PB-STATE-HUMAN-ONLY",
            f"only a human may run `playbook {command}`, but Claude Code runs this shell",
            guidance="Type it in a terminal of your own.",
        )


def name(cwd: Path | None = None) -> str:
    """The person as git knows them in this folder, or in the user's own settings; else empty."""
    return identity(cwd or locate.current_folder())
