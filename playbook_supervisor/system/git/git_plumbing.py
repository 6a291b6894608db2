"""Git in one git directory with our own settings, for repositories that we do not trust.

Nothing runs that the repository names: no hooks, no monitor, no filters of its own. A transport has
to be allowed, git never prompts, and no identity of a user is needed to commit.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import uniform
from typing import TypedDict, Unpack

from playbook_supervisor.errors import GitError
from playbook_supervisor.system.git.git_process import failure
from playbook_supervisor.system.git.git_programs import Runs, command, environment
from playbook_supervisor.system.git.git_unattended import lock_held
from playbook_supervisor.system.process.processes import Completed, run

LOCAL = 600.0  # seconds for a command that talks to no remote: a large work tree takes its time

_SETTINGS = (
    *("-c", "core.splitIndex=false"),  # the shared part would be in the repository
    *("-c", "core.sparseCheckout=false"),
    *("-c", "i18n.commitEncoding=UTF-8"),
    *("-c", "push.gpgSign=false"),
    *("-c", "protocol.version=2"),
    *("-c", "protocol.ext.allow=never"),
    *("-c", "submodule.recurse=false"),
    *("-c", "transfer.bundleURI=false"),
    *("-c", "http.lowSpeedLimit=100", "-c", "http.lowSpeedTime=30"),  # bytes per second, seconds
)
_ENVIRONMENT = {
    "GIT_AUTHOR_EMAIL": "playbook@localhost",
    "GIT_AUTHOR_NAME": "playbook",
    "GIT_COMMITTER_EMAIL": "playbook@localhost",
    "GIT_COMMITTER_NAME": "playbook",
    "GIT_DEFAULT_REF_FORMAT": "files",  # `checkout` reads no other
    "GIT_NO_REPLACE_OBJECTS": "1",
}
_MAX_OUTPUT = 1 << 26
_SHORTEST, _LONGEST, _PATIENCE = 0.02, 0.4, 6.0  # seconds, while another git holds a lock
_ABANDONED = 3600.0  # seconds after which no git of ours can hold a lock any more


class Options(TypedDict, total=False):
    """The transports, `https` or `ssh`, that a command may use, none by default, and more for it.

    After so many `seconds`, by default `LOCAL`, it is ended, and `timed_out`.
    """

    protocols: Sequence[str]
    env: Mapping[str, str] | None
    stdin: bytes
    seconds: float


def git(cwd: Path, *arguments: str, **options: Unpack[Options]) -> Completed:
    """The result of git in that folder. StorageError if it cannot be started."""
    allowed = {"GIT_ALLOW_PROTOCOL": ":".join(options.get("protocols", ()))}
    return run(
        [*command(None, Runs.NOTHING), *_SETTINGS, *arguments],
        cwd=cwd,
        env={**environment(Runs.NOTHING), **_ENVIRONMENT, **allowed, **(options.get("env") or {})},
        stdin=options.get("stdin", b""),
        timeout=options.get("seconds", LOCAL),
        cap=_MAX_OUTPUT,
    )


class Plumbing:
    """Git in one git directory, bare or with a work tree elsewhere, with these options of git."""

    def __init__(
        self, git_dir: Path, work_tree: Path | None = None, options: Sequence[str] = ()
    ) -> None:
        self.git_dir = git_dir
        self._cwd = work_tree or git_dir
        tree = (f"--work-tree={work_tree}",) if work_tree else ()
        self._where = (f"--git-dir={git_dir}", *tree, *options)

    def __call__(self, *arguments: str, **options: Unpack[Options]) -> Completed:
        return git(self._cwd, *self._where, *arguments, **options)

    def ask(self, *arguments: str, **options: Unpack[Options]) -> str:
        """The output of a command. GitError PB-GIT-FAILED with git's own words."""
        return checked(self.git_dir, arguments, self(*arguments, **options))

    def patiently(self, *arguments: str, **options: Unpack[Options]) -> Completed:
        """The result of a command that changes references, repeated while others hold their locks.

        A lock that is an hour old was left by a git that was killed, and is removed.
        """
        pause, until = _SHORTEST, time.monotonic() + _PATIENCE
        while True:
            done = self(*arguments, **options)
            if not _locked_out(done):
                return done
            if not self._freed(lock_held(done)) and time.monotonic() > until:
                return done
            time.sleep(uniform(pause / 2, pause))  # noqa: S311 - so that two do not go in step
            pause = min(pause * 2, _LONGEST)

    def _freed(self, lock: str) -> bool:
        file = Path(lock)
        with suppress(OSError):
            ours = file.is_relative_to(self.git_dir)
            if ours and time.time() - file.stat().st_mtime > _ABANDONED:
                file.unlink()
                return True
        return False


def checked(where: Path, arguments: Sequence[str], done: Completed) -> str:
    """The output of a command that succeeded. GitError PB-GIT-FAILED with git's own words."""
    if done.timed_out:
        raise failure(where, arguments, "it took too long, and was ended")
    if done.returncode != 0:
        raise failure(where, arguments, done.stderr)
    if done.truncated:
        said = f"git {arguments[0]} printed more than can be read"
        raise GitError("PB-GIT-FAILED", said, where=str(where))
    return done.stdout


def _locked_out(done: Completed) -> bool:
    words = ("cannot lock ref", ".lock'", "unable to update local ref", "could not be updated")
    failed = done.returncode != 0 and not done.timed_out
    return failed and any(each in done.stderr for each in words)
