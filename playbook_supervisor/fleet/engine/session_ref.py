"""A session's reference at the remote, seen through a mirror, and the clone its agents work in.

The chain of commits at the reference is the session's record, and the fence between workers: it
moves only by compare-and-swap, so a claim makes every push of the worker before it fail
(docs/decisions/0226-a-clone-that-shares-the-mirrors-objects.md).

The clone has the objects of the mirror and references of its own, so that what an overtaken agent
commits or moves does not touch its successor. Its work tree travels as snapshots, which are made by
git in a git directory of ours inside the clone's: its index is kept, objects go into the mirror,
and no setting of the clone is read, which an agent may have changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from playbook_supervisor import __version__
from playbook_supervisor.errors import (
    ArgumentError,
    FleetError,
    GitError,
    PlaybookError,
    StateError,
    StorageError,
)
from playbook_supervisor.fleet.engine import session_tip, snapshot_tree
from playbook_supervisor.fleet.engine.remote_refs import RefusedError, RemoteRefs
from playbook_supervisor.fleet.engine.remotes import mirror_name, normalised
from playbook_supervisor.fleet.engine.session_tip import HEADS, Unpushed, is_branch
from playbook_supervisor.fleet.engine.session_tip import Tip as Tip
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files.manifest import (
    FALLBACK_REF,
    REF,
    REF_FOLDERS,
    SESSION_ID,
    ids_in,
)
from playbook_supervisor.sessions.files.session_clock import SessionClock
from playbook_supervisor.system.disk.files import (
    TEMPORARY,
    ensure_folder,
    locked,
    read_bytes,
    remove,
    rename_folder,
    write_atomically,
)
from playbook_supervisor.system.git import checkout, git_process
from playbook_supervisor.system.git.git_plumbing import Plumbing, checked, git
from playbook_supervisor.system.git.git_unattended import dates

SECONDS, FIRST = 600.0, 3600.0
"""Seconds for a command that fetches from the remote, and for the first one, which fetches it all.

One that no bytes come back from ends sooner (`git_plumbing`), and so does one that transfers little
(`remote_refs`)."""

_BRANCHES = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
_LOOSE = 1_000  # files of objects that are not packed; 4 MiB on most disks
_TIDY = (
    *("-c", "gc.autoDetach=false", "-c", "gc.pruneExpire=never"),
    *("gc", "--auto", "--quiet"),
)
_READY = "playbook-mirror"  # the file that says that the mirror is complete
_ATTRIBUTES = b"* -text -ident !working-tree-encoding\n"
"""Files travel byte by byte, whatever the repository's attributes say of line ends."""

_SESSIONS = ".playbooks/sessions"
_OWN = "playbook-snapshots"  # our git directory inside the clone's
_RULES = {"info/attributes": _ATTRIBUTES, "info/exclude": f"{TEMPORARY}*\n".encode()}
"""Files of the mirror that hold for all snapshots. As patterns for `git add`, what is unfinished
would be compared with the path of every file."""
_SETTINGS = ("-c", "gc.auto=0", "-c", "maintenance.auto=false")  # of the clone, from now on
_REBASES = ("rebase-merge/head-name", "rebase-apply/head-name")
_ORIGIN_HEAD = "refs/remotes/origin/HEAD"
_NOT_RACY = 5.0  # seconds: git reads each file again that is as young as the index that it reads
_SMALL = 1 << 12
_WRITABLE = 0o700


