"""session.yaml ↔ `Manifest`: the playbook, the feature, and how far the session is.

`status`, `current_step`, `gate`, `failures` and `waived` repeat what the journal says, for people
and listings. kai's keys are always present, with an empty value if there is none, as in its files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from playbook_supervisor.errors import StateError
from playbook_supervisor.formats.fields import Fields, UnfitError
from playbook_supervisor.formats.sanitize import counted
from playbook_supervisor.formats.strict_yaml import load_of_session
from playbook_supervisor.formats.timestamps import from_time, to_time
from playbook_supervisor.formats.versions import NEWEST, current
from playbook_supervisor.formats.yaml_writer import Block, pair
from playbook_supervisor.kernel.vocabulary import Mode, SessionStatus
from playbook_supervisor.records import Record, as_mapping, field, valued
from playbook_supervisor.system.disk.files import ensure_folder, reserve_folder

SCHEMA = NEWEST["session.yaml"]

LIMITS = ("max_turns", "max_tool_calls", "max_cost_usd", "max_tokens")  # of an agent's budget
SESSION_ID = re.compile(r"[0-9]{8}-[a-z0-9]{3}\Z")
"""`20260219-a7k`: the UTC date and three of [a-z0-9]. Ids become paths: match them whole."""

_ATTEMPT = r"[^/\s]+#[1-9][0-9]*"


class Waiting(Record):
    """The open gate. `opened_at` in ms since the epoch."""

    id: str
    reason: str
    question: str
    opened_at: int


class Driver(Record):
    """The driver of a session, which a bare `resume` uses on any machine. `agent` is a value of
    `--agent`, empty for the default one, `limits` are the agent's budget, `wall` and `idle`
    deadlines in seconds. `start` is where to begin, until the session begins (`--from`).
    `isolation` is a value of `--isolation`, empty for the settings' own."""

    agent: str = ""
    mode: Mode = Mode.MANUAL
    start: str = ""
    wall: float | None = None
    idle: float | None = None
    isolation: str = ""
    limits: Mapping[str, float] = field(default_factory=dict)

    @property
    def as_mapping(self) -> dict[str, str | float]:
        words = {"agent": self.agent, "mode": self.mode, "from": self.start}
        times = {"timeout": self.wall, "idle_timeout": self.idle}
        known = {**words, "isolation": self.isolation, **times, **self.limits}
        return {key: value for key, value in known.items() if value not in ("", None)}

    @property
    def summary(self) -> str:
        """`agent claude, mode manual, timeout 600.0`."""
        return ", ".join(f"{key} {value}" for key, value in self.as_mapping.items())


NO_DRIVER = Driver()


class Inherited(Record):
    parent: str = ""  # the attempt that a child session works for
    settings: bytes | None = None


NOTHING_INHERITED = Inherited()


class Confirmation(Record):
    """A person accepted what no record of ours proves. `at` in ms since the epoch."""

    at: int
    by: str
    what: str


class Manifest(Record):
    """One session (kai data model, Session). Times in ms since the epoch. `worktree` is relative to
    the main checkout and empty there; `branch` is empty in sessions of kai's own tools (`legacy`).
    `began_on` is the checkout that began the session (`Checkout.identity`), empty for those and for
    earlier versions. Of a completed session, `failures` counts the steps that failed although the
    run went on, `waived` names the conditions, triggers and error codes that were waived. `parent`
    is the attempt that a child session works for: `20260219-a7k/release#1`. `isolation` is that of
    the last attempt that ran programs."""

    session_id: str
    playbook: str
    feature: str
    args: Mapping[str, str]
    status: SessionStatus
    started_at: int
    completed_at: int | None = None
    current_step: str = ""
    worktree: str = ""
    branch: str = ""
    driver: Driver = NO_DRIVER
    gate: Waiting | None = None
    legacy: bool = False
    began_on: str = ""
    confirmed: tuple[Confirmation, ...] = ()
    failures: int = 0
    waived: tuple[str, ...] = ()
    parent: str = ""
    isolation: str = ""

    @property
    def parent_session(self) -> str:
        """The session that this child belongs to; empty for a session that a person began."""
        return self.parent.partition("/")[0]

    @property
    def ending(self) -> str:
        """The status, with what a completed session went on after: `completed with 1 waiver`."""
        exceptions = (counted(self.failures, "failure"), counted(len(self.waived), "waiver"))
        happened = " and ".join(each for each in exceptions if not each.startswith("0 "))
        return f"{self.status} with {happened}" if happened else self.status.value

    @property
    def subject(self) -> str:
        """Its feature, or its arguments if none is a feature, which then only names the branch."""
        if self.feature and (not self.args or "feature" in self.args):
            return self.feature
        return ", ".join(f"{name}={value}" for name, value in self.args.items() if value)


