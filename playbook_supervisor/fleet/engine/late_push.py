"""A push that failed because the remote was away, tried again in a thread.

The take-up whose work it is waits for it for a while, and leaves it. It goes on without a slot and
without the lease, for the session's reference is the fence: once another worker has claimed the
session, the remote refuses it (docs/decisions/0301-no-wait-holds-a-slot-for-long.md).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.fleet.engine import outcome
from playbook_supervisor.fleet.engine.session_ref import Mirror, Tip
from playbook_supervisor.fleet.engine.session_tip import Unpushed

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0  # seconds between two tries while a take-up waits
_LONGER, _LONGEST_LEFT = 1.25, 30.0  # how they grow once it was left, and to which length
_LEFT = 900.0  # seconds after which it is given up once it was left
_HURRY = 30.0  # seconds that the next take-up may wait for a try
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
        self._woken, self._has_tried = threading.Event(), threading.Event()
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
        self._woken.set()

    def hurry(self) -> None:
        """Try at once, and wait for that: the next take-up here is to begin after this work."""
        self._has_tried.clear()
        self._woken.set()
        if not self.ended:
            self._has_tried.wait(_HURRY)

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def _keep_trying(self) -> None:
        pause = _FIRST_PAUSE
        while self._result is None and self._rests(pause):
            self._result = self._tried()
            self._has_tried.set()
            if self._left.is_set():
                pause = min(pause * _LONGER, _LONGEST_LEFT)
            else:
                pause = min(pause * 2, _LONGEST_PAUSE)
        left = self._left.is_set()  # else the take-up still waits, and says it
        self._ended.set()
        self._has_tried.set()
        if left and isinstance(self._result, PlaybookError):
            self._tell(f"its last snapshot is not pushed: {self._result.message}")
        elif left and self._result is not None:
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
        until = time.monotonic() + seconds
        while not self._is_over() and time.monotonic() < until and not self._woken.wait(_LOOK):
            pass
        self._woken.clear()
        return not self._is_over()

    def _is_over(self) -> bool:
        stops = self._left.is_set() and self._stopping.is_set()
        return stops or time.monotonic() > self._until