class Mirror:
    """A bare repository of this machine: the remote's branches, tags and sessions as last fetched.

    Threads and processes may share it. `folder` is made when it is first needed. Commands that talk
    to the remote have `seconds` each; GitError PB-GIT-REMOTE if it cannot be reached, and it may be
    tried again; FleetError PB-FLEET-REFUSED if it refuses. `notices` says which sessions `tips`
    left out.
    """

    _cloning: Sequence[str] = ()  # more options for the first clone

    def __init__(
        self, folder: Path, url: str, transports: Sequence[str], *, seconds: float = SECONDS
    ) -> None:
        self.folder, self.url = folder, url
        self.git = Plumbing(folder)
        self.remote = RemoteRefs(self.git, url, transports, seconds)
        self.notices: tuple[str, ...] = ()
        self._ready = False

    @classmethod
    def of(cls, mirrors: Path, address: str, transports: Sequence[str]) -> Mirror:
        """The mirror of a repository among `mirrors`. FleetError PB-FLEET-REPOSITORY if refused."""
        accepted = normalised(address, transports)
        return cls(mirrors / mirror_name(accepted), accepted, transports)

    # ── reading ─────────────────────────────────────────────────────────────────────────────

    def base(self, revision: str = "") -> tuple[str, str]:
        """The commit and name of a branch of the remote as it is now; by default its main one."""
        if revision:
            require_branch(revision)
        self._fetch(*_BRANCHES)
        branch = revision or self.default_branch(ask=True)
        shown = first_line(branch, 80) or "that its HEAD names"
        if not (commit := self.commit(HEADS + branch)):
            raise GitError("PB-GIT-BASE", f"{self.url} has no branch {shown}", where=self.url)
        return commit, branch

    def existing(self, branch: str) -> str:
        """The commit of a branch as last fetched; empty if there is none."""
        return self.commit(HEADS + branch)

    def tip(self, session_id: str) -> Tip:
        """The newest commit of a session at the remote as it is now."""
        if SESSION_ID.match(session_id):
            refs = [each.format(id=session_id) for each in (REF, FALLBACK_REF)]
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
        self._fetch(*_BRANCHES, f"+{REF_FOLDERS[0]}*:{REF_FOLDERS[0]}*")
        found: dict[str, Tip] = {}
        notices = []
        for ref, commit, message in self._commits(*REF_FOLDERS):
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
        if ask and is_branch(now := self.remote.default_branch()):
            write_atomically(self.folder / "HEAD", f"ref: {HEADS}{now}\n".encode(), durable=False)
            return now
        named = read_bytes(self.folder / "HEAD").decode("utf-8", "replace")
        return named.strip().partition(f"ref: {HEADS}")[2]

    # ── work trees ──────────────────────────────────────────────────────────────────────────

    def begin(self, commit: str, branch: str, path: Path) -> SessionClone:
        """A clone for a new session: the files of a commit, on a new branch."""
        with self._making(path) as clone:
            clone.fill(commit, branch, commit)
        return clone

    @contextmanager
    def for_a_while(self, commit: str, branch: str) -> Iterator[SessionClone]:
        """As `begin`, somewhere, until the `with` ends."""
        with TemporaryDirectory(prefix="playbook-clone-") as scratch:
            clone = self.begin(commit, branch, Path(scratch) / "clone")
            try:
                yield clone
            finally:
                clone.remove()

    @contextmanager
    def _making(self, path: Path) -> Iterator[SessionClone]:
        """A clone without files, to be filled by the block; it goes if that fails."""
        clone = SessionClone(self, path)
        try:
            clone.make()
            yield clone
        except BaseException:
            clone.remove()
            raise

    def clone_to(self, path: Path) -> None:
        """Make a clone there, without files, that shares our objects; its remote is ours."""
        done = git(
            path.parent,
            *("clone", "--quiet", "--shared", "--no-checkout", *_SETTINGS),
            *("--", str(self.folder), str(path)),
            protocols=("file",),
        )
        checked(path, ("clone",), done)
        its_git = Plumbing(path / ".git", path)
        its_git.ask("config", "remote.origin.url", self.url)
        if not (path / ".git" / _ORIGIN_HEAD).exists():  # the default branch was renamed
            target = f"refs/remotes/origin/{self.default_branch(ask=True)}"
            its_git("symbolic-ref", _ORIGIN_HEAD, target)

    def checkout(self, tip: Tip, path: Path) -> SessionClone:
        """A clone with the files of a tip; HEAD is its branch, at its head, and so is the index.

        GitError PB-GIT-FAILED if the tip names a commit that the remote does not have.
        """
        with self._making(path) as clone:
            clone.fill(tip.commit, tip.branch, tip.head)
        return clone

    # ── writing ─────────────────────────────────────────────────────────────────────────────

    def claim(self, tip: Tip, epoch: int, worker: str) -> Tip:
        """Put a claim on top of the tip, so that every push of the worker before fails."""
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
        """Make the commit of a tip here, with our trailers. `at` is its date in ms, by default
        now."""
        message = tip.message(submission)
        checked = session_tip.read(tip.ref, "", message)
        ancestors = [word for parent in parents for word in ("-p", parent)]
        arguments = ("commit-tree", *ancestors, tree)
        dated = {} if at is None else dates(at)
        commit = self.git.ask(*arguments, env=dated, stdin=message.encode())
        return replace(checked, commit=commit.strip())

    def move(self, tip: Tip, expected: str, branch: tuple[str, str] | None = None) -> Tip | None:
        """Push a tip, and its branch, as `RemoteRefs.move` does; None if it is there now.

        Otherwise, the tip that is there, from which the caller goes on: an earlier one of the same
        worker, whose push arrived without an answer.
        """

        def ours(commit: str) -> bool:
            return self.own(tip, commit) is not None

        at = self.remote.move(tip.ref, expected, tip.commit, branch=branch, ours=ours)
        if at != tip.commit:
            return self.own(tip, at)
        self.git("update-ref", tip.ref, at, expected)  # a later fetch may have been here
        return None

    def own(self, tip: Tip, commit: str) -> Tip | None:
        """The commit as a tip, if it was made by the worker of `tip` in the same epoch."""
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
        """
        self.git.ask("-c", f"gc.auto={_LOOSE}", *_TIDY)

    def _fetch(self, *refspecs: str) -> None:
        self._prepare()
        self.remote.fetch(*refspecs)

    def _commits(self, *patterns: str) -> list[tuple[str, str, str]]:
        """Reference, commit and message of each that we have; empty for what is no commit."""
        end = f"\n{os.urandom(16).hex()}\n"  # no message contains it
        form = f"--format=%(objecttype) %(objectname) %(refname)%0a%(contents){end[:-1]}"
        listed = self.git.ask("for-each-ref", form, "--", *patterns)
        found = []
        for entry in listed.split(end)[:-1]:
            about, _, message = entry.partition("\n")
            kind, commit, ref = about.split(" ", 2)
            found.append((ref, commit, message if kind == "commit" else ""))
        return sorted(found, key=lambda each: each[0].startswith(REF_FOLDERS[1]))

    @property
    def is_filled(self) -> bool:
        return (self.folder / _READY).exists()

    def _prepare(self) -> None:
        """Clone the remote, unless that was done; one process at a time."""
        if self._ready:
            return
        ensure_folder(self.folder.parent)
        with locked(self.folder.with_name(f"{self.folder.name}.lock"), timeout=FIRST):
            if not self.is_filled:
                self._fill()
            ensure_folder(self.folder / "info")
            for name, rules in _RULES.items():
                write_atomically(self.folder / name, rules, durable=False)
        self._ready = True

    def _fill(self) -> None:
        beside = self.folder.with_name(f"{self.folder.name}.partly-{os.urandom(8).hex()}")
        for left in self.folder.parent.glob(f"{self.folder.name}.partly-*"):
            remove(left)  # of one that was killed
        done = git(
            self.folder.parent,
            *("clone", "--quiet", "--bare", "--template=", *self._cloning),
            *("--", self.url, str(beside)),
            protocols=self.remote.transports,
            env=self.remote.environment,
            seconds=FIRST,
        )
        try:
            if done.returncode != 0 or done.timed_out:
                raise self.remote.failure("clone", done)
            write_atomically(beside / _READY, b"")
            remove(self.folder)
            if not rename_folder(beside, self.folder):
                raise StorageError("PB-IO-WRITE", f"cannot make {self.folder}")
        finally:
            remove(beside)


class _Excerpt(Mirror):
    """The newest commits of all branches, as they are when it is made."""

    _cloning = ("--depth=1", "--no-single-branch", "--no-tags")

    def _fetch(self, *_: str) -> None:
        self._prepare()


@contextmanager
def excerpt(mirror: Mirror) -> Iterator[Mirror]:
    """The mirror if this machine has it already, else one without history, for a while."""
    if mirror.is_filled:
        yield mirror
        return
    with TemporaryDirectory(prefix="playbook-excerpt-") as scratch:
        yield _Excerpt(Path(scratch, "mirror.git"), mirror.url, mirror.remote.transports)


@dataclass(frozen=True, slots=True)
class _Heads:
    """The branch of the clone, and the commits of HEAD and of the branch; maybe empty."""

    branch: str
    head: str
    published: str


class SessionClone:
    """The clone at `path`. `notices` says what the last snapshot had to leave out, `unpushed` is
    what it has pushed, or tried to.

    One thread uses it at a time. Errors of git in the clone are GitError PB-GIT-FAILED.
    """

    def __init__(self, mirror: Mirror, path: Path) -> None:
        self.path = path
        self.notices: tuple[str, ...] = ()
        self.unpushed: Unpushed | None = None
        self._mirror = mirror
        self._git_dir = path / ".git"
        self._own = Plumbing(self._git_dir / _OWN, path)
        self._created: set[str] = set()
        self._made: tuple[tuple[int, int], ...] = ()  # which folders it and its git directory are

    # ── making it ───────────────────────────────────────────────────────────────────────────

    def make(self) -> None:
        ensure_folder(self.path.parent)
        self._mirror.clone_to(self.path)
        self._made = self._folders()
        self._link()

    def fill(self, commit: str, branch: str, head: str) -> None:
        """Let the files, and the index, be those of a commit, and HEAD a branch, at `head`.

        The clone's index is made of ours, which knows the files' times: git need not read them.
        """
        require_branch(branch)
        self._own.ask("read-tree", "-u", "--reset", commit)
        ref = HEADS + branch
        write_atomically(self._git_dir / "HEAD", f"ref: {ref}\n".encode(), durable=False)
        its_git = Plumbing(self._git_dir, self.path)  # its own settings: no agent was here yet
        its_git.ask("update-ref", *((ref, head) if head else ("-d", ref)))
        index = self._git_dir / "index"
        write_atomically(index, read_bytes(self._own.git_dir / "index"), durable=False)
        later = time.time() + _NOT_RACY
        os.utime(index, (later, later))
        its_git.ask("read-tree", *(("--reset", "HEAD") if head else ("--empty",)))

    def _link(self) -> None:
        """Make our git directory, whose objects and settings are the mirror's. It is written again
        each time, because agents can reach it."""
        ensure_folder(self._own.git_dir)
        for name, text in (("HEAD", "ref: refs/heads/none"), ("commondir", self._mirror.folder)):
            data = os.fsencode(f"{text}\n")
            write_atomically(self._own.git_dir / name, data, durable=False)
        remove(self._own.git_dir / "index.lock")  # of a git that was ended

    # ── snapshots ───────────────────────────────────────────────────────────────────────────

    def create(self, session_id: str) -> Tip:
        """Push the first snapshot of a session, whose reference must not exist yet.

        FleetError PB-FLEET-TAKEN if it does, PB-FLEET-REFUSED if the remote takes neither `REF` nor
        `FALLBACK_REF`, GitError PB-GIT-REMOTE if it cannot be reached; it may be tried again.
        """
        heads = self._heads("")
        if heads.head and not self._mirror.commit(heads.head):
            self._bring(heads)
        tree = self._tree((session_id,), "")
        for form in (REF, FALLBACK_REF):
            ref = form.format(id=session_id)
            made = self._mirror.add(
                Tip(ref, "", "snapshot", session_id, 0, "", heads.branch, heads.head, __version__),
                tree,
                *filter(None, [heads.head]),
                at=self._now(),
                submission=os.urandom(8).hex(),
            )
            self._created.add(made.commit)
            try:
                at = self._mirror.remote.move(ref, "", made.commit, ours=self._created.__contains__)
            except RefusedError as refused:
                reason = refused.error
            except FleetError as error:
                if error.code != "PB-FLEET-OVERTAKEN":
                    raise
                raise FleetError("PB-FLEET-TAKEN", f"there is a session {session_id}") from None
            else:
                return replace(made, commit=at)
        raise reason

    def snapshot(self, tip: Tip, *, branch: bool = False, children: Sequence[str] = ()) -> Tip:
        """Commit the work tree on top of `tip`, and push it; with `branch`, the branch as well.

        It has all files that git does not ignore, and the folders of the session and of its
        `children` anyway. An operation of the agent that is under way is no obstacle. The remote's
        default branch is never pushed, and of an unfinished rebase nothing.

        Errors as `RemoteRefs.move`. It may be tried again, with the same tip; after
        PB-FLEET-BRANCH and PB-FLEET-BRANCH-REFUSED without the branch.
        """
        heads = self._heads(tip.branch)
        parents = [tip.commit]
        if heads.head != tip.head or heads.published != tip.head:
            parents += self._bring(heads, tip.head)
        tree = self._tree((tip.session, *children), tip.commit)
        new = replace(tip, kind="snapshot", branch=heads.branch, head=heads.head)
        new = replace(new, commit="", version=__version__)
        made = self._mirror.add(new, tree, *parents, at=self._now())
        moved = self._publishable(heads) if branch else None
        self.unpushed = made, tip.commit, moved
        at = self._mirror.move(made, tip.commit, moved)
        return self.snapshot(at, branch=branch, children=children) if at else made

    def here(self) -> checkout.Checkout:
        """The clone as it is now. StateError PB-STATE-NO-REPOSITORY if an agent has put something
        else in its place: what is elsewhere is neither read nor pushed."""
        if not self._made or self._folders() != self._made:
            raise StateError(
                "PB-STATE-NO-REPOSITORY", f"{self.path} is no clone any more", where=str(self.path)
            )
        return checkout.find(self.path)

    def _folders(self) -> tuple[tuple[int, int], ...]:
        try:
            found = [each.lstat() for each in (self.path, self._git_dir)]
        except OSError:
            return ()
        return tuple((each.st_dev, each.st_ino) for each in found)

    def other_sessions(self, session_id: str) -> tuple[str, ...]:
        """The sessions in the clone but for this one, its children among them."""
        return tuple(each for each in ids_in(self.path / _SESSIONS) if each != session_id)

    def remove(self) -> None:
        """Remove the clone, also the folders in it that are not writable."""
        with suppress(PlaybookError):
            return remove(self.path)
        for folder, folders, _ in os.walk(self.path):
            inner = (Path(folder, name) for name in folders)
            for each in (each for each in inner if not each.is_symlink()):
                with suppress(OSError):
                    each.chmod(_WRITABLE)
        return remove(self.path)

    # ── what goes into a snapshot ───────────────────────────────────────────────────────────

    def _now(self) -> int | None:
        """The session's time, if the machine's clock shows another one: no journal is from after
        its snapshot (docs/decisions/0236-a-sessions-clock-never-goes-back.md)."""
        clock = SessionClock(self.here().runtime)
        return clock() if clock.ahead else None

    def _heads(self, known: str) -> _Heads:
        """The same of a clone whose files are hostile data; `known` was its branch before."""
        here = self.here()
        if is_branch(here.branch):
            return _Heads(here.branch, here.head, here.head)
        begun = (self._rebased(name) for name in _REBASES)
        branch = next(filter(is_branch, begun), known)
        if not is_branch(branch):
            raise GitError("PB-GIT-FAILED", f"{self.path}: HEAD is on no branch")
        return _Heads(branch, here.head, git_process.commit_of(self.path, HEADS + branch))

    def _rebased(self, name: str) -> str:
        """The branch of a rebase that is under way; empty if there is none."""
        try:
            content = read_bytes(self._git_dir / name, limit=_SMALL)
        except (PlaybookError, OSError):
            return ""
        return content.decode("utf-8", "replace").strip().removeprefix(HEADS)

    def _bring(self, heads: _Heads, known: str = "") -> list[str]:
        """Fetch the clone's new commits into the mirror, and return them, HEAD's first."""
        commits = [*dict.fromkeys(each for each in (heads.head, heads.published) if each)]
        new = [commit for commit in commits if commit != known]
        if new:
            self._mirror.git.ask(
                *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc"),
                *("--no-recurse-submodules", "--", str(self.path), *new),
                protocols=("file",),
            )
        return new

    def _publishable(self, heads: _Heads) -> tuple[str, str] | None:
        if not heads.published or heads.branch == self._mirror.default_branch():
            return None
        return heads.branch, heads.published

    def _tree(self, sessions: Sequence[str], before: str) -> str:
        self._link()
        folders = [f"{_SESSIONS}/{each}" for each in sessions if SESSION_ID.match(each)]
        tree, self.notices = snapshot_tree.write(self._own, self.path, folders, before)
        return tree


def require_branch(name: str) -> None:
    """ArgumentError PB-ARG-BRANCH if that cannot be the name of a branch."""
    if not is_branch(name):
        raise ArgumentError("PB-ARG-BRANCH", f"{first_line(name, 80)!r} is no branch")