def manifest_mapping(manifest: Manifest) -> dict[str, object]:
    """The keys of session.yaml in order; those after `branch` only if there is something to say."""
    completed_at, gate = manifest.completed_at, manifest.gate
    driver = manifest.driver.as_mapping if manifest.driver != NO_DRIVER else None
    mapping: dict[str, object] = {
        "schema": SCHEMA,
        "session_id": manifest.session_id,
        "playbook": manifest.playbook,
        "feature": manifest.feature,
        "args": dict(manifest.args),
        "status": manifest.status,
        "started_at": to_time(manifest.started_at),
        "completed_at": "" if completed_at is None else to_time(completed_at),
        "current_step": manifest.current_step,
        "worktree": manifest.worktree,
        "branch": manifest.branch,
        **valued(driver=driver, parent=manifest.parent, began_on=manifest.began_on),
        **valued(confirmed=[as_mapping(e) | {"at": to_time(e.at)} for e in manifest.confirmed]),
        **valued(isolation=manifest.isolation),
        **exceptions(manifest),
    }
    if manifest.legacy:
        del mapping["schema"]
    if gate is not None:
        mapping["gate"] = Block(as_mapping(gate) | {"opened_at": to_time(gate.opened_at)})
    return mapping


def exceptions(manifest: Manifest) -> dict[str, object]:
    """`failures` and `waived` of a completed session, as far as there are any."""
    return valued(failures=manifest.failures or None, waived=list(manifest.waived))


def emit_manifest(manifest: Manifest) -> bytes:
    """The text of a new session.yaml."""
    return "".join(pair(k, v, 0) for k, v in manifest_mapping(manifest).items()).encode()


def update_manifest(data: bytes, old: Manifest, new: Manifest) -> bytes:
    """Change `data`, which says `old`, to say `new`; a person's comments and layout are kept."""
    if data == emit_manifest(old):
        return emit_manifest(new)
    from playbook_supervisor.formats.yaml_edit import edit_mapping

    return edit_mapping(data, manifest_mapping(old), manifest_mapping(new))


def read_manifest(data: bytes, source: str) -> Manifest:
    """A session.yaml, ours or one of kai's own tools (no `schema`, empty strings, no `branch`).
    StateError `PB-STATE-CORRUPT` or `PB-STATE-NEWER`, with its place."""
    document = load_of_session(data, source)
    try:
        if not isinstance(document.data, dict):
            raise UnfitError("session_id", "is missing")  # noqa: TRY301 - one way to say it
        number = Fields(document.data).maybe_integer("schema", least=1) or 1
        of_today = current("session.yaml", number, document.data, source, document)
        return _read(Fields(of_today), legacy="schema" not in document.data)
    except UnfitError as unfit:
        raise document.corrupt((unfit.key,), str(unfit)) from None


def _read(fields: Fields, *, legacy: bool) -> Manifest:
    session_id = fields.required("session_id")
    if not SESSION_ID.match(session_id):
        raise UnfitError("session_id", "must be a date and three of [a-z0-9], as in 20260219-a7k")
    return Manifest(
        session_id=session_id,
        playbook=fields.required("playbook"),
        feature=fields.text("feature"),
        args=fields.strings("args"),
        status=fields.word("status", SessionStatus),
        started_at=fields.time("started_at"),
        completed_at=fields.maybe_time("completed_at"),
        current_step=fields.text("current_step"),
        worktree=fields.text("worktree"),
        branch=fields.text("branch"),
        driver=_read_driver(fields),
        gate=_read_gate(fields),
        legacy=legacy,
        began_on=fields.text("began_on"),
        confirmed=_read_confirmations(fields),
        failures=fields.maybe_integer("failures") or 0,
        waived=fields.texts("waived"),
        parent=_read_parent(fields),
        isolation=fields.text("isolation"),
    )


def _read_parent(fields: Fields) -> str:
    parent = fields.text("parent")
    session, _, attempt = parent.partition("/")
    if parent and not (SESSION_ID.match(session) and re.fullmatch(_ATTEMPT, attempt)):
        raise UnfitError("parent", "must be an attempt of a session: 20260219-a7k/release#1")
    return parent


