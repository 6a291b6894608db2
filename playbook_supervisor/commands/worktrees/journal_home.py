"""Brings sessions home: nothing that only a worktree has of them is removed with it.

A session is safe if a commit that stays has all of it, or a checkout that stays. Otherwise what is
missing is written into such a checkout, and read again, before the worktree is removed.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from playbook_supervisor.commands.views import session_diff
from playbook_supervisor.commands.views.session_diff import SavedSession
from playbook_supervisor.commands.worktrees.merge_detection import MergeTarget
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.sessions.files import integrity
from playbook_supervisor.sessions.files.manifest import SESSION_ID
from playbook_supervisor.sessions.files.merging import Files, Merge, merge
from playbook_supervisor.sessions.store.disk_store import SESSIONS, DiskStore
from playbook_supervisor.system.disk.files import (
    TEMPORARY,
    digest,
    ensure_folder,
    read_bytes,
    sweep,
    write_atomically,
)
from playbook_supervisor.system.git import gitpython
from playbook_supervisor.system.git.checkout import Checkout

_FIRST = "session.yaml"
"""A folder with this file is a session, so in a new folder it is written last."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """A worktree that is about to be removed, of which the folder may be gone, and its branch.

    `store` is the worktree's, None if git does not know the worktree any more. `commit` is its
    last one. `stays` are the commits that stay reachable, `homes` the checkouts that stay.
    `discarded` is a session that may go with it.
    """

    main: Path
    store: DiskStore | None
    commit: str
    stays: tuple[MergeTarget, ...]
    homes: tuple[Checkout, ...]
    discarded: str = ""


@dataclass(frozen=True, slots=True)
class Homecoming:
    """A session that is not safe elsewhere.

    `writes` is what is written to `folder`, in the checkout `home`. If that is not possible,
    `obstacle` says why.
    """

    session_id: str
    home: Path | None = None
    folder: Path | None = None
    writes: Files = field(default_factory=dict)
    obstacle: str = ""


def homecomings(leaving: Leaving) -> tuple[Homecoming, ...]:
    """The sessions that only the worktree has completely, and where they can go. Writes nothing."""
    with gitpython.repository(leaving.main) as repo:
        worktree = _Worktree(repo, leaving)
        found = [worktree.homecoming(name) for name in worktree.sessions()]
    return tuple(each for each in found if each is not None)


def sweep_homes(leaving: Leaving, session_id: str) -> None:
    """Remove what a killed `finish` left half-written."""
    for home in leaving.homes:
        with suppress(PlaybookError):  # a symbolic link, which is reported later
            sweep(DiskStore(home).folder(session_id))


def bring(homecoming: Homecoming) -> None:
    """Write what is missing at home, durably and repeatably. StorageError PB-IO-WRITE."""
    folder = homecoming.folder
    assert folder is not None  # noqa: S101 - there is no obstacle
    ensure_folder(folder)
    for name in sorted(homecoming.writes, key=lambda name: (name == _FIRST, name)):
        ensure_folder((folder / name).parent)
        write_atomically(folder / name, homecoming.writes[name])


class _Worktree:
    def __init__(self, repo: gitpython.Repo, leaving: Leaving) -> None:
        self._repo, self._leaving, self._store = repo, leaving, leaving.store
        self._versions: dict[str, frozenset[tuple[str, str]]] = {}
        self._trees: dict[str, Mapping[str, str]] = {}

    @cached_property
    def _root(self) -> Path | None:
        root = self._store.checkout.root if self._store else None
        return root if root and (root / ".git").exists() else None

    def sessions(self) -> list[str]:
        """The sessions that may not be safe: changed here, or different in all commits that stay.

        The others are as many as the project has ever had, and they are not read.
        """
        own = self._trees_of(self._leaving.commit)
        elsewhere = [self._trees_of(stay.commit) for stay in self._leaving.stays]
        names = {name for name in own if all(own[name] != trees.get(name) for trees in elsewhere)}
        if self._store is not None:
            names |= {*self._store.known()}
        if self._root is not None:
            with gitpython.repository(self._root) as repo:
                listed = repo.git.status(
                    "--porcelain",
                    "-z",
                    "--no-renames",
                    "--ignored",
                    "-uall",
                    "--",
                    f":(top){SESSIONS}",
                )
            paths = (line[3:].removeprefix(f"{SESSIONS}/") for line in listed.split("\0"))
            names |= {path.partition("/")[0] for path in paths}
        names.discard(self._leaving.discarded)
        return sorted(name for name in names if SESSION_ID.match(name))

    def homecoming(self, name: str) -> Homecoming | None:
        try:
            ours = self._ours(name)
            stays = [stay for stay in self._leaving.stays if stay.here]
            if not ours or any(self._is_in(stay, name, ours) for stay in stays):
                return None
            return self._to_a_checkout(name, ours)
        except PlaybookError as error:
            error.session = name
            return Homecoming(name, obstacle=f"session {name}: {error.message}. {error.guidance}")

    # ── what is here ────────────────────────────────────────────────────────────────────────

    def _ours(self, name: str) -> Files:
        """The session's files: of the folder; where they are gone, as they were last written."""
        committed = self._committed(self._leaving.commit, name)
        store = self._store
        if store is None:
            return committed
        present = {}
        if self._root:
            files = read_files(store.folder(name)).items()
            present = {file: text for file, text in files if text.strip()}
        saved = SavedSession.load(store, name) if store.drives(name) else None
        if saved is None or not saved.complete:
            return {**committed, **present}
        for each in session_diff.differences(store, name):
            if each.file in present:
                raise integrity.tampered(f"{each.file}: {each.what}", f"{SESSIONS}/{name}")
        missing = saved.copies.keys() - present.keys()
        missing |= {file for file, text in present.items() if _was_reset(saved, file, text)}
        written = {file: saved.copies[file] for file in missing}
        if "journal.yaml" in missing:
            written["journal.yaml"] = session_diff.written_journal(saved)
        return {**present, **written}

    # ── commits that stay ───────────────────────────────────────────────────────────────────

    def _trees_of(self, commit: str) -> Mapping[str, str]:
        if commit not in self._trees:
            listed = self._repo.git.ls_tree("-z", commit, "--", f"{SESSIONS}/") if commit else ""
            rows = (line.partition("\t") for line in listed.split("\0") if line)
            self._trees[commit] = {
                path.rpartition("/")[2]: about.split()[2] for about, _, path in rows
            }
        return self._trees[commit]

    def _is_in(self, stay: MergeTarget, name: str, ours: Files) -> bool:
        commit = stay.commit
        if name not in self._trees_of(commit):
            folder = f":(top,literal){SESSIONS}/{name}"
            commit = self._repo.git.log(
                "-1", "--format=%H", "--diff-filter=AM", commit, "--", folder
            )
        return merge(ours, self._committed(commit, name), self._knows(name)).empty

    def _committed(self, commit: str, name: str) -> Files:
        tree = self._trees_of(commit).get(name)
        if tree is None:
            return {}
        listed = self._repo.git.ls_tree("-r", "-z", tree)
        rows = [line.partition("\t") for line in listed.split("\0") if line.startswith("100")]
        blobs = gitpython.contents(self._repo, [about.split()[2] for about, _, _ in rows])
        return dict(zip([path for _, _, path in rows], blobs, strict=True))

    def _knows(self, name: str) -> Callable[[str, bytes], bool]:
        """True if a file of the session has had this content on the branch, with any line ends."""

        def knows(file: str, content: bytes) -> bool:
            if name not in self._versions:
                self._versions[name] = _versions(self._repo, self._leaving.commit, name)
            known, path = self._versions[name], f"{SESSIONS}/{name}/{file}"
            texts = (content, content.replace(b"\r\n", b"\n"))
            return any((path, _blob(each, len(self._leaving.commit))) in known for each in texts)

        return knows

    # ── checkouts that stay ─────────────────────────────────────────────────────────────────

    def _to_a_checkout(self, name: str, ours: Files) -> Homecoming | None:
        obstacles = []
        for home in self._leaving.homes:
            try:
                theirs = read_files(DiskStore(home).folder(name))
                if (merged := merge(ours, theirs, self._knows(name))).empty:
                    return None
                if obstacle := self._obstacle(home, name, merged):
                    obstacles.append(obstacle)
                    continue
            except PlaybookError as error:
                obstacles.append(f"{home.root}: {error.message}")
                continue
            folder = DiskStore(home).folder(name)
            return Homecoming(name, home.root, folder, merged.writes)
        why = obstacles[0] if obstacles else "no other checkout is there to take it"
        return Homecoming(name, obstacle=f"only this worktree has the end of session {name}: {why}")

    def _obstacle(self, home: Checkout, name: str, merged: Merge) -> str:
        here = shlex.quote(str(home.root))
        if merged.conflicts:
            said = first_line("; ".join(merged.conflicts), 300)
            return (
                f"{home.root} has another version of it ({said}); restore it there, or move it away"
            )
        folder = DiskStore(home).folder(name)
        for file in merged.writes:
            if os.path.realpath(folder / file) != str(folder / file):
                return f"{folder / file} is a symbolic link, or is below one; move it away"
        if DiskStore(home).drives(name):
            return f"{home.root} has taken it up, too; `playbook abort {name}` there first"
        for stay in self._leaving.stays:
            if self._would_conflict(home, stay, name):
                remote = stay.name.endswith(f"/{home.branch}") or stay.name.startswith("pull ")
                cure = f"git -C {here} pull" if remote else f"git -C {here} switch {stay.name}"
                return f"{stay.name} has a copy, which {home.root} lacks; first `{cure}`"
        return ""

    def _would_conflict(self, home: Checkout, stay: MergeTarget, name: str) -> bool:
        tree = self._trees_of(stay.commit).get(name)
        if tree is None or tree == self._trees_of(home.head).get(name):
            return False
        base = self._repo.git.merge_base(stay.commit, home.head, with_exceptions=False)
        return bool(base != stay.commit)


