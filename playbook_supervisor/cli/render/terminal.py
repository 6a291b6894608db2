"""Pictures that a terminal redraws in place. The only module that imports rich."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.segment import Segment, SegmentLines
from rich.text import Text

from playbook_supervisor.cli.options import Level
from playbook_supervisor.cli.render import live, text
from playbook_supervisor.cli.render.live import StepList
from playbook_supervisor.cli.render.log import now
from playbook_supervisor.cli.render.text import Line
from playbook_supervisor.drivers.observers import Observer
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import counted, first_line, shortened
from playbook_supervisor.kernel.directives import Attempt
from playbook_supervisor.kernel.state import Change, Entry, Event
from playbook_supervisor.sessions.store.snapshot import Snapshot

_INTERVAL = 0.25  # seconds between two frames
_MARGIN = 6  # lines that the list leaves free for a question and its answer
_FRAME = 2  # lines for the title and the cursor
_FEWEST = 5  # rows that a low terminal shows rather than leave lines free
_NAME = 12  # columns that a name gets even on a narrow terminal
_INDENT = 4  # columns before the rest of a wrapped line
_GROWTH = 4  # more columns for two ellipses in ASCII
_GAP = 2  # blanks between the columns of a table
_WORDS = 24  # columns; with fewer the agent's line is left out
_ERASE_LINE, _ERASE_BELOW = "\x1b[K", "\x1b[J"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"  # synchronized output: no half-drawn frame
_STYLES = {
    "done": ("green", "", "dim"),
    "failed": ("red", "", "red"),
    "skipped": ("dim", "dim", "dim"),
    "waits": ("bold yellow", "bold yellow", "bold yellow"),
    "works": ("cyan", "bold", ""),
    "due": ("dim", "dim", "dim"),
}
"""The styles of a row's mark, name and words for each tone."""
_TONES = {"plain": "", "waits": "bold yellow", "works": "cyan", "dim": "dim"}


@dataclass(slots=True)
class Region:
    """Lines of a terminal that are redrawn in place, with one write for each frame.

    To avoid flicker, nothing is erased before it is overwritten. No line reaches the last column,
    so the number of rows can still be computed after the terminal was made narrower.
    """

    console: Console
    _widths: list[int] = field(default_factory=list)
    _left: int = 0  # counts `leave`, which a signal may call while another thread draws

    @property
    def _growth(self) -> int:
        return _GROWTH if self.console.options.ascii_only else 0

    def draw(self, picture: RenderableType, *, above: RenderableType | None = None) -> None:
        """Replace the picture; `above` is written before it and stays."""
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

    def print(self, *lines: Text) -> None:
        """Write lines that stay, while there is no picture; no address in them is broken."""
        for line in lines:
            line.no_wrap = any(len(word) >= self.console.width for word in line.plain.split())
            line.overflow = "ignore" if line.no_wrap else None
        self._write(Group(*lines))

    def leave(self) -> None:
        """Keep the picture; the next one is drawn below it."""
        self._left += 1
        self._widths = []

    def _write(
        self, shown: RenderableType, before: str = "", after_each: str = "", after: str = ""
    ) -> None:
        """A closed terminal must not stop the run."""
        with suppress(OSError, ValueError):
            with self.console.capture() as capture:
                self.console.print(shown, end="")
            lines = capture.get().replace("\n", f"{after_each}\n")
            self.console.file.write(f"{before}{lines}{after}")
            self.console.file.flush()


class Terminal(Observer):
    """A live list on stderr, redrawn by a thread; it pauses while a gate is open."""

    def __init__(self, level: Level) -> None:
        self._level = level
        self._console = Console(stderr=True, highlight=False)
        self._region = Region(self._console)
        self._lock = threading.RLock()  # between this thread and the one that draws
        self._snapshot: Snapshot | None = None
        self._attempts: dict[str, Entry] = {}
        self._lines: dict[str, str] = {}
        self._above = 0
        self._drawing: _Drawing | None = None
        _restart_after_stop(self._region)

    def close(self) -> None:
        """Draw the list for the last time and keep it."""
        if self._drawing is not None:
            self._drawing.end()
            self._drawing = None
            self._draw()
            self._region.leave()

    # ── events ──────────────────────────────────────────────────────────────────────────────

    def on_event(self, event: Event, snapshot: Snapshot) -> None:
        with self._lock:
            self._update(snapshot)
            self._attempts[event.id] = event.entry
            if event.change is Change.LAUNCHED:
                self._lines.pop(event.id, None)
        if event.change is Change.RETURNED and event.entry.recovered:
            self._print_above(f"{event.id} {text.RECOVERED}")
        self._begin()

    def on_output(self, attempt: Attempt, line: str) -> None:
        """A worker has printed a line, which is shown beside its step."""
        with self._lock:
            self._lines[attempt.id] = first_line(line)
        if self._level >= Level.DEBUG:
            self._print_above(f"{attempt.id}: {first_line(line)}")

    def on_check(self, attempt: Attempt, shown: str, seconds: int) -> None:
        del seconds
        with self._lock:
            self._lines[attempt.id] = shown

    def on_gate(self, snapshot: Snapshot) -> None:
        with self._lock:
            self._update(snapshot)
        self._begin()
        self.close()
        self._above = live.settled_steps(snapshot, self._attempts)
        place = text.path(text.asked(snapshot).member.id)
        title = Text(f" {place} waits for you ", style="bold reverse yellow")
        self._region.print(Text(), title, Text(text.question(snapshot)))

    def on_end(self, snapshot: Snapshot) -> None:
        with self._lock:
            self._update(snapshot)
        self.close()

    def on_notice(self, text: str) -> None:
        self._print_above(f"note: {first_line(text, 1_000)}")

    # ── the list ────────────────────────────────────────────────────────────────────────────

    def _update(self, snapshot: Snapshot) -> None:
        if self._snapshot is None:
            with suppress(PlaybookError):
                self._attempts = dict(_journaled(snapshot))
        self._snapshot = snapshot
        self._attempts |= _due(snapshot)

    def _begin(self) -> None:
        if self._drawing is None:
            self._draw()
            self._drawing = _Drawing(self._draw)
        elif not self._drawing.alive:
            self._draw()

    def _print_above(self, sentence: str) -> None:
        line = Text(sentence, style="dim")
        if self._drawing is None:
            self._region.print(line)
        else:
            self._draw(line)

    def _draw(self, above: Text | None = None) -> None:
        with self._lock:
            assert self._snapshot is not None  # noqa: S101 - drawn only after something happened
            height = self._console.height
            room = max(height - _MARGIN, min(height - _FRAME, _FEWEST), 1)
            rows = live.step_list(
                self._snapshot, self._attempts, self._lines, now=now(), room=room, above=self._above
            )
            self._region.draw(_layout(rows, self._console.width), above=above)


