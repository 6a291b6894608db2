"""Sentences for logs, pipes and the model, without the control characters of other sources."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from playbook_supervisor.errors import guidance, with_session
from playbook_supervisor.formats.sanitize import first_line, one_line
from playbook_supervisor.formats.timestamps import duration as duration
from playbook_supervisor.formats.timestamps import to_time
from playbook_supervisor.kernel.directives import Ask, Finish
from playbook_supervisor.kernel.model import SLASH, Playbook, Reviewers, Step, base_of
from playbook_supervisor.kernel.state import Change, Entry, Event, last_entries
from playbook_supervisor.kernel.vocabulary import (
    Decision,
    EntryStatus,
    GateReason,
    Resolution,
    SessionStatus,
)
from playbook_supervisor.project.expressions.references import shown
from playbook_supervisor.records import Record
from playbook_supervisor.sessions.steps.step_runs import is_round, waited_ms
from playbook_supervisor.sessions.store.snapshot import Snapshot, arg_values

LineTone: TypeAlias = Literal["plain", "waits", "works", "dim"]

_LINE = 400
RECOVERED = "recovered: its files show that it had finished before its driver died"
_GUIDANCE = 2_000  # characters: it may hold a command to copy
NOTABLE = 100
"""Milliseconds; a shorter time at a gate is not shown."""
_LONG = 1000  # ms at a gate; a shorter time is not in a line of the log
_CENT = 0.01  # USD
_PULL_REQUEST = r"https?://[^\s\"'<>()]+/(?:pull|pulls|pull-requests|merge_requests)/[0-9]+"


class Line(Record):
    """A line of a board; a `whole` one is wrapped where others are cut."""

    text: str
    tone: LineTone = "plain"
    whole: bool = False


def stamp(ms: int) -> str:
    """`2026-02-19T10:20:26Z`."""
    return f"{to_time(ms)[:19]}Z"


def path(id_: str) -> str:
    """`release#1 → pr#1`: where an attempt or a gate of a child session stands."""
    return id_.replace("/", " → ")


def joined(words: Sequence[str]) -> str:
    """`continue, skip or abort`."""
    return f"{', '.join(words[:-1])} or {words[-1]}"


def item_of(entry: Entry) -> str:
    """The item with a blank before it; empty for any other attempt."""
    return f' "{first_line(entry.item, 60)}"' if entry.item else ""


# ── events and attempts ─────────────────────────────────────────────────────────────────────


def event_line(event: Event, snapshot: Snapshot, now: int) -> str:
    """The line of the log, or two if an answer settled the attempt.

    Empty if another line covers the event. `now`, in ms since the epoch, is used for events whose
    time the journal does not keep.
    """
    entry = event.entry
    match event.change:
        case Change.LAUNCHED:
            own = snapshot.of(event)
            command = _started(own, own.state.playbook.step(entry.step_id))
            return f"{stamp(entry.launched_at or entry.started_at)} {event.id} start {command}"
        case Change.ANSWERED:
            return _answered(event)
        case Change.TAKEN_UP:
            return f"{stamp(now)} {event.id} is retried"
        case Change.UNDONE:
            return f"{stamp(now)} {event.id} undone: {first_line(entry.undone, _LINE)}"
        case Change.RETURNED if entry.recovered:
            return f"{stamp(entry.latest)} {event.id} {RECOVERED}"
        case Change.DONE | Change.FAILED | Change.SKIPPED:
            line = f"{stamp(entry.latest)} {_settled(event)}"
            return f"{_answered(event)}\n{line}" if _by_answer(entry) else line
        case _:
            return ""


def _started(snapshot: Snapshot, step: Step) -> str:
    if step.namespace == SLASH:
        return step.command
    return first_line(shown(step.command, arg_values(snapshot, step)))


def _answered(event: Event) -> str:
    entry = event.entry
    gate = entry.gates[-1]
    by = f" by {first_line(gate.by)}" if gate.by else ""
    said = one_line(gate.text, 80) if gate.resolution is Resolution.ANSWER else gate.resolution
    return f"{stamp(entry.latest)} {event.id} answered {said}{by}"


def _by_answer(entry: Entry) -> bool:
    return bool(entry.gates) and entry.gates[-1].answered_at == entry.completed_at


def _settled(event: Event) -> str:
    entry = event.entry
    words = [event.id, "is not over yet" if is_round(entry) else entry.status.value]
    if entry.status is EntryStatus.SKIPPED:
        words += [] if entry.decision is Decision.SKIPPED else [entry.decision]
        cause = one_line(entry.human_response, _LINE) or "".join(entry.evidence[-1:])
    else:
        waited = waited_ms((entry,))
        worked = (entry.completed_at or entry.latest) - entry.started_at - waited
        words += [f"{worked / 1000:.1f}s", entry.decision]
        words += [f"({duration(waited)} at a gate)"] if waited >= _LONG else []
        # If an answer settled the attempt, its gate has shown the error.
        shows_error = entry.status is EntryStatus.FAILED and not _by_answer(entry)
        cause = entry.error if shows_error else ""
        if entry.waived and entry.status is EntryStatus.DONE and not entry.gates:
            cause = f"waived {', '.join(entry.waived)}: {entry.error}"
    line = first_line(cause, _LINE)
    back = f"; back to {entry.back_to}" if entry.back_to else ""
    return " ".join(words) + (f": {line}" if line else "") + back


# ── gates ───────────────────────────────────────────────────────────────────────────────────


def question(snapshot: Snapshot) -> str:
    """The question of the gate, on one line."""
    return first_line(snapshot.question, _LINE)


def choices_of(snapshot: Snapshot) -> str:
    """`continue, skip or abort`; for a question of the agent, how it is answered."""
    gate = asked(snapshot)
    if gate.reason is GateReason.QUESTION:
        return "the number of an option, words of your own, or abort"
    return joined(gate.words)


def pull_requests(entries: Iterable[Entry]) -> list[str]:
    """A line for each pull request that the steps have found or opened, with its whole address."""
    said = (
        line
        for entry in entries
        for line in (*entry.evidence, entry.output)
        if line is entry.output or line.startswith("pr_created")
    )
    found = (address for line in said for address in re.findall(_PULL_REQUEST, line))
    return [f"pull request: {address}" for address in dict.fromkeys(found)]


def asked(snapshot: Snapshot) -> Ask:
    """The open gate of a session that waits at one."""
    assert isinstance(snapshot.directive, Ask)  # noqa: S101 - callers checked it
    return snapshot.directive


def how_to_answer(snapshot: Snapshot, session: str = "") -> str:
    """The commands that answer the gate and continue."""
    first, *others = asked(snapshot).words
    name = f" {session}" if session else ""
    choices = f"{first} (or {joined(others)})"
    if asked(snapshot).reason is GateReason.QUESTION:
        choices = '"…" (the number of an option, or words of your own; or abort)'
    return f"answer: playbook answer{name} {choices}, then playbook resume{name}"


# ── the end ─────────────────────────────────────────────────────────────────────────────────


def summary(snapshot: Snapshot, entries: Sequence[Entry], why: str) -> str:
    """Steps, duration, time at gates, cost and tokens; if completed, also who is to review."""
    manifest = snapshot.manifest
    parts = [snapshot.progress]
    if entries:
        parts.append(duration(max(entry.latest for entry in entries) - manifest.started_at))
    waited = waited_ms(entries)
    if waited >= NOTABLE:
        parts.append(f"{duration(waited)} of it at gates")
    parts += [spent for spent in (cost(entries), tokens(entries)) if spent]
    subject = f" on {first_line(manifest.subject)}" if manifest.subject else ""
    ended = snapshot.manifest.ending if why == manifest.status else why
    said = f"{manifest.session_id} {manifest.playbook}{subject}: {ended}, {', '.join(parts)}"
    people = to_review(snapshot.state.playbook.reviewers)
    return f"{said}; {people}" if people and why == SessionStatus.COMPLETED else said


def to_review(named: Reviewers) -> str:
    """`to review: architect, @ann (optional)`; empty without reviewers."""
    people = reviewers(named)
    return f"to review: {people}" if people else ""


def reviewers(named: Reviewers) -> str:
    """`architect, @ann (optional)`."""
    people = [first_line(name, 60) for name in named.required]
    return ", ".join([*people, *(f"{first_line(name, 60)} (optional)" for name in named.optional)])


def cost(entries: Sequence[Entry]) -> str:
    """`1.32 USD`, as reported by the agents; empty if none reported a cost."""
    known = _reported(entries, "cost_usd")
    if not known:
        return ""
    usd = sum(known)
    return f"{usd:.4f} USD" if 0 < usd < _CENT else f"{usd:.2f} USD"


def tokens(entries: Sequence[Entry]) -> str:
    """`48.2k tokens in, 3.1k out`, as reported by the agents; empty if none did."""
    sent, received = _reported(entries, "input_tokens"), _reported(entries, "output_tokens")
    if not sent and not received:
        return ""
    return f"{_thousands(sum(sent))} tokens in, {_thousands(sum(received))} out"


def _reported(entries: Sequence[Entry], key: str) -> list[float]:
    values = [entry.agent.get(key) for entry in entries]
    return [number for number in values if isinstance(number, int | float)]


def _thousands(number: float) -> str:
    return f"{number:.0f}" if number < 1000 else f"{number / 1000:.1f}k"


_NEXT_COMMANDS = {
    "failed": "fix the cause, then: playbook resume {session} --retry",
    "interrupted": "continue: playbook resume {session}",
    "paused": "continue: playbook resume {session}",
}


def next_command(why: str, session: str = "") -> str:
    """The command after a drive that ended for that reason; empty if nothing is left to do."""
    return with_session(_NEXT_COMMANDS.get(why, ""), session)


def cures(entries: Sequence[Entry], playbook: Playbook | None, session: str = "") -> list[str]:
    """A line of guidance for each step that ended the session."""
    said = {
        entry.id: guidance(entry.error_code, session, entry.error_guidance)
        for entry in fatal(entries, playbook)
        if entry.error_guidance
    }
    return [f"{attempt}: {first_line(cure, _GUIDANCE)}" for attempt, cure in said.items()]


def fatal(entries: Sequence[Entry], playbook: Playbook | None) -> list[Entry]:
    """The last attempts that failed in the last phase: after earlier ones the run went on."""
    last = list(last_entries(entries).values())
    phase_of = playbook.phase_of if playbook is not None else {}
    return [
        entry
        for entry in last
        if entry.status is EntryStatus.FAILED
        and phase_of.get(base_of(entry.step_id)) == phase_of.get(base_of(last[-1].step_id))
    ]


def not_begun(entries: Sequence[Entry], playbook: Playbook | None) -> list[str]:
    """The steps without an attempt."""
    begun = {base_of(entry.step_id) for entry in entries}
    return [step.id for step in playbook.steps if step.id not in begun] if playbook else []


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows with aligned columns; the last column is not padded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def next_move(snapshot: Snapshot, session: str = "", *, driven: bool = False) -> str:
    """The next move of a session, and what to type unless a runner drives it."""
    done = f"{snapshot.progress} done"
    match snapshot.directive:
        case Ask():
            return f"it waits for a human: {question(snapshot)}\n{how_to_answer(snapshot, session)}"
        case Finish(status=status):
            command = next_command(status.value, session)
            return f"the session is {snapshot.manifest.ending}: {done}\n{command}".rstrip()
        case _ if driven:
            return f"the runner continues by itself ({done})"
        case _:
            return with_session(f"next: playbook resume {{session}} ({done})", session)
