"""What only git itself can tell: worktrees, differences, who the user is.

The only importer of GitPython, whose `Git` runs the git command line (kai NFR6). All of it is
asked of one folder; nothing here writes by itself but what makes a new repository.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from playbook_supervisor.errors import GitError, PlaybookError, StorageError
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.records import Record
from playbook_supervisor.system.process_groups import (
    GRACE,
    PATIENCE,
    group_lives,
    signal_group,
    until,
)
from playbook_supervisor.system.processes import POINTERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PATIENCE = 20.0  # seconds
_TRACKED, _LINES = 8, 12
_LAST_LINES, _LAST_WORDS = 3, 400
_COARSE = 50  # ms by which a file's time may lag behind the clock
_SESSIONS = ":(exclude,top).playbooks/sessions"


class Worktree(Record):
    """A checkout of the repository; `branch` empty when detached, `head` before a commit."""

    path: Path
    branch: str
    head: str


def worktrees(root: Path) -> tuple[Worktree, ...]:
    """The main checkout and every linked worktree, the main one first; a bare one is left out.

    GitError PB-GIT-FAILED with git's own words.
    """
    try:
        listed = ask(root, "worktree", "list", "--porcelain", "-z")
    except GitError:  # git before 2.36 knows no -z
        listed = ask(root, "worktree", "list", "--porcelain").replace("\n", "\0")
    return tuple(_described(listed))


def _described(listed: str) -> Iterator[Worktree]:
    for record in listed.split("\0\0"):
        known = dict(line.partition(" ")[::2] for line in record.strip("\0").split("\0"))
        if "worktree" in known and "bare" not in known:
            head = known.get("HEAD", "")
            yield Worktree(
                path=Path(known["worktree"]),
                branch=known.get("branch", "").removeprefix("refs/heads/"),
                head=head if head.strip("0") else "",
            )


def branches(root: Path) -> tuple[str, ...]:
    """The local branches' names; () on any trouble."""
    try:
        return tuple(ask(root, "for-each-ref", "--format=%(refname:short)", "refs/heads").split())
    except PlaybookError:
        return ()


def diff_stat(root: Path, since: str, *, since_ms: int = 0) -> tuple[str, ...]:
    """What has changed since that commit, a line per file, new files at the end; for people.

    `since` is empty before the first commit. Untracked files that lay there before `since_ms` (ms
    since the epoch) are left out: nobody asks about them. At most twelve lines, without the
    sessions' folders and without control characters; nothing at all if git cannot say.
    """
    try:
        stat = ask(
            root,
            "diff",
            "--stat=80",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            *(("--end-of-options", since) if since else ("--cached",)),
            "--",
            _SESSIONS,
        )
        new = ask(
            root, "ls-files", "--others", "--exclude-standard", "--full-name", "-z", "--", _SESSIONS
        )
        fresh = [name for name in new.split("\0") if name and _changed(root / name) >= since_ms]
    except (PlaybookError, OSError):
        return ()
    *changed, total = stat.splitlines() or [""]
    tracked = [*_shortened(changed, _TRACKED), total] if changed else []
    untracked = [f" {name} | new" for name in fresh]
    lines = [*tracked, *_shortened(untracked, _LINES - len(tracked))]
    return tuple(printable(line) for line in lines)


def _changed(file: Path) -> int:
    """The latest time, ms, at which its inode may have changed; no `touch` sets that back."""
    return file.lstat().st_ctime_ns // 1_000_000 + _COARSE


def _shortened(lines: Sequence[str], room: int) -> Iterable[str]:
    if len(lines) <= room:
        return lines
    return [*lines[: room - 1], f" … and {len(lines) - room + 1} more"]


def identity(root: Path) -> str:
    """Who the user is to git, `Name <mail>`, or as much of it as is set; for the record."""
    try:
        settings = ask(root, "config", "--null", "--get-regexp", r"^user\.(name|email)$")
    except PlaybookError:
        return ""
    known = dict(setting.partition("\n")[::2] for setting in settings.split("\0"))
    name, mail = (printable(known.get(key, "")).strip() for key in ("user.name", "user.email"))
    return f"{name} <{mail}>".strip() if mail else name


def initialise(root: Path, branch: str, settings: Mapping[str, str]) -> None:
    """Make the folder `root` a repository, on `branch` and before its first commit.

    Templates of the user's are left out; `settings` are the repository's own configuration.
    GitError PB-GIT-FAILED.
    """
    ask(root, "init", "--quiet", "--template=", f"--initial-branch={branch}")
    for name, value in settings.items():
        ask(root, "config", "--local", name, value)


