"""Pictures on a terminal that change in their place. The only room that imports rich."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.segment import Segment, SegmentLines
from rich.table import Table
from rich.text import Text

from playbook_supervisor.cli.render import steps, text
from playbook_supervisor.cli.render.log import Level, now
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import counted, first_line
from playbook_supervisor.kernel.state import Change, Entry, Event
from playbook_supervisor.records import Record, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from playbook_supervisor.cli.render.board import Line
    from playbook_supervisor.cli.render.metrics_tables import Sheet
    from playbook_supervisor.cli.render.steps import StepList
    from playbook_supervisor.kernel.directives import Attempt
    from playbook_supervisor.sessions.snapshot import Snapshot

_PACE = 0.25  # seconds between two frames
_MARGIN = 6  # lines of a terminal that the list leaves free: for a question, and an answer
_SHORTEST = 12  # columns that a name may take on any terminal
_SHIFT = 4  # columns by which a line goes on to the right
_GROWTH = 4  # columns that two signs of what was cut take more where there is ASCII alone
_GAP = 2  # columns between two of a table
_WORDS = 24  # columns below which a line of the agent says nothing
_ERASE_LINE, _ERASE_BELOW = "\x1b[K", "\x1b[J"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"  # a frame is shown as a whole, where that is known
_STYLES = {
    "done": ("green", "", "dim"),
    "failed": ("red", "", "red"),
    "skipped": ("dim", "dim", "dim"),
    "waits": ("bold yellow", "bold yellow", "bold yellow"),
    "works": ("cyan", "bold", ""),
    "due": ("dim", "dim", "dim"),
}
"""What a row's tone means for its mark, its name and its words."""
_TONES = {"plain": "", "waits": "bold yellow", "works": "cyan", "dim": "dim"}