def _read_confirmations(fields: Fields) -> tuple[Confirmation, ...]:
    try:
        return tuple(
            Confirmation(each.time("at"), each.text("by"), each.required("what"))
            for each in fields.each("confirmed")
        )
    except UnfitError as unfit:
        raise UnfitError("confirmed", f"in it, {unfit}") from None


def _read_driver(fields: Fields) -> Driver:
    driver = Fields(fields.mapping("driver"))
    try:
        limits = {name: driver.maybe_decimal(name) for name in LIMITS}
        return Driver(
            agent=driver.text("agent"),
            mode=driver.maybe_word("mode", Mode) or Mode.MANUAL,
            start=driver.text("from"),
            wall=driver.maybe_decimal("timeout"),
            idle=driver.maybe_decimal("idle_timeout"),
            isolation=driver.text("isolation"),
            limits={name: limit for name, limit in limits.items() if limit is not None},
        )
    except UnfitError as unfit:
        raise UnfitError("driver", f"in it, {unfit}") from None


def _read_gate(fields: Fields) -> Waiting | None:
    mapping = fields.mapping("gate")
    if not mapping:
        return None
    gate = Fields(mapping)
    try:
        name, reason = gate.required("id"), gate.required("reason")
        return Waiting(name, reason, gate.text("question"), gate.time("opened_at"))
    except UnfitError as unfit:
        raise UnfitError("gate", f"in it, {unfit}") from None


def manifest_to_json(manifest: Manifest) -> dict[str, Any]:
    """The manifest for the runtime state."""
    gate = manifest.gate
    driver = as_mapping(manifest.driver) | {"limits": dict(manifest.driver.limits)}
    return as_mapping(manifest) | {
        "args": dict(manifest.args),
        "driver": driver,
        "gate": gate and as_mapping(gate),
        "confirmed": [as_mapping(each) for each in manifest.confirmed],
        "waived": list(manifest.waived),
    }


def manifest_from_json(data: dict[str, Any]) -> Manifest:
    """The inverse of `manifest_to_json`."""
    known = data.get("driver", {})  # sessions of 1.0 have none
    made = {
        "status": SessionStatus(data["status"]),
        "driver": Driver(**{**known, "mode": Mode(known.get("mode", Mode.MANUAL))}),
        "gate": Waiting(**data["gate"]) if data["gate"] else None,
        "confirmed": tuple(Confirmation(**each) for each in data.get("confirmed", ())),
        "waived": tuple(data.get("waived", ())),
    }
    return Manifest(**data | made)


# ── ids ───────────────────────────────────────────────────────────────────────────────────────────

REF = "refs/playbook/sessions/{id}"  # of a session's snapshots at a remote
FALLBACK_REF = "refs/heads/playbook-sessions/{id}"  # if the forge refuses the namespace of `REF`
REF_FOLDERS = (REF.removesuffix("{id}"), FALLBACK_REF.removesuffix("{id}"))

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_LISTED = "`playbook status --all` lists the sessions."


def reserve_id(ids: Path, now: int, taken: Callable[[str], bool]) -> str:
    """An id that no worktree of the repository has; mkdir in `ids` decides collisions. `now` in
    ms."""
    day = to_time(now)[:10].replace("-", "")
    ensure_folder(ids)
    while True:
        tail = "".join(_LETTERS[byte % len(_LETTERS)] for byte in os.urandom(3))
        session_id = f"{day}-{tail}"
        if reserve_folder(ids / session_id) and not taken(session_id):
            return session_id


def ids_in(folder: Path) -> list[str]:
    """The ids that have an entry in the folder, oldest first."""
    try:
        return sorted(path.name for path in folder.iterdir() if SESSION_ID.match(path.name))
    except (FileNotFoundError, NotADirectoryError):
        return []


def valid_id(session_id: str) -> str:
    """The id. StateError PB-STATE-NO-SESSION if it is none; ids become paths."""
    if not SESSION_ID.match(session_id):
        what = "neither a session id, such as 20260219-a7k, nor a part of one"
        message = f"{session_id[:40]!r} is {what}"
        raise StateError("PB-STATE-NO-SESSION", message, guidance=_LISTED)
    return session_id


def unknown_session(session_id: str) -> StateError:
    """The error for a session that is not here."""
    message = f"there is no session {session_id} here"
    return StateError("PB-STATE-NO-SESSION", message, guidance=_LISTED)


def earliest_beginning(session_id: str) -> int:
    """A time before every commit of the session, in seconds: two days before the date of its id."""
    day = from_time(f"{session_id[:4]}-{session_id[4:6]}-{session_id[6:8]}T00:00:00Z")
    return max(0, (day or 0) // 1000 - 2 * 86_400)
