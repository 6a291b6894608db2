"""Journaling a worker's return on a full disk: retried, because only this process knows the result.

The step has been paid for; losing its outcome would mean running it again.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable

from playbook_supervisor.errors import StorageError
from playbook_supervisor.kernel.directives import Attempt
from playbook_supervisor.sessions.snapshot import Snapshot

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_PATIENCE, _INTERVAL = 60.0, 0.5  # seconds: until giving up, between two tries


def journaled(
    attempt: Attempt,
    journal: Callable[[], Snapshot],
    *,
    session: str,
    warn: Callable[[str], None],
    interrupted: Callable[[], bool],
) -> Snapshot:
    """The result of `journal`, which records the attempt's return.

    While the disk is full it is retried, for a minute or until `interrupted`; `warn` is called
    once. The StorageError that follows says what happens to the attempt and how to resume.
    """
    deadline, warned = time.monotonic() + _PATIENCE, False
    while True:
        try:
            return journal()
        except StorageError as error:
            reason = error.__cause__.errno if isinstance(error.__cause__, OSError) else None
            if reason not in _FULL:
                raise
            if interrupted() or time.monotonic() > deadline:
                raise _lost(attempt, session, error) from error
            if not warned:
                warn(
                    f"{attempt.id} returned, but {error.message}: free some disk space; "
                    f"trying again for {_PATIENCE:g} seconds"
                )
            warned = True
            time.sleep(_INTERVAL)


def _lost(attempt: Attempt, session: str, error: StorageError) -> StorageError:
    consequence = "its postconditions decide whether it finished"
    if not attempt.step.postconditions:
        consequence = "it has no postconditions to show that it finished, so it runs again"
    guidance = (
        f"Free some disk space, then `playbook resume {session}`: "
        f"{attempt.id} had returned; {consequence}."
    )
    return StorageError(error.code, error.message, where=error.where, guidance=guidance)