class Region(Record, frozen=False):
    """Lines of a terminal that are drawn again and again in their place, in one write each time.

    Nothing is erased before it is written over, and no line reaches the margin: so nothing
    flickers, and how many rows the lines take after the terminal became narrower can be known.
    """

    console: Console
    _widths: list[int] = field(default_factory=list)
    _left: int = 0  # how often; a signal may come while another thread draws

    @property
    def _growth(self) -> int:
        return _GROWTH if self.console.options.ascii_only else 0

    def draw(self, picture: RenderableType, *, above: RenderableType | None = None) -> None:
        """Put the picture in place of the former one; `above` it goes what is to stay."""
        left = self._left
        width, height = self.console.size
        room = self.console.options.update(width=max(width - 1 - self._growth, 1))
        lines = self.console.render_lines(picture, room, pad=False)[: max(height - 1, 1)]
        kept = [] if above is None else self.console.render_lines(above, room, pad=False)
        up = sum(max(1, -(-cells // width)) for cells in self._widths)
        back = f"\x1b[{up}A" if up else ""
        picture = SegmentLines([*kept, *lines], new_lines=True)
        self._write(picture, f"{_BEGIN}\r{back}", _ERASE_LINE, f"{_ERASE_BELOW}{_END}")
        self._widths = [Segment.get_line_length(line) for line in lines]
        if self._left != left:
            self._widths = []

    def say(self, *lines: Text) -> None:
        """What is to stay, where no picture stands."""
        self._write(Group(*lines))

    def leave(self) -> None:
        """Leave the picture as it stands; the next one begins below."""
        self._left += 1
        self._widths = []

    def _write(
        self, shown: RenderableType, before: str = "", after_each: str = "", behind: str = ""
    ) -> None:
        """Whoever watches must not break the run: a terminal that is gone is no error."""
        with suppress(OSError, ValueError):
            with self.console.capture() as capture:
                self.console.print(shown, end="")
            lines = capture.get().replace("\n", f"{after_each}\n")
            self.console.file.write(f"{before}{lines}{behind}")
            self.console.file.flush()


class Terminal:
    """A watcher that draws on stderr; the list stands still while a gate is asked.

    `earlier` tells the attempts that were journaled before this drive began. A thread draws the
    list again and again; nothing here waits for anything.
    """

    def __init__(self, level: Level, earlier: Callable[[Snapshot], Sequence[Entry]]) -> None:
        self._level, self._earlier = level, earlier
        self._console = Console(stderr=True, highlight=False)
        self._region = Region(self._console)
        self._lock = threading.RLock()  # between whoever tells what happens and whoever draws
        self._outlook: Snapshot | None = None
        self._attempts: dict[str, Entry] = {}
        self._lines: dict[str, str] = {}
        self._above = 0
        self._drawing: _Drawing | None = None
        _start_anew_after_a_stop(self._region)

    def close(self) -> None:
        """Leave the list as it stands, for the last time."""
        if self._drawing is not None:
            self._drawing.end()
            self._drawing = None
            self._draw()
            self._region.leave()

    # ── watching ────────────────────────────────────────────────────────────────────────────

    def on_event(self, event: Event, snapshot: Snapshot) -> None:
        """A fact has been journaled."""
        with self._lock:
            self._see(snapshot)
            self._attempts[event.entry.id] = event.entry
            if event.change is Change.LAUNCHED:
                self._lines.pop(event.entry.step_id, None)
        self._begin()

    def on_output(self, attempt: Attempt, line: str) -> None:
        """A worker said something: the last line stands beside its step."""
        with self._lock:
            self._lines[attempt.step.id] = first_line(line)
        if self._level >= Level.DEBUG:
            self._tell(f"{attempt.id}: {first_line(line)}")

    def on_gate(self, snapshot: Snapshot) -> None:
        """A gate is open: the list stands still."""
        with self._lock:
            self._see(snapshot)
        self._begin()
        self.close()
        self._above = steps.due(snapshot, self._attempts)
        title = Text(f" {text.gate_title(snapshot)} ", style="bold reverse yellow")
        self._region.say(Text(), title, Text(text.question(snapshot)))

    def on_end(self, snapshot: Snapshot) -> None:
        """The drive is over."""
        with self._lock:
            self._see(snapshot)
        self.close()

    def on_notice(self, text: str) -> None:
        """A sentence for the person."""
        self._tell(f"note: {first_line(text, 1_000)}")

    # ── the list ────────────────────────────────────────────────────────────────────────────

    def _see(self, outlook: Snapshot) -> None:
        if self._outlook is None:
            with suppress(PlaybookError):
                self._attempts = {entry.id: entry for entry in self._earlier(outlook)}
        self._outlook = outlook
        self._attempts |= {entry.id: entry for entry in outlook.state.entries}

    def _begin(self) -> None:
        if self._drawing is None:
            self._draw()
            self._drawing = _Drawing(self._draw)

    def _tell(self, sentence: str) -> None:
        """Above the list, where it stays."""
        said = Text(sentence, style="dim")
        if self._drawing is None:
            self._region.say(said)
        else:
            self._draw(said)

    def _draw(self, above: Text | None = None) -> None:
        with self._lock:
            assert self._outlook is not None  # noqa: S101 - drawn only after something happened
            room = max(self._console.height - _MARGIN, 3)
            listed = steps.picture(
                self._outlook,
                self._attempts,
                self._lines,
                now=now(),
                room=room,
                above=self._above,
            )
            self._region.draw(_listing(listed, self._console.width), above=above)


class Board:
    """The sessions on the terminal of `stream`, drawn whenever somebody looks at them again."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False)
        self._region = Region(self._console)
        _start_anew_after_a_stop(self._region)

    def draw(self, lines: Sequence[Line]) -> None:
        """As many lines as the terminal has room for."""
        room = max(self._console.height - 2, 1)
        parts = [part for line in lines for part in self._broken(line)]
        if len(parts) > room:
            more = counted(len(parts) - room, "more line")
            parts = [*parts[:room], Text(f"… {more}", style="dim")]
        self._region.draw(_cut(parts))

    def _broken(self, line: Line) -> list[Text]:
        """What a person has to read goes on in the next line, a little to the right."""
        text = Text(line.text, style=_TONES[line.tone])
        width = self._console.width - 1
        if not line.whole or text.cell_len <= width:
            return [text]
        first, *rest = text.wrap(self._console, max(width - _SHIFT, _SHORTEST))
        return [first, *(Text.assemble(" " * _SHIFT, each) for each in rest)]


class _Drawing:
    """A thread that draws."""

    def __init__(self, draw: Callable[[], None]) -> None:
        self._draw = draw
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _go_on(self) -> None:
        while not self._over.wait(_PACE):
            self._draw()


def _start_anew_after_a_stop(region: Region) -> None:
    """A shell has written meanwhile (Ctrl-Z, `fg`): the picture goes on below that."""
    signal.signal(signal.SIGCONT, lambda *_: region.leave())


def _listing(picture: StepList, width: int) -> Group:
    """The list, laid out: where a terminal is narrow, without what the agents say."""
    names = max((cell_len(row.name) for row in picture.rows), default=0)
    names = min(names, max(width // 3, _SHORTEST))
    elapsed = max(len("10 min"), *(len(row.elapsed) for row in picture.rows))
    wordy = width - names - elapsed >= _WORDS
    parts = [Text(picture.title, style="bold")]
    if picture.earlier:
        parts.append(Text(f"…  {picture.earlier} before", style="dim"))
    for row in picture.rows:
        mark, tone, words = _STYLES[row.tone]
        name = Text(row.name, style=tone)
        name.truncate(names, overflow="ellipsis", pad=True)
        line = Text.assemble((row.mark, mark), "  ", name, f"  {row.elapsed:>{elapsed}}")
        parts.append(line.append(f"  {row.words}", style=words) if wordy else line)
    if picture.later:
        parts.append(Text(f"…  {picture.later} to come", style="dim"))
    return _cut(parts)


def _cut(lines: Sequence[Text]) -> Group:
    """Lines that end at the margin, and as early as they can."""
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
        line.rstrip()
    return Group(*lines)


def show_tables(sheets: Iterable[Sheet], stream: TextIO) -> None:
    """Tables of figures, as wide as they need and the terminal allows."""
    from playbook_supervisor.cli.render.metrics_tables import fitted  # runs need none of it

    console = Console(file=stream, highlight=False)
    for sheet in sheets:
        name, *figures = sheet.head
        table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
        rows = (sheet.head, *sheet.rows)
        widest = [max(len(row[number]) for row in rows) for number in range(1, len(sheet.head))]
        room = console.width - sum(width + _GAP for width in widest)
        room = max(room, _SHORTEST)
        table.add_column(Text(name), no_wrap=True, max_width=room)
        for figure, width in zip(figures, widest, strict=True):
            table.add_column(Text(figure), justify="right", no_wrap=True, min_width=width)
        for row in sheet.rows:
            table.add_row(Text(fitted(row[0], room)), *map(Text, row[1:]))
        console.print()
        console.print(table)
