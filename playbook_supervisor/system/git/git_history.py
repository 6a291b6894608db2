"""The history of a file: when its lines were committed, its content elsewhere, where it is merged.

If git is missing or does not know the file, the answer is empty, not an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.system.git.git_process import ask

_COMMIT = re.compile(r"([0-9a-f]{40,64}) [0-9]+ [0-9]+")
_COMMITTED = "committer-time "


def line_times(folder: Path, name: str, chain: str = "") -> tuple[int, ...]:
    """When each line got its present form in a commit, ms since the epoch; 0 if uncommitted.

    With `chain`, the commit of a reference, in the commits that its first parents lead to.
    """
    of_chain = ("--first-parent", chain) if chain else ()
    options = ("--porcelain", "--ignore-revs-file=", "--no-textconv", *of_chain)
    try:
        blame = ask(folder, "blame", *options, "--", name)
    except PlaybookError:
        return ()
    commit, lines = "", []
    times: dict[str, int] = {}
    for line in blame.split("\n"):
        if line.startswith("\t"):
            lines.append(times.get(commit, 0))
        elif header := _COMMIT.match(line):
            commit = header[1]
        elif line.startswith(_COMMITTED) and commit.strip("0"):
            times[commit] = int(line.removeprefix(_COMMITTED)) * 1000
    return tuple(lines)


def merged_into(folder: Path, name: str, branch: str) -> str:
    """The main branch, other than `branch`, that has the file; empty if none does."""
    try:
        heads = ("refs/heads/main", "refs/heads/master", "refs/remotes/*/HEAD")
        known = ask(folder, "for-each-ref", "--format=%(refname) %(symref)", *heads)
        for line in known.splitlines():
            reference = line.split()[-1]
            short = re.sub(r"\Arefs/(?:heads|remotes/[^/]+)/", "", reference)
            if short != branch and ask(folder, "ls-tree", "--name-only", reference, "--", name):
                return short
    except PlaybookError:
        pass
    return ""


def as_of(root: Path, path: str, ms: int) -> bytes | None:
    """The committed content of the file at that time, ms since the epoch; None if there is none."""
    try:
        when = f"--before=@{max(ms, 0) // 1000} +0000"  # git takes a negative time for now
        commit = ask(root, "log", "-1", "--format=%H", when, "HEAD", "--", path).strip()
        return ask(root, "cat-file", "blob", f"{commit}:{path}").encode() if commit else None
    except PlaybookError:
        return None


def on_branches(root: Path, path: str, since: int) -> Iterator[tuple[str, bytes]]:
    """The file as each branch committed it last, with the branch; the branch changed last first.

    Branches of remotes count as they were fetched, and commits since that time, in seconds: the
    whole history of a large repository takes long. At most 20 contents, each once.
    """
    try:
        shown = ("--format=%S", "--raw", "--no-abbrev", "--no-renames", "--diff-filter=AM")
        recent = f"--since=@{since} +0000"
        log = ask(root, "log", "--branches", "--remotes", recent, *shown, "--", path)
        blobs: dict[str, str] = {}
        branch = ""
        for line in log.splitlines():
            if line.startswith(":"):
                blobs.setdefault(branch, line.split()[3])
            elif line:
                branch = re.sub(r"\Arefs/(?:heads|remotes)/", "", line)
        names = {blob: name for name, blob in reversed(blobs.items())}
        for blob in list(dict.fromkeys(blobs.values()))[:20]:
            yield names[blob], ask(root, "cat-file", "blob", blob).encode()
    except PlaybookError:
        return
