"""What the fleet asks of a queue. A job is: advance this session until it waits or ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

from playbook_supervisor.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol
else:
    Protocol = object

MOST_PRIORITY = 1_000
"""Priorities are between minus this and this; the higher goes first."""


class Limits(Record):
    """How many sessions of a pool may be at work: in all, of one repository, and started per time.

    `per_time` is a number of sessions and the seconds in which so many may start. None: any number.
    """

    in_all: int | None = None
    per_repository: int | None = None
    per_time: tuple[int, float] | None = None


class Job(Record):
    """A job that has not ended. `since` is when it was put, or taken if it is at work, in ms."""

    session: str
    number: int
    at_work: bool
    since: int
    pool: str
    worker: str


class Taking(Protocol):
    """A worker that takes jobs."""

    def stop(self) -> None:
        """Take no further jobs. Those at work go on."""


class Queue(Protocol):
    """Jobs in pools. A job is known by its session and a number that counts up.

    Everything but `put` is a transaction of its own. FleetError PB-FLEET-DATABASE.
    """

    def put(
        self,
        connection: Any,
        session: str,
        number: int,
        *,
        pool: str,
        repository: str,
        priority: int,
    ) -> None:
        """Put a job, in the transaction of a connection of SQLAlchemy.

        A job that is there already stays as it is.
        """

    def put_back(self, session: str, number: int, pool: str = "") -> bool:
        """Give a job that was taken to the next worker, and take it from its owner.

        It keeps its place in the queue, and without `pool` its pool. False if it has ended.
        """

    def cancel(self, jobs: Iterable[tuple[str, int]]) -> None:
        """Remove jobs, whatever their state."""

    def running(self, *, at_work: bool = False) -> list[Job]:
        """The jobs that have not ended, or only those that a worker has taken."""

    def limits(self, pool: str, limits: Limits | None = None) -> Limits:
        """The limits of a pool, after setting them if they are given.

        One of a repository that is no lower than the one in all is None.
        """

    def work(
        self,
        pools: Sequence[str],
        slots: int,
        advance: Callable[[str, int], bool],
        worker: str,
    ) -> AbstractContextManager[Taking]:
        """Take jobs, until the `with` ends, and call `advance` with each in a thread.

        It returns whether the job has ended. One that has not stays as it is until a sweep finds
        whose it is; after an exception it is put back at once.

        At most `slots` are at work at once. The end of the `with` waits until the calls return. One
        `with` at a time in a process. `worker` is unique for each start.
        """

    def migrate(self) -> None:
        """Create or update what the queue stores. Only this changes a schema."""
