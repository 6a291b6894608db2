"""A push that failed because the remote was away, tried again in a thread.

The take-up whose work it is waits for it for a while, and leaves it. It goes on without a slot and
without the lease, for the session's reference is the fence: once another worker has claimed the
session, the remote refuses it (docs/decisions/0301-no-wait-holds-a-slot-for-long.md).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.fleet.engine import outcome

if TYPE_CHECKING:
    from playbook_supervisor.fleet.engine.session_ref import Mirror, Tip, Unpushed

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0  # seconds between two tries while a take-up waits
_LONGEST_LEFT = 30.0  # the same once it was left
_LEFT = 900.0  # seconds after which it is given up once it was left
_LOOK = 0.1  # seconds between two looks at whether to wait on


class LatePush:
    """The push of a snapshot that the mirror has and the remote does not.

    It begins at once, and ends when the remote has answered; once it was left, also when the worker
    stops or a quarter of an hour has passed. `tell` is given a sentence about a push that was left.
    """

    def __init__(
        self,
        mirror: Mirror,
        unpushed: Unpushed,
        stopping: threading.Event,
        tell: Callable[[str], None],
    ) -> None:
        self._mirror, self._unpushed = mirror, unpushed
        self._stopping, self._tell = stopping, tell
        self._left, self._ended = threading.Event(), threading.Event()
        self._until = float("inf")
        self._result: Tip | PlaybookError | None = None
        threading.Thread(target=self._keep_trying, name="late push", daemon=True).start()

    def awaited(self, waits: Callable[[], bool]) -> Tip | None:
        """What the reference is at, as soon as it is pushed; None once `waits` is false.

        An error is raised, unless it is again that the remote is away.
        """
        while not self._ended.wait(_LOOK):
            if not waits():
                return None
        if isinstance(self._result, PlaybookError):
            raise self._result
        return self._result

    def leave(self) -> None:
        """Let it go on alone. The branch is then left to the next take-up, which can say what
        became of it."""
        self._until = time.monotonic() + _LEFT
        self._left.set()

    def _keep_trying(self) -> None:
        pause = _FIRST_PAUSE
        while self._result is None and self._rests(pause):
            self._result = self._tried()
            pause = min(pause * 2, _LONGEST_LEFT if self._left.is_set() else _LONGEST_PAUSE)
        self._ended.set()
        if self._left.is_set() and isinstance(self._result, PlaybookError):
            self._tell(f"its last snapshot is not pushed: {self._result.message}")
        elif self._left.is_set() and self._result is not None:
            self._tell("its last snapshot is pushed")

    def _tried(self) -> Tip | PlaybookError | None:
        made, expected, branch = self._unpushed
        try:
            at = self._mirror.move(made, expected, None if self._left.is_set() else branch)
        except Exception as error:  # whatever it is, a take-up may wait for it
            reported = outcome.reported(error)
            return None if reported.code == "PB-GIT-REMOTE" else reported
        return at or made

    def _rests(self, seconds: float) -> bool:
        """True if there is another try after this pause, which ends early when it is left."""
        if not self._left.is_set():
            self._left.wait(seconds)
            return True
        return not self._stopping.wait(seconds) and time.monotonic() < self._until
