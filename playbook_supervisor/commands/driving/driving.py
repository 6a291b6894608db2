"""The commands that drive a session: run, begin, resume, answer, abort, pause; none prints."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TypedDict, Unpack

from playbook_supervisor.agents import registry
from playbook_supervisor.agents.protocol import Budget
from playbook_supervisor.commands import locate, overview
from playbook_supervisor.commands.driving import protocol
from playbook_supervisor.commands.driving.preflight import preflight
from playbook_supervisor.drivers import (
    budget,
    clearance,
    driver_lock,
    gate_answer,
    own_agents,
    run_agents,
)
from playbook_supervisor.drivers.claude_code import authorization, gates, permissions
from playbook_supervisor.drivers.claude_code.context import DirectiveDetails
from playbook_supervisor.drivers.driver_lock import Request
from playbook_supervisor.drivers.headless import Runner
from playbook_supervisor.drivers.notifier import Notifier
from playbook_supervisor.drivers.observers import (
    CompositeObserver,
    DriveResult,
    LiveOutput,
    Observer,
    Prompter,
)
from playbook_supervisor.drivers.run_agents import Agents
from playbook_supervisor.drivers.step_kinds import require_executable
from playbook_supervisor.errors import ArgumentError, PlaybookError, StateError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel import phases
from playbook_supervisor.kernel.directives import Ask, Finish
from playbook_supervisor.kernel.vocabulary import Mode, Resolution, SessionStatus
from playbook_supervisor.project.playbooks.playbook_file import PlaybookFile
from playbook_supervisor.project.settings import isolation
from playbook_supervisor.project.settings.config import ISOLATION, Config
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files import principal
from playbook_supervisor.sessions.files.manifest import NO_DRIVER, SESSION_ID, Driver
from playbook_supervisor.sessions.files.principal import NO_ONE, Principal
from playbook_supervisor.sessions.publication import publishing
from playbook_supervisor.sessions.store import creation, selection, settings_in_force
from playbook_supervisor.sessions.store.creation import RunRequest
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.snapshot import Snapshot, running
from playbook_supervisor.sessions.tree.session_tree import SessionTree

_GATE_TIMEOUT = 60.0  # seconds for the commit at a gate of a session of the fleet
_ABORT_TIMEOUT = 60.0  # seconds that an aborting runner may take to end what runs


@dataclass(frozen=True, slots=True)
class DriveOptions:
    """The options of a headless drive. `agent` is what `--agent` takes.

    `wall` and `idle` are a step's deadlines in seconds; `kill` ends orphaned workers. `limits` are
    turns and tool calls of a step, and the cost of the whole run. `patience` is how many seconds to
    wait, without a terminal, for the answer to what an agent asks. `isolation` is a mode, empty for
    that of the settings. A resumed session remembers what
    is left out, except `patience` and the `max_output_bytes` of a step.
    """

    agent: str = ""
    mode: Mode | None = None
    wall: float | None = None
    idle: float | None = None
    kill: bool = False
    limits: Budget = budget.NO_LIMITS
    max_output_bytes: int | None = None
    patience: float | None = None
    isolation: str = ""


class DriveLimits(TypedDict, total=False):
    """The limits of a caller, by the names of the options of `run`; None limits nothing."""

    timeout: float | None
    idle_timeout: float | None
    patience: float | None
    max_cost_usd: float | None
    max_tokens: int | None
    max_turns: int | None
    max_tool_calls: int | None
    max_output_bytes: int | None


def drive_options(
    agent: str = "",
    mode: Mode | str | None = None,
    *,
    kill: bool = False,
    isolation: str = "",
    **limits: Unpack[DriveLimits],
) -> DriveOptions:
    """The options with these limits, for a person and for a program.

    ArgumentError PB-ARG-USAGE for a limit that there is not, or that is no number above 0, and for
    an unknown mode of isolation.
    """
    if isolation and isolation not in ISOLATION:
        raise ArgumentError("PB-ARG-USAGE", f"isolation must be one of {', '.join(ISOLATION)}")
    for name, value in limits.items():
        kind = DriveLimits.__annotations__.get(name, "")
        if not kind:
            raise ArgumentError("PB-ARG-USAGE", f"there is no limit {first_line(name, 40)!r}")
        whole = "int" in str(kind)
        numbers = int if whole else (int, float)
        fits = isinstance(value, numbers) and not isinstance(value, bool) and 0 < value < inf
        if value is not None and not fits:
            wanted = "a whole number" if whole else "a number"
            raise ArgumentError("PB-ARG-USAGE", f"{name} must be {wanted} above 0")
    return DriveOptions(
        agent=agent,
        mode=Mode(mode) if mode else None,
        wall=limits.get("timeout"),
        idle=limits.get("idle_timeout"),
        patience=limits.get("patience"),
        kill=kill,
        isolation=isolation,
        limits=Budget(**{key: limits.get(key) for key in Budget.__annotations__}),  # type: ignore[arg-type]
        max_output_bytes=limits.get("max_output_bytes"),
    )


def run(
    reference: str | PlaybookFile,
    args: Sequence[str] = (),
    *,
    cwd: Path | None = None,
    start: str = "",
    drive: DriveOptions | None = None,
    observer: Observer | None = None,
    prompter: Prompter | None = None,
) -> DriveResult:
    """Begin a playbook and drive it to its end or to a gate.

    Without a `prompter` a gate ends the drive: `why` is `waiting`. Raises what `creation` and the
    agents raise before anything is created.
    """
    drive = drive or DriveOptions()
    store = locate.store(cwd)
    root = store.checkout.root
    if start or drive.mode is Mode.AUTONOMOUS:
        own_agents.require_none_above(
            store.checkout, "run --from" if start else "run --mode autonomous"
        )
    request = creation.prepare(store, reference, args, start=start)
    drive = as_started(drive, store, request)
    isolation.admit(drive.isolation, request.config)
    shares = run_agents.shares_of(request, drive.agent)
    agents = run_agents.chosen(shares, drive.agent, request.config, root)
    require_executable(request, root, start=start, machine=root)
    run_agents.admit(agents, shares, request, root, drive.limits)
    of_claude = run_agents.of_claude(agents, shares)
    permissions.require_allowed(of_claude, root, conversation=False)
    driver = driver_of(drive, root, start)
    session_id = creation.begin(store, request, start=start, driver=driver)
    observer = observer or Observer()
    needs = preflight(request.all_playbooks, root, request.config, start, push=True)
    for warning in dict.fromkeys((*request.warnings, *needs)):
        observer.on_notice(warning)
    if "" in shares and not (drive.agent or request.config.agent):
        taken = agents.named("").name
        if not registry.is_default(taken):
            observer.on_notice(f"no agent was named: this run takes {taken}, which was found here")
    tree = SessionTree(store, session_id)
    config = _told_settings(tree, observer)
    if config != request.config:
        agents = run_agents.chosen(shares, drive.agent, config, root)
    return _drive(tree, agents, drive, observer, prompter, start=start)


def begin(
    reference: str, args: Sequence[str] = (), *, start: str = "", cwd: Path | None = None
) -> tuple[Snapshot, DirectiveDetails]:
    """Begin a session that a client drives; its first directive, with details."""
    store = locate.store(cwd)
    root, inside = store.checkout.root, locate.in_claude_code()
    if start:
        own_agents.require_none_above(store.checkout, "begin --from")
    if inside:
        authorization.admit_begin(store.checkout, start, os.environ)
    request = creation.prepare(store, reference, args, start=start)
    request.require_commands(root, inside=True)
    require_executable(request, root, start=start, machine=root)
    run_agents.admit_beside_client(request, root)
    if inside:
        authorization.require_isolation(request.config)
        permissions.require_allowed(request.all_playbooks, root, conversation=True)
    session_id = creation.begin(store, request, start=start, exports=False)
    tree = locate.admitted_tree(store, session_id)
    return protocol.reply(tree, replace(tree.begin(start), notices=request.warnings))


def resume(
    session: str = "",
    *,
    cwd: Path | None = None,
    retry: bool = False,
    accept_config: bool = False,
    on_this_branch: bool = False,
    drive: DriveOptions | None = None,
    observer: Observer | None = None,
    prompter: Prompter | None = None,
    confirm: Callable[[str], bool] | None = None,
) -> DriveResult:
    """Continue a session; nothing settled runs again.

    The session keeps the settings with which it began. `accept_config` takes those that the project
    has now; without it, `confirm` asks a person where they differ. `on_this_branch` lets it
    belong to the branch that is checked out; without it, StateError PB-STATE-BRANCH on another one.
    Where a worker of the fleet has started this process, that worker is asked before each launch.
    """
    before_launch = clearance.from_environment()  # before anything inherits our environment
    drive = drive or DriveOptions()
    observer = observer or Observer()
    store, session_id = locate.select(session, cwd, observer)
    manifest = store.manifest(session_id)
    known, elsewhere = manifest.driver, manifest.began_on != store.checkout.identity
    mode = drive.mode or (known.mode if elsewhere else None)  # no person said it on this machine
    decisions = {
        "--retry": retry,
        "--mode autonomous": mode is Mode.AUTONOMOUS and not retry,
        "--accept-config": accept_config,
        "--on-this-branch": on_this_branch,
    }
    for option, wanted in decisions.items():
        if wanted:
            locate.require_human(store, session_id, f"resume {option}")
    authorization.refuse_living_client(store.runtime(session_id))
    store.moving = on_this_branch
    with store.open(session_id) as opened:
        status, children = phases.status(opened.state), opened.pinned.tightened_children
    tree = SessionTree(store, session_id)
    over = status in (SessionStatus.COMPLETED, SessionStatus.ABORTED)
    if over:
        observer.on_notice(f"session {session_id} is already {status}; nothing to do")
    if over or (status is SessionStatus.FAILED and not retry):
        return _closed(tree, status, observer, drive.isolation)
    if on_this_branch:
        driver_lock.require_no_runner(tree.private)
        _require_no_other(store, session_id)
        tree.move_here(_person(store))
    tree.require_branch()
    _require_no_other(store, session_id)
    if elsewhere and known != NO_DRIVER:
        observer.on_notice(first_line(f"driven here as where it began: {known.summary}", 300))
    config = _told_settings(tree, observer, confirm, accept=accept_config)
    if drive.isolation and _less(drive.isolation, config.isolation.mode):
        locate.require_human(store, session_id, "resume --isolation")
    asked, drive = drive.limits, _as_before(drive, known, store.checkout.root)
    playbook = tree.look().state.playbook
    shares = run_agents.shares(playbook, drive.agent, children, manifest.args)
    agents = run_agents.chosen(shares, drive.agent, config, tree.root)
    for agent in agents.all:
        budget.require_enforceable(agent, asked)
        if said := budget.unenforceable(agent, drive.limits):
            observer.on_notice(said)
    result = _drive(
        tree,
        agents,
        drive,
        observer,
        prompter,
        start=known.start,
        retry=retry,
        before_launch=before_launch,
    )
    if before_launch is not None and result.why == "waiting":  # the worker pushes the branch now
        for notice in publishing.at_gate(result.snapshot, timeout=_GATE_TIMEOUT).notices:
            observer.on_notice(notice)
    return result


def abort(session: str = "", text: str = "", *, cwd: Path | None = None) -> Snapshot:
    """End the open or failed session, journaled; a runner is asked to stop what runs first."""
    store, session_id = locate.select(session, cwd)
    locate.require_human(store, session_id, "abort")
    tree = locate.tree(store, session_id)
    before = tree.look()
    gate_answer.require_open(before, or_failed=True)
    words, by = text or Resolution.ABORT.value, _person(store)
    if driver_lock.living(tree.private) is not None:
        request = Request("abort", words, by.name)
        driver_lock.send_request(tree.private, request, timeout=_ABORT_TIMEOUT)
        snapshot = tree.look()
        if isinstance(snapshot.directive, Finish):
            return _let_go(snapshot)
    with driver_lock.driving(tree.private, "abort"):  # so that no runner begins meanwhile
        snapshot = gate_answer.abort(tree, words, by)
    authorization.release_aborted(store.checkout, tree.private, gates.asked_in(before))
    return _let_go(snapshot)


def pause(
    session: str = "",
    *,
    cwd: Path | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Snapshot:
    """Unbind the driver, leave the session open; `on_wait` is told which steps are waited for."""
    store, session_id = locate.select(session, cwd)
    locate.require_human(store, session_id, "pause")
    tree = locate.tree(store, session_id)
    snapshot = tree.look()
    gate_answer.require_open(snapshot)
    if driver_lock.living(tree.private) is not None:
        at_work = ", ".join(member.id for member in running(snapshot))
        if at_work and on_wait is not None:
            on_wait(f"waiting until {at_work} has ended (`playbook abort` does not wait)")
        request = Request("pause", by=_person(store).name)
        driver_lock.send_request(tree.private, request, timeout=inf)
        snapshot = tree.look()  # what the runner did until it stopped
    authorization.release(store.checkout, tree.private)
    return _let_go(snapshot)


def answer(
    words: Sequence[str],
    *,
    session: str = "",
    gate: str = "",
    cwd: Path | None = None,
    person: Principal | None = None,
) -> Snapshot:
    """Record a human's answer to the open gate; `resume` drives.

    The first word is a session if it has the form of an id, or of one's beginning or end with a
    digit, and more words follow. `person` is one whom the caller knows; without it, the one who has
    started this process.
    """
    if not session and len(words) > 1 and _names_session(words[0], cwd):
        session, words = words[0], words[1:]
    text = " ".join(words)
    try:
        store, session_id = locate.select(session, cwd)
    except StateError as error:
        raise _with_waiting_sessions(error, cwd) from error
    if person is None:
        locate.require_human(store, session_id, "answer")
        person = _person(store)
    tree = locate.tree(store, session_id)
    snapshot = tree.look()
    asked = snapshot.directive
    if not isinstance(asked, Ask):
        no_gate = StateError("PB-STATE-NO-GATE", f"session {tree.id} is not waiting at a gate")
        raise _with_waiting_sessions(no_gate, cwd)
    if gate and gate != asked.id:
        wrong = f"the gate {gate} is not open; the open one is {asked.id}"
        raise StateError("PB-STATE-REFUSED", wrong)
    reply, decided = gate_answer.decided(text, asked.choices, snapshot.question)
    answered = gate_answer.record(tree, asked, reply, text, person)
    if decided is Resolution.ABORT and asked.member.within:
        answered = gate_answer.end_tree(tree).after(answered)
    if said := _notice(store, session_id):
        answered = replace(answered, notices=(*answered.notices, said))
    return locate.with_store_notices(answered)


def _with_waiting_sessions(error: StateError, cwd: Path | None) -> StateError:
    if error.code not in ("PB-STATE-NO-SESSION", "PB-STATE-NO-GATE"):
        return error
    manifests = (seen.manifest for seen in overview.sessions(locate.store(cwd)))
    waiting = [known.session_id for known in manifests if known and known.gate]
    if not waiting:
        return error
    guidance = f"What waits: `playbook answer {waiting[0]} …`"
    more = f", or {' or '.join(waiting[1:4])}" if waiting[1:] else ""
    return StateError(error.code, error.message, where=error.where, guidance=f"{guidance}{more}.")


def _names_session(word: str, cwd: Path | None) -> bool:
    """A word without a digit is taken for a part of the answer: an id may end with `fix`."""
    if SESSION_ID.match(word) or not any(character.isdigit() for character in word):
        return SESSION_ID.match(word) is not None
    return SESSION_ID.match(locate.named(locate.store(cwd), word)) is not None


def _notice(store: DiskStore, session_id: str) -> str:
    try:
        told, _ = settings_in_force.difference(store.checkout.root, store.pinned(session_id))
    except PlaybookError as error:
        return f"recorded, but the settings are not compared: {error.message}"
    return settings_in_force.kept(told, session_id) if told else ""


# ── shared ──────────────────────────────────────────────────────────────────────────────────


def _drive(
    tree: SessionTree,
    agents: Agents,
    drive: DriveOptions,
    observer: Observer,
    prompter: Prompter | None,
    *,
    start: str = "",
    retry: bool = False,
    before_launch: clearance.Ask | None = None,
) -> DriveResult:
    store, private, config = tree.store, tree.private, agents.config
    if missing := isolation.admit(drive.isolation, config):
        observer.on_notice(missing)
    each = [observer, LiveOutput(private)]
    if config.notify:
        each.append(Notifier(config, tree.root, private, observer.on_notice))
    if own_agents.above(store.checkout):
        prompter = None  # an agent has made the terminal
    authorization.take_over(store.checkout, private, os.environ)
    with driver_lock.driving(private, drive.agent or agents.label):
        driver_lock.end_detached(private)

        def first() -> Snapshot:
            tree.hold()
            return tree.go_on(start, retry=retry, driver=driver_of(drive, tree.root, start))

        runner = Runner(
            tree,
            None,
            CompositeObserver(*each),
            prompter,
            mode=drive.mode or Mode.MANUAL,
            wall=drive.wall,
            idle=drive.idle,
            max_output_bytes=drive.max_output_bytes,
            limits=drive.limits,
            kill=drive.kill,
            by=_person(store) if prompter else NO_ONE,
            patience=config.patience if drive.patience is None else drive.patience,
            before_launch=before_launch,
            choose=agents.of,
        )
        return runner.drive(first)


def _less(option: str, mode: str) -> bool:
    return ISOLATION.index(option) < ISOLATION.index(mode)


def _closed(
    tree: SessionTree, status: SessionStatus, observer: Observer, isolation: str
) -> DriveResult:
    """The result for a session that is not driven on; hooks of git have no less isolation than
    before."""
    known = tree.look().config.isolation.mode
    snapshot = tree.close("" if not isolation or _less(isolation, known) else isolation)
    for notice in snapshot.notices:
        observer.on_notice(notice)
    return DriveResult(snapshot, status.value)


def as_started(drive: DriveOptions, store: DiskStore, request: RunRequest) -> DriveOptions:
    """With the agent and the isolation that `start` was given, if this is its session and no
    others are named."""
    if drive.agent and drive.isolation:
        return drive
    with suppress(StateError):  # `creation.begin` tells of it
        if pending := creation.pending_session(store, request):
            kept = store.manifest(pending).driver
            agent = registry.with_absolute_path(kept.agent, store.checkout.root)
            isolated = drive.isolation or kept.isolation
            return replace(drive, agent=drive.agent or agent, isolation=isolated)
    return drive


def _as_before(drive: DriveOptions, known: Driver, root: Path) -> DriveOptions:
    return replace(
        drive,
        agent=drive.agent or registry.with_absolute_path(known.agent, root),
        mode=drive.mode or known.mode,
        wall=known.wall if drive.wall is None else drive.wall,
        idle=known.idle if drive.idle is None else drive.idle,
        isolation=drive.isolation or known.isolation,
        limits=budget.merged(drive.limits, known.limits),
    )


def _told_settings(
    tree: SessionTree,
    observer: Observer,
    confirm: Callable[[str], bool] | None = None,
    *,
    accept: bool = False,
) -> Config:
    store, session_id = tree.store, tree.id
    driver_lock.require_no_runner(tree.private)
    pinned, missed = settings_in_force.pin_missing(store, session_id)
    if missed:
        observer.on_notice(missed)
    told, shown = settings_in_force.difference(tree.root, pinned)
    if told and not accept and confirm is not None:
        accept = confirm(f"{told}. Use them from now on?")
    if told and accept:
        locate.require_human(store, session_id, "resume --accept-config")
        settings_in_force.accept(store, session_id, _person(store), shown)
        observer.on_notice(f"{told}; accepted")
        return tree.config
    if told:
        observer.on_notice(settings_in_force.kept(told, session_id))
    return tree.config


def driver_of(drive: DriveOptions, root: Path, start: str = "") -> Driver:
    """The options of a bare `resume`, saved when the session is created."""
    return Driver(
        agent=registry.with_portable_path(drive.agent, root),
        mode=drive.mode or Mode.MANUAL,
        start=start,
        wall=drive.wall,
        idle=drive.idle,
        isolation=drive.isolation,
        limits=budget.to_session(drive.limits),
    )


def _let_go(snapshot: Snapshot) -> Snapshot:
    snapshot = locate.with_store_notices(snapshot)
    now = snapshot.store.standing(snapshot.session_id)
    if not now.instead:
        return snapshot
    left = f"session {snapshot.session_id} is on branch {first_line(now.branch)}; this branch is "
    return replace(snapshot, notices=(*snapshot.notices, f"{left}left as it is"))


def _require_no_other(store: DiskStore, session_id: str) -> None:
    """StateError PB-STATE-OPEN: a checkout drives at most one open session of a branch."""
    here = selection.open_here(store)
    if here and store.drives(here[0]) and session_id not in here:
        raise creation.another_is_open(store, here[0])


def _person(store: DiskStore) -> Principal:
    return principal.local(store.checkout.root)
