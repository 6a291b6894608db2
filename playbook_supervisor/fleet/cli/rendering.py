"""The fleet as text and as JSON: those sessions first that wait for a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from playbook_supervisor.cli.render import text
from playbook_supervisor.cli.render.text import Line
from playbook_supervisor.fleet.commands.overview import FleetOverview, FleetSession, Wait
from playbook_supervisor.fleet.storage.rows import ENDED, Row, State
from playbook_supervisor.formats.sanitize import counted, first_line
from playbook_supervisor.formats.timestamps import duration, to_time
from playbook_supervisor.formats.versions import PROTOCOL
from playbook_supervisor.records import valued

Json = dict[str, Any]


_NAMED = 3  # recent failures that are named
_TONES: dict[State, Literal["waits", "works"]] = {State.WAITING: "waits", State.RUNNING: "works"}
_COUNTED = {
    State.WAITING: "waiting for you",
    State.STUCK: "stuck",
    State.RUNNING: "running",
    State.QUEUED: "queued",
}


def lines(seen: FleetOverview) -> Iterator[Line]:
    """All sessions and the recent ends."""
    for each in seen.sessions:
        yield from _session(each, seen.now)
    if not seen.sessions:
        yield Line("No session of the fleet is open.", "dim")
    if seen.ended:
        yield Line(_recent(seen), "dim")


def counts(seen: FleetOverview) -> str:
    """`2 waiting for you, 1 stuck, 12 running, 40 queued`; empty if there are none."""
    numbers = ((seen.count(state), words) for state, words in _COUNTED.items())
    return ", ".join(f"{number} {words}" for number, words in numbers if number)


def session_line(each: FleetSession) -> str:
    """The state of one session, in words that change only if something has happened."""
    row = each.row
    name = " ".join(filter(None, (row.id, first_line(row.playbook), _subject(row))))
    match row.state:
        case State.WAITING:
            stands = f"{first_line(row.gate)} WAITS FOR A HUMAN: {answer_command(row)}"
        case State.STUCK:
            stands = f"STUCK: {_error(row)}"
        case State.RUNNING:
            stands = f"running on {first_line(row.worker)}"
        case State.QUEUED if row.error:
            stands = f"queued again: {_error(row)}"
        case _:
            stands = row.state.value
    ends = ", to be cancelled" if row.cancel and row.state not in ENDED else ""
    return f"{name}: {stands}{ends}"


def answer_command(row: Row) -> str:
    """`playbook answer 20260219-a7k continue (or skip or abort)`."""
    first, *others = row.choices or ("…",)
    if first == "answer":  # a question of the agent
        first, others = '"…"', ["abort"]
    ways = f" (or {text.joined(others)})" if len(others) > 1 else ""
    ways = ways or (f" (or {others[0]})" if others else "")
    return f"playbook answer {row.id} {first}{ways}"


def _session(each: FleetSession, now: int) -> Iterator[Line]:
    row = each.row
    words = (row.id, row.playbook, _subject(row), _state(each, now))
    shown = "  ".join(first_line(word) for word in words if word)
    place = f"  {_repository(row)}"
    waits = row.state is State.WAITING
    yield Line(shown + place, _TONES.get(row.state, "plain"), waits)
    if waits:
        if row.said:
            yield Line(f"  {first_line(row.said, 400)}", whole=True)
        yield Line(f"  {answer_command(row)}", whole=True)
    elif row.state is State.STUCK:
        yield Line(f"  {_error(row)}", whole=True)
        if each.cure:
            yield Line(f"  do: {first_line(each.cure, 400)}", whole=True)
        if f"retry {row.id}" not in each.cure:
            yield Line(f"  then: playbook fleet retry {row.id}")
    elif row.state is State.QUEUED and row.error:
        tried = f"tried {counted(row.failures, 'time')}, last: " if row.failures else ""
        yield Line(f"  {tried}{_error(row)}", "dim")
    elif row.state is State.FAILED:
        yield Line(f"  playbook fleet retry {row.id}", "dim")


def _subject(row: Row) -> str:
    return first_line(row.feature or row.branch)


def _state(each: FleetSession, now: int) -> str:
    row, lasted = each.row, _lasted(each, now)
    match row.state:
        case State.WAITING:
            begun = [f"WAITS FOR A HUMAN at {text.path(first_line(row.gate))}", f"for {lasted}"]
        case State.STUCK:
            begun = ["STUCK", f"for {lasted}"]
        case State.RUNNING:
            begun = [_begun(each, now), _lease(row, now)]
        case _:
            begun = [_begun(each, now)]
    return ", ".join([*begun, *_reasons(each, now)])


def standing(each: FleetSession, now: int) -> str:
    """The state of a session as a clause. `now` in ms by the database's clock."""
    return ", ".join([_begun(each, now), *_reasons(each, now)])


def _begun(each: FleetSession, now: int) -> str:
    row, lasted = each.row, _lasted(each, now)
    match row.state:
        case State.WAITING:
            return f"waits for {lasted}"
        case State.STUCK:
            return f"stuck for {lasted}"
        case State.RUNNING:
            return f"runs for {lasted} on {first_line(row.worker, 80)}"
        case State.QUEUED:
            return f"{_queued(row)} for {lasted}"
        case _:
            return f"{row.state}, {lasted} ago"


