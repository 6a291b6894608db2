"""The queue on DBOS, and DBOS in the process of a worker. Nothing else knows which queue it is.

DBOS is used as a queue, and not for what it is made for, durable execution: the journal is what
makes a job repeatable. Its workers recover nothing by themselves, for leases decide which jobs were
left behind.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import dbos
import sqlalchemy as sa
from dbos import error as dbos_errors

from playbook_supervisor.errors import FleetError, PlaybookError
from playbook_supervisor.fleet.storage import connections
from playbook_supervisor.fleet.storage.address import Address
from playbook_supervisor.fleet.storage.rows import MOST_PRIORITY, Job, Limits, Row
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.sessions.files.manifest import SESSION_ID

_WORKFLOW = "advance"  # what DBOS calls a job of ours
_PROTOCOL = 1
"""The meaning of a job; an argument of each. Those of another one are left to other workers."""
_APPLICATION = "playbook-fleet"
_VERSION = "1"  # the same for all workers, so that they share all jobs
_SCHEMA = "dbos"
_POLLING = 0.5  # seconds
_SELDOM = 3_600.0  # seconds: what we do not use
_ANY_NUMBER = 1_000_000
_LIVING = ["ENQUEUED", "PENDING", "DELAYED"]
_BATCH = 500
_OFFERED_AGAIN = (
    30.0  # seconds that a job of another protocol is kept: it is not taken all the time
)
_LAST_WRITE = 10.0  # seconds to write that a job has ended
_PAUSE = 0.05  # seconds between two looks at whether that is done
_MOST_DIGITS = 10
_logger = logging.getLogger("dbos")


class DbosQueue:
    """Jobs in pools. A job is known by its session and a number that counts up.

    Everything but `put` is a transaction of its own. FleetError PB-FLEET-DATABASE.
    """

    def __init__(self, engine: sa.Engine, address: Address) -> None:
        self._engine, self._address = engine, address
        _silence()
        self._client = dbos.DBOSClient(
            system_database_engine=engine,
            dbos_system_schema=_SCHEMA,
            serializer=dbos.DBOSPortableJSONSerializer(),
            application_name=_APPLICATION,
            lazy=True,
            retry_connection_errors=False,
        )

    # ── jobs ────────────────────────────────────────────────────────────────────────────────

    def put(self, connection: sa.Connection, row: Row) -> None:
        """Put the session's job, in the caller's transaction. One that is there stays as it is."""
        most = MOST_PRIORITY
        options: dbos.EnqueueOptions = {
            "workflow_name": _WORKFLOW,
            "workflow_id": _job_id(row.id, row.job),
            "queue_name": row.pool,
            "queue_partition_key": row.repository,
            "priority": most + 1 - max(-most, min(row.priority, most)),
            "app_version": _VERSION,
            "application_name": _APPLICATION,
            "serialization_type": dbos.WorkflowSerializationFormat.PORTABLE,
        }
        self._client.enqueue_in_transaction(connection, options, row.id, _PROTOCOL)

    def put_back(self, session: str, number: int, pool: str = "") -> bool:
        """Give a job that was taken to the next worker, and take it from its owner.

        It keeps its place in the queue, and without `pool` its pool. False if it has ended.
        """
        job = _job_id(session, number)
        with self._errors():
            found = self._living(job)
            if found is None:
                return False
            self._client.resume_workflow(job, queue_name=pool or found.queue_name)
            # Its worker may have ended it in between: then nothing was resumed.
            return self._living(job) is not None

    def _living(self, job: str) -> dbos.WorkflowStatus | None:
        found = self._client.list_workflows(workflow_ids=[job], load_input=False, load_output=False)
        return found[0] if found and found[0].status in _LIVING else None

    def cancel(self, jobs: Iterable[tuple[str, int]]) -> None:
        """Remove jobs, whatever their state."""
        names = [_job_id(session, number) for session, number in jobs]
        with self._errors():
            for start in range(0, len(names), _BATCH):
                self._client.delete_workflows(names[start : start + _BATCH])

    def running(self, *, at_work: bool = False) -> list[Job]:
        """The jobs that have not ended, or only those that a worker has taken."""
        with self._errors():
            found = self._client.list_workflows(
                status=["PENDING"] if at_work else _LIVING,
                name=_WORKFLOW,
                load_input=False,
                load_output=False,
                application_name=_APPLICATION,
            )
        return [job for each in found if (job := _job(each)) is not None]

    # ── pools ───────────────────────────────────────────────────────────────────────────────

    def limits(self, pool: str, limits: Limits | None = None) -> Limits:
        """The limits of a pool, after setting them if they are given.

        One of a repository that is no lower than the one in all is None.
        """
        with self._errors():
            if limits is not None:
                self._register(pool, limits, "always_update")
            found = self._client.retrieve_queue(pool)
            if found is None:
                return Limits()
            rate, whole, each = (
                found.limiter,
                found.global_concurrency,
                found.partition_concurrency,
            )
            return Limits(
                whole,
                each if each is not None and each < (whole or _ANY_NUMBER) else None,
                (rate["limit"], rate["period"]) if rate else None,
            )

    def _register(self, pool: str, limits: Limits, conflict: Any) -> None:
        """A pool always has a limit for each repository: only then do they have turns."""
        each = limits.per_repository or _ANY_NUMBER
        whole = limits.in_all
        rate = limits.per_time
        self._client.register_queue(
            pool,
            global_concurrency=whole,
            partition_concurrency=each if whole is None else min(each, whole),
            limiter=None if rate is None else {"limit": rate[0], "period": rate[1]},
            worker_concurrency=1,  # what a worker has slots for is in `_adapt`
            polling_interval_sec=_POLLING,
            on_conflict=conflict,
        )

    # ── work ────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def work(
        self, pools: Sequence[str], slots: int, advance: Callable[[str, int], bool], worker: str
    ) -> Iterator[DbosWorker]:
        """Take jobs, until the `with` ends, and call `advance` with each in a thread.

        It returns whether the job has ended. One that has not stays as it is until a sweep finds
        whose it is; after an exception it is put back at once.

        At most `slots` are at work at once. The end of the `with` waits until the calls return. One
        `with` at a time in a process. `worker` is unique for each start.
        """
        with self._errors():
            for pool in pools:
                self._register(pool, Limits(), "never_update")
        taker = DbosWorker(self.put_back, pools, slots, advance)
        config: dbos.DBOSConfig = {
            "name": _APPLICATION,
            "system_database_engine": self._engine,
            "dbos_system_schema": _SCHEMA,
            "serializer": dbos.DBOSPortableJSONSerializer(),
            "application_version": _VERSION,
            "executor_id": worker,
            "run_migrations": False,
            "use_listen_notify": False,
            "scheduler_polling_interval_sec": _SELDOM,
            "enable_otlp": False,
            "log_level": "CRITICAL",
        }
        try:
            with self._errors():
                runtime = dbos.DBOS(config=config)
                taker.register()
                dbos.DBOS.listen_queues(list(pools))
                dbos.DBOS.launch()
                taker.begin(runtime)
            yield taker
        finally:
            taker.stop()
            taker.wait()
            dbos.DBOS.destroy(destroy_registry=True)

    def migrate(self) -> None:
        """Create or update DBOS's tables. Only this changes a schema."""
        url = self._engine.url.render_as_string(hide_password=False)
        with self._errors():
            dbos.DBOS.migrate(url, schema=_SCHEMA)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with connections.limited(), connections.translated(self._address):
            try:
                yield
            except dbos_errors.DBOSInitializationError as error:
                raise connections.not_up(
                    self._address, "has the queue of an older version", first_line(str(error))
                ) from error
            except dbos_errors.DBOSException as error:
                raise FleetError(
                    "PB-FLEET-DATABASE",
                    "the fleet's queue refuses",
                    where=self._address.shown,
                    cause=first_line(str(error)),
                ) from error


