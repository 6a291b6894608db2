"""What moves a session: run, resume, answer, abort, pause.

Data in, data out, errors raised; nothing is printed here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.errors import ArgumentError, StateError
from playbook_supervisor.kernel.vocabulary import Mode, Resolution, SessionStatus
from playbook_supervisor.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.agents.protocol import Agent, Budget
    from playbook_supervisor.drivers.driver_lock import Request
    from playbook_supervisor.drivers.headless import DriveResult
    from playbook_supervisor.drivers.observers import Observer, Prompter
    from playbook_supervisor.sessions.local_state import Runtime
    from playbook_supervisor.sessions.snapshot import Snapshot
    from playbook_supervisor.sessions.store import DiskStore
    from playbook_supervisor.sessions.supervisor import Supervisor

_PATIENCE = 60.0  # seconds that an aborting runner may take to end what runs


class DriveOptions(Record):
    """How a session is to be driven headless. `agent` as `--agent` says it; empty: remembered.

    `wall` and `idle` are a step's deadlines in seconds; `kill` ends orphaned workers. `limits`:
    turns and tool calls of a step, the cost of the whole run; what is left out is remembered.
    """

    agent: str = ""
    mode: Mode | None = None
    wall: float | None = None
    idle: float | None = None
    kill: bool = False
    limits: Budget | None = None


def run(
    reference: str,
    args: Sequence[str] = (),
    *,
    cwd: Path | None = None,
    start: str = "",
    drive: DriveOptions | None = None,
    watcher: Observer | None = None,
    person: Prompter | None = None,
) -> DriveResult:
    """Begin a playbook and drive it to its end or to a gate (kai FR20, cat FR-3.7).

    Without a `person` a gate ends the drive: `why` is `waiting`. Raises what `beginning` and the
    agents raise before anything is created.
    """
    from playbook_supervisor.agents import protocol, registry
    from playbook_supervisor.drivers import budget
    from playbook_supervisor.sessions import creation

    drive = drive or DriveOptions()
    store = locate.store(cwd)
    wanted = creation.intend(store, reference, args, start=start, commands_elsewhere=True)
    agent = registry.choose(drive.agent, wanted.config, store.checkout.root)
    budget.require_enforceable(agent, drive.limits or budget.NO_LIMITS)
    if protocol.reads_claude_commands(agent):
        wanted = creation.intend(store, reference, args, start=start)
    known = _remembered(drive, store.checkout.root)
    session_id = creation.begin(store, wanted, start=start, runtime=known)
    watching = watcher or _silence()
    for warning in wanted.warnings:
        watching.on_notice(warning)
    return _drive(store, session_id, agent, drive, watching, person, start=start)


def resume(
    session: str = "",
    *,
    cwd: Path | None = None,
    retry: bool = False,
    drive: DriveOptions | None = None,
    watcher: Observer | None = None,
    person: Prompter | None = None,
) -> DriveResult:
    """Go on where a session stands; nothing settled runs again (kai FR15, FR32, NFR1)."""
    from playbook_supervisor.agents import registry
    from playbook_supervisor.drivers import budget
    from playbook_supervisor.drivers.claude_code import authorization
    from playbook_supervisor.drivers.headless import DriveResult
    from playbook_supervisor.kernel import machine
    from playbook_supervisor.project import config
    from playbook_supervisor.sessions import selection

    drive = drive or DriveOptions()
    watching = watcher or _silence()
    store, session_id = locate.meant(session, cwd, watching)
    if retry or drive.mode is Mode.AUTONOMOUS:  # what takes up, or answers by itself, decides
        locate.a_human(store, session_id, "resume --retry" if retry else "resume --mode autonomous")
    authorization.refuse_living_client(store.runtime(session_id))
    _pin(store, session_id)
    with store.open(session_id) as opened:
        status = machine.status(opened.state)
        remembered, mode = opened.runtime.agent, Mode(opened.runtime.mode)
        limits = opened.runtime.limits
    over = status in (SessionStatus.COMPLETED, SessionStatus.ABORTED)
    if over or (status is SessionStatus.FAILED and not retry):
        if over:
            watching.on_notice(f"session {session_id} is {status}: there is nothing to do")
        outlook = locate.supervisor(store, session_id).close()
        for notice in outlook.notices:
            watching.on_notice(notice)
        return DriveResult(outlook, status.value)
    _require_room(store, session_id)
    if strayed := selection.strayed(store, session_id):
        watching.on_notice(strayed)
    spec = drive.agent or remembered
    agent = registry.choose(spec, config.load(store.checkout.root), store.checkout.root)
    asked = drive.limits or budget.NO_LIMITS
    budget.require_enforceable(agent, asked)
    meant = budget.merged(asked, limits)
    if said := budget.unenforceable(agent, meant):
        watching.on_notice(said)
    drive = DriveOptions(spec, drive.mode or mode, drive.wall, drive.idle, drive.kill, meant)
    return _drive(store, session_id, agent, drive, watching, person, retry=retry)


def answer(
    words: Sequence[str], *, session: str = "", gate: str = "", cwd: Path | None = None
) -> Snapshot:
    """Record a human's answer to the open gate; `resume` drives (kai FR26, FR38).

    The first word is a session if it has the form of an id and more words follow.
    """
    from playbook_supervisor.kernel.answers import read_answer
    from playbook_supervisor.kernel.directives import Ask
    from playbook_supervisor.sessions.manifest import SESSION_ID

    if not session and len(words) > 1 and SESSION_ID.match(words[0]):
        session, words = words[0], words[1:]
    text = " ".join(words)
    try:
        store, session_id = locate.meant(session, cwd)
    except StateError as error:
        raise locate.waiting_elsewhere(error, cwd) from error
    locate.a_human(store, session_id, "answer")
    supervisor = locate.supervisor(store, session_id)
    outlook = supervisor.look()
    asked = outlook.directive
    if not isinstance(asked, Ask):
        none = StateError("PB-STATE-NO-GATE", f"session {supervisor.id} waits at no gate")
        raise locate.waiting_elsewhere(none, cwd)
    if gate and gate != asked.id:
        raise StateError("PB-STATE-REFUSED", f"the gate {gate} is not open; {asked.id} is")
    reply = read_answer(text, asked.choices)
    if reply.resolution is None:
        choices = ", ".join(asked.choices)
        raise ArgumentError(
            "PB-ARG-ANSWER",
            f"{text[:80]!r} is no answer here{': ' + reply.question if reply.question else ''}",
            where=outlook.question,
            guidance=f"Answer with one of: {choices}.",
        )
    return locate.kept(store, supervisor.answer(asked.id, reply.resolution, text, _by(store)))


def abort(session: str = "", text: str = "", *, cwd: Path | None = None) -> Snapshot:
    """End the session, journaled; a runner is asked to stop what runs first."""
    from playbook_supervisor.drivers import driver_lock
    from playbook_supervisor.kernel.directives import Finish

    store, session_id = locate.meant(session, cwd)
    locate.a_human(store, session_id, "abort")
    supervisor = locate.supervisor(store, session_id)
    _require_open(supervisor)
    words = text or Resolution.ABORT.value
    if driver_lock.living(supervisor.private) is not None:
        _ask_runner(supervisor, driver_lock.Request("abort", words, _by(store)), _PATIENCE)
        outlook = supervisor.look()
        if isinstance(outlook.directive, Finish):
            return locate.kept(store, outlook)
    with driver_lock.driving(supervisor.private, "abort"):  # nobody begins to drive it meanwhile
        supervisor.end_workers()
        outlook = supervisor.abort(words, _by(store))
    _release(supervisor)
    return locate.kept(store, outlook)


def pause(session: str = "", *, cwd: Path | None = None) -> Snapshot:
    """Unbind the driver and leave the session open: what runs may return, nothing is launched."""
    from playbook_supervisor.drivers import driver_lock

    store, session_id = locate.meant(session, cwd)
    locate.a_human(store, session_id, "pause")
    supervisor = locate.supervisor(store, session_id)
    _require_open(supervisor)
    if driver_lock.living(supervisor.private) is not None:
        _ask_runner(supervisor, driver_lock.Request("pause", by=_by(store)), float("inf"))
    _release(supervisor)
    return locate.kept(store, supervisor.look())


# ── what they share ─────────────────────────────────────────────────────────────────────────


def _drive(
    store: DiskStore,
    session_id: str,
    agent: Agent,
    drive: DriveOptions,
    watcher: Observer,
    person: Prompter | None,
    *,
    start: str = "",
    retry: bool = False,
) -> DriveResult:
    from playbook_supervisor.drivers import budget
    from playbook_supervisor.drivers.claude_code import authorization
    from playbook_supervisor.drivers.driver_lock import driving
    from playbook_supervisor.drivers.headless import Runner

    supervisor = locate.supervisor(store, session_id)
    mode = drive.mode or Mode.MANUAL
    limits = drive.limits or budget.NO_LIMITS
    watcher = _with_those_elsewhere(watcher, supervisor)

    def first() -> Snapshot:
        outlook = supervisor.look()
        for notice in store.notices:
            watcher.on_notice(notice)
        if outlook.pending:
            return supervisor.begin(start)
        if retry and outlook.manifest.status is SessionStatus.FAILED:
            return supervisor.take_up()
        return supervisor.outlook()

    authorization.take_over(store.checkout, supervisor.private, os.environ)
    with driving(supervisor.private, drive.agent or agent.name):
        supervisor.remember(_remembered(drive, supervisor.root))
        runner = Runner(
            supervisor,
            agent,
            watcher,
            person,
            mode=mode,
            wall=drive.wall,
            idle=drive.idle,
            limits=limits,
            kill=drive.kill,
            by=_by(store) if person else "",
        )
        return runner.drive(first)


def _remembered(drive: DriveOptions, root: Path) -> Runtime:
    """What a `resume` without arguments goes by: there from the session's first moment on."""
    from playbook_supervisor.agents.registry import with_absolute_path
    from playbook_supervisor.drivers import budget
    from playbook_supervisor.sessions.local_state import Runtime

    return Runtime(
        agent=with_absolute_path(drive.agent, root),
        mode=(drive.mode or Mode.MANUAL).value,
        limits=budget.to_local_state(drive.limits or budget.NO_LIMITS),
    )