def _queued(row: Row) -> str:
    """What has lasted until now: a session that is to be cancelled may not have been queued."""
    if row.cancel and row.gate:
        return f"at gate {text.path(first_line(row.gate))}"
    if row.cancel and row.error:
        return "put off" if row.failures else "stuck"
    return "queued"


def _lasted(each: FleetSession, now: int) -> str:
    return duration(max(now - each.since, 0))


def _lease(row: Row, now: int) -> str:
    left = row.lease_until - now
    if left < 0:
        return f"its lease has lapsed {duration(-left)} ago"
    return f"its lease ends in {duration(left)}"


def _reasons(each: FleetSession, now: int) -> Iterator[str]:
    row = each.row
    if row.state is State.QUEUED:
        yield from _why_queued(each, now)
    if row.deaths and row.state in (State.QUEUED, State.RUNNING):
        by = f" by {first_line(row.worker, 80)}" if row.worker else ""
        alone = f": it is taken up alone{by}" if each.alone else ""
        yield f"its worker died {counted(row.deaths, 'time')} during its step{alone}"
    if row.cancel and row.state not in ENDED:
        who = f"{first_line(row.cancel_by, 60)} asked" if row.cancel_by else "asked"
        yield f"to be cancelled, as {who} {duration(max(now - row.changed_at, 0))} ago"


def _why_queued(each: FleetSession, now: int) -> Iterator[str]:
    row = each.row
    if row.gate and not row.cancel:
        yield f"answered at {text.path(first_line(row.gate))}, not taken up yet"
    if row.due_at:
        tried = f" after {counted(row.failures, 'failure')}" if row.failures else ""
        yield f"again in {duration(max(row.due_at - now, 0))}{tried}"
    if each.held:
        yield f"after {row.after}, which is {each.after or 'not there any more'}"
    if row.needs:
        yield f"needs a worker with playbook {first_line(row.needs, 40)}"
    if each.before:
        yield f"{each.before} before it"
    if each.full:
        yield f"pool {row.pool} has no room: `playbook fleet limits`"
    elif not (row.due_at or row.needs or each.held or each.before):
        yield f"waits for a worker of pool {row.pool}"
    elif row.pool != "default":
        yield f"pool {row.pool}"


def _error(row: Row) -> str:
    return f"{first_line(row.said, 400) or 'it failed on the worker'} [{first_line(row.error, 60)}]"


def _repository(row: Row) -> str:
    parts = first_line(row.repository).removesuffix(".git").replace(":", "/").split("/")
    return "/".join(part for part in parts[-2:] if part)


def _recent(seen: FleetOverview) -> str:
    parts = []
    for state in (State.COMPLETED, State.FAILED, State.ABORTED):
        ids = [row.id for row in seen.ended if row.state is state]
        if ids:
            names = f" ({', '.join(ids[:_NAMED])}{', …' if len(ids) > _NAMED else ''})"
            parts.append(f"{len(ids)} {state}{names if state is State.FAILED else ''}")
    return f"ended in the last 24 hours: {', '.join(parts)}"


# ── JSON ────────────────────────────────────────────────────────────────────────────────────


def overview_shape(seen: FleetOverview) -> Json:
    """`fleet status --json`."""
    return {
        "protocol": PROTOCOL,
        "database": seen.place,
        "counts": {state.value: seen.count(state) for state in _COUNTED},
        "sessions": [_shape(each, seen.now) for each in seen.sessions],
        "ended": [
            {"session": row.id, "state": row.state, "at": to_time(row.changed_at)}
            for row in seen.ended
        ],
    }


def _shape(each: FleetSession, now: int) -> Json:
    row = each.row
    shape: Json = {
        "session": row.id,
        "state": row.state,
        "since": to_time(each.since),
        "repository": row.repository,
        "branch": row.branch,
        "playbook": row.playbook,
        "feature": row.feature,
        "pool": row.pool,
        "priority": row.priority,
        "submitted_at": to_time(row.created_at),
    }
    waits, runs = row.state is State.WAITING, row.state is State.RUNNING
    error = {"code": row.error, "message": row.said, "guidance": each.cure}
    return shape | valued(
        submitted_by=row.submitted_by,
        gate={"id": row.gate, "choices": list(row.choices)} if waits else None,
        worker=row.worker if runs else None,
        lease_until=to_time(row.lease_until) if runs else None,
        before=each.before if row.state is State.QUEUED else None,
        due_at=to_time(row.due_at) if row.due_at else None,
        after=row.after,
        needs=row.needs,
        failures=row.failures or None,
        error=error if row.error else None,
        notice=None if row.error else row.said,
        cancel={"text": row.cancel, "by": row.cancel_by} if row.cancel else None,
        waits_for=_wait_shape(each.waits_for(now)),
    )


def _wait_shape(wait: Wait | None) -> Json | None:
    if wait is None:
        return None
    until = to_time(wait.until) if wait.until else None
    shape = {"kind": wait.kind, "since": to_time(wait.since)}
    return shape | valued(what=wait.what, until=until)
