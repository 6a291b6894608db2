"""Sessions that are being created: a folder aside gets the session's name when it is complete.

Until then no other process sees a session. What a killed process left is removed by the next one
that creates or lists sessions. A session is removed in the same way, by taking its name from it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from playbook_supervisor.errors import StateError, StorageError
from playbook_supervisor.sessions.files import pinned_inputs
from playbook_supervisor.sessions.files.local_state import NAME, Runtime
from playbook_supervisor.sessions.files.manifest import SESSION_ID, Manifest
from playbook_supervisor.sessions.steps.open_session import OpenSession
from playbook_supervisor.sessions.store import opening
from playbook_supervisor.system.disk.ab_file import ABFile
from playbook_supervisor.system.disk.files import (
    assembled,
    ensure_folder,
    put_aside,
    remove,
    unfinished,
)
from playbook_supervisor.system.disk.locks import locked
from playbook_supervisor.system.git.checkout import Checkout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.kernel.model import Playbook
    from playbook_supervisor.project.policies.session_policy import Policy

_LOCK = "begin.lock"


class UnfinishedSessions:
    """Those of one checkout, which keeps its sessions in the folder `sessions`.

    A process holds a lock while it creates a session, so the holder knows that no other process is
    creating one. The temporary folder is made first and removed last, so it marks all leftovers.
    """

    def __init__(self, checkout: Checkout, sessions: Path) -> None:
        self._checkout, self._sessions = checkout, sessions
        self._lock = checkout.runtime / _LOCK
        self._held = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """No other process creates a session meanwhile. It may be nested.

        After an error nothing is left of a session that was being created.
        """
        if self._held:
            yield
            return
        ensure_folder(self._checkout.runtime)
        with locked(self._lock):
            self._remove()
            self._held = True
            try:
                yield
            except BaseException:
                with suppress(StorageError):  # else the next process removes them
                    self._remove()
                raise
            finally:
                self._held = False

    def complete(
        self,
        made: Manifest,
        folder: Path,
        text: bytes,
        definition: Playbook | None,
        policy: Policy | None,
        children: Mapping[str, bytes] = pinned_inputs.NO_CHILDREN,
        settings: bytes | None = None,
    ) -> OpenSession:
        """Write all files of a new session; the last act gives its folder the name `folder`."""
        private, runtime = self._checkout.runtime / made.session_id, Runtime()
        with ExitStack() as stack:
            aside = stack.enter_context(assembled(folder))
            ensure_folder(private)
            stack.enter_context(locked(private / "lock"))
            pinned = pinned_inputs.pin(
                aside, private, runtime, text, definition, policy, children, settings
            )
            place = ABFile(private / NAME)
            opened = opening.create(aside, private, place, runtime, made, pinned)
            opened.copy()
        return opened.moved(folder)

    def discard(self, folder: Path) -> None:
        """Remove a session: without its name, its folder is one that was not completed."""
        with self.held():
            put_aside(folder)
            self._remove()

    def require_room(self, seen_from: Path) -> None:
        """StorageError if it is plain that none can be created; paths are seen from there."""
        folder = self._sessions
        while not os.path.lexists(folder):
            folder = folder.parent
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            shown = os.path.relpath(folder, seen_from)
            raise StorageError("PB-IO-WRITE", f"cannot write to {shown}", where=shown)

    def sweep(self) -> None:
        """Remove them, unless another process may be creating a session or it is not allowed."""
        if not self._held and any(self._left()):
            with suppress(StateError, StorageError), locked(self._lock, timeout=0):
                self._remove()

    def _remove(self) -> None:
        for session_id, aside in list(self._left()):
            remove(self._checkout.runtime / session_id)
            remove(self._checkout.ids / session_id)
            remove(aside)

    def _left(self) -> Iterator[tuple[str, Path]]:
        with suppress(OSError):
            for name, aside in unfinished(self._sessions):
                if SESSION_ID.match(name):
                    yield name, aside
