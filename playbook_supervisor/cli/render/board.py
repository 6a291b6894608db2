"""What `status --watch` shows: a picture of the sessions, or a line for each change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from playbook_supervisor.cli.render import sessions, text
from playbook_supervisor.cli.render.steps import spinner
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from playbook_supervisor.commands.progress import Progress

    Tone = Literal["plain", "waits", "works", "dim"]


class Line(Record):
    """A line of the picture, and how it is meant; one that is `whole` is never cut, but broken."""

    text: str
    tone: Tone = "plain"
    whole: bool = False


def picture(shown: Sequence[Progress], now: int) -> tuple[Line, ...]:
    """All lines, those of what waits for a human first; `now` in ms since the epoch."""
    if not shown:
        return (Line("No session is open.", "dim"),)
    lines: list[Line] = []
    for number, progress in enumerate(shown):
        lines += [Line("")] if number else []
        lines += _session(progress, now)
    return tuple(lines)


def _session(progress: Progress, now: int) -> Iterator[Line]:
    first, *others = sessions.brief(progress.seen, now)
    known = progress.seen.manifest
    waits = known is not None and known.gate is not None
    yield Line(f"{first}{_how_far(progress)}", "waits" if waits else "plain", waits)
    for entry in progress.at_work:
        lasted = text.lasting(max(now - (entry.launched_at or entry.started_at), 0))
        words = (f"  {spinner(now)} {entry.id}", lasted, progress.lines.get(entry.id, ""))
        yield Line("  ".join(word for word in words if word), "works")
    for number, line in enumerate(others):
        asked = waits and not number
        yield Line(line, "plain" if asked else "dim", asked)
    if progress.uncalled:
        yield Line(f"  note: {progress.uncalled}", "dim")


def _how_far(progress: Progress) -> str:
    return f"  {progress.done}/{progress.total}" if progress.total else ""


def standing(progress: Progress) -> str:
    """How it stands with a session, in a line that changes only when something happens."""
    seen, known = progress.seen, progress.seen.manifest
    if known is None:
        return f"{seen.session_id} unreadable: {first_line(seen.problem)}"
    feature = f" on {known.feature}" if known.feature else ""
    name = first_line(f"{seen.session_id} {known.playbook}{feature}")
    if known.gate is not None:
        asked = first_line(known.gate.question, 400)
        return f"{name}: {known.gate.id} WAITS FOR A HUMAN: {asked}"
    names = ", ".join(entry.id for entry in progress.at_work)
    if names:
        done = f"{names} at work"
    elif seen.open and seen.driver is None:
        done = f"{known.status}, nobody drives it"
    else:
        done = str(known.status)
    return f"{name}: {done}" + (
        f", {progress.done}/{progress.total} steps" if progress.total else ""
    )
