"""The repository that a step works in: git through the step's context, without prompts or force.

A step that names `commit`, `branch` or `pr` is an order to do what a person's own git would do, so
the repository's own settings count (`Runs.ALL`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from playbook_supervisor.errors import StepError
from playbook_supervisor.executors.protocol import Context
from playbook_supervisor.formats.sanitize import counted, first_line, last_words, printable, some
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.git.git_programs import Runs, command, environment, variables
from playbook_supervisor.system.git.git_unattended import (
    PUSH,
    SAY_WHO,
    lock_held,
    patiently,
    push_address,
    push_remote,
    quiet_ssh,
    refusal,
    remote_tip,
    under_way,
)
from playbook_supervisor.system.process.processes import Completed, run

CODE = "PB-STEP-GIT"
HEADS = "refs/heads/"
SESSIONS = ".playbooks/sessions"

_REJECTED = r"(?m)^!\t[^\t\n]*\t(.*)$"  # git push --porcelain: the flag, the references, why
_BLOCKED = r"(?m)^\t(.+)$"  # the files that git would have to overwrite
_TIMEOUT, _MAX_OUTPUT = 20.0, 1 << 26  # seconds and bytes of a command that only reads
_LISTED, _CAUSE = 3, 2000  # files, characters of their list
_LAST_WORDS = 300  # characters
_SHORT = 7  # characters of a commit's id


@dataclass(frozen=True, slots=True)
class Upstream:
    """The branch of the remote that a branch is pushed to; it has its name there, too.

    Commands that fetch use `address`; `env` is for commands that use the network. `tip` is the
    commit that the remote has there; empty if it has no such branch.
    """

    remote: str
    branch: str
    address: str
    env: Mapping[str, str]
    tip: str

    @property
    def name(self) -> str:
        return f"{self.remote}/{self.branch}"


class Repository:
    """The checkout of a step. What git refuses is a StepError PB-STEP-GIT with git's own lines."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._quietly = partial(self._in_step, quiet=True)  # shows nothing

    def git(
        self, *arguments: str, env: Mapping[str, str] | None = None, stdin: bytes = b""
    ) -> Completed:
        """The result of a command that only reads this checkout."""
        return run(
            [*command(None, Runs.ALL), *arguments],
            cwd=self._context.root,
            env={**environment(Runs.ALL), "GIT_OPTIONAL_LOCKS": "0", **(env or {})},
            stdin=stdin,
            timeout=_TIMEOUT,
            cap=_MAX_OUTPUT,
        )

    def ask(self, *arguments: str) -> str:
        done = self.git(*arguments)
        if done.returncode != 0:
            raise _refused(f"git {arguments[0]}", done)
        return done.stdout

    def change(self, *arguments: str, stdin: bytes = b"", doing: str = "") -> None:
        """Run a command that changes something, as `doing` says, and show what its hooks print."""
        done = patiently(self._in_step, *arguments, stdin=stdin)
        if held := lock_held(done):
            raise git_error(
                f"another git holds {held}",
                "Remove it if no git runs here, then run the step again.",
            )
        if done.returncode != 0:
            raise _refused(f"git {arguments[0]}", done, doing)

    @property
    def root(self) -> Path:
        return self._context.root

    @property
    def runtime(self) -> Path:
        return checkout.find(self._context.root).runtime

    def _in_step(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        quiet: bool = False,
    ) -> Completed:
        return self._context.run(
            [*command(None, Runs.ALL), *arguments],
            stdin=stdin,
            env={**variables(Runs.ALL), **(env or {})},
            cwd=self._context.root,
            quiet=quiet,
        )

    # ── where it stands ─────────────────────────────────────────────────────────────────────

    def branch(self) -> str:
        """The branch that is checked out; empty if there is none."""
        return self.git("symbolic-ref", "--quiet", "HEAD").stdout.strip().removeprefix(HEADS)

    def required_branch(self) -> str:
        """The branch that is checked out, if no operation of a person is unfinished there."""
        if begun := under_way(checkout.find(self._context.root).git_dir):
            raise git_error(f"{begun} is under way", "Finish it or abort it.")
        if branch := self.branch():
            return branch
        raise git_error("HEAD is on no branch", "`git switch` to one, or add a `branch` step.")

    def commit(self, name: str = "HEAD") -> str:
        """The id of the commit with that name; empty if there is none."""
        if name.startswith("-") or printable(name) != name:
            return ""
        return self.git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").stdout.strip()

    def exists(self, ref: str) -> bool:
        return self.git("show-ref", "--verify", "--quiet", ref).returncode == 0

    def contains(self, commit: str, ancestor: str) -> bool:
        """True if a commit has another one among its ancestors, or is it; both are known here."""
        return self.git("merge-base", "--is-ancestor", ancestor, commit).returncode == 0

    def same_work(self, commit: str) -> bool:
        """True if HEAD differs from a commit in nothing but the folders of sessions."""
        if not self.commit(commit):
            return False
        compared = (commit, "HEAD", "--", ":/", f":(exclude,top){SESSIONS}")
        return self.git("diff", "--quiet", "--no-ext-diff", *compared).returncode == 0

    # ── remotes ─────────────────────────────────────────────────────────────────────────────

    def remote(self, branch: str) -> str:
        """The remote that a branch is pushed to; empty if git knows none."""
        return push_remote(self.git, branch)

    def remotes(self) -> list[str]:
        return self.ask("remote").split()

    def upstream(self, branch: str) -> Upstream | None:
        """The branch that it is pushed to, as the remote says now; None if git knows no remote."""
        if not (remote := self.remote(branch)):
            return None
        address, env = push_address(self.git, remote), quiet_ssh(self.git)
        tip, asked = remote_tip(self._quietly, address, branch, env)
        if asked.returncode != 0:
            raise _refused(f"asking {remote} for its branches", asked)
        return Upstream(remote, branch, address, env, tip)

    def fast_forward(self, upstream: Upstream) -> str:
        """Take up the commits that only the remote has; a line about it, empty if there are none.

        StepError if both have commits of their own, and if files that are not committed would be
        overwritten; then nothing has changed.
        """
        head = self.commit()
        if not head or not upstream.tip or self.contains(head, upstream.tip):
            return ""
        quietly = ("--quiet", "--no-tags", "--no-recurse-submodules")
        wanted = f"{HEADS}{upstream.branch}"
        fetched = self._quietly("fetch", *quietly, "--", upstream.address, wanted, env=upstream.env)
        if fetched.returncode != 0:
            raise _refused("git fetch", fetched)
        apart = ("rev-list", "--left-right", "--count", f"{head}...{upstream.tip}")
        here, there = map(int, self.ask(*apart).split())
        if here:
            raise git_error(
                f"{upstream.branch} and {upstream.name} have diverged: {counted(here, 'commit')} "
                f"only here, {counted(there, 'commit')} only there",
                "Rebase or merge by hand, then run the step again.",
            )
        options = ("--quiet", "--ff-only", "--no-stat", "--no-autostash", "--no-overwrite-ignore")
        what = f"taking up {counted(there, 'commit')} of {upstream.name}"
        self.change("merge", *options, upstream.tip, doing=what)
        return f"took up {counted(there, 'commit')} of {upstream.name}"

    def push(self, upstream: Upstream) -> str:
        """Push the branch, as a fast-forward only; a line about it, empty if nothing is new."""
        head, branch = self.commit(), upstream.branch
        if upstream.tip and (upstream.tip == head or self.contains(upstream.tip, head)):
            return ""
        follows = self.git("config", "--get", f"branch.{branch}.merge").returncode == 0
        follow = () if follows else ("--set-upstream",)
        refs = f"{HEADS}{branch}:{HEADS}{branch}"
        done = self._quietly(*PUSH, *follow, "--", upstream.remote, refs, env=upstream.env)
        if done.returncode != 0:
            raise _push_refused(upstream, done)
        return f"pushed {branch} to {upstream.remote}"

    def unpublished(self, upstream: Upstream) -> bool:
        """True if the branch has commits that no known branch of the remote contains."""
        known = f"--remotes={upstream.remote}"
        return self.ask("rev-list", "--count", "--max-count=1", "HEAD", "--not", known) != "0\n"