class Board:
    """The board of all sessions on the terminal of `stream`."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False)
        self._region = Region(self._console)
        _restart_after_stop(self._region)

    def draw(self, lines: Sequence[Line]) -> None:
        """Draw as many lines as fit."""
        room = max(self._console.height - 2, 1)
        parts = [part for line in lines for part in self._wrapped(line)]
        if len(parts) > room:
            more = counted(len(parts) - room, "more line")
            parts = [*parts[:room], Text(f"… {more}", style="dim")]
        self._region.draw(_cut(parts))

    def _wrapped(self, line: Line) -> list[Text]:
        text = Text(line.text, style=_TONES[line.tone])
        width = self._console.width - 1
        if not line.whole or text.cell_len <= width:
            return [text]
        first, *rest = text.wrap(self._console, max(width - _INDENT, _NAME))
        return [first, *(Text.assemble(" " * _INDENT, each) for each in rest)]


class _Drawing:
    """A thread that calls `draw` at intervals; the run continues without it if it cannot."""

    def __init__(self, draw: Callable[[], None]) -> None:
        self._draw = draw
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        with suppress(RuntimeError):  # the system allows no more threads
            self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def end(self) -> None:
        self._over.set()
        if self.alive:
            self._thread.join()

    def _run(self) -> None:
        with suppress(MemoryError, RuntimeError, OSError):
            while not self._over.wait(_INTERVAL):
                self._draw()


def _journaled(snapshot: Snapshot, within: str = "") -> Iterator[tuple[str, Entry]]:
    """The attempts of the whole journals: a snapshot has the entries of the due phase alone."""
    for entry in snapshot.store.journal(snapshot.session_id).entries:
        yield f"{within}{entry.id}", entry
    for place, child in snapshot.children.items():
        yield from _journaled(child, f"{within}{place}/")


def _due(snapshot: Snapshot, within: str = "") -> dict[str, Entry]:
    found = {f"{within}{entry.id}": entry for entry in snapshot.state.entries}
    for place, child in snapshot.children.items():
        found |= _due(child, f"{within}{place}/")
    return found


def _restart_after_stop(region: Region) -> None:
    """After Ctrl-Z and `fg`, draw below what the shell has written."""
    signal.signal(signal.SIGCONT, lambda *_: region.leave())


def _layout(picture: StepList, width: int) -> Group:
    names = max((cell_len(row.name) + 2 * row.depth for row in picture.rows), default=0)
    names = min(names, max(width // 3, _NAME))
    elapsed = max(len("10 min"), *(len(row.elapsed) for row in picture.rows))
    with_words = width - names - elapsed >= _WORDS
    parts = [Text(picture.title, style="bold")]
    if picture.earlier:
        parts.append(Text(f"…  {picture.earlier} above", style="dim"))
    for row in picture.rows:
        mark, tone, words = _STYLES[row.tone]
        name = Text(f"{'  ' * row.depth}{row.name}", style=tone)
        name.truncate(names, overflow="ellipsis", pad=True)
        line = Text.assemble((row.mark, mark), "  ", name, f"  {row.elapsed:>{elapsed}}")
        shown = _fitted(row, width - line.cell_len - _GAP - 1)
        parts.append(line.append(f"  {shown}", style=words) if with_words else line)
    if picture.later:
        parts.append(Text(f"…  {picture.later} more", style="dim"))
    return _cut(parts)


def _fitted(row: live.Row, room: int) -> str:
    """The words of a row so that what is cut of them is what says least.

    Half an address is of no use; of what a running check has printed, the end says how far it is.
    """
    words = row.words
    if cell_len(words) <= room:
        return words
    told, dot, line = words.partition(" · ")
    if row.tone == "works" and dot and told.startswith("checking "):
        return f"{told}{dot}{shortened(line, max(room - len(told) - len(dot), 1))}"
    address = re.search(r"https?://\S+", words)
    if address is None:
        return words
    if cell_len(address[0]) <= room:
        return address[0]
    return f"{words[: address.start()]}…"  # the summary has it


def _cut(lines: Sequence[Text]) -> Group:
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
        line.rstrip()
    return Group(*lines)
