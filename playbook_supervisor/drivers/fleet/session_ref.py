"""A session's reference at the remote, seen through a mirror: read, claimed, checked out.

The chain of commits at the reference is the session's record, and the fence between workers: it
moves only by compare-and-swap, so a claim makes every push of the worker before it fail
(docs/decisions/0226-a-clone-that-shares-the-mirrors-objects.md).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from playbook_supervisor.drivers.fleet import session_tip
from playbook_supervisor.drivers.fleet.remote_refs import RemoteRefs
from playbook_supervisor.drivers.fleet.session_tip import FALLBACK, FOLDERS, HEADS, REF, is_branch
from playbook_supervisor.drivers.fleet.session_tip import Tip as Tip
from playbook_supervisor.errors import ArgumentError, GitError, StateError, StorageError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.manifest import SESSION_ID
from playbook_supervisor.system.files import (
    ensure_folder,
    remove,
    rename_folder,
    write_atomically,
)
from playbook_supervisor.system.git_plumbing import Plumbing, git
from playbook_supervisor.system.git_unattended import dates
from playbook_supervisor.system.locks import locked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.drivers.fleet.session_clone import SessionClone

SECONDS, FIRST = 600.0, 3600.0
"""Seconds for a command that talks to the remote, and for the first one, which fetches it all.

One that no bytes come back from ends sooner (`git_plumbing`)."""

_BRANCHES = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
_LOOSE = 1_000  # files of objects that are not packed; 4 MiB on most disks
_TIDY = (
    *("-c", "gc.autoDetach=false", "-c", "gc.pruneExpire=never"),
    *("gc", "--auto", "--quiet"),
)
_READY = "playbook-mirror"  # the file that says that the mirror is complete
_ATTRIBUTES = b"* -text -ident !working-tree-encoding\n"
"""Files travel byte by byte, whatever the repository's attributes say of line ends."""


