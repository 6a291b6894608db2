"""What a terminal shows live, as plain data: the steps of a run, the board of all sessions.

`terminal.py` chooses colours and layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from playbook_supervisor.cli.render import sessions, text
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel import gates
from playbook_supervisor.kernel.directives import Check
from playbook_supervisor.kernel.model import Step
from playbook_supervisor.kernel.state import Entry, last_entries
from playbook_supervisor.kernel.vocabulary import EntryStatus
from playbook_supervisor.records import Record
from playbook_supervisor.sessions import gate_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from playbook_supervisor.commands.progress import Progress
    from playbook_supervisor.sessions.snapshot import Snapshot

    RowTone = Literal["done", "failed", "skipped", "waits", "works", "due"]
    LineTone = Literal["plain", "waits", "works", "dim"]

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
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


class Row(Record):
    """One step: its mark and tone, its name, its duration, and a remark."""

    mark: str
    tone: RowTone
    name: str
    elapsed: str = ""
    words: str = ""


class StepList(Record):
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

    `attempts` holds every known attempt by its id, oldest first; `lines` the last line that each
    step's worker printed. The first `above` steps are on the screen already.
    """
    latest = last_entries(attempts.values())
    planned = snapshot.state.playbook.steps
    steps = [step.id for step in planned]
    due = settled_steps(snapshot, attempts)
    current = [i for i, step in enumerate(steps) if step in latest and not latest[step].settled]
    first, end = _visible(above, len(steps), current or [due], room)
    retries = _retries(snapshot)
    rows = (
        _row(step, latest.get(step.id), lines.get(step.id, ""), now, retries.get(step.id, 0))
        for step in planned[first:end]
    )
    title = _title(snapshot, tuple(attempts.values()), now)
    return StepList(title, tuple(rows), first, len(steps) - end)


def _retries(snapshot: Snapshot) -> dict[str, int]:
    """Step → when its retry begins, in ms, for those that wait for one."""
    asked = snapshot.directive
    if not isinstance(asked, Check) or asked.not_before is None:
        return {}
    return {member.step.id: asked.not_before for member in asked.members}


def settled_steps(snapshot: Snapshot, attempts: Mapping[str, Entry]) -> int:
    """How many steps come before the first that is not settled."""
    settled = {entry.step_id: entry.settled for entry in attempts.values()}
    steps = snapshot.state.playbook.steps
    return next((i for i, step in enumerate(steps) if not settled.get(step.id)), len(steps))


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


def _row(step: Step, entry: Entry | None, line: str, now: int, retry_at: int) -> Row:
    if entry is None:
        return Row("·", "due", step.id, words=first_line(step.title))
    if retry_at > now:
        left = text.duration(retry_at - now)
        return Row("✗", "failed", entry.id, words=f"retry in {left} · {first_line(entry.error)}")
    name = step.id if entry.attempt == 1 else entry.id
    if entry.settled:
        mark, tone = _MARKS[entry.status]
        # Without the time at gates, as it was counted while the step ran.
        worked = (entry.completed_at or entry.latest) - entry.started_at - text.waited_ms((entry,))
        skipped = entry.status is EntryStatus.SKIPPED
        return Row(mark, tone, name, "" if skipped else text.duration(worked), text.reason(entry))
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


class Line(Record):
    """A line of the board; a `whole` one is wrapped where others are cut."""

    text: str
    tone: LineTone = "plain"
    whole: bool = False


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
    waits = manifest is not None and manifest.gate is not None
    done = f"  {progress.done}/{progress.total}" if progress.total else ""
    yield Line(f"{first}{done}", "waits" if waits else "plain", waits)
    for entry in progress.at_work:
        elapsed = text.duration(max(now - (entry.launched_at or entry.started_at), 0))
        words = (f"  {spinner(now)} {entry.id}", elapsed, progress.lines.get(entry.id, ""))
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
    if manifest.gate is not None:
        question = first_line(manifest.gate.question, 400)
        return f"{name}: {manifest.gate.id} WAITS FOR A HUMAN: {question}"
    if running := ", ".join(entry.id for entry in progress.at_work):
        state = f"{running} running"
    elif seen.open and seen.driver is None:
        state = f"{manifest.status}, no driver"
    else:
        state = manifest.ending
    done = f", {gates.progress(progress.done, progress.total)}" if progress.total else ""
    return f"{name}: {state}{done}"
