"""Whether the client itself has called a hook, or a shell that one of its agents runs.

Both have the client above them and its variables around them, and anybody can write a payload. But
the client calls a hook through the shell lines that are installed, and a command of an agent's
through a shell of another kind. A process that forges its own environment and command line, too,
cannot be told from the client.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from playbook_supervisor.drivers.claude_code import ancestry
from playbook_supervisor.drivers.claude_code.context import process
from playbook_supervisor.drivers.claude_code.marker import MARK
from playbook_supervisor.errors import StateError

_PROC: Path = Path("/proc")
_OF_AN_AGENT = "_agent"
"""How the client's name for whom it runs a process ends; of a hook it says `_harness`."""


def admit(environment: Mapping[str, str]) -> None:
    """StateError PB-STATE-HUMAN-ONLY unless the client that the environment names has called us."""
    if why := _forged(environment):
        raise StateError(
            "PB-STATE-HUMAN-ONLY",
            f"`playbook hook` is called by Claude Code alone, and {why}",
            guidance="Leave hooks to the client; `playbook next` says what is outstanding.",
        )


def _forged(environment: Mapping[str, str]) -> str:
    if environment.get("AI_AGENT", "").endswith(_OF_AN_AGENT):
        return "an agent's shell runs this"
    client = process(environment)
    below = os.getpid()
    for above in ancestry.ancestors():
        if above.pid == client:
            ours = below == os.getpid() or _is_ours(below)
            return "" if ours else "a shell of another kind runs this"
        below = above.pid
    return f"its process {client} has not started this"


def _is_ours(shell: int) -> bool:
    """Whether that shell runs the lines that are installed; elsewhere than in /proc: perhaps."""
    try:
        argv = (_PROC / str(shell) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return True
    return any(word.startswith(MARK.encode()) for word in argv)
