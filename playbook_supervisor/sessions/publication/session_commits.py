"""One session's folder in git: a commit of this folder alone, and the push of that commit.

The git command line runs with a timeout and without prompts. Hooks run as usual, nothing is
forced, and a person's staged and unstaged changes stay as they are.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from playbook_supervisor.errors import GitError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.records import Record
from playbook_supervisor.system.git.checkout import Checkout, branch_log, refreshed
from playbook_supervisor.system.git.git_process import understood
from playbook_supervisor.system.git.git_programs import (
    Runs,
    command,
    environment,
    has_hooks,
    hooks_of_a_commit,
    own_filters,
)
from playbook_supervisor.system.git.git_unattended import (
    PUSH,
    SAY_WHO,
    Git,
    committing,
    dates,
    lock_held,
    make_up,
    patiently,
    push_address,
    push_remote,
    quiet_ssh,
    refusal,
    remote_tip,
    under_way,
)
from playbook_supervisor.system.process.cancellation import Interrupted, uncancellable
from playbook_supervisor.system.process.processes import Completed, Isolation, run

SESSION, NAME = "Playbook-Session", "Playbook-Name"  # the trailers that mark such a commit

_SESSIONS = ".playbooks/sessions"
_STATUS = (
    *("status", "--porcelain=v2", "--branch", "--no-ahead-behind", "--no-renames"),
    *("--untracked-files=all", "--ignored", "-z", "--"),
)
_UNFINISHED = ".playbook-tmp-*"  # files that are being written
_LEAST = 2.0  # seconds for a git command when time is up, to see what the last one did
_NEXT_COMMIT = "; the next commit has all of {folder}."


class Commit(Record):
    """A commit of one parent."""

    id: str
    parent: str


class _Seen(Record):
    """The state of the folder and of HEAD. `head` and `branch` are empty if there is none. `known`:
    the last commit contains the folder."""

    head: str
    branch: str
    changed: tuple[str, ...]
    known: bool
    ignored: bool
    untracked: tuple[str, ...]


class SessionInGit:
    """The folder of one session in one worktree, with the folders of its `children`. Everything
    together may take `timeout` seconds from now on, and hardly longer. `now` is the session's time,
    in ms, if the machine's clock shows another one: no journal is from after its commit.
    `isolation` is that of a command which may run hooks."""

    def __init__(
        self,
        at: Checkout,
        session: str,
        *,
        timeout: float,
        children: Sequence[str] = (),
        now: int | None = None,
        isolation: Callable[[Sequence[str]], Isolation | None] | None = None,
    ) -> None:
        self._at, self._session, self._isolation = at, session, isolation
        self._dates = {} if now is None else dates(now)
        self._folder = f"{_SESSIONS}/{session}"
        self._folders = (self._folder, *(f"{_SESSIONS}/{child}" for child in children))
        unfinished = (f":(exclude,glob){folder}/**/{_UNFINISHED}" for folder in self._folders)
        self._paths = (*self._folders, *unfinished)
        self._until = time.monotonic() + timeout
        self._timeout = timeout

    # ── committing ──────────────────────────────────────────────────────────────────────────

    def commit(
        self, subject: str, body: str, playbook: str, *, known: bool = False
    ) -> Commit | None:
        """Commit the folder; None if nothing has changed. With `known`, only if the last commit
        contains the folder. GitError PB-GIT-COMMIT if there is no branch to commit on, and with the
        message of git or of a hook."""
        make_up(self._git, self._at.runtime)
        seen = self._look()
        if known and not seen.known:
            return None
        if not seen.changed:
            if seen.ignored:
                cure = "Take it out of .gitignore, or set `commit_sessions: never`."
                raise GitError("PB-GIT-COMMIT", f"git ignores {self._folder}", guidance=cure)
            return None
        self._require_a_branch(seen)
        trailers = f"{SESSION}: {self._session}\n{NAME}: {playbook}"
        message = f"--message={subject}\n\n{body}\n\n{trailers}\n"
        self._require_no_own_filter(seen)
        folders = [f"{folder}/" for folder in self._folders]
        asked = self._git("rev-parse", "--git-path", "hooks", runs=Runs.HOOKS)
        hooks = self._at.root / asked.stdout.rstrip("\n")
        try:
            with committing(
                self._git,
                self._at.runtime,
                seen.head,
                folders,
                seen.untracked,
                hooked=has_hooks(hooks),
            ):
                if seen.untracked:
                    self._add()
                self._commit(hooks, "--quiet", "--cleanup=whitespace", message, "--only")
        except (GitError, Interrupted):
            with uncancellable():
                if (made := self.latest()) and made.parent == seen.head:
                    return made  # it was made, and what failed came later: a hook, for instance
            raise
        return self._logged() or self._last()[0]

    def _logged(self) -> Commit | None:
        here = refreshed(self._at)
        *_, (_, before, said) = (0, "", ""), *branch_log(here)
        return Commit(here.head, before) if here.head and said.startswith("commit: ") else None

    def _look(self) -> _Seen:
        done = self._git(*_STATUS, *self._paths)
        if done.returncode != 0:
            raise self._refused("PB-GIT-COMMIT", "status", done)
        with understood(self._at.root):
            return _seen(done.stdout)

    def _require_a_branch(self, seen: _Seen) -> None:
        if begun := under_way(self._at.git_dir):
            why = f"{begun} is under way"
            guidance = f"Finish it, then commit {self._folder} yourself."
        elif not seen.head:
            why = "there is no commit yet, and the first one is yours"
            guidance = f"Commit your project; {self._folder} may go with it."
        elif not seen.branch:
            why = "HEAD is on no branch"
            guidance = f"`git switch` to one, and commit {self._folder} there."
        else:
            return
        raise GitError("PB-GIT-COMMIT", why, guidance=guidance)

    def _require_no_own_filter(self, seen: _Seen) -> None:
        """It would run as the repository's settings say, or the journal be committed without it."""
        if not (filters := own_filters(self._at.root)):
            return
        names = "".join(f"{name}\0" for name in seen.changed)
        asked = self._git("check-attr", "-z", "--stdin", "filter", stdin=names.encode())
        for name in asked.stdout.split("\0")[2::3]:
            if f"filter.{name}" in filters:
                way = f"Add `{_SESSIONS}/** -filter` to .gitattributes"
                cure = f"{way}, or set `commit_sessions: never`."
                why = (
                    f"the filter {first_line(name, 60)} of the repository's own settings would run"
                )
                raise GitError("PB-GIT-COMMIT", why, guidance=cure)

    def _commit(self, hooks: Path, *options: str) -> None:
        git = partial(self._git, runs=Runs.HOOKS)
        with hooks_of_a_commit(hooks, self._at.runtime / "hooks") as settings:
            commit = ("commit", *options, "--", *self._paths)
            self._write(*commit, git=partial(git, settings=settings))

    def _add(self) -> None:
        """Add new files by name only; the commit adds their content."""
        sparse = ("--sparse",) if (self._at.git_dir / "info/sparse-checkout").exists() else ()
        self._write("add", "--intent-to-add", *sparse, "--", *self._paths)

    def latest(self) -> Commit | None:
        """The last commit, if it is this session's."""
        made, message = self._last()
        return made if f"{SESSION}: {self._session}" in message.splitlines() else None

    def _last(self) -> tuple[Commit | None, str]:
        done = self._git("cat-file", "--batch", stdin=b"HEAD\n")
        about, _, raw = done.stdout.partition("\n")
        headers, _, message = raw.partition("\n\n")
        parents = re.findall(r"^parent ([0-9a-f]+)$", headers, re.MULTILINE)
        made = Commit(about.partition(" ")[0], parents[0]) if len(parents) == 1 else None
        return made, message

    # ── pushing ─────────────────────────────────────────────────────────────────────────────

    def push(self) -> str:
        """Push the last commit, if it is this session's; returns `remote/branch`, or "". Only as a
        fast-forward, and only if the remote branch is at the commit's parent; otherwise commits of
        the person would be published with it. GitError PB-GIT-PUSH."""
        made, branch = self.latest(), self._look().branch
        if made is None or not branch or not self._holds_nothing_else(made):
            return ""
        if not (remote := push_remote(self._git, branch)):
            return ""
        place, quietly = f"{remote}/{branch}", quiet_ssh(self._git)
        tip, asked = remote_tip(self._remotely, push_address(self._git, remote), branch, quietly)
        if asked.returncode != 0:
            raise self._refused("PB-GIT-PUSH", "ls-remote", asked)
        if tip == made.id:
            return ""
        if not tip:
            raise GitError("PB-GIT-PUSH", f"{remote} holds no branch {branch}")
        if tip != made.parent:
            why = f"{place} is not at {made.parent[:7]}, the commit before it"
            raise GitError("PB-GIT-PUSH", f"{why}: more than the session would be pushed")
        pushed = self._remotely(*PUSH, "--", remote, f"{made.id}:refs/heads/{branch}", env=quietly)
        if pushed.returncode != 0:
            raise self._refused("PB-GIT-PUSH", "push", pushed)
        return place

    def _holds_nothing_else(self, made: Commit) -> bool:
        """A person may have amended the commit, and a hook may have added files."""
        changed = self._git("diff-tree", "-r", "-z", "--name-only", made.parent, made.id)
        names = changed.stdout.split("\0")[:-1]
        ours = tuple(f"{folder}/" for folder in self._folders)
        return bool(names) and all(name.startswith(ours) for name in names)

    # ── git ─────────────────────────────────────────────────────────────────────────────────

    def _write(self, *arguments: str, git: Git | None = None) -> None:
        done = patiently(git or self._git, *arguments)
        if held := lock_held(done):
            cure = f"Remove it if no git runs here, then commit {self._folder} yourself."
            raise GitError("PB-GIT-COMMIT", f"another git holds {held}", guidance=cure)
        if done.returncode != 0:
            raise self._refused("PB-GIT-COMMIT", arguments[0], done)

    @property
    def _remotely(self) -> Git:
        return partial(self._git, runs=Runs.ALL)

    def _git(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        runs: Runs = Runs.NOTHING,
        settings: Sequence[str] = (),
    ) -> Completed:
        argv = [*command(self._at.root, runs), *settings, *arguments]
        isolation = None if runs is Runs.NOTHING else self._isolation
        return run(
            argv,
            cwd=self._at.root,
            env={**environment(runs), **self._dates, **(env or {})},
            stdin=stdin,
            timeout=max(self._until - time.monotonic(), _LEAST),
            isolation=isolation(argv) if isolation else None,
        )

    def _refused(self, code: str, command: str, done: Completed) -> GitError:
        if done.timed_out:
            long = f"git {command} took longer than {self._timeout:g} seconds"
            return GitError(code, f"{long}, and was ended")
        said = refusal(done)  # the output of hooks, too
        who = SAY_WHO + _NEXT_COMMIT.format(folder=self._folder) if said.lacks_identity else ""
        message = f"git {command} was refused: {said.words}"
        return GitError(code, message, guidance=who, cause=said.cause)


def _seen(printed: str) -> _Seen:
    """The answer of `git status --porcelain=v2 --branch -z`."""
    lines = printed.split("\0")
    tracked = [line for line in lines if line.startswith(("1 ", "u "))]
    names = (line.split(" ", 8 if line[0] == "1" else 10)[-1] for line in tracked)
    said = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch."))
    untracked = tuple(line[2:] for line in lines if line.startswith("? "))
    head, branch = said["branch.oid"], said["branch.head"]
    return _Seen(
        head="" if head == "(initial)" else head,
        branch="" if branch == "(detached)" else branch,
        changed=(*names, *untracked),
        known=any("A" not in line[2:4] for line in tracked),
        ignored=any(line.startswith("! ") for line in lines),
        untracked=untracked,
    )
