"""The file by which a hook sees, before anything else is looked at, that a session is bound here.

Its lines are the absolute path of the program that hooks are to start, the session, and the Claude
session. Nothing is imported for it: most hooks need no more than this.
"""

from __future__ import annotations

import os

MARKER = "playbook/bound"
"""In the git directory."""

MARK = ": playbook-supervisor;"
"""How the command of every hook entry of ours begins: to a shell, nothing; to us, our name."""

_LARGEST = 10_000


def git_directory(root: str) -> str:
    """What `root/.git` is or, as a file, points to; as the hooks' own shell lines find it."""
    entry = os.path.join(root, ".git")
    try:
        with open(entry, encoding="utf-8", errors="surrogateescape") as file:
            pointer = file.readline(_LARGEST).strip().removeprefix("gitdir: ")
    except (OSError, ValueError):
        return entry
    return os.path.join(root, pointer)


def marked(git_dir: str) -> tuple[str, str]:
    """The session that is bound in that git directory, and its Claude session; empty: none is."""
    try:
        with open(f"{git_dir}/{MARKER}", "rb") as file:
            lines = file.read(_LARGEST).decode("utf-8", "replace").splitlines()
    except (OSError, ValueError):
        return "", ""
    return (lines[1], lines[2]) if len(lines) > 2 else ("", "")