def _silence() -> None:
    """DBOS tells nothing: what concerns a person, the worker says in its own words. It also reads
    no pickles: anyone who can write to the database could run code on every worker."""
    if not _logger.handlers:
        _logger.addHandler(logging.NullHandler())
    _logger.propagate = False
    _logger.setLevel(logging.CRITICAL)
    pickles: Any = dbos._serialization.DefaultSerializer
    pickles.deserialize = _refuse_pickle


def _refuse_pickle(*_: Any) -> None:
    raise ValueError("a pickle is not read")


def _job(found: dbos.WorkflowStatus) -> Job | None:
    job = _job_of(found.workflow_id)
    if job is None:
        return None
    at_work = found.status == "PENDING"
    since = (found.dequeued_at if at_work else None) or found.created_at or 0
    return Job(
        *job,
        at_work,
        since,
        first_line(found.queue_name or "", 40),
        first_line(found.executor_id or "", 80) if at_work else "",
    )


def _job_id(session: str, number: int) -> str:
    return f"{session}:{number}"


def _job_of(name: str) -> tuple[str, int] | None:
    """The session and the number of a job; None if nothing of ours has put it."""
    session, _, number = name.rpartition(":")
    known = SESSION_ID.match(session) and number.isascii() and number.isdigit()
    return (session, int(number)) if known and len(number) < _MOST_DIGITS else None


