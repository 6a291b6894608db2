"""The live view of a terminal as plain data; `terminal.py` chooses colours and layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from playbook_supervisor.cli.render import sessions, text
from playbook_supervisor.cli.render.text import Line
from playbook_supervisor.commands.views.progress import Progress
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel import gates
from playbook_supervisor.kernel.directives import Check
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import Step, base_of
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.kernel.vocabulary import Autonomy, EntryStatus
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.gate import gate_text
from playbook_supervisor.sessions.steps.step_runs import StepRun, is_round, waited_ms
from playbook_supervisor.sessions.store.snapshot import Snapshot

RowTone = Literal["done", "failed", "skipped", "waits", "works", "due"]

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_MOST_OPEN = 5  # items of a loop that are named, or whose child sessions are shown
_FRAME = 250  # ms for each frame of the spinner
_MARKS: dict[EntryStatus, tuple[str, RowTone]] = {
    EntryStatus.DONE: ("✓", "done"),
    EntryStatus.FAILED: ("✗", "failed"),
    EntryStatus.SKIPPED: ("–", "skipped"),
}


def spinner(now: int) -> str:
    """The sign beside running work at `now` (ms)."""
    return _SPINNER[now // _FRAME % len(_SPINNER)]


# ── the steps of a run ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Row:
    """One step: its mark and tone, name, duration, remark; `depth` sessions are above its own."""

    mark: str
    tone: RowTone
    name: str
    elapsed: str = ""
    words: str = ""
    depth: int = 0


@dataclass(frozen=True, slots=True)
class StepList:
    """The rows that fit; `earlier` and `later` count the steps above and below them."""

    title: str
    rows: tuple[Row, ...]
    earlier: int = 0
    later: int = 0


def step_list(
    snapshot: Snapshot,
    attempts: Mapping[str, Entry],
    lines: Mapping[str, str],
    *,
    now: int,
    room: int,
    above: int = 0,
) -> StepList:
    """The list at `now` (ms), in at most `room` rows.

    `attempts` holds every known attempt by its id, oldest first, with those of child sessions
    (`release#1/plan#1`); `lines` the last line that each attempt's worker printed. The first
    `above` steps are on the screen already.
    """
    seen = _Seen(attempts, lines, now, _retries(snapshot))
    planned = snapshot.state.playbook.steps
    runs = seen.runs("")
    due = _settled(planned, runs)
    current = [i for i, step in enumerate(planned) if step.id in runs and not _over(runs[step.id])]
    first, end = _visible(above, len(planned), current or [due], room)
    rows = [
        row
        for step in planned[first:end]
        for row in _rows(step, runs.get(step.id), snapshot, seen, "")
    ]
    begins, ends = _visible(0, len(rows), _current_rows(rows), room)
    title = _title(snapshot, tuple(attempts.values()), now)
    hidden = len(rows) - ends
    return StepList(title, tuple(rows[begins:ends]), first + begins, len(planned) - end + hidden)


def _retries(snapshot: Snapshot) -> dict[str, int]:
    asked = snapshot.directive
    if not isinstance(asked, Check) or asked.not_before is None:
        return {}
    return {f"{each.within}/{each.step.id}".lstrip("/"): asked.not_before for each in asked.members}


def settled_steps(snapshot: Snapshot, attempts: Mapping[str, Entry]) -> int:
    """The number of steps before the first that is not settled."""
    return _settled(snapshot.state.playbook.steps, _Seen(attempts, {}, 0, {}).runs(""))


def _settled(planned: Sequence[Step], runs: Mapping[str, StepRun]) -> int:
    return next(
        (i for i, step in enumerate(planned) if step.id not in runs or not _over(runs[step.id])),
        len(planned),
    )


def _over(run: StepRun) -> bool:
    return not run.current and (not run.loop or run.ended)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The attempts of a tree of sessions, and what is known of them."""

    attempts: Mapping[str, Entry]
    lines: Mapping[str, str]
    now: int
    retries: Mapping[str, int]

    def runs(self, within: str) -> dict[str, StepRun]:
        own: dict[str, list[Entry]] = {}
        for id_, entry in self.attempts.items():
            if id_.rpartition("/")[0] == within:
                own.setdefault(base_of(entry.step_id), []).append(entry)
        return {step: StepRun(tuple(entries)) for step, entries in own.items()}


