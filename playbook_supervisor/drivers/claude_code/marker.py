"""The marker file, from which a hook learns at once whether a session is bound here.

Its lines are the absolute path of the program that hooks start, the session, and the Claude
session. This module imports next to nothing, for most hooks need no more.
"""

from __future__ import annotations

import os

MARKER = "playbook/bound"  # path in the git directory
CLIENTS = "playbook/bound"  # path in the user's state folder, of a file for each client
GOALS = "playbook/goals"  # path in the user's state folder, of a file for each client with a goal
SCRIPT = ".claude/hooks/playbook.sh"  # what our hook entries run
MARK = ": playbook-supervisor;"
"""The beginning of our hook entries' commands: a no-op for the shell, a mark for us."""

_MAX_SIZE = 10_000


def git_directory(root: str) -> str:
    """`root/.git` or, if it is a file, the folder it names; the hooks' script does the same."""
    entry = os.path.join(root, ".git")
    try:
        with open(entry, encoding="utf-8", errors="surrogateescape") as file:
            pointer = file.readline(_MAX_SIZE).strip().removeprefix("gitdir: ")
    except (OSError, ValueError):
        return entry
    return os.path.join(root, pointer)


def marked(git_dir: str) -> tuple[str, str]:
    """The session bound in that git directory, and its Claude session; empty if there is none."""
    try:
        with open(f"{git_dir}/{MARKER}", "rb") as file:
            lines = file.read(_MAX_SIZE).decode("utf-8", "replace").splitlines()
    except (OSError, ValueError):
        return "", ""
    return (lines[1], lines[2]) if len(lines) > 2 else ("", "")
