"""The README's recording: it can be made again, and it shows what the demonstration shows."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from animation import Frame, draw
from screen import Cell, Screen, Style

from playbook_supervisor.project.playbooks.schema import read_playbook

REPOSITORY = Path(__file__).parent.parent
RECORDING = REPOSITORY / "docs/demo.svg"
SVG = "{http://www.w3.org/2000/svg}"
DRAWN = {"svg", "title", "desc", "style", "defs", "clipPath"} | {
    *("rect", "circle", "g", "text", "use")
}
SAYS = re.compile(r"^    say: (.*)$", re.MULTILINE)
"""What the demonstration's agent says in steps that say one thing."""


@pytest.fixture(scope="module")
def recording() -> ET.Element:
    return ET.fromstring(RECORDING.read_text("utf-8"))  # noqa: S314 - a file of ours


def test_the_recording_shows_every_step_of_the_demonstration(recording: ET.Element) -> None:
    steps = [
        step.id
        for step in read_playbook(
            (REPOSITORY / "templates/playbooks/auto-feature.yaml").read_bytes(), "auto-feature.yaml"
        ).steps
    ]
    told = recording.findtext(f"{SVG}desc") or ""
    assert len(steps) == 8
    for step in steps:
        assert re.search(rf"^✓  {step}(#2)? ", told, re.MULTILINE), step
    assert "plan_exists: specs/001-greeting/plan.md" in told
    assert "pr#1 waits for you" in told
    assert "completed, 8/8 steps" in told
    shown = "\n".join(recording.itertext())
    says = SAYS.findall((REPOSITORY / "templates/demo/script.yaml").read_text("utf-8"))
    assert says
    for said in says:
        assert said in shown


def test_the_recording_loads_and_runs_nothing(
    recording: ET.Element,
) -> None:
    names = {element.tag.removeprefix(SVG) for element in recording.iter()}
    assert names <= DRAWN
    links = [element.get("href") for element in recording.iter(f"{SVG}use")]
    known = {element.get("id") for element in recording.iter()}
    assert links
    assert {str(link).removeprefix("#") for link in links} <= known
    assert "/tmp" not in RECORDING.read_text("utf-8")
    assert recording.get("viewBox") == "0 0 859 596"


def test_the_readme_shows_the_recording() -> None:
    assert "](docs/demo.svg)" in (REPOSITORY / "README.md").read_text("utf-8")
    assert "tools/record_demo.py docs/demo.svg" in (REPOSITORY / "Makefile").read_text("utf-8")


def test_a_screen_shows_what_a_terminal_would() -> None:
    screen = Screen(10, 3)
    screen.feed("one\r\n\x1b[1;3")
    screen.feed("3mtwo\x1b[0m\a\x1b]9;notice\a\x1b[?2026h")
    assert screen.text == ["one", "two"]
    assert screen.rows[1][0] == Cell("t", Style("yellow", bold=True))
    screen.feed("\r\x1b[1Ax\x1b[K\nabc\b\x1b[J\x1b[2;7;96md\x1b[99m")
    assert screen.text == ["x", "tabd"]
    assert screen.rows[1][3].style == Style("cyan", dim=True, reverse=True)
    screen.feed("\n\n\r\x1b=over the margin")
    assert ["".join(cell.character for cell in row).rstrip() for row in screen.scrolled] == [
        "x",
        "tabd",
    ]
    assert screen.text == ["", "over the m", "argin"]
    with pytest.raises(ValueError, match="does not know"):
        screen.feed("\x1b[5S")


def test_a_screen_that_becomes_narrower_breaks_its_lines() -> None:
    screen = Screen(8, 4)
    screen.feed("abcdefgh\r\nxy\r\n")
    screen.resize(5)
    assert screen.text == ["abcde", "fgh", "xy"]
    assert (screen.x, screen.y) == (0, 3)


def test_a_constant_line_is_drawn_once_and_hostile_text_stays_text() -> None:
    screen, frames = Screen(30, 2), []
    for second, text in enumerate(("\x1b[7m<script>&\x1b[0m\r\n", "\x1b[1;2mtwo\x1b[0m", "!")):
        screen.feed(text)
        frames.append(Frame.of(screen, float(second)))
    svg = draw(frames, title="a & b", told="<told>", still=1, hold=2.0)
    picture = ET.fromstring(svg)  # noqa: S314 - made above
    assert svg.count("&lt;script&gt;&amp;") == 1
    assert "animation:roll 4.00s" in svg
    assert picture.findtext(f"{SVG}title") == "a & b"
    strip = picture.find(f".//{SVG}g[@class='strip']")
    assert strip is not None
    assert strip.get("transform") == f"translate(-{int(picture.get('width', ''))})"
    assert len(strip) == 3