def git_error(message: str, guidance: str = "", *, cause: str = "") -> StepError:
    """PB-STEP-GIT: git or the remote does not do it."""
    return StepError(CODE, message, guidance=guidance, cause=cause)


def short(commit: str) -> str:
    """The beginning of a commit's id."""
    return commit[:_SHORT]


def _refused(what: str, done: Completed, doing: str = "") -> StepError:
    if doing and (blocked := re.findall(_BLOCKED, done.stderr)):
        return _would_overwrite(doing, blocked)
    said = refusal(done)
    who = f"{SAY_WHO}." if said.lacks_identity else ""
    return git_error(f"{what} was refused: {said.words}", who, cause=said.cause)


def _would_overwrite(doing: str, files: list[str]) -> StepError:
    return git_error(
        f"{doing} would overwrite what is not committed: {some(files, _LISTED)}",
        "Commit, stash or move these files; nothing was changed.",
        cause=last_words("\n".join(files), _CAUSE),
    )


def _push_refused(upstream: Upstream, done: Completed) -> StepError:
    reason = re.search(_REJECTED, done.stdout)
    if reason is None:
        return _refused("git push", done)
    said = refusal(done)
    told = " / ".join(line for line in said.lines if line.startswith("remote:"))
    words = first_line(": ".join(filter(None, (reason[1], told))), _LAST_WORDS)
    moved = reason[1].startswith("[rejected]")
    return git_error(
        f"{upstream.name} did not take the push: {words}",
        "Rebase or merge what it has, then run the step again." if moved else "",
        cause=said.cause,
    )
