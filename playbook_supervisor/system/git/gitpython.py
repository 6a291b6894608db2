"""Git for the commands that a person waits for, through GitPython's `Repo`.

The only importer of GitPython. Its users call `repo.git.*`, which runs the git program: reftables
and SHA-256 repositories work, which GitPython's objects do not read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from playbook_supervisor.errors import GitError, StorageError
from playbook_supervisor.system.git.git_process import ask, failure, understood
from playbook_supervisor.system.git.git_programs import Runs, command, variables

if TYPE_CHECKING:
    from git import Repo as Repo


@dataclass(frozen=True, slots=True)
class Worktree:
    """A checkout of the repository; `branch` empty when detached, `head` before a commit."""

    path: Path
    branch: str
    head: str


@contextmanager
def repository(root: Path) -> Iterator[Repo]:
    """The repository whose checkout, or bare folder, is `root`; its commands only look.

    The variables of a surrounding git are unset until the end of the block. GitError PB-GIT-FAILED,
    StorageError PB-IO-PROGRAM if git is not installed.
    """
    if "git" not in sys.modules and root.is_dir():  # its import runs git, without any bounds
        with suppress(StorageError), understood(root):
            _, _, _ = ask(root, "version").split(maxsplit=2)
    try:
        import git  # it runs git
    except ImportError as error:  # GitPython's way to say that git is missing
        raise StorageError("PB-IO-PROGRAM", "git is not installed", cause=str(error)) from error
    asked = variables(Runs.NOTHING)
    unset = [name for name, value in asked.items() if value is None and name in os.environ]
    surrounding = {name: os.environ.pop(name) for name in unset}
    _, *options = command(root, Runs.NOTHING)
    try:
        with git.Repo(root, expand_vars=False) as repo:
            repo.git.update_environment(**{k: v for k, v in asked.items() if v is not None})
            repo.git.set_persistent_git_options(c=options[1::2])
            yield repo
    except git.NoSuchPathError as error:
        raise GitError("PB-GIT-FAILED", f"the folder {root} is gone", where=str(root)) from error
    except git.InvalidGitRepositoryError as error:
        message = f"{root} is not a git repository"
        raise GitError("PB-GIT-FAILED", message, where=str(root)) from error
    except (ValueError, LookupError):
        with understood(root):
            raise
    except git.CommandError as error:
        stderr = error.stderr.strip().removeprefix("stderr: '").removesuffix("'")
        raise failure(root, error.command[1:], stderr or str(error)) from error
    finally:
        os.environ.update(surrounding)


def worktrees(root: Path) -> tuple[Worktree, ...]:
    """The main checkout and every linked worktree, the main one first; a bare one is left out."""
    with repository(root) as repo:
        status, listed, _ = repo.git.worktree(
            "list", "--porcelain", "-z", with_extended_output=True, with_exceptions=False
        )
        if status != 0:  # git before 2.36 knows no -z
            listed = repo.git.worktree("list", "--porcelain").replace("\n", "\0")
    return tuple(_worktrees(listed))


def _worktrees(listed: str) -> Iterator[Worktree]:
    for record in listed.split("\0\0"):
        known = dict(line.partition(" ")[::2] for line in record.strip("\0").split("\0"))
        if "worktree" in known and "bare" not in known:
            head = known.get("HEAD", "")
            branch = known.get("branch", "").removeprefix("refs/heads/")
            yield Worktree(Path(known["worktree"]), branch, head if head.strip("0") else "")


def contents(repo: Repo, names: Sequence[str]) -> Iterator[bytes]:
    """The content of each object, in order."""
    with TemporaryFile() as requested:
        requested.write("".join(f"{name}\n" for name in names).encode())
        requested.seek(0)
        answer = repo.git.cat_file(
            "--batch", istream=requested, stdout_as_string=False, strip_newline_in_stdout=False
        )
    return _split(memoryview(answer), names)


def _split(rest: memoryview, names: Sequence[str]) -> Iterator[bytes]:
    for name in names:
        header = bytes(rest[:200]).partition(b"\n")[0]
        size = header.rpartition(b" ")[2]
        if not size.isdigit():
            raise GitError("PB-GIT-FAILED", f"git has no object {name}")
        begin = len(header) + 1
        end = begin + int(size)
        yield bytes(rest[begin:end])
        rest = rest[end + 1 :]
