"""A remote's references: asked for, fetched, and moved by compare-and-swap.

Whether a push worked is decided by what the remote has afterwards. A connection may end between
the remote's decision and its answer, and forges word their refusals differently.

A remote that refuses is not one that is away: waiting helps with the second alone. What git says
decides, and what is not recognised counts as away
(docs/decisions/0300-a-remote-that-refuses-is-not-away.md).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path

from playbook_supervisor.errors import FleetError, GitError, PlaybookError
from playbook_supervisor.fleet.engine.session_tip import HEADS
from playbook_supervisor.fleet.worker_settings import KNOWN_TRANSPORTS
from playbook_supervisor.formats.sanitize import first_line, one_line
from playbook_supervisor.system.git.git_plumbing import Options, Plumbing, git
from playbook_supervisor.system.git.git_unattended import PUSH, quiet_ssh, refusal
from playbook_supervisor.system.process.processes import Completed

LISTING, PUSHING = 60.0, 300.0
"""Seconds for a command that lists references, and for a push, which may carry a step's files."""

_FETCH = (
    *("fetch", "--quiet", "--prune", "--force", "--no-tags", "--no-write-fetch-head"),
    *("--no-recurse-submodules", "--no-auto-gc"),
)
_LINE = r"(?m)^(.)\t[^\t\n]*:([^\t\n:]+)\t(.*)$"  # of a push: the flag, the reference, why
_BEHIND = r"\[rejected\] \((?:non-fast-forward|fetch first|needs force)\)"
_REJECTED = r"\[remote rejected\] \((.*)\)"
_WITH_ANOTHER = r"atomic (?:push|transaction) fail"  # this one is refused because another is
_SYMBOLIC = r"(?m)^ref: (\S+)\tHEAD$"
_TOLD, _ADVICE = "remote:", ("hint:", "error: failed to push some refs", "fatal: Could not read")
_LONGEST = 300  # characters of the remote's words in a message

_PASSES = re.compile(
    r"""(?ix)
    cannot\ lock\ ref | failed\ to\ (?:lock|update\ ref) | incorrect\ old\ value | no\ space\ left
    | internal\ (?:server\ )?(?:error|api) | api\ is\ not\ accessible | temporarily\ unavailable
    | timed?[ -]?out | try\ again | returned\ error:\ (?:429|5\d\d)
    """
)
"""What a remote says when it cannot answer at the moment, even if it says it as a refusal."""

_REFUSES = re.compile(
    r"""(?imx)
    ^remote:.*\bquota\b
    | returned\ error:\ 40[134]\b
    | ^fatal:\ (?:Authentication\ failed|could\ not\ read\ (?:Username|Password))\ for\b
    | ^fatal:\ repository\ '.*'\ not\ found
    | ^(?:remote|ERROR):\ .*\b(?:Repository|project)\b.*\ (?:not\ found|could\ not\ be\ found)
    | ^(?:remote|ERROR|FATAL):\ .*(?:access\ denied|permission\ to\ .*\ denied|not\ allowed\ to)
    | ^[^\n]*:\ Permission\ denied\ \((?:[a-z-]+,?)+\)
    | ^(?:Received\ disconnect\ from\ .*:\ )?Too\ many\ authentication\ failures
    | (?-i:^FATAL:\ .*\bDENIED\b)
    """
)
"""What git, ssh and the forges say when the repository is not there for us."""

_NO_REPOSITORY = "does not appear to be a git repository"
"""It is refused by a server. On a disk, it may only not be mounted."""


class RefusedError(Exception):
    """The remote is reached, but does not take the new reference, whatever its value."""

    def __init__(self, error: PlaybookError) -> None:
        super().__init__(error.message)
        self.error = error