def _rows(
    step: Step, run: StepRun | None, snapshot: Snapshot | None, seen: _Seen, within: str
) -> Iterator[Row]:
    depth = within.count("/") + 1 if within else 0
    if run is None:
        yield Row("·", "due", step.id, words=first_line(step.title), depth=depth)
        return
    yield replace(
        _loop_row(run, seen, within) if run.loop else _row(step, run, seen, within), depth=depth
    )
    for entry in [run.last, *(run.current if run.loop else ())][-_MOST_OPEN:]:
        if entry.session and entry.status is not EntryStatus.DONE:
            yield from _child_rows(entry, snapshot, seen, within)


def _child_rows(entry: Entry, snapshot: Snapshot | None, seen: _Seen, within: str) -> Iterator[Row]:
    place = f"{within}/{entry.id}".lstrip("/")
    child = snapshot.children.get(entry.id) if snapshot is not None else None
    runs = seen.runs(place)
    planned = {step.id: step for step in child.state.playbook.steps} if child is not None else {}
    for name in planned or runs:
        # Of an ended session only the names of its steps are known.
        step = planned.get(name) or Step(name, "/", Autonomy.AUTO, ErrorPolicy.STOP)
        yield from _rows(step, runs.get(name), child, seen, place)


def _current_rows(rows: Sequence[Row]) -> list[int]:
    """The rows around which the others are hidden: those where something happens, the deepest."""
    found = [i for i, row in enumerate(rows) if row.tone in ("works", "waits")]
    leaves = [i for i in found if i + 1 == len(rows) or rows[i + 1].depth <= rows[i].depth]
    return leaves or found or [0]


def _title(snapshot: Snapshot, entries: Sequence[Entry], now: int) -> str:
    manifest = snapshot.manifest
    ended = manifest.completed_at
    parts = (
        manifest.playbook,
        manifest.subject,
        f"{snapshot.done}/{snapshot.total}",
        text.duration(max((now if ended is None else ended) - manifest.started_at, 0)),
        text.cost(entries),
        manifest.session_id,
    )
    return first_line(" · ".join(part for part in parts if part))


