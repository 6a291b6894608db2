"""Metrics as text, as tables of at most eighty columns, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from playbook_supervisor.audit.metrics import (
    DurationStats,
    Figures,
    Item,
    Known,
    Metrics,
    WaitTimes,
)
from playbook_supervisor.cli.render.text import duration
from playbook_supervisor.formats.sanitize import counted, first_line
from playbook_supervisor.records import valued

Json = dict[str, Any]
Rows = tuple[tuple[str, ...], ...]
Unit = tuple[float, str]
Units = Sequence[tuple[float, float, str]]
UNKNOWN = "–"
WIDTH = 80
"""Columns of a table where the terminal does not say how many it has."""
_NARROWEST = 12  # columns that a name gets even on a narrow terminal
_NAME = 40  # columns
_PLAYBOOK = 5  # columns at least for a playbook and a blank before its step
_FEW = 9.95  # seconds; more are shown without tenths
_LEAST = 0.1  # of a unit; a column with a smaller value has a smaller unit
_TIMES = ((359_820_000, 86_400_000, "d"), (5_997_000, 3_600_000, "h"), (99_950, 60_000, "m"))
_COUNTS = ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e3, 1e3, "k"))
"""From which value a unit is used, its size, and its sign."""
_SCIENTIFIC = 100_000  # dollars; more are shown as 1.2e+05


# ── text ────────────────────────────────────────────────────────────────────────────────────


def lines(metrics: Metrics) -> Iterator[str]:
    """The figures that fit in a line each."""
    ends = ", ".join(f"{number} {end}" for end, number in metrics.ends.items() if number)
    rate = metrics.success_rate
    completed = "" if rate is None else f"; of those that ended, {rate:.0%} completed"
    exceptions = {"failures": metrics.with_failures, "waivers": metrics.with_waivers}
    some = " and ".join(f"{number} with {what}" for what, number in exceptions.items() if number)
    completed += f", {some}" if some else ""
    yield f"{counted(metrics.sessions, 'session')}{': ' if ends else ''}{ends}{completed}"
    if metrics.lasted is not None:
        yield f"duration: {_distribution(metrics.lasted)}"
    for what, figures in (("escalations", metrics.escalations), ("retries", metrics.retries)):
        if figures:
            each = ", ".join(f"{number} {kind}" for kind, number in sorted(figures.items()))
            yield f"{what}: {each}"


def _distribution(spread: DurationStats) -> str:
    if spread.number == 1:
        return duration(spread.total)
    median, p90 = duration(spread.median), duration(spread.p90)
    return f"median {median}, 90th percentile {p90}, total {duration(spread.total)}"


def sheets(metrics: Metrics) -> Iterator[Rows]:
    """The tables that are not empty: the head, then rows of a name and of numbers."""
    head = ("tries", "failed", "again", "median", "p90", "total", "USD")
    names = _names(metrics.steps)
    if metrics.steps:
        yield ("step", *head), *_times(names, metrics.steps)
    used_once = [step.command for step in metrics.steps if not step.items]
    shared = [each for each in metrics.commands if used_once.count(each.name) != 1]
    if shared:  # the figures of the others are those of their steps
        yield ("command", *head), *_times([_name(each.name) for each in shared], shared)
    used = ("USD", "tokens in", "tokens out")
    used_by = [
        (name, each)
        for name, each in zip(names, metrics.steps, strict=True)
        if each.cost_usd or each.input_tokens or each.output_tokens
    ]
    if used_by:
        yield ("used by", *used), *_uses(*zip(*used_by, strict=True))
    if metrics.models:
        models = [_name(each.name) for each in metrics.models]
        yield ("model", *used), *_uses(models, metrics.models)
    if metrics.gates:
        yield (
            ("waiting at", "opened", "open", "median", "p90", "total"),
            *_waits(metrics.gates),
        )


def _names(steps: Sequence[Figures]) -> list[str]:
    several = len({step.playbook for step in steps}) > 1
    names = (f"{step.playbook} {step.name}" if several else step.name for step in steps)
    return [
        _name(f"{name}[{len(step.items)}]" if step.items else name)
        for name, step in zip(names, steps, strict=True)
    ]


def _name(text: str) -> str:
    return fitted(first_line(text), _NAME) or UNKNOWN


def fitted(name: str, room: int) -> str:
    """The name cut to `room` columns; a playbook before a blank is cut before the step."""
    if len(name) <= room:
        return name
    before, blank, step = name.rpartition(" ")
    if not blank:
        return f"{name[: room - 1]}…"
    step = fitted(step, max(room - _PLAYBOOK, 1))
    return f"{fitted(before, room - len(step) - 1)} {step}"


def _times(names: Sequence[str], figures: Sequence[Figures]) -> Rows:
    lasted = _spreads([each.lasted for each in figures])
    return tuple(
        (name, *map(str, (each.tries, each.failed, each.again)), *spread, _dollars(each.cost_usd))
        for name, each, spread in zip(names, figures, lasted, strict=True)
    )


def _uses(names: Sequence[str], figures: Sequence[Figures]) -> Rows:
    received = _sums([each.input_tokens for each in figures])
    sent = _sums([each.output_tokens for each in figures])
    costs = [_dollars(each.cost_usd) for each in figures]
    return tuple(zip(names, costs, received, sent, strict=True))


def _waits(gates: Sequence[WaitTimes]) -> Rows:
    waited = _spreads([each.waited for each in gates])
    return tuple(
        (each.reason, str(each.opened), str(each.open), *spread)
        for each, spread in zip(gates, waited, strict=True)
    )


def _spreads(spreads: Sequence[DurationStats | None]) -> Sequence[tuple[str, ...]]:
    columns = (
        [None if each is None else getattr(each, key) for each in spreads]
        for key in ("median", "p90", "total")
    )
    return [*zip(*(_in_one_unit(column, _TIMES, (1_000, "s")) for column in columns), strict=True)]


def _sums(sums: Sequence[Known | None]) -> Sequence[str]:
    totals = _in_one_unit([each.total if each else None for each in sums], _COUNTS, (1, ""))
    return [f"{_at_least(each)}{total}" for each, total in zip(sums, totals, strict=True)]


def _at_least(known: Known | None) -> str:
    return "" if known is None or known.known == known.of else "≥"


def _dollars(known: Known | None) -> str:
    if known is None:
        return UNKNOWN
    number = known.total
    return _at_least(known) + (f"{number:.2f}" if number < _SCIENTIFIC else f"{number:.1e}")


def _in_one_unit(values: Sequence[float | None], units: Units, smallest: Unit) -> Sequence[str]:
    """The values in the unit of the largest, or in a smaller one that still shows the smallest."""
    known = [each for each in values if each]
    most, least = max(known, default=0), min(known, default=0)
    fitting = (
        (size, sign) for start, size, sign in units if most >= start and least >= size * _LEAST
    )
    size, sign = next(fitting, smallest)
    return [UNKNOWN if each is None else _figure(each / size, sign) for each in values]


def _figure(number: float, unit: str) -> str:
    whole = not unit or (unit == "s" and number >= _FEW)
    return f"{number:.0f}{unit}" if whole else f"{number:.1f}{unit}"


def plain(table: Rows, width: int = WIDTH) -> Iterator[str]:
    """The table as text with aligned columns, the head first."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    room = max(width - sum(widths[1:]) - 2 * len(widths[1:]), _NARROWEST)
    for name, *cells in table:
        shown = fitted(name, room)
        figures = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield "  ".join((shown.ljust(min(widths[0], room)), *figures))


