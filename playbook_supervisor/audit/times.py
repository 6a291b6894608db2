"""Times and figures: time only goes forward, and nothing is recorded before it happens."""

from __future__ import annotations

from collections.abc import Iterator

from playbook_supervisor.audit.context import SKEW, AuditContext, found
from playbook_supervisor.audit.lenient_session import LooseEntry, LooseSession
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.timestamps import to_time
from playbook_supervisor.kernel.directives import impossible_figures
from playbook_supervisor.kernel.vocabulary import EntryStatus, Place

_ORDER = ("started_at", "launched_at", "returned_at", "completed_at")


def check(context: AuditContext) -> Iterator[Problem]:
    """Impossible times and figures."""
    for entry in context.journal.entries:
        yield from _completion(context, entry)
        backwards = _backwards(entry)
        if backwards is None:
            yield from _duration(context, entry)
            yield from _figures(entry)
        else:
            yield backwards
        yield from _too_early(context, entry)
        yield from _too_late(context, entry)
    if context.session is not None:
        yield from _session(context, context.session)


def _completion(context: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    key = "completed_at"
    if entry.status is EntryStatus.IN_PROGRESS:
        if entry.completed_at is not None or entry.seconds:
            key = "duration_seconds" if entry.completed_at is None else key
            message = f"{entry.name} is in progress, but has an end"
            yield found("AUD-COMPLETION", message, entry, key)
        return
    missing = entry.completed_at is None and key not in entry.unclear
    # kai's own tools write none for a skipped step
    wanted = entry.settled and (context.journal.ours or entry.status is not EntryStatus.SKIPPED)
    if missing and wanted:
        yield found("AUD-COMPLETION", f"{entry.name} is settled, but has no end", entry, "status")


def _duration(context: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    start, end, seconds = entry.started_at, entry.completed_at, entry.seconds
    if start is None or end is None or seconds is None:
        return
    lasted = (end - start) / 1000
    if seconds >= 0 and abs(lasted - seconds) > context.tolerance / 1000:
        message = f"{entry.name} took {lasted:g} s by its times, but states {seconds:g} s"
        yield found("AUD-DURATION", message, entry, "duration_seconds")


def _figures(entry: LooseEntry) -> Iterator[Problem]:
    """Impossible figures; those of an entry with reversed times are already reported."""
    if not 0 <= (entry.seconds or 0) < float("inf"):
        message = f"{entry.name} states a duration of {entry.seconds:g} s"
        yield found("AUD-NEGATIVE", message, entry, "duration_seconds")
    for key in impossible_figures(entry.agent):
        used = entry.agent[key]
        message = f"{entry.name} states `{first_line(key, 40)}: {first_line(str(used), 40)}`"
        yield found("AUD-NEGATIVE", message, entry, "agent", key)


def _backwards(entry: LooseEntry) -> Problem | None:
    pairs = ((_ORDER[i], later) for number, later in enumerate(_ORDER) for i in range(number))
    for earlier, later in pairs:
        before, after = getattr(entry, earlier), getattr(entry, later)
        if before is not None and after is not None and after < before:
            message = f"{entry.name}: `{later}` is before `{earlier}`"
            return found("AUD-BACKWARDS", message, entry, later)
    latest = entry.started_at
    for gate in entry.gates:
        end = entry.completed_at
        if gate.place is Place.BEFORE and entry.launched_at is not None:
            end = entry.launched_at
        elif gate.place is Place.DURING:
            latest = max(latest or 0, entry.launched_at or 0)
            end = end if entry.returned_at is None else entry.returned_at
        elif gate.place is Place.AFTER and entry.returned_at is not None:
            latest = max(latest or 0, entry.returned_at)
        for key in ("opened_at", "answered_at"):
            ms = getattr(gate, key)
            if ms is None:
                continue
            if (latest is not None and ms < latest) or (end is not None and ms > end):
                message = f"{entry.name}: `{key}` of its gate does not fit the times around it"
                return found("AUD-BACKWARDS", message, gate, key)
            latest = ms
    return None


def _too_early(context: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    began = context.session.started_at if context.session else None
    start = entry.started_at
    if began is not None and start is not None and start < began - SKEW:
        message = f"{entry.name} began at {to_time(start)}, the session at {to_time(began)}"
        yield found("AUD-EARLY", message, entry, "started_at")


def _too_late(context: AuditContext, entry: LooseEntry) -> Iterator[Problem]:
    for keys, ms in entry.times:
        if ms > context.now + SKEW:
            message = f"{entry.name} states {to_time(ms)}, which is in the future"
            yield found("AUD-FUTURE", message, entry, *keys)
            return
        line = context.journal.document.position((*entry.path, *keys))[0]
        committed = context.files.committed[line - 1] if line <= len(context.files.committed) else 0
        if committed and ms > committed + SKEW:
            message = (
                f"{entry.name} states {to_time(ms)}, but its commit is of {to_time(committed)}"
            )
            yield found("AUD-COMMITTED", message, entry, *keys)
            return


def _session(context: AuditContext, session: LooseSession) -> Iterator[Problem]:
    start, end = session.started_at, session.completed_at
    for key, ms in (("started_at", start), ("completed_at", end)):
        if ms is not None and ms > context.now + SKEW:
            message = f"`{key}` is {to_time(ms)}, which is in the future"
            yield found("AUD-FUTURE", message, session, key)
    if end is None:
        if session.ours and session.ended and not session.unclear:
            message = "the session ended, but has no `completed_at`"
            yield found("AUD-COMPLETION", message, session, "status")
        return
    if start is not None and end < start:
        message = f"the session ended at {to_time(end)}, but began at {to_time(start)}"
        yield found("AUD-BACKWARDS", message, session, "completed_at")
    elif session.ended:
        for entry in context.journal.entries:
            keys, latest = max(entry.times, key=lambda each: each[1], default=((), end))
            if latest > end + context.tolerance:
                message = f"{entry.name} states {to_time(latest)}, but the session ended at "
                yield found("AUD-AFTER-END", message + to_time(end), entry, *keys)
    elif session.status is not None:
        message = f"the session is {session.status}, but has an end"
        yield found("AUD-COMPLETION", message, session, "completed_at")
