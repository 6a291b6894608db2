"""Screens of a terminal as one animated SVG: no script, nothing from elsewhere.

The frames stand side by side on a strip, and a stepping animation moves the strip; where nothing
moves (a printer, a person who wants less motion) the frame that is named as the still one shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from xml.sax.saxutils import escape

from screen import Cell, Screen, Style

CELL_WIDTH, CELL_HEIGHT, FONT = 8.4, 20, 14
MARGIN, BAR = 18, 38
COLOURS = {
    "": "#e6e9ef",
    "black": "#5c6370",
    "red": "#ff7b72",
    "green": "#7ee787",
    "yellow": "#f2cc60",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#76e3ea",
    "white": "#e6e9ef",
}
GROUND, FRAME, DIM = "#14161b", "#2d323b", "#8d96a3"
FAMILY = (
    "ui-monospace,SFMono-Regular,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',"
    "monospace"
)


@dataclass(frozen=True)
class Frame:
    """A screen as it stood for a while: its rows, the cursor, and when it came, in seconds."""

    at: float
    rows: tuple[tuple[Cell, ...], ...]
    cursor: tuple[int, int]

    @classmethod
    def of(cls, screen: Screen, at: float) -> Frame:
        return cls(at, tuple(tuple(row) for row in screen.rows), (screen.x, screen.y))


def draw(frames: Sequence[Frame], *, title: str, told: str, still: int, hold: float) -> str:
    """The SVG. `told` is the story for those who cannot see it; the last frame stays for `hold` s.

    The text of a line that several frames show is there once.
    """
    columns, lines = len(frames[0].rows[0]), len(frames[0].rows)
    width = round(columns * CELL_WIDTH + 2 * MARGIN)
    height = lines * CELL_HEIGHT + BAR + MARGIN
    names: dict[tuple[Cell, ...], str] = {}
    for frame in frames:
        for row in frame.rows:
            names.setdefault(row, f"l{len(names)}")
    drawn = {row: "".join(_line(row)) for row in names}
    strip = [_frame(frame, number * width, names, drawn) for number, frame in enumerate(frames)]
    total = frames[-1].at - frames[0].at + hold
    moments = [(frame.at - frames[0].at) / total for frame in frames]
    steps = "".join(
        f"{moment:.3%}{{transform:translateX(-{number * width}px)}}"
        for number, moment in enumerate(moments)
    )
    return "".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" aria-labelledby="title told">\n'
            f'<title id="title">{escape(title)}</title>\n<desc id="told">{escape(told)}</desc>\n',
            f"<style>text{{font:{FONT}px {FAMILY};white-space:pre}}"
            ".bold{font-weight:700}"
            f".strip{{animation:roll {total:.2f}s step-end infinite}}"
            f"@keyframes roll{{{steps}}}"
            "@media (prefers-reduced-motion:reduce){.strip{animation:none}}</style>\n",
            '<defs><clipPath id="window"><rect '
            f'width="{width}" height="{height}" rx="10"/></clipPath>\n',
            *(f'<g id="{name}">{drawn[row]}</g>\n' for row, name in names.items() if drawn[row]),
            "</defs>\n",
            f'<rect width="{width}" height="{height}" rx="10" fill="{GROUND}"/>\n',
            *(
                f'<circle cx="{20 + 18 * number}" cy="19" r="5.5" fill="{colour}"/>'
                for number, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
            ),
            f'<text x="{width / 2}" y="24" text-anchor="middle" fill="{DIM}">',
            f"{escape(title)}</text>\n",
            f'<g clip-path="url(#window)"><g class="strip" '
            f'transform="translate(-{still * width})">\n',
            *strip,
            "</g></g>\n",
            f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="10" '
            f'fill="none" stroke="{FRAME}"/>\n</svg>\n',
        )
    )


def _frame(
    frame: Frame,
    left: int,
    names: dict[tuple[Cell, ...], str],
    drawn: dict[tuple[Cell, ...], str],
) -> str:
    uses = "".join(
        f'<use href="#{names[row]}" y="{number * CELL_HEIGHT}"/>'
        for number, row in enumerate(frame.rows)
        if drawn[row]
    )
    x, y = frame.cursor
    cursor = (
        f'<rect x="{x * CELL_WIDTH:.1f}" y="{y * CELL_HEIGHT + 2}" width="{CELL_WIDTH}" '
        f'height="{CELL_HEIGHT - 3}" fill="{COLOURS[""]}" opacity=".55"/>'
    )
    return f'<g transform="translate({left + MARGIN} {BAR})">{uses}{cursor}</g>\n'


def _line(row: Sequence[Cell]) -> Iterator[str]:
    """Each run of one style, at its place and of its width: fonts differ."""
    column = 0
    for style, run in groupby(row, key=lambda cell: cell.style):
        text = "".join(cell.character for cell in run)
        start, column = column, column + len(text)
        if style.reverse:
            yield (
                f'<rect x="{start * CELL_WIDTH:.1f}" y="1" width="{len(text) * CELL_WIDTH:.1f}" '
                f'height="{CELL_HEIGHT - 1}" fill="{COLOURS[style.colour]}"/>'
            )
        shown = text.strip()
        if shown:
            start += text.index(shown[0])
            yield _text(shown, start, style)


def _text(text: str, column: int, style: Style) -> str:
    colour = GROUND if style.reverse else COLOURS[style.colour]
    if style.dim and not style.reverse:
        colour = DIM
    weight = ' class="bold"' if style.bold else ""
    return (
        f'<text x="{column * CELL_WIDTH:.1f}" y="{CELL_HEIGHT - 5}" fill="{colour}"{weight} '
        f'textLength="{len(text) * CELL_WIDTH:.1f}" xml:space="preserve">{escape(text)}</text>'
    )
