"""The README's recording: it can be made again, and it shows what the demonstration shows."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

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