class RemoteRefs:
    """The references of the repository at `url`; `git` runs in our mirror of it.

    Each command may take `seconds`, and one that transfers little less (`LISTING`, `PUSHING`).
    A remote that cannot be reached is a GitError PB-GIT-REMOTE, one that refuses a FleetError
    PB-FLEET-REFUSED; `cause` has the words of git and of the remote, without credentials.
    """

    def __init__(self, git: Plumbing, url: str, transports: Sequence[str], seconds: float) -> None:
        self._git, self.url, self._seconds = git, url, seconds
        self.transports = tuple(each for each in KNOWN_TRANSPORTS if each in transports)

    @cached_property
    def environment(self) -> Mapping[str, str]:
        """The variables of commands that talk to the remote: ssh asks no questions."""
        return quiet_ssh(partial(git, Path(os.sep)))  # our mirror says nothing of it

    # ── reading ─────────────────────────────────────────────────────────────────────────────

    def fetch(self, *refspecs: str, options: Sequence[str] = ()) -> None:
        """Make our references those of the remote, and remove the ones that it lacks."""
        arguments = (*_FETCH, *options, "--", self.url, *refspecs)
        done = self._git.patiently(*arguments, **self.options)
        if done.returncode != 0:
            raise self.failure("fetch", done)

    def default_branch(self) -> str:
        """The branch that the remote's HEAD names; empty if it names none."""
        listed = self._listed("--symref", "HEAD")
        found = re.search(_SYMBOLIC, listed)
        return found[1].removeprefix(HEADS) if found and found[1].startswith(HEADS) else ""

    def now(self, *refs: str) -> dict[str, str]:
        pairs = (line.split("\t") for line in self._listed("", *refs).splitlines())
        return {pair[1]: pair[0] for pair in pairs if len(pair) == 2 and pair[1] in refs}

    def _listed(self, option: str, *patterns: str) -> str:
        arguments = ("ls-remote", "--quiet", *filter(None, [option]), "--", self.url, *patterns)
        done = self._run(LISTING, *arguments)
        if done.returncode != 0 or done.timed_out:
            raise self.failure("ls-remote", done)
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
        the branch has commits of others, PB-FLEET-BRANCH-REFUSED if the remote takes the reference
        but not the branch; RefusedError if the reference cannot be created.
        """
        moves = [f"{new}:{ref}", *([f"{branch[1]}:{HEADS}{branch[0]}"] if branch else [])]
        lease = f"--force-with-lease={ref}:{expected}"
        options = (*PUSH, "--quiet", "--atomic", "--no-verify", lease)
        done = self._run(PUSHING, *options, "--", self.url, *moves)
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
        error = self.failure("push", done)
        if error.code == "PB-FLEET-REFUSED" and re.match(_REJECTED, told.get(ref, "")):
            if branch and re.search(_WITH_ANOTHER, told[ref]):
                raise self._refused(f"the branch {first_line(branch[0], 100)}", done, branch=True)
            if not expected:
                raise RefusedError(error)
        raise error

    def _after_failure(self, ref: str, done: Completed) -> str:
        try:
            return self.now(ref).get(ref, "")
        except PlaybookError:
            raise self.failure("push", done) from None

    def _run(self, most: float, *arguments: str) -> Completed:
        options = self.options
        options["seconds"] = min(most, self._seconds)
        return self._git(*arguments, **options)

    @property
    def options(self) -> Options:
        """What a command of git needs that may fetch from the remote."""
        return {"protocols": self.transports, "env": self.environment, "seconds": self._seconds}

    def failure(self, command: str, done: Completed) -> PlaybookError:
        """The error of a command that failed: the remote is away, or it refuses."""
        if not done.timed_out and self._refuses(done):
            return self._refused(f"git {command}", done)
        why = "did not reach it, or got no answer"
        if done.timed_out:
            why = "got no answer in time, and was ended"
        message = f"{self._shown}: git {command} {why}"
        return GitError("PB-GIT-REMOTE", message, where=self.url, cause=refusal(done).cause)

    @property
    def _shown(self) -> str:
        return first_line(self.url, 200)

    def _refuses(self, done: Completed) -> bool:
        said = "\n".join(refusal(done).lines)
        rejected = re.findall(_REJECTED, done.stdout)
        if re.search(_PASSES, "\n".join([said, *rejected])):
            return False
        if rejected:
            stored = not all("unpacker error" in why for why in rejected)
            return stored or bool(re.search(r"(?i)permission|quota", said))
        on_disk = self.url.startswith("file:")
        return bool(re.search(_REFUSES, said)) or (_NO_REPOSITORY in said and not on_disk)

    def _refused(self, what: str, done: Completed, *, branch: bool = False) -> FleetError:
        """The error that quotes the remote: the lines of its hook, else its reason, else git's."""
        said = refusal(done)
        hook = [each.removeprefix(_TOLD) for each in said.lines if each.startswith(_TOLD)]
        reasons = [why for why in re.findall(_REJECTED, done.stdout) if why]
        reasons = [why for why in reasons if not re.match(_WITH_ANOTHER, why)]
        gits = [each for each in said.lines if not each.startswith(_ADVICE)]
        words = one_line(" ".join(hook) or ", ".join(dict.fromkeys(reasons)) or gits[0], _LONGEST)
        code = "PB-FLEET-BRANCH-REFUSED" if branch else "PB-FLEET-REFUSED"
        message = f"{self._shown} refuses {what}: {words}"
        return FleetError(code, message, where=self.url, cause=said.cause)
