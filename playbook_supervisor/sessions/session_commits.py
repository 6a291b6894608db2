"""One session's folder in git: a commit that holds it and nothing else, and that commit's push.

Git's own command line acts, for a bounded time, with nobody to ask: hooks keep their say, nothing
is forced, and what a person has staged or left unstaged stays as it is.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress

from playbook_supervisor.errors import GitError
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.records import Record
from playbook_supervisor.system.cancellation import Interrupted, uncancellable
from playbook_supervisor.system.checkout import Checkout
from playbook_supervisor.system.processes import Completed, run

SESSION = "Playbook-Session"
NAME = "Playbook-Name"
"""The trailers by which such a commit is known."""

_SESSIONS = ".playbooks/sessions"
_UNFINISHED = ".playbook-tmp-*"  # what is being written at this moment
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)  # seconds, while somebody else holds a lock
_LOCK = r"'([^'\n]{1,4096}\.lock)'"
_LEAST = 2.0  # seconds for a git command when time is up: to say what became of the last one
_LAST_LINES, _LAST_WORDS = 3, 300  # lines, characters
_WHO = "git config --global user.email"  # what git advises in any language
_SAY_WHO = (
    "Tell git who you are: `git config user.name NAME` and `git config user.email ADDRESS`; "
    "the next commit has all of {folder}."
)
_OF_PUSH = r"(?m)^(?:To .*|[ +*=!-]\t.*|Done)$"
"""What `git push --porcelain` says itself on stdout."""
_CREDENTIALS = r"//[^/@\s]{1,1000}@"
_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
}
"""What git leaves in its directory while it waits for a person to go on with something."""
_NOBODY = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "GIT_EDITOR": ":",
}
"""Nobody can be asked for a name, a password or a message."""
_TERMINAL = frozenset({"GPG_TTY", "SSH_ASKPASS"})
_NO_CHORES = ("-c", "gc.auto=0", "-c", "maintenance.auto=false")


class Commit(Record):
    """A commit of one parent."""

    id: str
    parent: str


class _Seen(Record):
    """What git says of the folder and of HEAD. `head` and `branch` are empty where there is none.

    `known` when the last commit holds the folder.
    """

    head: str
    branch: str
    changed: bool
    known: bool
    ignored: bool
    untracked: tuple[str, ...]


class SessionInGit:
    """The folder of one session in one worktree.

    Everything together may take `timeout` seconds from now on, and hardly longer.
    """

    def __init__(self, at: Checkout, session: str, *, timeout: float) -> None:
        self._at, self._session = at, session
        self._folder = f"{_SESSIONS}/{session}"
        self._paths = (self._folder, f":(exclude,glob){self._folder}/**/{_UNFINISHED}")
        self._until = time.monotonic() + timeout
        self._timeout = timeout

    # ── committing ──────────────────────────────────────────────────────────────────────────

    def commit(
        self, subject: str, body: str, playbook: str, *, known: bool = False
    ) -> Commit | None:
        """Commit the folder as it stands; None where nothing is new.

        With `known` only where the last commit holds the folder already. GitError PB-GIT-COMMIT
        where there is no branch to commit on, and with git's or a hook's own words.
        """
        seen = self._look()
        if known and not seen.known:
            return None
        if not seen.changed:
            if seen.ignored:
                raise GitError(
                    "PB-GIT-COMMIT",
                    f"git ignores {self._folder}",
                    guidance="Take it out of .gitignore, or set `commit_sessions: never`.",
                )
            return None
        self._require_a_branch(seen)
        trailers = f"{SESSION}: {self._session}\n{NAME}: {playbook}"
        message = f"--message={subject}\n\n{body}\n\n{trailers}\n"
        if seen.untracked:
            self._add()
        try:
            self._write(
                "commit", "--quiet", "--cleanup=whitespace", message, "--only", "--", *self._paths
            )
        except (GitError, Interrupted):
            with uncancellable():
                made = self.latest()
                if made is not None and made.parent == seen.head:
                    return made  # only what came after it has failed: a hook of its own, say
                self._forget(seen.untracked)
            raise
        return self._last()[0]

    def _look(self) -> _Seen:
        done = self._git(
            "status",
            "--porcelain=v2",
            "--branch",
            "--no-ahead-behind",
            "--no-renames",
            "--untracked-files=all",
            "--ignored",
            "-z",
            "--",
            *self._paths,
            env={"GIT_OPTIONAL_LOCKS": "0"},
        )
        if done.returncode != 0:
            raise self._refused("PB-GIT-COMMIT", "status", done)
        lines = done.stdout.split("\0")
        said = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch."))
        tracked = [line[2:4] for line in lines if line.startswith(("1 ", "u "))]
        untracked = tuple(line[2:] for line in lines if line.startswith("? "))
        head, branch = said["branch.oid"], said["branch.head"]
        return _Seen(
            head="" if head == "(initial)" else head,
            branch="" if branch == "(detached)" else branch,
            changed=bool(tracked or untracked),
            known=any("A" not in change for change in tracked),
            ignored=any(line.startswith("! ") for line in lines),
            untracked=untracked,
        )

    def _require_a_branch(self, seen: _Seen) -> None:
        for name, what in _UNDER_WAY.items():
            if os.path.lexists(self._at.git_dir / name):
                raise GitError(
                    "PB-GIT-COMMIT",
                    f"{what} is under way",
                    guidance=f"Finish it, then commit {self._folder} yourself.",
                )
        if not seen.head:
            raise GitError(
                "PB-GIT-COMMIT",
                "there is no commit yet, and the first one is yours",
                guidance=f"Commit your project; {self._folder} may go with it.",
            )
        if not seen.branch:
            raise GitError(
                "PB-GIT-COMMIT",
                "HEAD is on no branch",
                guidance=f"`git switch` to one, and commit {self._folder} there.",
            )

    def _add(self) -> None:
        """Make new files known by name; their content enters the index with the commit alone."""
        sparse = ("--sparse",) if (self._at.git_dir / "info/sparse-checkout").exists() else ()
        self._write("add", "--intent-to-add", *sparse, "--", *self._paths)

    def _forget(self, added: tuple[str, ...]) -> None:
        """Leave the index as it was, as far as that can be: what went wrong is told in any case."""
        with suppress(GitError):
            names = "".join(f"{name}\0" for name in added).encode()
            self._write("update-index", "--force-remove", "-z", "--stdin", stdin=names)

    def latest(self) -> Commit | None:
        """The last commit, if it says that it is this session's."""
        made, message = self._last()
        return made if f"{SESSION}: {self._session}" in message.splitlines() else None

    def _last(self) -> tuple[Commit | None, str]:
        """The last commit, None where it has not one parent, and its message."""
        done = self._git("cat-file", "--batch", stdin=b"HEAD\n")
        about, _, raw = done.stdout.partition("\n")
        headers, _, message = raw.partition("\n\n")
        parents = re.findall(r"^parent ([0-9a-f]+)$", headers, re.MULTILINE)
        made = Commit(about.partition(" ")[0], parents[0]) if len(parents) == 1 else None
        return made, message

    # ── pushing ─────────────────────────────────────────────────────────────────────────────

    def push(self) -> str:
        """Push the last commit, if it is this session's; `remote/branch`, or nothing was to do.

        Only as a fast-forward, and only where the branch's own counterpart stands at its parent:
        else commits of the person's would be published with it. GitError PB-GIT-PUSH.
        """
        made, branch = self.latest(), self._look().branch
        if made is None or not branch or not self._holds_nothing_else(made):
            return ""
        remote = self._remote(branch)
        if not remote:
            return ""
        ref, place = f"refs/heads/{branch}", f"{remote}/{branch}"
        quietly = self._ssh()
        elsewhere = self._git("config", "--get", f"remote.{remote}.pushurl").stdout.strip()
        listed = self._git("ls-remote", "--quiet", "--", elsewhere or remote, ref, env=quietly)
        if listed.returncode != 0:
            raise self._refused("PB-GIT-PUSH", "ls-remote", listed)
        tips = dict(line.split("\t")[::-1] for line in listed.stdout.splitlines())
        tip = tips.get(ref, "")
        if tip == made.id:
            return ""
        if not tip:
            raise GitError("PB-GIT-PUSH", f"{remote} holds no branch {branch}")
        if tip != made.parent:
            raise GitError(
                "PB-GIT-PUSH",
                f"{place} does not stand at {made.parent[:7]}, the commit before it: more than the "
                "session would go with it",
            )
        pushed = self._git(
            "push",
            "--porcelain",
            "--no-follow-tags",
            "--recurse-submodules=no",
            "--",
            remote,
            f"{made.id}:{ref}",
            env=quietly,
        )
        if pushed.returncode != 0:
            raise self._refused("PB-GIT-PUSH", "push", pushed)
        return place

    def _holds_nothing_else(self, made: Commit) -> bool:
        """Somebody may have amended it, and a hook may have added to it."""
        changed = self._git("diff-tree", "-r", "-z", "--name-only", made.parent, made.id)
        names = changed.stdout.split("\0")[:-1]
        return bool(names) and all(name.startswith(f"{self._folder}/") for name in names)

    def _remote(self, branch: str) -> str:
        """Where git would push the branch to; else the only remote, or `origin`."""
        asked = self._git(
            "for-each-ref", "--format=%(push:remotename)", "--count=1", f"refs/heads/{branch}"
        )
        if named := asked.stdout.strip():
            return "" if named == "." else named
        remotes = self._git("remote").stdout.split()
        if len(remotes) == 1:
            return remotes[0]
        return "origin" if "origin" in remotes else ""

    def _ssh(self) -> dict[str, str]:
        """That ssh asks nothing; a command of the person's own is left as it is."""
        own = {"GIT_SSH", "GIT_SSH_COMMAND"} & os.environ.keys()
        if own or self._git("config", "--get", "core.sshCommand").returncode == 0:
            return {}
        return {"GIT_SSH_COMMAND": "ssh -o BatchMode=yes"}

    # ── git ─────────────────────────────────────────────────────────────────────────────────

    def _write(self, *arguments: str, stdin: bytes = b"") -> None:
        """A git command that takes locks; one that somebody else holds is waited for."""
        pauses = list(_PAUSES)
        while (done := self._git(*arguments, stdin=stdin)).returncode != 0:
            lock = re.search(_LOCK, done.stderr)
            if done.timed_out or not lock:
                raise self._refused("PB-GIT-COMMIT", arguments[0], done)
            if not pauses:
                raise GitError(
                    "PB-GIT-COMMIT",
                    f"another git holds {printable(lock[1])}",
                    guidance=f"Remove it if no git runs here, then commit {self._folder} yourself.",
                )
            time.sleep(pauses.pop(0))

    def _git(
        self, *arguments: str, env: Mapping[str, str] | None = None, stdin: bytes = b""
    ) -> Completed:
        inherited = {key: value for key, value in os.environ.items() if key not in _TERMINAL}
        return run(
            ["git", *_NO_CHORES, *arguments],
            cwd=self._at.root,
            env={**inherited, **_NOBODY, **(env or {})},
            stdin=stdin,
            timeout=max(self._until - time.monotonic(), _LEAST),
        )

    def _refused(self, code: str, command: str, done: Completed) -> GitError:
        if done.timed_out:
            return GitError(
                code, f"git {command} took longer than {self._timeout:g} seconds, and was ended"
            )
        told = f"{re.sub(_OF_PUSH, '', done.stdout)}\n{done.stderr}"  # where hooks speak
        said = re.sub(_CREDENTIALS, "//", printable(told, keep_newlines=True))
        lines = [line.strip() for line in said.splitlines() if line.strip()] or ["it said nothing"]
        nobody = _WHO in said
        words = " / ".join(lines[-1 if nobody else -_LAST_LINES :])[-_LAST_WORDS:]
        guidance = _SAY_WHO.format(folder=self._folder) if nobody else ""
        return GitError(
            code,
            f"git {command} was refused: {words}",
            guidance=guidance,
            cause="\n".join(lines),
        )