def commit_all(root: Path, message: str) -> None:
    """Commit everything that stands in the working tree. GitError PB-GIT-FAILED."""
    ask(root, "add", "--all")
    ask(root, "commit", "--quiet", f"--message={message}")


def log(root: Path) -> tuple[str, ...]:
    """The last commits, newest first, one printable line each; () on any trouble."""
    try:
        lines = ask(root, "log", "--max-count=20", "--no-color", "--format=%h %s").splitlines()
    except PlaybookError:
        return ()
    return tuple(printable(line) for line in lines)


# ── asking git ──────────────────────────────────────────────────────────────────────────────


def ask(root: Path, *arguments: str) -> str:
    """The output of a git command. GitError PB-GIT-FAILED with git's own words."""
    answer: str = _executed(root, arguments)
    return answer


def question(root: Path, *arguments: str) -> tuple[int, str]:
    """Exit status and output of a git command that says no by its status; it only reads."""
    told = _executed(root, arguments, with_extended_output=True, with_exceptions=False)
    return int(told[0]), str(told[1])


def contents(root: Path, names: Sequence[str]) -> Iterator[bytes]:
    """The content of each object, in the order of the names. GitError PB-GIT-FAILED."""
    from tempfile import TemporaryFile

    with TemporaryFile() as asked:
        asked.write("".join(f"{name}\n" for name in names).encode())
        asked.seek(0)
        rest = memoryview(
            _executed(root, ("cat-file", "--batch"), istream=asked, stdout_as_string=False)
        )
    for name in names:
        line = bytes(rest[:200]).partition(b"\n")[0]
        size = line.rpartition(b" ")[2]
        if not size.isdigit():
            raise GitError("PB-GIT-FAILED", f"git has no object {name}", where=str(root))
        begins, ends = len(line) + 1, len(line) + 1 + int(size)
        yield bytes(rest[begins:ends])
        rest = rest[ends + 1 :]


def carry_out(root: Path, *arguments: str) -> None:
    """A git command that changes something and may take its time.

    Whatever interrupts us ends it and its hooks, too; a Ctrl-C at the terminal reaches only us.
    GitError PB-GIT-FAILED.
    """
    running: Any = _executed(root, arguments, as_process=True, start_new_session=True)
    try:
        said = running.communicate()[1]
    except BaseException:
        from signal import SIGKILL, SIGTERM

        signal_group(running.pid, SIGTERM)
        # The leader is reaped first: unreaped, it would count as a living member for ever.
        until(lambda: running.poll() is not None and not group_lives(running.pid), GRACE)
        signal_group(running.pid, SIGKILL)
        until(lambda: running.poll() is not None, PATIENCE)
        raise
    if running.poll() != 0:
        raise _failed(root, arguments, said.decode("utf-8", "replace"))


def _executed(root: Path, arguments: Sequence[str], **how: Any) -> Any:
    """A git command in that folder; one that only reads takes no lock to do so."""
    try:
        import git
    except ImportError as error:  # what GitPython makes of a missing git
        raise StorageError("PB-IO-PROGRAM", "git is not installed", cause=str(error)) from error
    if not root.is_dir():  # GitPython would ask the current folder instead
        raise GitError("PB-GIT-FAILED", f"the folder {root} is gone", where=str(root))
    asked = git.Git(str(root))
    asked.update_environment(GIT_OPTIONAL_LOCKS="0", GIT_TERMINAL_PROMPT="0")
    if "as_process" not in how:
        how |= {"kill_after_timeout": _PATIENCE, "strip_newline_in_stdout": False}
    try:
        return asked.execute([*_free(), "git", "-c", "core.quotePath=false", *arguments], **how)
    except (git.GitError, OSError, ValueError) as error:
        told = str(getattr(error, "stderr", "")).strip()
        said = told.removeprefix("stderr: '").removesuffix("'") or str(error)
        raise _failed(root, arguments, said) from error


def _free() -> list[str]:
    """What a surrounding git has set (in a hook, say) leads elsewhere: the folder alone decides."""
    pointers = sorted(POINTERS & os.environ.keys())
    return ["env", *(word for name in pointers for word in ("-u", name))] if pointers else []


def _failed(root: Path, arguments: Sequence[str], said: str) -> GitError:
    """Its last words are shown: before them stand progress and hints."""
    lines = [line.strip() for line in printable(said, keep_newlines=True).splitlines()]
    spoken = [line for line in lines if line] or ["it said nothing"]
    return GitError(
        "PB-GIT-FAILED",
        f"git {arguments[0]} failed: {' / '.join(spoken[-_LAST_LINES:])[-_LAST_WORDS:]}",
        where=str(root),
        cause=" ".join(spoken),
    )
