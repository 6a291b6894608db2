"""What a worker brings to a full disk: kept in memory while there may be room again.

An agent's step is dear, and nothing knows how it went but the process that it came back to.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable

from playbook_supervisor.errors import StorageError
from playbook_supervisor.kernel.directives import Attempt
from playbook_supervisor.sessions.snapshot import Snapshot

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_ROOM, _AGAIN = 60.0, 0.5  # seconds for a person to make room; between two tries


def journaled(
    attempt: Attempt,
    journal: Callable[[], Snapshot],
    *,
    session: str,
    tell: Callable[[str], None],
    called: Callable[[], bool],
) -> Snapshot:
    """What `journal` answers, which takes in how the attempt went.

    It is tried again while the disk is full, for a minute or until somebody has `called`; `tell`
    says so to a person. StorageError then says what becomes of the attempt, and how the session of
    that id goes on.
    """
    until, told = time.monotonic() + _ROOM, False
    while True:
        try:
            return journal()
        except StorageError as error:
            reason = error.__cause__.errno if isinstance(error.__cause__, OSError) else None
            if reason not in _FULL:
                raise
            if called() or time.monotonic() > until:
                raise _lost(attempt, session, error) from error
            if not told:
                tell(
                    f"{attempt.id} came back, but {error.message}: make room; "
                    f"trying again for {_ROOM:g} seconds"
                )
            told = True
            time.sleep(_AGAIN)


def _lost(attempt: Attempt, session: str, error: StorageError) -> StorageError:
    """The same error, which also says what becomes of the attempt."""
    fate = "its postconditions say whether it had finished"
    if not attempt.step.postconditions:
        fate = "it has no postconditions that could say so, and runs again"
    guidance = f"Make room, then `playbook resume {session}`: {attempt.id} had come back; {fate}."
    return StorageError(error.code, error.message, where=error.where, guidance=guidance)
