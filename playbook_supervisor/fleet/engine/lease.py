"""A worker's right to drive a session: renewed in time, or given up in time.

The database's clock decides when a lease ends. The worker counts its own deadline from before it
asked, less a margin, on a clock that goes on while the machine sleeps, so that its agents end
before another worker may begin.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from playbook_supervisor.errors import FleetError, PlaybookError
from playbook_supervisor.fleet.storage.database import FleetDatabase
from playbook_supervisor.fleet.storage.rows import Lease
from playbook_supervisor.system.process.leash_process import now

SECONDS = 90.0
"""The duration of a lease."""
_TICK = 0.25  # seconds between two looks at what is due
_AGAIN = 1.0  # seconds after a renewal that failed


@dataclass(frozen=True, slots=True)
class Term:
    """The duration of a lease in seconds, and what follows from it."""

    seconds: float = SECONDS

    @property
    def renewal(self) -> float:
        """Seconds between two renewals."""
        return self.seconds * 2 / 9

    @property
    def margin(self) -> float:
        """Seconds before its end at which a worker gives a lease up."""
        return self.seconds / 6

    @property
    def notice(self) -> float:
        """Seconds before the deadline at which agents are asked to end."""
        return self.seconds / 9

    def deadline(self, asked: float) -> float:
        """When a lease that was asked for at that time is given up, on the clock of `now`."""
        return asked + self.seconds - self.margin


class LeaseKeeper:
    """Renews a lease in a thread until it is closed.

    `on_renewed` is told each new deadline, `on_cancel` with each renewal the words and the name of
    the person who cancelled the session, and `on_lost` that another worker may have the session.
    `cancelled` has these words and this name as of the last renewal, or empty texts.
    """

    def __init__(
        self,
        database: FleetDatabase,
        lease: Lease,
        term: Term,
        asked: float,
        tell: Callable[[str], None],
    ) -> None:
        """`asked` is when the lease was asked for, on the clock of `now`."""
        self.lease = lease
        self.deadline = term.deadline(asked)
        self.cancelled = (lease.row.cancel, lease.row.cancel_by)
        self.on_renewed: Callable[[float], None]
        self.on_cancel: Callable[[str, str], None]
        self.on_lost: Callable[[], None]
        self.forget()
        self._database, self._term, self._tell = database, term, tell
        self._lost = False
        self._renewed = asked
        self._turn = threading.Lock()  # of what asks the database with the lease's epoch
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def __enter__(self) -> LeaseKeeper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()

    def watch(
        self,
        on_renewed: Callable[[float], None],
        on_cancel: Callable[[str, str], None],
        on_lost: Callable[[], None],
    ) -> None:
        """Tell these from now on, and at once what was missed since the lease was taken."""
        self.on_renewed, self.on_cancel, self.on_lost = on_renewed, on_cancel, on_lost
        on_renewed(self.deadline)
        if not self.held:
            on_lost()
        elif self.cancelled[0]:
            on_cancel(*self.cancelled)

    def forget(self) -> None:
        self.on_renewed = self.on_cancel = self.on_lost = _ignore

    @property
    def held(self) -> bool:
        return not self._lost and now() < self.deadline

    def require(self) -> None:
        """FleetError PB-FLEET-OVERTAKEN unless the session may still be driven here."""
        if not self.held:
            raise overtaken(self.lease.session)

    def lift(self, epoch: int) -> None:
        """Raise the epoch of the lease, as the repository knows a higher one. As `require`."""
        self.require()
        with self._turn:
            lifted = self._database.lift_epoch(self.lease, epoch)
            if lifted is not None:
                self.lease = lifted
        if lifted is None:
            self._lose()
            raise overtaken(self.lease.session)

    def _keep(self) -> None:
        while not self._closed.wait(_TICK):
            if self._lost:
                return
            if not self.held:
                self._lose()
            elif now() - self._renewed >= self._term.renewal:
                self._renew()

    def _renew(self) -> None:
        asked = now()
        try:
            with self._turn:
                renewal = self._database.renew(self.lease, self._term.seconds)
        except Exception as error:  # whatever it is, agents end in time if it does not pass
            said = error.message if isinstance(error, PlaybookError) else type(error).__name__
            self._renewed = asked - self._term.renewal + _AGAIN
            self._tell(f"the lease is not renewed: {said}")
            return
        if renewal is None:
            self._lose()
            return
        self._renewed, self.deadline = asked, self._term.deadline(asked)
        self.on_renewed(self.deadline)
        self.cancelled = renewal
        if renewal[0]:
            self.on_cancel(*renewal)

    def _lose(self) -> None:
        if not self._lost:
            self._lost = True
            self.on_lost()


def overtaken(session_id: str) -> FleetError:
    """The error of a worker that no longer may drive the session."""
    return FleetError(
        "PB-FLEET-OVERTAKEN", f"this worker no longer holds the lease of session {session_id}"
    )


def _ignore(*_: object) -> None:
    pass