# ── the process of a worker ─────────────────────────────────────────────────────────────────


class DbosWorker:
    """The jobs that one worker takes from the queue: at most `slots` at once, of all its pools."""

    def __init__(
        self,
        put_back: Callable[[str, int], object],
        pools: Sequence[str],
        slots: int,
        advance: Callable[[str, int], bool],
    ) -> None:
        self._put_back, self._pools, self._advance = put_back, pools, advance
        self._free = threading.BoundedSemaphore(slots)
        self._slots = slots
        self._ready, self._stopped = threading.Event(), threading.Event()
        self._active: Any = None

    def register(self) -> None:
        """Tell DBOS what a job does, before it is launched."""

        @dbos.DBOS.workflow(name=_WORKFLOW, max_recovery_attempts=None)
        def carry_out(session: str, protocol: int) -> None:
            self._carry_out(session, protocol)

    def begin(self, runtime: Any) -> None:
        """Take jobs from now on: DBOS has been launched."""
        _require(runtime, "_active_workflows_set", "_sys_db")
        self._active = runtime._active_workflows_set
        self._adapt(runtime._sys_db)
        self._ready.set()

    def stop(self) -> None:
        self._stopped.set()
        self._ready.set()

    def wait(self) -> None:
        """Wait until the jobs at work have returned, and DBOS has written that."""
        for _ in range(self._slots):
            self._free.acquire()
        until = time.monotonic() + _LAST_WRITE
        while self._active is not None and self._active.activeList() and time.monotonic() < until:
            time.sleep(_PAUSE)

    def _carry_out(self, session: str, protocol: int) -> None:
        """The job, in a thread of DBOS. It is put back if it is not for this worker."""
        self._ready.wait()
        job = _job_of(dbos.DBOS.workflow_id or "")
        if job is None or job[0] != session:
            return  # it is not one of ours
        if self._stopped.is_set() or not self._free.acquire(blocking=False):
            self._leave(*job)
        try:
            if protocol != _PROTOCOL:
                self._stopped.wait(_OFFERED_AGAIN)
                self._leave(*job)
            try:
                ended = self._advance(*job)
            except Exception:
                self._leave(*job)
            if not ended:
                raise _Left
        finally:
            self._free.release()

    def _leave(self, session: str, number: int) -> None:
        with suppress(PlaybookError):  # then a sweep puts it back
            self._put_back(session, number)
        raise _Left

    def _adapt(self, system: Any) -> None:
        """Replace three inner parts of this process's DBOS.

        - A queue has one number of slots for all workers, and each queue of a worker its own. Here
          each worker has a number for all its queues.
        - A job that was taken from this worker would wait in its thread until another has done it,
          and the process could not end before.
        - What cannot be written while the database is away is tried without end; the process could
          not end then, either. A sweep finds what was not written.
        """
        _require(system, "get_queue", "await_workflow_result", "_retry_connection_errors")
        get_queue = system.get_queue

        def limited(name: str, **options: Any) -> Any:
            found = get_queue(name, **options)
            if found is not None and not options:
                found._worker_concurrency = self._room(name)
            return found

        def refuse(*_: Any, **__: Any) -> None:
            raise _OvertakenError

        system.get_queue = limited
        system.await_workflow_result = refuse
        system._retry_connection_errors = False

    def _room(self, pool: str) -> int:
        """The most jobs of this pool here, those at work included."""
        if self._stopped.is_set():
            return 0
        others = (self._active.count_for_queue(other) for other in self._pools if other != pool)
        return int(max(0, self._slots - sum(others)))


class _Left(BaseException):
    """The job has not ended. DBOS writes no outcome for what is no `Exception`."""


class _OvertakenError(Exception):
    """Another worker has the job."""


def _require(part: Any, *names: str) -> None:
    missing = [name for name in names if not hasattr(part, name)]
    if missing:
        raise dbos_errors.DBOSException(f"this version of DBOS has no {', '.join(missing)}")
