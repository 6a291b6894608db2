"""The queue on DBOS. Nothing else knows which queue it is.

DBOS is used as a queue, and not for what it is made for, durable execution: the journal is what
makes a job repeatable. Its workers recover nothing by themselves, for leases decide which jobs were
left behind.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dbos
import sqlalchemy as sa
from dbos import error as dbos_errors

from playbook_supervisor.drivers.fleet.address import Address
from playbook_supervisor.drivers.fleet.dbos_worker import (
    PROTOCOL,
    WORKFLOW,
    DbosWorker,
    job_id,
    job_of,
)
from playbook_supervisor.drivers.fleet.storage import connections
from playbook_supervisor.drivers.fleet.storage.rows import MOST_PRIORITY, Job, Limits
from playbook_supervisor.errors import FleetError
from playbook_supervisor.formats.sanitize import first_line

_APPLICATION = "playbook-fleet"
_VERSION = "1"  # the same for all workers, so that they share all jobs
_SCHEMA = "dbos"
_POLLING = 0.5  # seconds
_SELDOM = 3_600.0  # seconds: what we do not use
_ANY_NUMBER = 1_000_000
_LIVING = ["ENQUEUED", "PENDING", "DELAYED"]
_BATCH = 500
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

    def put(
        self,
        connection: sa.Connection,
        session: str,
        number: int,
        *,
        pool: str,
        repository: str,
        priority: int,
    ) -> None:
        """Put a job, in the caller's transaction. One that is there already stays as it is."""
        most = MOST_PRIORITY
        options: dbos.EnqueueOptions = {
            "workflow_name": WORKFLOW,
            "workflow_id": job_id(session, number),
            "queue_name": pool,
            "queue_partition_key": repository,
            "priority": most + 1 - max(-most, min(priority, most)),
            "app_version": _VERSION,
            "application_name": _APPLICATION,
            "serialization_type": dbos.WorkflowSerializationFormat.PORTABLE,
        }
        self._client.enqueue_in_transaction(connection, options, session, PROTOCOL)

    def put_back(self, session: str, number: int, pool: str = "") -> bool:
        """Give a job that was taken to the next worker, and take it from its owner.

        It keeps its place in the queue, and without `pool` its pool. False if it has ended.
        """
        job = job_id(session, number)
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
        names = [job_id(session, number) for session, number in jobs]
        with self._errors():
            for start in range(0, len(names), _BATCH):
                self._client.delete_workflows(names[start : start + _BATCH])

    def running(self, *, at_work: bool = False) -> list[Job]:
        """The jobs that have not ended, or only those that a worker has taken."""
        with self._errors():
            found = self._client.list_workflows(
                status=["PENDING"] if at_work else _LIVING,
                name=WORKFLOW,
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
        self,
        pools: Sequence[str],
        slots: int,
        advance: Callable[[str, int], bool],
        worker: str,
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
    """DBOS tells nothing: what concerns a person, the worker says in its own words.

    It also reads no pickles: anyone who can write to the database could run code on every worker.
    """
    if not _logger.handlers:
        _logger.addHandler(logging.NullHandler())
    _logger.propagate = False
    _logger.setLevel(logging.CRITICAL)
    pickles: Any = dbos._serialization.DefaultSerializer
    pickles.deserialize = _refuse_pickle


def _refuse_pickle(*_: Any) -> None:
    raise ValueError("a pickle is not read")


def _job(found: dbos.WorkflowStatus) -> Job | None:
    job = job_of(found.workflow_id)
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