def _visible(above: int, count: int, current: Sequence[int], room: int) -> tuple[int, int]:
    """The range of steps that fits, around the current ones; two lines count the others.

    Where not all of the current ones fit, the first do.
    """
    if count - above <= room:
        return above, count
    room = max(room - 2, 1)
    beside = max(room - (current[-1] - current[0] + 1), 0)
    first = max(min(current[0] - (beside + 1) // 2, count - room), above)
    return first, first + room


def _loop_row(run: StepRun, seen: _Seen, within: str) -> Row:
    """`build 3/12 ▸ "chapter two"`, and the items that failed."""
    name = f"{run.loop} {run.done}/{run.total}"
    failed = [f"✗ {first_line(each.item, 40) or each.id}" for each in run.failed[:_MOST_OPEN]]
    if _over(run):
        mark, tone = _MARKS[EntryStatus.FAILED if run.failed else EntryStatus.DONE]
        return Row(mark, tone, name, text.duration(run.lasted), ", ".join(failed))
    waits = next((each for each in run.current if each.gate is not None), None)
    if waits is not None:
        return Row("?", "waits", name, "", f'▸ "{first_line(waits.item, 40)}" waits for you')
    at_work = [f'▸ "{first_line(each.item, 40)}"' for each in run.current]
    latest = run.current[-1] if run.current else run.last
    said = seen.lines.get(f"{within}/{latest.id}".lstrip("/"), "")
    since = latest.launched_at or latest.started_at
    elapsed = text.duration(max(seen.now - since, 0)) if run.current else ""
    words = " ".join([*at_work, *failed, *([f"· {said}"] if said else [])])
    return Row(spinner(seen.now), "works", name, elapsed, words)


def _row(step: Step, run: StepRun, seen: _Seen, within: str) -> Row:
    entry, now = run.last, seen.now
    path = f"{within}/{entry.id}".lstrip("/")
    line = seen.lines.get(path, "")
    retry_at = seen.retries.get(f"{within}/{step.id}".lstrip("/"), 0)
    if is_round(entry) and entry.settled:
        return Row("↻", "works", entry.id, words=f"next round · {first_line(entry.error)}")
    if retry_at > now:
        left = text.duration(retry_at - now)
        return Row("✗", "failed", entry.id, words=f"retry in {left} · {first_line(entry.error)}")
    name = step.id if entry.attempt == 1 else entry.id
    if entry.settled:
        mark, tone = _MARKS[entry.status]
        # Without the time at gates, as it was counted while the step ran.
        worked = (entry.completed_at or entry.latest) - entry.started_at - waited_ms((entry,))
        skipped = entry.status is EntryStatus.SKIPPED
        rounds = f"{len(run.rounds) + 1} rounds · " if run.rounds and not skipped else ""
        words = rounds + gate_text.reason(entry)
        return Row(
            mark, tone, name, "" if skipped else text.duration(worked), words.removesuffix(" · ")
        )
    if entry.gate is not None:
        return Row("?", "waits", name, "", "waits for you")
    since = entry.launched_at or entry.started_at
    return Row(
        spinner(now),
        "works",
        name,
        text.duration(max(now - since, 0)),
        line or first_line(step.title),
    )


# ── all sessions ────────────────────────────────────────────────────────────────────────────


def session_board(shown: Sequence[Progress], now: int) -> tuple[Line, ...]:
    """All sessions with their running steps; `now` in ms since the epoch."""
    if not shown:
        return (Line("No session is open.", "dim"),)
    lines: list[Line] = []
    for number, progress in enumerate(shown):
        lines += [Line("")] if number else []
        lines += _session(progress, now)
    return tuple(lines)


def _session(progress: Progress, now: int) -> Iterator[Line]:
    first, *others = sessions.brief(progress.seen, now)
    manifest = progress.seen.manifest
    waits = manifest is not None and progress.seen.gate is not None
    done = f"  {progress.done}/{progress.total}" if progress.total else ""
    yield Line(f"{first}{done}", "waits" if waits else "plain", waits)
    for attempt, entry in progress.at_work.items():
        elapsed = text.duration(max(now - (entry.launched_at or entry.started_at), 0))
        name = f"{text.path(attempt)}{text.item_of(entry)}"
        words = (f"  {spinner(now)} {name}", elapsed, progress.lines.get(attempt, ""))
        yield Line("  ".join(word for word in words if word), "works")
    for number, line in enumerate(others):
        question = waits and not number
        yield Line(line, "plain" if question else "dim", question)
    for line in gate_text.short(progress.context):
        yield Line(f"    {line}", whole=True)
    if progress.notify_error:
        yield Line(f"  note: {progress.notify_error}", "dim")


def session_line(progress: Progress) -> str:
    """The state of one session, in words that change only if something has happened."""
    seen, manifest = progress.seen, progress.seen.manifest
    if manifest is None:
        return f"{seen.session_id} unreadable: {first_line(seen.problem)}"
    subject = f" on {manifest.subject}" if manifest.subject else ""
    name = first_line(f"{seen.session_id} {manifest.playbook}{subject}")
    if (gate := seen.gate) is not None:
        question = first_line(gate.question, 400)
        return f"{name}: {gate.id} WAITS FOR A HUMAN: {question}"
    if running := ", ".join(progress.at_work):
        state = f"{running} running"
    elif seen.open and seen.driver is None:
        state = f"{manifest.status}, no driver"
    else:
        state = manifest.ending
    done = f", {gates.progress(progress.done, progress.total)}" if progress.total else ""
    return f"{name}: {state}{done}"
