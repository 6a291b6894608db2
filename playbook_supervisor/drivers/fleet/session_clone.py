"""The clone that a session's agents work in: a work tree that travels as snapshots.

The clone has the objects of the mirror and references of its own, so that what an overtaken agent
commits or moves does not touch its successor. Snapshots are made by git in a git directory of ours
inside the clone's: its index is kept, objects go into the mirror, and no setting of the clone is
read, which an agent may have changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from playbook_supervisor import __version__
from playbook_supervisor.drivers.fleet.remote_refs import RefusedError
from playbook_supervisor.drivers.fleet.session_tip import FALLBACK, HEADS, REF, Tip, is_branch
from playbook_supervisor.errors import FleetError, GitError, PlaybookError, StateError
from playbook_supervisor.formats.sanitize import first_line, printable
from playbook_supervisor.records import Record, replace
from playbook_supervisor.sessions import session_ids
from playbook_supervisor.sessions.manifest import SESSION_ID
from playbook_supervisor.sessions.session_clock import SessionClock
from playbook_supervisor.system import checkout, git_process
from playbook_supervisor.system.files import (
    TEMPORARY,
    ensure_folder,
    read_bytes,
    remove,
    write_atomically,
)
from playbook_supervisor.system.git_plumbing import Plumbing, checked, git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.drivers.fleet.session_ref import Mirror

_SESSIONS = ".playbooks/sessions"
_OWN = "playbook-snapshots"  # our git directory inside the clone's
_UNFINISHED = (  # what is being written, files and folders
    f":(exclude,top,glob)**/{TEMPORARY}*",
    f":(exclude,top,glob)**/{TEMPORARY}*/**",
)
_SETTINGS = ("-c", "gc.auto=0", "-c", "maintenance.auto=false")  # of the clone, from now on
_REBASES = ("rebase-merge/head-name", "rebase-apply/head-name")
_ORIGIN_HEAD = "refs/remotes/origin/HEAD"
_IGNORED = ("ls-files", "--cached", "--ignored", "--exclude-standard", "-z")
_SMALL = 1 << 12
_AT_ONCE = 500  # paths in an argument list
_WRITABLE = 0o700


class _Heads(Record):
    """Where the clone is: the session's branch, the commit of HEAD, and that of the branch.

    The two commits differ while HEAD is on no branch; each is empty if there is none.
    """

    branch: str
    head: str
    published: str


class SessionClone:
    """The clone at `path`. `notices` says what the last snapshot had to leave out.

    One thread uses it at a time. Errors of git in the clone are GitError PB-GIT-FAILED.
    """

    def __init__(self, mirror: Mirror, path: Path) -> None:
        self.path = path
        self.notices: tuple[str, ...] = ()
        self._mirror = mirror
        self._git_dir = path / ".git"
        self._own = Plumbing(self._git_dir / _OWN, path)
        self._created: set[str] = set()
        self._made: tuple[tuple[int, int], ...] = ()  # which folders it and its git directory are

    # ── making it ───────────────────────────────────────────────────────────────────────────

    @classmethod
    def begun(cls, mirror: Mirror, commit: str, branch: str, path: Path) -> SessionClone:
        """See `Mirror.begin`. The user's own filters run, as in any checkout."""
        with _making(mirror, path) as clone:
            clone._head(branch, commit)
            clone._its_git.ask("read-tree", "-u", "--reset", "HEAD")
        return clone

    @classmethod
    def checked_out(cls, mirror: Mirror, tip: Tip, path: Path) -> SessionClone:
        """See `Mirror.checkout`."""
        with _making(mirror, path) as clone:
            clone._own.ask("read-tree", "-u", "--reset", tip.commit)
            clone._head(tip.branch, tip.head)
            # The index knows the files' times, so that git need not read all files again.
            index = read_bytes(clone._own.git_dir / "index")
            write_atomically(clone._git_dir / "index", index, durable=False)
            clone._its_git.ask("read-tree", *(("--reset", "HEAD") if tip.head else ("--empty",)))
        return clone

    @property
    def _its_git(self) -> Plumbing:
        """Git with the clone's own settings; only before an agent has been there."""
        return Plumbing(self._git_dir, self.path)

    def _make(self) -> None:
        ensure_folder(self.path.parent)
        done = git(
            self.path.parent,
            *("clone", "--quiet", "--shared", "--no-checkout", *_SETTINGS),
            *("--", str(self._mirror.folder), str(self.path)),
            protocols=("file",),
        )
        checked(self.path, ("clone",), done)
        self._made = self._folders()
        self._its_git.ask("config", "remote.origin.url", self._mirror.url)
        if not (self._git_dir / _ORIGIN_HEAD).exists():  # the default branch was renamed
            target = f"refs/remotes/origin/{self._mirror.default_branch(ask=True)}"
            self._its_git("symbolic-ref", _ORIGIN_HEAD, target)

    def _head(self, branch: str, commit: str) -> None:
        ref = HEADS + branch
        self._its_git.ask("symbolic-ref", "HEAD", ref)
        self._its_git.ask("update-ref", *((ref, commit) if commit else ("-d", ref)))

    def _link(self) -> None:
        """Make our git directory, whose objects and settings are the mirror's.

        It is written again each time, because agents can reach it.
        """
        ensure_folder(self._own.git_dir)
        for name, text in (("HEAD", "ref: refs/heads/none"), ("commondir", self._mirror.folder)):
            data = os.fsencode(f"{text}\n")
            write_atomically(self._own.git_dir / name, data, durable=False)
        remove(self._own.git_dir / "index.lock")  # of a git that was ended

    # ── snapshots ───────────────────────────────────────────────────────────────────────────

    def create(self, session_id: str) -> Tip:
        """Push the first snapshot of a session, whose reference must not exist yet.

        FleetError PB-FLEET-TAKEN if it does, GitError PB-GIT-REMOTE if the remote cannot be reached
        or takes neither `REF` nor `FALLBACK`; it may be tried again.
        """
        heads = self._heads("")
        if heads.head:
            self._bring(heads)
        tree = self._tree((session_id,))
        for form in (REF, FALLBACK):
            ref = form.format(id=session_id)
            tip = self._tip(ref, session_id, heads, epoch=0, worker="")
            made = self._mirror.add(
                tip,
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
            except FleetError:
                raise FleetError("PB-FLEET-TAKEN", f"there is a session {session_id}") from None
            else:
                return replace(made, commit=at)
        raise reason

    def snapshot(self, tip: Tip, *, branch: bool = False, children: Sequence[str] = ()) -> Tip:
        """Commit the work tree on top of `tip`, and push it; with `branch`, the branch as well.

        It has all files that git does not ignore, and the folders of the session and of its
        `children` anyway. An operation of the agent that is under way is no obstacle. The remote's
        default branch is never pushed, and of an unfinished rebase nothing.

        FleetError PB-FLEET-OVERTAKEN if the reference is not at `tip` any more, PB-FLEET-BRANCH if
        the remote's branch has commits of others, GitError PB-GIT-REMOTE if the remote cannot be
        reached or refuses; it may be tried again, with the same tip.
        """
        heads = self._heads(tip.branch)
        parents = [tip.commit]
        if heads.head != tip.head or heads.published != tip.head:
            parents += self._bring(heads, tip.head)
        tree = self._tree((tip.session, *children))
        new = self._tip(tip.ref, tip.session, heads, epoch=tip.epoch, worker=tip.worker)
        made = self._mirror.add(new, tree, *parents, at=self._now())
        moved = self._publishable(heads) if branch else None
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
        return tuple(
            each for each in session_ids.names(self.path / _SESSIONS) if each != session_id
        )

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

    def _tip(self, ref: str, session: str, heads: _Heads, *, epoch: int, worker: str) -> Tip:
        branch, head = heads.branch, heads.head
        return Tip(ref, "", "snapshot", session, epoch, worker, branch, head, __version__)

    def _now(self) -> int | None:
        """The session's time, if the machine's clock shows another one: no journal is from after
        its snapshot (docs/decisions/0236-a-sessions-clock-never-goes-back.md)."""
        clock = SessionClock(self.here().runtime)
        return clock() if clock.ahead else None

    def _heads(self, known: str) -> _Heads:
        """Where the clone is, its files being hostile data; `known` was its branch before."""
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
        """The branch to push and its commit."""
        if not heads.published or heads.branch == self._mirror.default_branch():
            return None
        return heads.branch, heads.published

    def _tree(self, sessions: Sequence[str]) -> str:
        """The tree of all files that travel. GitError if a file of the sessions cannot be read."""
        self._link()
        folders = [f"{_SESSIONS}/{each}" for each in sessions if SESSION_ID.match(each)]
        folders = [folder for folder in folders if _has_files(self.path / folder)]
        everything = ("add", "--all", "--ignore-errors", "--", ".", *_UNFINISHED)
        done = self._own(*everything)
        if done.returncode not in (0, 1):  # an agent may have damaged our index
            remove(self._own.git_dir / "index")
            done = self._own(*everything)
        if done.returncode not in (0, 1) or done.timed_out:
            checked(self.path, everything, done)
        said = printable(done.stderr, keep_newlines=True) if done.returncode else ""
        self.notices = tuple(
            f"not in the snapshot: {first_line(line.removeprefix('error: '))}"
            for line in said.splitlines()
            if line.startswith("error: ")
        )
        for paths in self._ignored():
            self._own("--literal-pathspecs", "add", "--force", "--ignore-errors", "--", *paths)
        if folders:
            self._own.ask("add", "--all", "--force", "--", *folders, *_UNFINISHED)
        return self._own.ask("write-tree").strip()

    def _ignored(self) -> Iterator[list[str]]:
        """Files that git ignores, but that an agent has added to the index all the same."""
        listed = ""
        with suppress(GitError):  # an agent may have damaged the index
            listed = git_process.ask(self.path, *_IGNORED)
        paths = [path for path in dict.fromkeys(listed.split("\0")[:-1]) if self._is_file(path)]
        for first in range(0, len(paths), _AT_ONCE):
            yield paths[first : first + _AT_ONCE]

    def _is_file(self, path: str) -> bool:
        """Whether git can add it: it is there, and in no folder that is a symbolic link."""
        file = Path(os.path.realpath(self.path), path)
        return os.path.lexists(file) and os.path.realpath(file.parent) == str(file.parent)


@contextmanager
def _making(mirror: Mirror, path: Path) -> Iterator[SessionClone]:
    """A clone without files, to be filled; it goes if that fails."""
    clone = SessionClone(mirror, path)
    try:
        clone._make()
        clone._link()
        yield clone
    except BaseException:
        clone.remove()
        raise


def _has_files(folder: Path) -> bool:
    return any(names for _, _, names in os.walk(folder))
