"""HTML from our templates: all content is escaped, and control characters are left out.

`show --html` writes one page, the inbox serves several; both use the environment made here.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256

import jinja2
from markupsafe import Markup, escape

from playbook_supervisor import __version__
from playbook_supervisor.cli.render import text
from playbook_supervisor.cli.render.sessions import child_line, failed_items, items_line, opens
from playbook_supervisor.commands.views.queries import SessionView
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.model import Step, base_of
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.kernel.vocabulary import EntryStatus, Place
from playbook_supervisor.project.expressions.references import interpolate, names
from playbook_supervisor.sessions.files.manifest import Manifest
from playbook_supervisor.sessions.gate import gate_text
from playbook_supervisor.sessions.steps.step_runs import StepRun, is_round, step_runs, waited_ms
from playbook_supervisor.system.disk import templates

_FOLDER = "pages"
_SIGNS = {"done": "✓", "failed": "✗", "skipped": "–", "round": "↻", "in_progress": "…"}


def render(template: str, **values: object) -> str:
    """The template of that name, filled in."""
    return _environment().get_template(template).render(values)


@cache
def style(*names: str) -> Markup:
    """Style sheets of ours, one after the other, for a page or a response of its own."""
    folder = templates.folder() / _FOLDER
    return Markup("".join((folder / name).read_text("utf-8") for name in names))  # noqa: S704


def script(name: str) -> str:
    """A script of ours."""
    return (templates.folder() / _FOLDER / name).read_text("utf-8")


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates.folder() / _FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "agent": _agent,
        "child": lambda entry, view: view.children.get(entry.session),
        "child_line": child_line,
        "command": _command,
        "duration": lambda ms: text.duration(max(ms, 0)),
        "failed_items": failed_items,
        "is_round": is_round,
        "items": items_line,
        "opens": opens,
        "percent": "{:.2f}%".format,
        "place": text.path,
        "prose": _prose,
        "runs": lambda view: tuple(step_runs(view.entries)),
        "sign": lambda status: _SIGNS.get(status, "·"),
        "stamp": stamp,
        "title": lambda entry, view: getattr(_step(entry, view), "title", ""),
        "words": lambda word: word.replace("_", " "),
    }
    return environment


def stamp(ms: int) -> str:
    """`2026-02-19 10:20:26`, in UTC."""
    return text.stamp(ms).rstrip("Z").replace("T", " ")


def _printable(value: object) -> object:
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return printable(value, keep_newlines=True)
    return value


def _prose(sentence: str) -> Markup:
    shown = str(escape(printable(sentence, keep_newlines=True)))
    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", shown))  # noqa: S704 - escaped above


def _step(entry: Entry, view: SessionView) -> Step | None:
    try:
        return view.playbook.step(base_of(entry.step_id)) if view.playbook is not None else None
    except KeyError:  # the journal names a step that the playbook does not have
        return None


def _command(entry: Entry, view: SessionView) -> str:
    if (step := _step(entry, view)) is None:
        return ""
    typed, head = f"{step.command} {step.args}", view.seen.manifest
    if head is None:
        return typed
    values = {name: head.args.get(name, "") for name in names(typed)}
    if (loop := step.for_each) is not None:
        values |= {name: f"{{{{{name}}}}}" for name in values if name.startswith(f"{loop.name}.")}
        values[loop.name] = entry.item
    return interpolate(typed, values)


def _agent(entry: Entry) -> str:
    """`claude, claude-opus-4-6, 0.61 USD, 26.6k tokens in, 4.3k out, 14 turns`."""
    agent = entry.agent
    words = [str(agent.get("name", "")), str(agent.get("model", ""))]
    words += [text.cost((entry,)), text.tokens((entry,))]
    words += [f"{agent[name]} {name}" for name in ("turns", "retries") if name in agent]
    return ", ".join(word for word in words if word)


# ── one session as a page ─────────────────────────────────────────────────────────────────────

_TICKS = 4
_MOST_PARTS = 200  # of the bar of a loop
_THINNEST = 0.4  # per cent, so that short spans stay visible
_SECOND = 1_000
_INTERVALS = tuple(
    number * unit
    for unit, numbers in (
        (_SECOND, (1, 2, 5, 10, 15, 30)),
        (60 * _SECOND, (1, 2, 5, 10, 15, 30)),
        (3_600 * _SECOND, (1, 2, 3, 6, 12)),
        (86_400 * _SECOND, (1, 2, 7, 14, 28, 91, 364)),
    )
    for number in numbers
)


def page(shown: SessionView, now: int) -> str:
    """One session as a page that loads nothing and runs no script; `now` in ms since the epoch.

    Its Content-Security-Policy forbids scripts, requests, and every style but its own (by digest).
    """
    sheet = style("page.css")
    return render(
        "show.html",
        digest=b64encode(sha256(sheet.encode()).digest()).decode(),
        style=sheet,
        context=gate_text.lines(shown.seen.gate_context()),
        version=__version__,
        **session_values(shown, now),
    )


def session_values(shown: SessionView, now: int) -> dict[str, object]:
    """The facts that templates show of a session."""
    seen, head = shown.seen, shown.seen.manifest
    everything = [entry for each in _family(shown) for entry in each.entries]
    return {
        "session": seen.session_id,
        "head": head,
        "view": shown,
        "facts": tuple(_facts(shown, head, everything, now)) if head else (),
        "problem": shown.problem,
        "gate": seen.gate,
        "effects": shown.effects,
        "chart": chart(shown.entries, head.started_at if head else 0, now),
        "not_begun": text.not_begun(shown.entries, shown.playbook),
        "now": now,
    }


def _facts(
    shown: SessionView, head: Manifest, entries: Sequence[Entry], now: int
) -> Iterator[tuple[str, str]]:
    yield "Began", stamp(head.started_at)
    if head.completed_at is not None:
        yield "Ended", stamp(head.completed_at)
        yield "Duration", text.duration(max(head.completed_at - head.started_at, 0))
    else:
        yield "Open for", text.duration(max(now - head.started_at, 0))
    if waited := waited_ms(entries, now):
        yield "At gates", text.duration(waited)
    if head.branch:
        yield "Branch", head.branch
    if head.worktree:
        yield "Worktree", head.worktree
    if args := ", ".join(f"{name}={value}" for name, value in head.args.items() if value):
        yield "Arguments", args
    if cost := text.cost(entries):
        yield "Cost", cost
    if tokens := text.tokens(entries):
        yield "Tokens", tokens
    if shown.playbook is not None:
        if shown.playbook.owner:
            yield "Owner", shown.playbook.owner
        if named := text.reviewers(shown.playbook.reviewers):
            yield "Reviewers", named


def _family(shown: SessionView) -> Iterator[SessionView]:
    yield shown
    for child in shown.children.values():
        yield from _family(child)


# ── the bars: when each attempt ran and waited ───────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a bar: its start and its width, in per cent of the chart."""

    kind: str  # idle, work, gate
    left: float
    width: float
    label: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One attempt: its texts and its parts."""

    id: str
    step_id: str
    nth: str  # `#2`, which is shown even if the name is cut
    status: str
    duration: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on the axis."""

    left: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A bar for each attempt, in the order of the journal, and the marks of the axis."""

    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]


def chart(entries: Sequence[Entry], began: int, now: int) -> Chart:
    """The chart of a session that began then; open attempts end at `now` (ms).

    A loop is one bar. A journal with impossible times is drawn, too.
    """
    if not entries:
        return Chart((), ())
    first = min(began, *(entry.started_at for entry in entries))
    last = max(now if not entry.settled else entry.latest for entry in entries)
    scale = _Scale(first, max(last - first, 1))
    bars = [
        _loop(run, scale, now) if run.loop else _bar(entry, scale, now)
        for run in step_runs(entries)
        for entry in run.entries[: 1 if run.loop else None]
    ]
    return Chart(tuple(bars), _ticks(scale))


@dataclass(frozen=True, slots=True)
class _Scale:
    first: int
    length: int

    def span(self, kind: str, start: int, end: int) -> Span:
        left = 100 * (start - self.first) / self.length
        width = max(100 * (end - start) / self.length, _THINNEST)
        left = min(max(left, 0.0), 100 - _THINNEST)
        return Span(kind, left, min(width, 100 - left), text.duration(max(end - start, 0)))


def _bar(entry: Entry, scale: _Scale, now: int) -> Bar:
    end = entry.completed_at
    if end is None:  # other tools do not always say when an attempt ended
        end = entry.latest if entry.settled else now
    whole = scale.span("idle" if entry.gates else "work", entry.started_at, end)
    elapsed = "" if entry.status is EntryStatus.SKIPPED else whole.label
    nth = entry.id.removeprefix(entry.step_id)
    spans = (whole, *_within(entry, scale, end))
    status = "round" if is_round(entry) else entry.status.value
    return Bar(entry.id, entry.step_id, nth, status, elapsed, spans)


def _loop(run: StepRun, scale: _Scale, now: int) -> Bar:
    bars = [_bar(entry, scale, now) for entry in run.entries]
    end = now if run.current else run.entries[0].started_at + run.lasted
    whole = scale.span("idle", run.entries[0].started_at, end)
    parts = [span for bar in bars[:_MOST_PARTS] for span in bar.spans]
    status = "in_progress" if run.current else "failed" if run.failed else "done"
    number = f"[{run.total}]"
    return Bar(run.loop, run.loop, number, status, whole.label, (whole, *parts))


def _within(entry: Entry, scale: _Scale, end: int) -> Iterator[Span]:
    begun = entry.launched_at
    if begun is None and entry.gates and entry.gates[0].place is not Place.BEFORE:
        begun = entry.started_at
    if entry.gates and begun is not None:
        yield scale.span("work", begun, _or(entry.returned_at, end))
    for gate in entry.gates:
        yield scale.span("gate", gate.opened_at, _or(gate.answered_at, end))


def _or(ms: int | None, end: int) -> int:
    return end if ms is None else ms


def _ticks(scale: _Scale) -> tuple[Tick, ...]:
    wanted = scale.length / _TICKS
    step = next((each for each in _INTERVALS if each >= wanted), _INTERVALS[-1])
    count = min(scale.length // step, _TICKS)
    places = range(0, step * (count + 1), step)
    return tuple(
        Tick(
            100 * ms / scale.length,
            text.duration(ms) if ms >= 10 * _SECOND else f"{ms // _SECOND} s",
        )
        for ms in places
    )