class Mirror:
    """A bare repository of this machine: the remote's branches, tags and sessions as last fetched.

    Threads and processes may share it. `folder` is made when it is first needed. Commands that talk
    to the remote have `seconds` each; GitError PB-GIT-REMOTE if one fails, and it may be tried
    again. `notices` says which sessions `tips` left out.
    """

    def __init__(
        self, folder: Path, url: str, transports: Sequence[str], *, seconds: float = SECONDS
    ) -> None:
        self.folder, self.url = folder, url
        self.git = Plumbing(folder)
        self.remote = RemoteRefs(self.git, url, transports, seconds)
        self.notices: tuple[str, ...] = ()
        self._ready = False

    # ── reading ─────────────────────────────────────────────────────────────────────────────

    def base(self, revision: str = "") -> tuple[str, str]:
        """The commit and the name of a branch of the remote as it is now, by default its main one.

        ArgumentError PB-ARG-BRANCH if that is no name of a branch, GitError PB-GIT-BASE if there is
        no such branch.
        """
        if revision and not is_branch(revision):
            raise ArgumentError("PB-ARG-BRANCH", f"{first_line(revision, 80)!r} is no branch")
        self._fetch(*_BRANCHES)
        branch = revision or self.default_branch(ask=True)
        shown = first_line(branch, 80) or "that its HEAD names"
        if not (commit := self.commit(HEADS + branch)):
            raise GitError("PB-GIT-BASE", f"{self.url} has no branch {shown}", where=self.url)
        return commit, branch

    def tip(self, session_id: str) -> Tip:
        """The newest commit of a session at the remote as it is now.

        StateError PB-STATE-NO-SESSION if there is none, PB-STATE-CORRUPT if it is not ours.
        """
        if SESSION_ID.match(session_id):
            refs = [each.format(id=session_id) for each in (REF, FALLBACK)]
            self._fetch(*_BRANCHES, f"+{refs[0]}*:{refs[0]}*")  # a pattern may match nothing
            for ref, commit, message in self._commits(*refs):
                return session_tip.read(ref, commit, message)
        raise StateError(
            "PB-STATE-NO-SESSION",
            f"{self.url} has no session {first_line(session_id, 80)!r}",
            where=self.url,
        )

    def tips(self) -> list[Tip]:
        """The newest commits of all sessions at the remote as it is now; `notices` has the rest."""
        self._fetch(*_BRANCHES, f"+{FOLDERS[0]}*:{FOLDERS[0]}*")
        found: dict[str, Tip] = {}
        notices = []
        for ref, commit, message in self._commits(*FOLDERS):
            try:
                tip = session_tip.read(ref, commit, message)
                found.setdefault(tip.session, tip)
            except StateError as error:
                notices.append(error.message)
        self.notices = tuple(notices)
        return list(found.values())

    def commit(self, name: str) -> str:
        """The commit of that full name of a reference, or of that id; empty if there is none."""
        asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        return self.git(*asked).stdout.strip() if name else ""

    def default_branch(self, *, ask: bool = False) -> str:
        """The remote's default branch as last seen, or, with `ask`, as it is now; maybe empty."""
        if ask and (now := self.remote.default_branch()):
            self.git.ask("symbolic-ref", "HEAD", f"{HEADS}{now}")
            return now
        return self.git("symbolic-ref", "--quiet", "HEAD").stdout.strip().removeprefix(HEADS)

    # ── work trees ──────────────────────────────────────────────────────────────────────────

    def begin(self, commit: str, branch: str, path: Path) -> SessionClone:
        """A clone for a new session: the files of a commit of `base`, on a new branch.

        ArgumentError PB-ARG-BRANCH if that is no name of a branch.
        """
        from playbook_supervisor.drivers.fleet.session_clone import SessionClone

        if not is_branch(branch):
            raise ArgumentError("PB-ARG-BRANCH", f"{first_line(branch, 80)!r} is no branch")
        return SessionClone.begun(self, commit, branch, path)

    def checkout(self, tip: Tip, path: Path) -> SessionClone:
        """A clone with the files of a tip; HEAD is its branch, at its head, and so is the index.

        GitError PB-GIT-FAILED if the tip names a commit that the remote does not have.
        """
        from playbook_supervisor.drivers.fleet.session_clone import SessionClone

        return SessionClone.checked_out(self, tip, path)

    # ── writing ─────────────────────────────────────────────────────────────────────────────

    def claim(self, tip: Tip, epoch: int, worker: str) -> Tip:
        """Put a claim on top of the tip, so that every push of the worker before fails.

        FleetError PB-FLEET-OVERTAKEN if the reference is not at `tip` any more.
        """
        claim = replace(tip, kind="claim", epoch=epoch, worker=worker)
        made = self.add(claim, f"{tip.commit}^{{tree}}", tip.commit)
        at = self.move(made, tip.commit)
        return self.claim(at, epoch, worker) if at else made

    def drop(self, tip: Tip) -> None:
        """Delete the session's reference. FleetError PB-FLEET-OVERTAKEN if it is not at `tip`."""
        self.remote.move(tip.ref, tip.commit, "")
        self.git("update-ref", "-d", tip.ref)

    def add(
        self, tip: Tip, tree: str, *parents: str, at: int | None = None, submission: str = ""
    ) -> Tip:
        """Make the commit of a tip here: its tree, its parents, our trailers.

        `at` is its date in ms since the epoch, by default the machine's time.
        """
        message = tip.message(submission)
        checked = session_tip.read(tip.ref, "", message)
        ancestors = [word for parent in parents for word in ("-p", parent)]
        arguments = ("commit-tree", *ancestors, tree)
        dated = {} if at is None else dates(at)
        commit = self.git.ask(*arguments, env=dated, stdin=message.encode())
        return replace(checked, commit=commit.strip())

    def move(self, tip: Tip, expected: str, branch: tuple[str, str] | None = None) -> Tip | None:
        """Push a tip, and its branch, as `RemoteRefs.move` does; None if it is there now.

        Otherwise, the tip that is there: an earlier one of the same worker. The caller goes on
        from it.
        """

        def ours(commit: str) -> bool:
            return self.own(tip, commit) is not None

        at = self.remote.move(tip.ref, expected, tip.commit, branch=branch, ours=ours)
        if at != tip.commit:
            return self.own(tip, at)
        self.git("update-ref", tip.ref, at, expected)  # a later fetch may have been here
        return None

    def own(self, tip: Tip, commit: str) -> Tip | None:
        """The commit as a tip, if it was made here by the worker of `tip` in the same epoch.

        It is then an earlier one of the same worker, whose push arrived without an answer.
        """
        done = self.git("cat-file", "commit", commit)
        if done.returncode != 0 or not tip.worker:
            return None
        try:
            found = session_tip.read(tip.ref, commit, done.stdout.partition("\n\n")[2])
        except StateError:
            return None
        return found if (found.epoch, found.worker) == (tip.epoch, tip.worker) else None

    # ── the folder ──────────────────────────────────────────────────────────────────────────

    def tidy(self) -> None:
        """Pack what has come in, once that is much: each snapshot adds some files.

        Git decides when, and one at a time. No object is dropped, for clones share them.
        GitError PB-GIT-FAILED.
        """
        self.git.ask("-c", f"gc.auto={_LOOSE}", *_TIDY)

    def _fetch(self, *refspecs: str) -> None:
        self._prepare()
        self.remote.fetch(*refspecs)

    def _commits(self, *patterns: str) -> list[tuple[str, str, str]]:
        """Reference, commit and message of each reference that we have, as patterns of git.

        What is no commit has an empty message.
        """
        end = f"\n{os.urandom(16).hex()}\n"  # no message contains it
        form = f"--format=%(objecttype) %(objectname) %(refname)%0a%(contents){end[:-1]}"
        listed = self.git.ask("for-each-ref", form, "--", *patterns)
        found = []
        for entry in listed.split(end)[:-1]:
            about, _, message = entry.partition("\n")
            kind, commit, ref = about.split(" ", 2)
            found.append((ref, commit, message if kind == "commit" else ""))
        return sorted(found, key=lambda each: each[0].startswith(FOLDERS[1]))

    def _prepare(self) -> None:
        """Clone the remote, unless that was done; one process at a time."""
        if self._ready:
            return
        ensure_folder(self.folder.parent)
        with locked(self.folder.with_name(f"{self.folder.name}.lock"), timeout=FIRST):
            if not (self.folder / _READY).exists():
                self._fill()
        self._ready = True

    def _fill(self) -> None:
        beside = self.folder.with_name(f"{self.folder.name}.partly-{os.urandom(8).hex()}")
        for left in self.folder.parent.glob(f"{self.folder.name}.partly-*"):
            remove(left)  # of one that was killed
        done = git(
            self.folder.parent,
            *("clone", "--quiet", "--bare", "--template=", "--", self.url, str(beside)),
            protocols=self.remote.transports,
            env=self.remote.environment,
            seconds=FIRST,
        )
        try:
            if done.returncode != 0 or done.timed_out:
                raise self.remote.unreachable("clone", done)
            ensure_folder(beside / "info")
            write_atomically(beside / "info/attributes", _ATTRIBUTES)
            write_atomically(beside / _READY, b"")
            remove(self.folder)
            if not rename_folder(beside, self.folder):
                raise StorageError("PB-IO-WRITE", f"cannot make {self.folder}")
        finally:
            remove(beside)
