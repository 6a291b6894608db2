"""A detached process of ours that carries out what the client's agents do not.

That is what is due without an agent, and the steps that name another agent.

A client waits half a minute for a hook and a few minutes for a command, but a check of the project
may take an hour. So `playbook next --wait` starts this process and waits for it; it may itself be
killed and run again. At most one such process works on a session. It ends as soon as an agent or a
person is due, and it stops early when the session's client has ended or no longer drives it.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import Empty

from playbook_supervisor.drivers import budget, driver_lock
from playbook_supervisor.drivers.claude_code import binding
from playbook_supervisor.drivers.headless import Asking
from playbook_supervisor.drivers.jobs import Assignment, can_continue, job_of
from playbook_supervisor.drivers.observers import LiveOutput, showing_check
from playbook_supervisor.drivers.run_agents import Agents
from playbook_supervisor.drivers.workers import WorkerPool
from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Ask, Attempt, Check, Run
from playbook_supervisor.kernel.model import NO_LIMITS
from playbook_supervisor.sessions.engine.session_engine import EngineOptions
from playbook_supervisor.sessions.steps.attempt_log import secret_values
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.snapshot import Snapshot, due_children, for_us, running
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.disk.files import locked, read_bytes, remove, write_atomically
from playbook_supervisor.system.disk.log_file import put
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.process import ancestry
from playbook_supervisor.system.process.cancellation import (
    Interrupted,
    cancel_requested,
    cancelled_by,
)
from playbook_supervisor.system.process.process_groups import (
    kill_worker,
    until,
    worker_record,
)
from playbook_supervisor.system.process.processes import run_detached

_FAILURE = "detached.json"
_INTERVAL = 0.1  # seconds between two looks at the session and at the process
_STARTING = 5.0  # seconds that the process may take until it holds its lock
_GLANCE = 0.5  # seconds between two looks at who drives the session


def attend(tree: SessionTree) -> None:
    """Start the process unless it works already; return when it has changed the session or ended.

    Raises the error that has ended it, or StateError PB-STATE-INTERRUPTED if the session's client
    has ended: the process would stop at once. Call it while there is only one thread.
    """
    private = tree.private
    if not driver_lock.detached_works(private):
        binding.require_driver(private)
        remove(private / _FAILURE)
        root, session_id = tree.root, tree.id
        run_detached(lambda: _work(root, session_id))
        until(lambda: driver_lock.detached_works(private) or _over(tree), _STARTING)
    while driver_lock.detached_works(private) and not tree.changed():
        time.sleep(_INTERVAL)
    if not driver_lock.detached_works(private):
        _raise_failure(private)


def _over(tree: SessionTree) -> bool:
    return tree.changed() or (tree.private / _FAILURE).exists()


# ── inside the process ──────────────────────────────────────────────────────────────────────


def _work(root: Path, session_id: str) -> None:
    store = DiskStore(checkout.find(root))
    private = store.runtime(session_id)
    lock = private / driver_lock.DETACHED
    with suppress(StateError), locked(lock, timeout=0.0):  # another works already
        put(lock, worker_record(os.getpid()), 0)
        try:
            _carry_out(store, session_id)
        except Interrupted:
            pass
        except PlaybookError as error:
            _keep_failure(private, error)
        except Exception as error:
            said = f"internal error: {type(error).__name__}: {first_line(str(error))}"
            _keep_failure(private, StateError("PB-BUG", said))


def _carry_out(store: DiskStore, session_id: str) -> None:
    private = store.runtime(session_id)
    driver_lock.require_no_runner(private)  # a runner that starts later ends this process
    bound = binding.load(private)
    _take_environment(bound)
    tree = SessionTree(store, session_id, EngineOptions(exports=False, copies=True))
    tree.engine.watch = partial(showing_check, LiveOutput(private))
    with cancelled_by(_Abandoned(tree, _driver(bound))):
        snapshot = tree.advance()
        if isinstance(snapshot.directive, Run) and for_us(snapshot):
            _carry_out_steps(tree, snapshot)


def _carry_out_steps(tree: SessionTree, snapshot: Snapshot) -> None:
    pool, output = WorkerPool(), LiveOutput(tree.private)
    asking = Asking(tree, output, pool)
    choose = Agents("", tree.root, snapshot.config).of
    begun: set[str] = set()
    try:
        while (due := _due(snapshot)) or pool.active:
            asking.deliver(snapshot)
            if isinstance(snapshot.directive, Check):
                if tree.delay(snapshot):
                    break  # `next --wait` waits for the time of a retry
                snapshot = tree.advance()
            elif due_children(snapshot):
                snapshot = tree.advance()
            else:
                for attempt in due:
                    if attempt.id in begun:
                        continue
                    secrets = secret_values(os.environ)
                    assignment = Assignment(tree, snapshot, attempt, NO_LIMITS, secrets)
                    continues = can_continue(assignment, choose)
                    if not continues and _left_behind(tree, attempt):
                        snapshot = tree.lose(attempt)
                        break
                    begun.add(attempt.id)
                    job = job_of(assignment, choose, budget.NO_LIMITS, continues=continues)
                    pool.launch(attempt, job, tree.log_file(attempt))
                else:
                    snapshot = _next(tree, pool, asking, snapshot)
    finally:
        stopped = [attempt for attempt in _due(snapshot) if attempt.id in pool.active]
        for attempt, outcome in pool.stop():
            with suppress(StateError):  # it was settled as interrupted or aborted
                tree.note_return(attempt.id, outcome)
        for attempt in stopped:  # it has begun, so what it left decides, and it is not begun again
            put(tree.worker_file(attempt), b"", 0)
        output.on_end(snapshot)
        pool.close()


def _due(snapshot: Snapshot) -> tuple[Attempt, ...]:
    """What is for us, also while an agent of the same group waits for a person."""
    asked = snapshot.directive
    if not isinstance(asked, Ask):
        return for_us(snapshot)
    return tuple(attempt for attempt in running(snapshot) if not attempt.step.by_client)


def _left_behind(tree: SessionTree, attempt: Attempt) -> bool:
    """True if another process began the attempt, and nothing carries it out any more."""
    worker_file = tree.worker_file(attempt)
    if worker_file.exists():
        kill_worker(worker_file)
        return True
    return False


def _next(tree: SessionTree, pool: WorkerPool, asking: Asking, snapshot: Snapshot) -> Snapshot:
    """Wait for the next event; Interrupted if the work is not wanted any more."""
    try:
        event = pool.events.get(timeout=_GLANCE)
    except Empty:
        if cancel_requested():
            raise Interrupted from None
        if not asking.waiting and not tree.changed():
            return snapshot
        snapshot = tree.look()
        asking.deliver(snapshot)
        if not {*pool.active} - asking.waiting <= {attempt.id for attempt in running(snapshot)}:
            raise Interrupted from None
        return snapshot
    if event.attempt is None:
        return snapshot
    if event.asked is not None:
        return asking.journal(event.attempt, event.asked)
    if event.outcome is None and not event.put_off:
        asking.observer.on_output(event.attempt, event.line or event.notice)
        return snapshot
    pool.returned(event.attempt)
    return snapshot if event.outcome is None else tree.report(event.attempt.id, event.outcome)


def _take_environment(bound: binding.Binding | None) -> None:
    """Give the project's programs the client's environment, not that of a model's shell.

    Otherwise a model could put a program of its own in front of the one that a check runs.
    """
    if ancestry.isolation():  # our own is what the client was given
        return
    if bound is not None and (environment := ancestry.first_environment(bound.pid)):
        os.environ.clear()
        os.environ.update(environment)


def _driver(bound: binding.Binding | None) -> tuple[str, int] | None:
    return None if bound is None else (bound.client, bound.pid)


@dataclass(slots=True)
class _Abandoned:
    """True if the work is no longer wanted: it is another's, or what is due has changed."""

    tree: SessionTree
    driver: tuple[str, int] | None
    _next: float = field(default=0.0, init=False)

    def __call__(self) -> bool:
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + _GLANCE
        bound = binding.load(self.tree.private)
        if _driver(bound) != self.driver or (bound is not None and not binding.lives(bound)):
            return True
        return self.tree.changed() and not _due(self.tree.look())


# ── its failure ─────────────────────────────────────────────────────────────────────────────


def _keep_failure(private: Path, error: PlaybookError) -> None:
    with suppress(PlaybookError):  # a full disk
        write_atomically(private / _FAILURE, json.dumps(error.as_mapping()).encode(), durable=False)


def _raise_failure(private: Path) -> None:
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        said = json.loads(read_bytes(private / _FAILURE))
        raise StateError(
            said["code"],
            said["message"],
            where=said.get("where", ""),
            guidance=said["guidance"],
            cause=said.get("cause", ""),
        )
