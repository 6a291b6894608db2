"""Making checks of the project by hand, so that the next step and the next gate know the result."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.commands.overview import settings_of
from playbook_supervisor.drivers import driver_lock, own_agents
from playbook_supervisor.errors import ArgumentError, PlaybookError, StateError
from playbook_supervisor.project.proofs import proving
from playbook_supervisor.project.settings import checks, session_settings
from playbook_supervisor.project.settings.checks import Checking, Proof
from playbook_supervisor.project.settings.config import CheckSpec, Config
from playbook_supervisor.records import as_mapping, replace
from playbook_supervisor.sessions.engine import proofs
from playbook_supervisor.sessions.engine.proofs import SessionProofs
from playbook_supervisor.sessions.files import integrity
from playbook_supervisor.sessions.steps.attempt_log import secret_values
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.selection import open_here
from playbook_supervisor.system.disk.files import digest, read_bytes
from playbook_supervisor.system.git.checkout import NOW, Pinned

BY_HAND = "prove"
"""The attempt of a proof that no step has asked for."""
_LAST_LINES = 15
_UNDEFINED = "PB-CHECK-UNDEFINED"


@dataclass(frozen=True, slots=True)
class Proved:
    """A check that was asked for: its proof, or the problem that kept it from being made.

    `before` says that the proof was made earlier, for this very tree. `lines` are the last that the
    check printed.
    """

    check: str
    proof: Proof | None = None
    before: bool = False
    problem: str = ""
    lines: tuple[str, ...] = ()

    @property
    def held(self) -> bool:
        return self.proof is not None and self.proof.status == 0

    @property
    def evidence(self) -> str:
        """In one line."""
        if self.proof is None:
            return self.problem
        earlier = f", proved before, by {self.proof.by}" if self.before else ""
        return f"{self.proof.evidence}{earlier}"


def prove(
    names: Sequence[str] = (),
    *,
    session: str = "",
    cwd: Path | None = None,
    on_start: Callable[[str], None] = lambda _: None,
) -> tuple[tuple[Proved, ...], str]:
    """Make the named checks, or all that the settings define, and keep what they prove.

    The proofs are kept for the open session of this worktree, or for the named one. The text says
    why they are not kept; it is empty if they are. ArgumentError PB-CHECK-UNDEFINED for a name that
    is no check, before any is made. Below an agent only the checks of the open session can be made,
    and what they prove is not kept: an agent can choose the environment in which they run.
    """
    store, session_id = _meant(session, cwd)
    settings = settings_of(store, session_id)
    agent = _agent_above(store)
    _admit(agent, store, session_id, "prove")
    named = [_found(name, settings, agent=agent) for name in names or settings.checks]
    if not named:
        raise ArgumentError(_UNDEFINED, "the settings define no checks")
    kept = _Kept(store, session_id, writes=not agent) if session_id else None
    made = tuple(_proved(spec, store, settings, kept, on_start) for spec in named)
    return made, f"not kept, because {agent}" if agent else ""


def by_hand(
    names: Sequence[str],
    store: DiskStore,
    session_id: str,
    settings: Config,
    on_start: Callable[[str], None] = lambda _: None,
) -> Checking:
    """The way `probe` runs these checks. Errors as `prove`: an agent is allowed no more here."""
    agent = _agent_above(store) if names else ""
    _admit(agent, store, session_id, "probe")
    for name in names:
        _found(name, settings, agent=agent)
    kept = _Kept(store, session_id, writes=not agent) if session_id else None
    return _room(kept, on_start)


def _admit(agent: str, store: DiskStore, session_id: str, command: str) -> None:
    if not agent:
        return
    if not session_id:
        raise StateError(
            "PB-STATE-HUMAN-ONLY",
            f"without a session only a human may run `playbook {command}`, but {agent}",
        )
    folder, runtime = store.folder(session_id), store.journal(session_id).runtime
    try:
        pinned = digest(read_bytes(folder / session_settings.FILE))
    except FileNotFoundError:
        pinned = ""
    if runtime is None or not runtime.ours(session_settings.FILE, pinned):
        source = integrity.shown(folder, session_settings.FILE)
        raise integrity.tampered("the settings of the session were changed", source)


def _meant(session: str, cwd: Path | None) -> tuple[DiskStore, str]:
    if session or locate.named_by_environment():
        return locate.select(session, cwd)
    store = locate.store(cwd)
    return store, next(iter(open_here(store)), "")


def _agent_above(store: DiskStore) -> str:
    if found := own_agents.above(store.checkout):
        return found
    return "a shell of Claude Code runs it" if locate.in_claude_code() else ""


def _found(name: str, settings: Config, *, agent: str) -> CheckSpec:
    if agent and name not in settings.checks:
        known = ", ".join(settings.checks) or "none"
        raise ArgumentError(
            _UNDEFINED,
            f"an agent can make only the checks that its session's settings define ({known})",
        )
    return checks.find_check(name, settings)


def _proved(
    spec: CheckSpec,
    store: DiskStore,
    settings: Config,
    kept: _Kept | None,
    on_start: Callable[[str], None],
) -> Proved:
    last: deque[str] = deque(maxlen=_LAST_LINES)
    room = replace(_room(kept, on_start), say=last.append)
    try:
        root, pinned = store.checkout.root, kept.pinned if kept else NOW
        proof, before = proving.prove(spec, root, settings, room, pinned=pinned)
    except PlaybookError as error:
        return Proved(spec.name, problem=error.message, lines=tuple(last))
    return Proved(spec.name, proof, before, lines=tuple(last))


def _room(kept: _Kept | None, on_start: Callable[[str], None]) -> Checking:
    leash = None if kept is None else kept.private / f"worker-{BY_HAND}-{os.getpid()}"

    def shown(check: str) -> AbstractContextManager[Callable[[str], None]]:
        on_start(check)
        return nullcontext(lambda _: None)

    secrets = secret_values(os.environ)
    return Checking(proofs=kept, by=BY_HAND, watch=shown, worker_file=leash, secrets=secrets)


@dataclass(frozen=True, slots=True)
class _Kept:
    store: DiskStore
    session_id: str
    writes: bool

    @property
    def private(self) -> Path:
        return self.store.runtime(self.session_id)

    @property
    def pinned(self) -> Pinned:
        runtime = self.store.journal(self.session_id).runtime
        return runtime.pinned if runtime else NOW

    def lookup(self, key: str, tree: str) -> Proof | None:
        runtime = self.store.journal(self.session_id).runtime
        return proofs.find(runtime, key, tree) if runtime else None

    def keep(self, proof: Proof) -> None:
        """Keep it, or hand it to the runner: that believes only what it wrote itself."""
        if not self.writes:
            return
        if driver_lock.living(self.private) is None:
            SessionProofs(self.store, self.session_id).keep(proof)
            return
        with suppress(PlaybookError):  # it may be ending; the proof is then made again
            request = driver_lock.Request("proof", json.dumps(as_mapping(proof)), BY_HAND)
            driver_lock.hand_over(self.private, request)
