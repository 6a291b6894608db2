"""Where each attempt lies on the way from a session's beginning to its end, in parts of a hundred.

Pure arithmetic over a journal; a journal that others wrote may lie, and still has a picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from playbook_supervisor.cli.render.text import lasting
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.kernel.vocabulary import EntryStatus, Place
from playbook_supervisor.records import Record

_TICKS = 4
_THINNEST = 0.4  # per cent; what took a moment is seen, too
_SECOND = 1_000
_STEPS = tuple(
    number * unit
    for unit, numbers in (
        (_SECOND, (1, 2, 5, 10, 15, 30)),
        (60 * _SECOND, (1, 2, 5, 10, 15, 30)),
        (3_600 * _SECOND, (1, 2, 3, 6, 12)),
        (86_400 * _SECOND, (1, 2, 7, 14, 28, 91, 364)),
    )
    for number in numbers
)


class Span(Record):
    """A part of a bar: where it begins and how long it is, in per cent of the whole picture."""

    kind: str  # idle, work, gate
    left: float
    width: float
    said: str


class Bar(Record):
    """One attempt: what is written above it, and its parts."""

    id: str
    step_id: str
    nth: str  # `#2`: what may not be lost where the name is too long
    status: str
    lasted: str
    spans: tuple[Span, ...]


class Tick(Record):
    """A mark on the axis."""

    left: float
    said: str


class Timeline(Record):
    """The picture: a bar for each attempt, in the journal's order, and the marks of its axis."""

    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]


def timeline(entries: Sequence[Entry], began: int, now: int) -> Timeline:
    """The picture of a session that began then; what is still open lasts until `now` (ms)."""
    if not entries:
        return Timeline((), ())
    first = min(began, *(entry.started_at for entry in entries))
    last = max(now if not entry.settled else entry.latest for entry in entries)
    scale = _Scale(first, max(last - first, 1))
    return Timeline(tuple(_bar(entry, scale, now) for entry in entries), _ticks(scale))


class _Scale(Record):
    first: int
    length: int

    def span(self, kind: str, start: int, end: int) -> Span:
        left = 100 * (start - self.first) / self.length
        width = max(100 * (end - start) / self.length, _THINNEST)
        left = min(max(left, 0.0), 100 - _THINNEST)
        return Span(kind, left, min(width, 100 - left), lasting(max(end - start, 0)))


def _bar(entry: Entry, scale: _Scale, now: int) -> Bar:
    end = entry.completed_at
    if end is None:  # other tools do not always say when an attempt ended
        end = entry.latest if entry.settled else now
    whole = scale.span("idle" if entry.gates else "work", entry.started_at, end)
    lasted = "" if entry.status is EntryStatus.SKIPPED else whole.said
    nth = entry.id.removeprefix(entry.step_id)
    spans = (whole, *_within(entry, scale, end))
    return Bar(entry.id, entry.step_id, nth, entry.status, lasted, spans)


def _within(entry: Entry, scale: _Scale, end: int) -> Iterator[Span]:
    """Where it was worked at and where it waited; between them nobody had gone on yet."""
    begun = entry.launched_at
    if begun is None and entry.gates and entry.gates[0].place is Place.AFTER:
        begun = entry.started_at
    if entry.gates and begun is not None:
        yield scale.span("work", begun, _or(entry.returned_at, end))
    for gate in entry.gates:
        yield scale.span("gate", gate.opened_at, _or(gate.answered_at, end))


def _or(ms: int | None, end: int) -> int:
    return end if ms is None else ms


def _ticks(scale: _Scale) -> tuple[Tick, ...]:
    """A few round lengths of time since the beginning."""
    wanted = scale.length / _TICKS
    step = next((each for each in _STEPS if each >= wanted), _STEPS[-1])
    count = min(scale.length // step, _TICKS)
    return tuple(Tick(100 * step * n / scale.length, _short(step * n)) for n in range(count + 1))


def _short(ms: int) -> str:
    return lasting(ms) if ms >= 10 * _SECOND else f"{ms // _SECOND} s"
