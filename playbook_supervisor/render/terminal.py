"""A terminal's live list of steps. The only room that imports rich.

A thread of rich's redraws the list; nothing here waits for anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from playbook_supervisor.kernel.state import Change, Entry, Event
from playbook_supervisor.plain_text import first_line
from playbook_supervisor.records import Record, field
from playbook_supervisor.render import text
from playbook_supervisor.render.log import Level, now
from playbook_supervisor.vocabulary import EntryStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from playbook_supervisor.kernel.directives import Attempt
    from playbook_supervisor.outlook import Outlook

_MARGIN: Final = 6  # lines of a terminal that the list leaves free
_ELAPSED: Final = len("59 min 59 s")
_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_MARKS: Final = {
    EntryStatus.DONE: ("✓", "green"),
    EntryStatus.FAILED: ("✗", "red"),
    EntryStatus.SKIPPED: ("–", "dim"),
}


class Terminal(Record, frozen=False):
    """A watcher that draws on stderr; the list stands still while a gate is asked."""

    level: Level = Level.INFO
    console: Console = field(default_factory=lambda: Console(stderr=True, highlight=False))
    _outlook: Outlook | None = None
    _entries: dict[str, Entry] = field(default_factory=dict)
    _lines: dict[str, str] = field(default_factory=dict)
    _live: Live | None = None

    def close(self) -> None:
        """Leave the list as it stands, for the last time."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    # ── watching ────────────────────────────────────────────────────────────────────────────

    def happened(self, event: Event, outlook: Outlook) -> None:
        """A fact has been journaled."""
        self._outlook = outlook
        self._entries[event.entry.step_id] = event.entry
        if event.change is Change.LAUNCHED:
            self._lines.pop(event.entry.step_id, None)
        self._draw()

    def said(self, attempt: Attempt, line: str) -> None:
        """A worker said something: the last line stands beside its step."""
        said = first_line(line)
        if said:
            self._lines[attempt.step.id] = said
        if said and self.level >= Level.DEBUG:
            self.console.print(Text(f"{attempt.id}: {said}", style="dim"))

    def waits(self, outlook: Outlook) -> None:
        """A gate is open: the list stands still, and the bell calls."""
        self._outlook = outlook
        self._entries |= {each.step_id: each for each in outlook.state.entries}
        self._draw()
        self.close()
        self.console.bell()
        self.console.print()
        self.console.print(Text(text.gate_title(outlook), style="bold yellow"))
        self.console.print(Text(text.question(outlook)))

    def notice(self, text: str) -> None:
        """A sentence for the person."""
        self.console.print(Text(f"note: {first_line(text, 1_000)}", style="dim"))

    # ── the list ────────────────────────────────────────────────────────────────────────────

    def _draw(self) -> None:
        if self._live is None:
            self._live = Live(
                get_renderable=self._picture, console=self.console, refresh_per_second=4
            )
            self._live.start()

    def _picture(self) -> Group:
        outlook = self._outlook
        assert outlook is not None  # noqa: S101 - drawn only after something happened
        steps = outlook.state.playbook.steps
        longest = max(len(step.id) for step in steps) + len("#2")
        rows = Table.grid(padding=(0, 2), expand=True)
        rows.add_column(width=1)
        rows.add_column(width=min(longest, self.console.width // 3), no_wrap=True)
        rows.add_column(width=_ELAPSED, justify="right", no_wrap=True)
        rows.add_column(ratio=1, no_wrap=True, overflow="ellipsis", style="dim")
        for step_id in self._in_view(outlook):
            rows.add_row(*self._row(step_id, outlook))
        manifest = outlook.manifest
        title = " · ".join(
            part for part in (manifest.session_id, manifest.playbook, manifest.feature) if part
        )
        done = f"{outlook.done}/{outlook.total}"
        return Group(Text(f"{first_line(title)} · {done}", style="bold"), rows)

    def _in_view(self, outlook: Outlook) -> Iterable[str]:
        """The steps that fit on the screen, those that are due among them."""
        steps = [step.id for step in outlook.state.playbook.steps]
        room = max(self.console.height - _MARGIN, 3)
        due = next((i for i, step in enumerate(steps) if not self._through(step, outlook)), 0)
        first = max(min(due - room // 2, len(steps) - room), 0)
        return steps[first : first + room]

    def _through(self, step_id: str, outlook: Outlook) -> bool:
        phase = outlook.state.playbook.phase_of[step_id]
        known = self._entries.get(step_id)
        return phase < outlook.state.past.phases or (known is not None and known.settled)

    def _row(self, step_id: str, outlook: Outlook) -> tuple[Text, Text, Text, Text]:
        entry = self._entries.get(step_id)
        if entry is None:
            before = self._through(step_id, outlook)
            mark = Text("✓", style="dim") if before else Text("·", style="dim")
            return (
                mark,
                Text(step_id, style="dim"),
                Text(),
                Text("settled before" if before else ""),
            )
        name = Text(step_id if entry.attempt == 1 else entry.id)
        if entry.settled:
            mark = Text(*_MARKS[entry.status])
            # As it was counted while it ran: a gate's hours are not the step's.
            lasted = (entry.completed_at or entry.latest) - entry.started_at
            lasted -= text.waited_ms((entry,))
            skipped = entry.status is EntryStatus.SKIPPED
            return mark, name, Text("" if skipped else text.lasting(lasted)), Text(text.why(entry))
        if entry.gate is not None:
            return Text("?", style="bold yellow"), name, Text(), Text("waits for you")
        at = now()
        since = entry.launched_at or entry.started_at
        mark = Text(_SPINNER[at // 250 % len(_SPINNER)], style="cyan")
        elapsed = Text(text.lasting(max(at - since, 0)))
        return mark, name, elapsed, Text(self._lines.get(step_id, ""))
