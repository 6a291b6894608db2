"""The steps of a run as a live list shows them: a title, and a row for each step that fits.

Plain data; how rows are coloured and laid out is for whoever draws them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from playbook_supervisor.cli.render import text
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.state import Entry, last_entries
from playbook_supervisor.kernel.vocabulary import EntryStatus
from playbook_supervisor.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from playbook_supervisor.sessions.snapshot import Snapshot

    Tone = Literal["done", "failed", "skipped", "waits", "works", "due"]

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TURN = 250  # ms that one shape of the spinner stands
_MARKS: dict[EntryStatus, tuple[str, Tone]] = {
    EntryStatus.DONE: ("✓", "done"),
    EntryStatus.FAILED: ("✗", "failed"),
    EntryStatus.SKIPPED: ("–", "skipped"),
}


class Row(Record):
    """One step: its mark, how it is meant, its name, how long it took, and what is said of it."""

    mark: str
    tone: Tone
    name: str
    elapsed: str = ""
    words: str = ""


class StepList(Record):
    """The whole list. `earlier` and `later` steps did not fit above and below the rows."""

    title: str
    rows: tuple[Row, ...]
    earlier: int = 0
    later: int = 0


def picture(
    outlook: Snapshot,
    attempts: Mapping[str, Entry],
    lines: Mapping[str, str],
    *,
    now: int,
    room: int,
    above: int = 0,
) -> StepList:
    """The list as it stands at `now` (ms) where `room` lines are free for rows.

    `attempts` holds every attempt that is known, by its id and oldest first; `lines` what the
    worker of a step said last. So many steps stand `above` already, settled.
    """
    latest = last_entries(attempts.values())
    steps = [step.id for step in outlook.state.playbook.steps]
    first, end = _in_view(above, len(steps), due(outlook, attempts), room)
    rows = (_row(step, latest.get(step), lines.get(step, ""), now) for step in steps[first:end])
    title = _title(outlook, tuple(attempts.values()), now)
    return StepList(title, tuple(rows), first, len(steps) - end)


def spinner(now: int) -> str:
    """What turns beside what is at work."""
    return _SPINNER[now // _TURN % len(_SPINNER)]


def _title(outlook: Snapshot, entries: Sequence[Entry], now: int) -> str:
    manifest = outlook.manifest
    ended = manifest.completed_at
    parts = (
        manifest.playbook,
        manifest.feature,
        f"{outlook.done}/{outlook.total}",
        text.lasting(max((now if ended is None else ended) - manifest.started_at, 0)),
        text.cost(entries),
        manifest.session_id,
    )
    return first_line(" · ".join(part for part in parts if part))


def due(outlook: Snapshot, attempts: Mapping[str, Entry]) -> int:
    """How many steps are settled before the first that is not."""
    settled = {entry.step_id: entry.settled for entry in attempts.values()}
    steps = outlook.state.playbook.steps
    return next((i for i, step in enumerate(steps) if not settled.get(step.id)), len(steps))


def _in_view(above: int, count: int, due: int, room: int) -> tuple[int, int]:
    """The steps that fit, those that are due among them; two lines say how many do not."""
    if count - above <= room:
        return above, count
    room = max(room - 2, 1)
    first = max(min(due - room // 2, count - room), above)
    return first, first + room


def _row(step: str, entry: Entry | None, line: str, now: int) -> Row:
    if entry is None:
        return Row("·", "due", step)
    name = step if entry.attempt == 1 else entry.id
    if entry.settled:
        mark, tone = _MARKS[entry.status]
        # As it was counted while it ran: a gate's hours are not the step's.
        lasted = (entry.completed_at or entry.latest) - entry.started_at - text.waited_ms((entry,))
        skipped = entry.status is EntryStatus.SKIPPED
        return Row(mark, tone, name, "" if skipped else text.lasting(lasted), text.why(entry))
    if entry.gate is not None:
        return Row("?", "waits", name, "", "waits for you")
    since = entry.launched_at or entry.started_at
    return Row(spinner(now), "works", name, text.lasting(max(now - since, 0)), line)
