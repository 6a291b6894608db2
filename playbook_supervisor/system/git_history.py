"""What git knows of a file's past: when its lines were committed, what it said then, where it is.

Nothing is known where git does not know the file, or is not there: that is no error here.
"""

from __future__ import annotations

import re
from pathlib import Path

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.system.git_process import ask

_COMMIT = re.compile(r"([0-9a-f]{40,64}) [0-9]+ [0-9]+")
_COMMITTED = "committer-time "


def line_times(folder: Path, name: str) -> tuple[int, ...]:
    """When each line of a file was committed as it stands, ms since the epoch; 0: not yet."""
    try:
        blamed = ask(
            folder, "blame", "--porcelain", "--ignore-revs-file=", "--no-textconv", "--", name
        )
    except PlaybookError:
        return ()
    commit, lines = "", []
    times: dict[str, int] = {}
    for line in blamed.split("\n"):
        if line.startswith("\t"):
            lines.append(times.get(commit, 0))
        elif begins := _COMMIT.match(line):
            commit = begins[1]
        elif line.startswith(_COMMITTED) and commit.strip("0"):
            times[commit] = int(line.removeprefix(_COMMITTED)) * 1000
    return tuple(lines)


def merged_into(folder: Path, name: str, branch: str) -> str:
    """The main branch, other than `branch`, that holds the file; empty if none does."""
    try:
        known = ask(
            folder,
            "for-each-ref",
            "--format=%(refname) %(symref)",
            "refs/heads/main",
            "refs/heads/master",
            "refs/remotes/*/HEAD",
        )
        for line in known.splitlines():
            reference = line.split()[-1]
            short = re.sub(r"\Arefs/(?:heads|remotes/[^/]+)/", "", reference)
            if short != branch and ask(folder, "ls-tree", "--name-only", reference, "--", name):
                return short
    except PlaybookError:
        pass
    return ""


def as_of(root: Path, path: str, ms: int) -> bytes | None:
    """What the file said at that time, ms since the epoch, as far as it was committed."""
    try:
        when = f"--before=@{ms // 1000} +0000"
        commit = ask(root, "log", "-1", "--format=%H", when, "HEAD", "--", path).strip()
        return ask(root, "cat-file", "blob", f"{commit}:{path}").encode() if commit else None
    except PlaybookError:
        return None
