"""What the rest of the program needs of a place that keeps sessions; `DiskStore` is the one today.

A session works in a checkout of this machine wherever it is kept: locks, workers' files and what
only this machine knows lie in its local folder (`runtime`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.project.session_policy import Policy
from playbook_supervisor.sessions.manifest import (
    NO_DRIVER,
    NOTHING_INHERITED,
    Driver,
    Inherited,
    Manifest,
)
from playbook_supervisor.sessions.pinned_inputs import NO_CHILDREN
from playbook_supervisor.sessions.session import OpenSession
from playbook_supervisor.sessions.session_branch import Standing
from playbook_supervisor.sessions.session_clock import SessionClock
from playbook_supervisor.sessions.settled_entries import History
from playbook_supervisor.system.checkout import Checkout


class SessionStore(Protocol):
    """The sessions of one worktree. Everything that changes a session goes through `open`."""

    checkout: Checkout
    clock: SessionClock
    notices: list[str]
    """Sentences for the person: what was restored."""

    def open(self, session_id: str) -> AbstractContextManager[OpenSession]:
        """The session as it is now, held exclusively."""

    def hold(self, session_id: str) -> None:
        """Drive the session alone from here on: only an answer of another process is accepted."""

    def creating(self) -> AbstractContextManager[None]:
        """No other process creates a session here meanwhile."""

    def create(
        self,
        *,
        playbook: str,
        text: bytes,
        feature: str,
        args: Mapping[str, str],
        definition: Playbook | None = None,
        policy: Policy | None = None,
        children: Mapping[str, bytes] = NO_CHILDREN,
        session_id: str = "",
        driver: Driver = NO_DRIVER,
        inherited: Inherited = NOTHING_INHERITED,
    ) -> str:
        """A new, pending session with what it is pinned to; returns its id."""

    def reserve(self) -> str:
        """Reserve the id of a session that is created later."""

    def changed(self, session_id: str) -> bool:
        """Whether another process has written the session since it was last opened here."""

    def manifest(self, session_id: str) -> Manifest:
        """What is known of the session, without its lock."""

    def parent(self, session_id: str) -> str:
        """The session that this one is a child of; empty for one that a person began."""

    def journal(self, session_id: str) -> History:
        """All entries of the session, and what was known when it began, without its lock."""

    def settle(self, opened: OpenSession) -> None:
        """Put an open session's files, as written last, into the work tree as it is now."""

    def standing(self, session_id: str) -> Standing:
        """Whether the session's branch is checked out here."""

    def ids(self) -> list[str]:
        """The sessions whose files are here, oldest first."""

    def found(self) -> list[str]:
        """All sessions that are kept here, also if their files are gone."""

    def drives(self, session_id: str) -> bool:
        """Whether the session runs, or ran, in this worktree."""

    def driven(self) -> list[str]:
        """The open sessions that run in this worktree."""

    def folder(self, session_id: str) -> Path:
        """The session's folder in the work tree."""

    def runtime(self, session_id: str) -> Path:
        """The session's local folder on this machine, in the git directory."""
