"""The changes of a session: the difference to the tree that was there when it began.

What was there before is not the session's, committed or not. A child's changes are those of the
session that a person began. Where git cannot tell, that is said, with the command that would.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from playbook_supervisor.errors import GitError, PlaybookError
from playbook_supervisor.project.commit_files import Before
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import Record
from playbook_supervisor.sessions.files.local_state import Launch
from playbook_supervisor.sessions.steps.beginnings import UNCOMMITTED
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.selection import top_of
from playbook_supervisor.system.disk.files import read_bytes
from playbook_supervisor.system.git import git_process, tree
from playbook_supervisor.system.git.checkout import NOW, Checkout
from playbook_supervisor.system.process.cancellation import within

_ELSEWHERE = "the session began on another machine, and did not record its beginning"


class SessionChanges(Record):
    """Lines of git; `unknown` are sentences, each with the command that would tell."""

    commits: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def never_committed(root: Path, settings: Config) -> tuple[str, str] | tuple[()]:
    """Why the settings ask in vain for sessions to be committed, and the cure; empty if not."""
    folder = f"{git_process.SESSIONS_FOLDER}/"
    if settings.commit_sessions == "never" or not git_process.is_ignored(root, folder):
        return ()
    cure = "Take it out of the ignore rules, or set `commit_sessions: never`."
    return f"git ignores {folder}, so no session will be committed", cure


def beginning(store: DiskStore, session_id: str) -> Launch | None:
    """The record of the beginning of the session, or of the one that its parents began with."""
    return store.journal(top_of(store, session_id)).begun


def before(store: DiskStore, session_id: str) -> Before:
    """The state of the checkout when the session began."""
    begun, paths = beginning(store, session_id), None
    if begun is None:
        return Before()
    with suppress(OSError, PlaybookError, ValueError):  # as where it began on another machine
        kept = json.loads(read_bytes(store.runtime(top_of(store, session_id)) / UNCOMMITTED))
        paths = tuple(map(str, kept))
    return Before(begun.tree, begun.pinned, paths)


def base_of(root: Path, begun: Launch | None) -> str:
    """The tree with which the session's changes are compared. GitError with the cure if unknown."""
    if begun is None:
        guidance = "`git log` and `git diff` show what is here."
        raise GitError("PB-GIT-FAILED", _ELSEWHERE, guidance=guidance)
    if not begun.tree:
        message = "what was here when the session began is not known"
        cure = f"`git diff {tree.short(begun.head)}` shows what differs from its commit."
        raise GitError("PB-GIT-FAILED", message, guidance=cure if begun.head else "")
    tree.require(root, begun.tree, begun.head)
    return begun.tree


def changes_since(here: Checkout, begun: Launch | None, *, seconds: float) -> SessionChanges:
    """The commits since, the newest first, and the files that differ. Git has `seconds` for
    each."""
    commits, files, unreadable = list[str](), list[str](), list[str]()
    unknown: dict[str, list[str]] = {}
    with _telling(unknown, "commits", seconds):
        base = base_of(here.root, begun) if begun is None else begun.head
        if base != here.head:
            tree.require_commit(here.root, base)
            commits += git_process.commits_between(here.root, base)
    with _telling(unknown, "changes", seconds):
        base = base_of(here.root, begun)
        now = tree.tree_of(here.root, begun.pinned if begun else NOW)
        files += tree.stat(here.root, base, now.id)
        unreadable += [each.sentence for each in now.unreadable]
    said = [f"{' and '.join(what)} are not known: {why}" for why, what in unknown.items()]
    return SessionChanges(tuple(commits), tuple(files), (*said, *unreadable))


@contextmanager
def _telling(unknown: dict[str, list[str]], what: str, seconds: float) -> Iterator[None]:
    try:
        with within(seconds):
            yield
    except TimeoutError:
        unknown.setdefault("git takes too long; `git status` tells", []).append(what)
    except PlaybookError as error:
        why = f"{error.message}. {error.guidance}".removesuffix(". ")
        unknown.setdefault(why, []).append(what)
