"""A terminal's screen, as far as our own programs write to one: text, colours, a cursor that moves.

What it does not know it passes over, as terminals do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_TOKEN = re.compile(
    r"\x1b\[([0-?]*)[ -/]*([@-~])"  # CSI: parameters, and what is to be done
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles and notices
    r"|\x1b[ -/]*[0-~]"
    r"|([\x00-\x1f\x7f])"
    r"|([^\x00-\x1f\x7f])"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?)?\Z")


@dataclass(frozen=True)
class Style:
    """How a character looks; `colour` is one of the eight of ECMA-48, or nothing."""

    colour: str = ""
    bold: bool = False
    dim: bool = False
    reverse: bool = False


@dataclass(frozen=True)
class Cell:
    """One character in its place."""

    character: str = " "
    style: Style = Style()


_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_BLANK = Cell()


class Screen:
    """`rows` of cells, and a cursor. What leaves at the top stands in `scrolled`."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self.rows = [[_BLANK] * columns for _ in range(lines)]
        self.scrolled: list[list[Cell]] = []
        self.x = self.y = 0
        self._style = Style()
        self._rest = ""

    @property
    def text(self) -> list[str]:
        """What can be read, a text for each line down to the last that is not empty."""
        lines = ["".join(cell.character for cell in row).rstrip() for row in self.rows]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def feed(self, written: str) -> None:
        """Show what a program has written; a sequence may end in the next piece."""
        written = self._rest + written
        unfinished = _UNFINISHED.search(written)
        end = unfinished.start() if unfinished else len(written)
        self._rest = written[end:]
        for found in _TOKEN.finditer(written, 0, end):
            parameters, action, control, character = found.groups()
            if character:
                self._put(character)
            elif control:
                self._control(control)
            elif action and not parameters.startswith("?"):
                self._act(action, [int(n) if n.isdecimal() else 0 for n in parameters.split(";")])

    def resize(self, columns: int) -> None:
        """Become narrower: lines that do not fit any more continue in the next row."""
        above = sum(len(_broken(row, columns)) for row in self.rows[: self.y])
        rows = [piece for row in self.rows for piece in _broken(row, columns)]
        self.columns, self.x, self.y = columns, min(self.x, columns), above
        self.rows = rows[: self.lines]

    def _put(self, character: str) -> None:
        if self.x == self.columns:
            self.x = 0
            self._down()
        self.rows[self.y][self.x] = Cell(character, self._style)
        self.x += 1

    def _control(self, control: str) -> None:
        if control == "\r":
            self.x = 0
        elif control == "\n":
            self._down()
        elif control == "\b":
            self.x = max(self.x - 1, 0)

    def _down(self) -> None:
        if self.y + 1 < self.lines:
            self.y += 1
            return
        self.scrolled.append(self.rows.pop(0))
        self.rows.append([_BLANK] * self.columns)

    def _act(self, action: str, numbers: list[int]) -> None:
        first = numbers[0]
        match action:
            case "A":
                self.y = max(self.y - (first or 1), 0)
            case "K" if first == 0:
                self._erase(self.y, self.x)
            case "J" if first == 0:
                self._erase(self.y, self.x)
                for line in range(self.y + 1, self.lines):
                    self._erase(line, 0)
            case "m":
                for number in numbers:
                    self._style = _styled(self._style, number)
            case _:
                raise ValueError(f"this screen does not know CSI {numbers} {action}")

    def _erase(self, line: int, start: int) -> None:
        row = self.rows[line]
        row[start:] = [_BLANK] * (self.columns - start)


def _broken(row: list[Cell], columns: int) -> list[list[Cell]]:
    """A row as it stands where there are only so many columns: in several pieces, perhaps."""
    written = max((place for place, cell in enumerate(row) if cell != _BLANK), default=0) + 1
    pieces = [row[start : min(start + columns, written)] for start in range(0, written, columns)]
    return [piece + [_BLANK] * (columns - len(piece)) for piece in pieces]


def _styled(style: Style, number: int) -> Style:
    match number:
        case 0:
            return Style()
        case 1:
            return replace(style, bold=True)
        case 2:
            return replace(style, dim=True)
        case 7:
            return replace(style, reverse=True)
        case _ if 30 <= number <= 37:
            return replace(style, colour=_COLOURS[number - 30])
        case _ if 90 <= number <= 97:
            return replace(style, colour=_COLOURS[number - 90])
        case _:
            return style