def _with_those_elsewhere(watcher: Observer, supervisor: Supervisor) -> Observer:
    """The same, and what is told to whoever is not at this terminal."""
    from playbook_supervisor.drivers.live_output import LiveOutput
    from playbook_supervisor.drivers.notifications import Notifier
    from playbook_supervisor.drivers.observers import CompositeObserver
    from playbook_supervisor.project import config

    root, private = supervisor.root, supervisor.private
    each: tuple[Observer, ...] = (watcher, LiveOutput(private))
    if notify := config.load(root).notify:
        each = (*each, Notifier(notify, root, private, watcher.on_notice))
    return CompositeObserver(each)


def _pin(store: DiskStore, session_id: str) -> None:
    """A session of kai's own tools pinned nothing: it now runs the playbook of its name."""
    from playbook_supervisor.project import library
    from playbook_supervisor.project.session_policy import emit_policy
    from playbook_supervisor.sessions import creation

    if not store.drives(session_id) and not store.pinned(session_id):
        found = library.find(store.checkout.root, store.manifest(session_id).playbook)
        policy = creation.in_force(store.checkout.root, found.playbook)
        store.pin(session_id, found.data, b"" if policy is None else emit_policy(policy))


def _require_room(store: DiskStore, session_id: str) -> None:
    """One checkout drives one open session: what is open here goes before what is taken up."""
    from playbook_supervisor.sessions import creation

    driven = store.driven()
    if driven and session_id not in driven:
        raise creation.occupied(store, driven[0])


def _require_open(supervisor: Supervisor) -> None:
    status = supervisor.look().manifest.status
    if status not in (SessionStatus.PENDING, SessionStatus.IN_PROGRESS):
        failed = status is SessionStatus.FAILED
        raise StateError(
            "PB-STATE-ENDED",
            f"session {supervisor.id} {'has' if failed else 'is'} {status} already",
            guidance=f"`playbook resume {supervisor.id} --retry` takes it up."
            if failed
            else "Begin a new session.",
        )


def _release(supervisor: Supervisor) -> None:
    """No client drives it any more."""
    from playbook_supervisor.drivers.claude_code import authorization

    authorization.release(supervisor.store.checkout, supervisor.private)


def _ask_runner(supervisor: Supervisor, request: Request, patience: float) -> None:
    from playbook_supervisor.drivers import driver_lock

    if not driver_lock.send_request(supervisor.private, request, timeout=patience):
        raise driver_lock.driven(supervisor.private)


def _by(store: DiskStore) -> str:
    from playbook_supervisor.system.git_process import identity

    return identity(store.checkout.root)


def _silence() -> Observer:
    from playbook_supervisor.drivers.observers import NullObserver

    return NullObserver()
