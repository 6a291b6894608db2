"""A remote's references: asked for, fetched, and moved by compare-and-swap.

Whether a push worked is decided by what the remote has afterwards. A connection may end between
the remote's decision and its answer, and forges word their refusals differently.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path

from playbook_supervisor.errors import FleetError, GitError
from playbook_supervisor.fleet.engine.remotes import KNOWN_TRANSPORTS
from playbook_supervisor.fleet.engine.session_tip import HEADS
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.system.git.git_plumbing import Options, Plumbing, git
from playbook_supervisor.system.git.git_unattended import PUSH, quiet_ssh, refusal
from playbook_supervisor.system.process.processes import Completed

_FETCH = (
    *("fetch", "--quiet", "--prune", "--force", "--no-tags", "--no-write-fetch-head"),
    *("--no-recurse-submodules", "--no-auto-gc"),
)
_LINE = r"(?m)^(.)\t[^\t\n]*:([^\t\n:]+)\t(.*)$"  # of a push: the flag, the reference, why
_BEHIND = r"\[rejected\] \((?:non-fast-forward|fetch first|needs force)\)"
_REFUSED = "[remote rejected]"
_SYMBOLIC = r"(?m)^ref: (\S+)\tHEAD$"


class RefusedError(Exception):
    """The remote is reached, but does not take the new reference, whatever its value."""

    def __init__(self, error: GitError) -> None:
        super().__init__(error.message)
        self.error = error


class RemoteRefs:
    """The references of the repository at `url`; `git` runs in our mirror of it.

    Each command may take `seconds`. What cannot be reached, or refuses, is a GitError
    PB-GIT-REMOTE: git's own words are its `cause`, without credentials.
    """

    def __init__(self, git: Plumbing, url: str, transports: Sequence[str], seconds: float) -> None:
        self._git, self.url, self._seconds = git, url, seconds
        self.transports = tuple(each for each in KNOWN_TRANSPORTS if each in transports)

    @cached_property
    def environment(self) -> Mapping[str, str]:
        """The variables of commands that talk to the remote: ssh asks no questions."""
        return quiet_ssh(partial(git, Path(os.sep)))  # our mirror says nothing of it

    # ── reading ─────────────────────────────────────────────────────────────────────────────

    def fetch(self, *refspecs: str) -> None:
        """Make our references those of the remote, and remove the ones that it lacks."""
        done = self._git.patiently(*_FETCH, "--", self.url, *refspecs, **self._options)
        if done.returncode != 0:
            raise self.unreachable("fetch", done)

    def default_branch(self) -> str:
        """The branch that the remote's HEAD names; empty if it names none."""
        listed = self._listed("--symref", "HEAD")
        found = re.search(_SYMBOLIC, listed)
        return found[1].removeprefix(HEADS) if found and found[1].startswith(HEADS) else ""

    def now(self, *refs: str) -> dict[str, str]:
        """The commits that these references of the remote have now; absent ones are left out."""
        pairs = (line.split("\t") for line in self._listed("", *refs).splitlines())
        return {pair[1]: pair[0] for pair in pairs if len(pair) == 2 and pair[1] in refs}

    def _listed(self, option: str, *patterns: str) -> str:
        arguments = ("ls-remote", "--quiet", *filter(None, [option]), "--", self.url, *patterns)
        done = self._run(*arguments)
        if done.returncode != 0 or done.timed_out:
            raise self.unreachable("ls-remote", done)
        return done.stdout

    # ── moving ──────────────────────────────────────────────────────────────────────────────

    def move(
        self,
        ref: str,
        expected: str,
        new: str,
        *,
        branch: tuple[str, str] | None = None,
        ours: Callable[[str], bool] = lambda _: False,
    ) -> str:
        """Move `ref` from the commit `expected` to `new`; return the commit that it is at.

        An empty `expected` creates the reference, an empty `new` deletes it. With a `branch`, its
        name and commit, that branch moves in the same transaction, forwards only. The returned
        commit is `new`, or one that is `ours`: an earlier push that arrived, although its answer
        did not. FleetError PB-FLEET-OVERTAKEN if the reference is elsewhere, PB-FLEET-BRANCH if
        the branch has commits of others; RefusedError if the reference cannot be created.
        """
        moves = [f"{new}:{ref}", *([f"{branch[1]}:{HEADS}{branch[0]}"] if branch else [])]
        lease = f"--force-with-lease={ref}:{expected}"
        done = self._run(*PUSH, "--quiet", "--atomic", "--no-verify", lease, "--", self.url, *moves)
        if done.returncode == 0 and not done.timed_out:
            return new
        told = {name: why for flag, name, why in re.findall(_LINE, done.stdout) if flag == "!"}
        at = self._after_failure(ref, done)
        if at == new or (at and at != expected and ours(at)):
            return at
        if at != expected:
            raise FleetError("PB-FLEET-OVERTAKEN", f"{ref} has been moved by another worker")
        if branch and re.match(_BEHIND, told.get(f"{HEADS}{branch[0]}", "")):
            said = f"the branch {first_line(branch[0], 100)} of the remote has commits that the "
            said += "session's does not have, and nothing is forced"
            raise FleetError("PB-FLEET-BRANCH", said)
        if not expected and told.get(ref, "").startswith(_REFUSED):
            raise RefusedError(self.unreachable("push", done))
        raise self.unreachable("push", done)

    def _after_failure(self, ref: str, done: Completed) -> str:
        """The commit that the reference has; empty if none. If it is unknown, the push's error."""
        try:
            return self.now(ref).get(ref, "")
        except GitError:
            raise self.unreachable("push", done) from None

    def _run(self, *arguments: str) -> Completed:
        return self._git(*arguments, **self._options)

    @property
    def _options(self) -> Options:
        return {"protocols": self.transports, "env": self.environment, "seconds": self._seconds}

    def unreachable(self, command: str, done: Completed) -> GitError:
        """PB-GIT-REMOTE; it may be tried again."""
        if done.timed_out:
            why = f"git {command} took longer than {self._seconds:g} seconds, and was ended"
        else:
            why = f"git {command} was refused or did not reach it"
        message = f"{first_line(self.url, 200)}: {why}"
        return GitError("PB-GIT-REMOTE", message, where=self.url, cause=refusal(done).cause)