# ── JSON ────────────────────────────────────────────────────────────────────────────────────


def as_json(metrics: Metrics) -> Json:
    """`metrics --json`; unknown values are left out."""
    return {
        "protocol": 1,
        "sessions": {
            "total": metrics.sessions,
            **dict(metrics.ends),
            "with_failures": metrics.with_failures,
            "with_waivers": metrics.with_waivers,
            **valued(success_rate=metrics.success_rate, duration=_spread_json(metrics.lasted)),
        },
        "steps": [_figures(each, "step") for each in metrics.steps],
        "commands": [_figures(each, "command") for each in metrics.commands],
        "models": [_figures(each, "model") for each in metrics.models],
        "gates": [_gate(each) for each in metrics.gates],
        "escalations": dict(metrics.escalations),
        "retries": dict(metrics.retries),
    }


def _figures(figures: Figures, kind: str) -> Json:
    shape: Json = {kind: figures.name}
    if kind == "step":
        shape |= valued(playbook=figures.playbook, command=figures.command)
    return shape | {
        "attempts": figures.attempts,
        "done": figures.done,
        "failed": figures.failed,
        "skipped": figures.skipped,
        "again": figures.again,
        **valued(
            duration=_spread_json(figures.lasted),
            cost_usd=_known_json(figures.cost_usd),
            input_tokens=_known_json(figures.input_tokens),
            output_tokens=_known_json(figures.output_tokens),
            items=[_item(each) for each in figures.items],
        ),
    }


def _item(item: Item) -> Json:
    return valued(
        session=item.session,
        number=item.number,
        item=item.item,
        status=item.status,
        attempts=item.attempts,
        total_seconds=None if item.worked is None else item.worked / 1000,
    )


def _gate(gate: WaitTimes) -> Json:
    return {
        "reason": gate.reason,
        "opened": gate.opened,
        "open": gate.open,
        **valued(waiting=_spread_json(gate.waited)),
    }


def _spread_json(spread: DurationStats | None) -> Json | None:
    if spread is None:
        return None
    return {
        "number": spread.number,
        "median_seconds": spread.median / 1000,
        "p90_seconds": spread.p90 / 1000,
        "total_seconds": spread.total / 1000,
    }


def _known_json(known: Known | None) -> Json | None:
    if known is None:
        return None
    return {"total": known.total, "known": known.known, "of": known.of}
