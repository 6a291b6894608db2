"""What commits and pushes have in common if no person can be asked: questions and refusals.

A caller passes a function that runs git in the checkout, so that it decides about deadlines.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from playbook_supervisor.formats.sanitize import last_words, printable
from playbook_supervisor.records import Record
from playbook_supervisor.system.git.git_programs import Runs, command, environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from playbook_supervisor.system.process.processes import Completed

    class Git(Protocol):
        """Runs `git ARGUMENTS` in the checkout, with `env` added to its environment."""

        def __call__(
            self, *arguments: str, env: Mapping[str, str] | None = None, stdin: bytes = b""
        ) -> Completed: ...


SAY_WHO = "Tell git who you are: `git config user.name NAME` and `git config user.email ADDRESS`"

PUSH = ("push", "--porcelain", "--no-follow-tags", "--recurse-submodules=no")
"""A push of what is named, and of nothing else."""

_LAST_LINES, _LAST_WORDS, _CAUSE = 3, 300, 2000  # lines, characters, characters
_FETCHING = 60.0  # seconds for each remote
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)  # seconds, while another git holds a lock
_LOCK = r"'(/[^'\n]{1,4096}\.lock)'"  # a hook may mention a `yarn.lock`
_WHO = "git config --global user.email"  # what git advises in any language
_OF_PUSH = r"(?m)^(?:To .*|[ +*=!-]\t.*|Done)$"
"""The lines of `git push --porcelain` itself on stdout."""
_CREDENTIALS = r"//[^/@\s]{1,1000}@"
UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
}
"""The file in git's directory → the operation that a person has not finished."""


def dates(ms: int) -> dict[str, str]:
    """The variables that let a commit be of this time, in ms since the epoch."""
    at = f"@{ms // 1000} +0000"
    return {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}


def under_way(git_dir: Path) -> str:
    """The operation in this checkout that a person has not finished; empty if there is none."""
    begun = (UNDER_WAY[name] for name in UNDER_WAY if os.path.lexists(git_dir / name))
    return next(begun, "")


def push_remote(git: Git, branch: str) -> str:
    """The remote that git would push the branch to; else the only remote, or `origin`.

    Empty if there is none, and if the branch is pushed to another branch of this repository.
    """
    asked = git("for-each-ref", "--format=%(push:remotename)", "--count=1", f"refs/heads/{branch}")
    if named := asked.stdout.strip():
        return "" if named == "." else named
    remotes = git("remote").stdout.split()
    if len(remotes) == 1:
        return remotes[0]
    return "origin" if "origin" in remotes else ""


def push_address(git: Git, remote: str) -> str:
    """Where git pushes to, for commands that fetch: the remote, or its other address."""
    return git("config", "--get", f"remote.{remote}.pushurl").stdout.strip() or remote


def quiet_ssh(git: Git) -> dict[str, str]:
    """Keep ssh from asking questions; a person's own ssh command stays as it is."""
    own = {"GIT_SSH", "GIT_SSH_COMMAND"} & os.environ.keys()
    if own or git("config", "--get", "core.sshCommand").returncode == 0:
        return {}
    return {"GIT_SSH_COMMAND": "ssh -o BatchMode=yes -o ServerAliveInterval=15"}


def fetch(root: Path) -> None:
    """Fetch from every remote as a person does; from one that cannot be reached, nothing comes."""

    from playbook_supervisor.system.process.processes import run

    def git(*arguments: str, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> Completed:
        argv = [*command(root, Runs.ALL), *arguments]
        around = {**environment(Runs.ALL), **(env or {})}
        return run(argv, cwd=root, env=around, stdin=stdin, timeout=_FETCHING)

    quietly = quiet_ssh(git)
    for remote in git("remote").stdout.splitlines():
        git("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--", remote, env=quietly)


def patiently(git: Git, *arguments: str, stdin: bytes = b"") -> Completed:
    """The result of a command that takes locks; while another git holds one, it is repeated."""
    pauses = list(_PAUSES)
    while lock_held(done := git(*arguments, stdin=stdin)) and pauses:
        time.sleep(pauses.pop(0))
    return done


def lock_held(done: Completed) -> str:
    """The lock of another git that a command failed because of; empty if that is not why."""
    if done.returncode == 0 or done.timed_out:
        return ""
    held = re.search(_LOCK, done.stderr)
    return printable(held[1]) if held else ""


class Refusal(Record):
    """What git or its hooks said when they refused: at least one line, without credentials."""

    lines: tuple[str, ...]

    @property
    def lacks_identity(self) -> bool:
        """Whether git refuses because it knows no author."""
        return any(_WHO in line for line in self.lines)

    @property
    def words(self) -> str:
        """The last lines as one."""
        last = self.lines[-1 if self.lacks_identity else -_LAST_LINES :]
        return " / ".join(last)[-_LAST_WORDS:]

    @property
    def cause(self) -> str:
        """All lines, as far as an error quotes them."""
        return last_words("\n".join(self.lines), _CAUSE)


def refusal(done: Completed) -> Refusal:
    """What a command that failed said."""
    told = f"{re.sub(_OF_PUSH, '', done.stdout)}\n{done.stderr}"
    said = re.sub(_CREDENTIALS, "//", printable(told, keep_newlines=True))
    lines = tuple(line.strip() for line in said.splitlines() if line.strip())
    return Refusal(lines or ("no message",))


def remote_tip(
    git: Git, address: str, branch: str, env: Mapping[str, str]
) -> tuple[str, Completed]:
    """The commit of the branch that the remote has now, empty if it has no such branch; and the
    command that asked for it, which may have failed."""
    ref = f"refs/heads/{branch}"
    listed = git("ls-remote", "--quiet", "--", address, ref, env=env)
    tips = dict(line.split("\t")[::-1] for line in listed.stdout.splitlines() if "\t" in line)
    return tips.get(ref, ""), listed
