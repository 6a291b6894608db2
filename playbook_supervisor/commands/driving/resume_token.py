"""`resume --token`: a decision by a program that was given a token, and what follows from it.

To approve is to answer `continue` at the gate, `allow` where an agent needs a permission, and to
resume; for a failed session it is `--retry`. To deny is to abort. A question takes words instead.
All go the ways of the commands that people use, with the same refusals.
"""

from __future__ import annotations

from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.commands.driving import driving
from playbook_supervisor.commands.driving.driving import DriveOptions
from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.drivers.claude_code import authorization
from playbook_supervisor.drivers.observers import DriveResult, Observer
from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.kernel.vocabulary import GateReason, Resolution, SessionStatus
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files import principal
from playbook_supervisor.sessions.gate import tokens
from playbook_supervisor.sessions.gate.tokens import Token
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.snapshot import Snapshot

_OVER = (SessionStatus.COMPLETED, SessionStatus.ABORTED)
_DENIED = "denied, by token"


def resume(
    token: str,
    *,
    approve: bool,
    cwd: Path | None = None,
    drive: DriveOptions | None = None,
    observer: Observer | None = None,
) -> DriveResult:
    """Approve or deny what the token stands for, and drive the session on.

    A refusal changes nothing. An error that comes after the decision has a `resume_token`.
    """
    store, session_id = _session(token, cwd)
    locate.require_human(store, session_id, "resume --token")
    private = store.runtime(session_id)
    if not private.is_dir():
        raise tokens.foreign()
    with tokens.in_use(private):
        snapshot = _decide(store, session_id, token, approve=approve)
        try:
            result = _carry_out(snapshot, cwd, drive, observer, approve=approve)
        except PlaybookError as error:
            _spend(private, token)
            error.session, error.resume_token = session_id, tokens.issue(private)
            raise
        _spend(private, token)
        return result


def _session(token: str, cwd: Path | None) -> tuple[DiskStore, str]:
    try:
        return locate.select(tokens.session_of(token), cwd)
    except StateError as error:
        if error.code != "PB-STATE-NO-SESSION":
            raise
        raise tokens.foreign() from error


def _decide(store: DiskStore, session_id: str, text: str, *, approve: bool) -> Snapshot:
    """Record the decision, with the token first: a request that dies here can be repeated."""
    private, tree = store.runtime(session_id), locate.tree(store, session_id)
    decision = "approve" if approve else "deny"
    with tokens.opened(private) as known:
        token = known.find(text)
        if token.decision not in ("", decision):
            raise tokens.used()
        driver_lock.require_no_runner(private)
        authorization.refuse_living_client(private)
        snapshot = tree.look()
        if not token.decision:
            _require_waiting(snapshot, token)
            if approve:
                _require_approvable(snapshot)
                tree.require_branch()
            known.put(replace(token, decision=decision))
    if approve and token.gate and _gate(snapshot) == token.gate:
        by = principal.local(store.checkout.root)
        try:
            word = _approval(snapshot)
            return tree.answer(token.gate, word, f"{word}, by token", by)
        except PlaybookError:
            with tokens.opened(private) as known:
                known.put(token)
            raise
    return snapshot


def _require_waiting(snapshot: Snapshot, token: Token) -> None:
    gate, status = _gate(snapshot), snapshot.manifest.status
    if token.gate and gate != token.gate:
        raise tokens.stale(f"the gate {token.gate} is no longer open")
    if gate and not token.gate:
        raise tokens.stale(f"the session waits at the gate {gate}")
    if status in _OVER:
        raise tokens.stale(f"the session is {status}")


def _require_approvable(snapshot: Snapshot) -> None:
    asked = snapshot.directive
    if isinstance(asked, Ask) and asked.reason is GateReason.QUESTION:
        raise StateError(
            "PB-STATE-REFUSED",
            f"{asked.id} is a question of the agent, which takes words",
            guidance="Answer it with `playbook answer`, or deny with this token.",
        )


def _approval(snapshot: Snapshot) -> Resolution:
    asked = snapshot.directive
    permits = isinstance(asked, Ask) and asked.reason is GateReason.PERMISSION
    return Resolution.ALLOW if permits else Resolution.CONTINUE


def _gate(snapshot: Snapshot) -> str:
    return snapshot.directive.id if isinstance(snapshot.directive, Ask) else ""


def _carry_out(
    snapshot: Snapshot,
    cwd: Path | None,
    drive: DriveOptions | None,
    observer: Observer | None,
    *,
    approve: bool,
) -> DriveResult:
    session_id, status = snapshot.session_id, snapshot.manifest.status
    if approve:
        retry = status is SessionStatus.FAILED
        return driving.resume(session_id, cwd=cwd, retry=retry, drive=drive, observer=observer)
    if status not in _OVER:
        snapshot = driving.abort(session_id, _DENIED, cwd=cwd)
    return DriveResult(snapshot, snapshot.manifest.status.value)


def _spend(private: Path, text: str) -> None:
    with tokens.opened(private) as known:
        known.put(replace(known.find(text), used=True))