def _versions(repo: gitpython.Repo, commit: str, name: str) -> frozenset[tuple[str, str]]:
    if not commit:
        return frozenset()
    options = ("--format=", "--raw", "-m", "-z", "--no-abbrev", "--no-renames")
    listed = repo.git.log(*options, commit, "--", f":(top,literal){SESSIONS}/{name}")
    words = iter(listed.replace("\n", "").split("\0"))
    rows = ((about, next(words, "")) for about in words if about.startswith(":"))
    return frozenset((path, about.split()[3]) for about, path in rows)


def _blob(content: bytes, digits: int) -> str:
    sha = hashlib.sha1 if digits == 40 else hashlib.sha256
    return sha(b"blob %d\0" % len(content) + content).hexdigest()


def _was_reset(saved: SavedSession, file: str, text: bytes) -> bool:
    """True if git has put back the version before the last one, of which there is a copy."""
    runtime, copy, now = saved.runtime, saved.copies.get(file, b""), digest(text)
    earlier = runtime.ours(file, now) and not runtime.latest(file, now)
    return earlier and runtime.latest(file, digest(copy))


def read_files(folder: Path) -> Files:
    """A folder's regular files by path, but those being written. StorageError PB-IO-READ."""
    paths = (Path(place) / name for place, _, names in os.walk(folder) for name in names)
    return {
        os.path.relpath(path, folder): read_bytes(path)
        for path in sorted(paths)
        if not path.is_symlink() and not path.name.startswith(TEMPORARY)
    }
