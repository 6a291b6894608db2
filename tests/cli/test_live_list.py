"""The live list on terminals of all sizes."""

from __future__ import annotations

import io
import re
import signal
import threading
from collections.abc import Callable, Iterator

import pytest
from pytest_mock import MockerFixture
from rich.console import Console
from rich.text import Text
from screen import Screen
from support.controlled_time import Held
from support.scratch_project import Project

from playbook_supervisor.cli.drive import steps_table
from playbook_supervisor.cli.options import Level
from playbook_supervisor.cli.render import live, text
from playbook_supervisor.cli.render.live import spinner
from playbook_supervisor.cli.render.terminal import Region, Terminal
from playbook_supervisor.commands.driving import driving
from playbook_supervisor.commands.driving.driving import DriveOptions
from playbook_supervisor.drivers.observers import DriveResult
from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.kernel.vocabulary import Decision, EntryStatus
from playbook_supervisor.sessions.store.snapshot import Snapshot

pytestmark = pytest.mark.measured

HEAD = 'name: many\ndescription: Many steps\nversion: "1.0"\nargs: []\nsteps:\n'
STEP = "  - {id: %s, command: /qa.plan, autonomy: %s, error_policy: %s%s}\n"
SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
SPINNER = tuple(map(spinner, range(0, 10_000, 50)))


class Tty(io.StringIO):
    """Records the pictures that are drawn on it."""

    look: Callable[[str], None] | None = None

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self.look is not None:
            self.look(text)
        return super().write(text)


class Sitting:
    """A terminal in which this process drives the playbook `many`."""

    def __init__(self, project: Project, patch: pytest.MonkeyPatch) -> None:
        self.project, self._patch = project, patch
        self.stderr = Tty()
        patch.chdir(project.root)
        patch.setenv("TERM", "xterm-256color")

    def playbook(self, *steps: tuple[str, str, str, str]) -> None:
        lines = "".join(STEP % step for step in steps)
        self.project.write(".playbooks/playbooks/many.yaml", HEAD + lines)

    def runs(self, agent: str, level: Level = Level.INFO) -> tuple[Screen, DriveResult]:
        """Run it with this script, or with the named agent."""
        terminal = self._terminal(100, 30, level)
        named = agent.startswith("exec:")
        drive = DriveOptions(agent=agent if named else self.project.script(agent))
        ending = driving.run("many", drive=drive, observer=terminal)
        return self._left(terminal, 100, 30), ending

    def resumes(self, columns: int, lines: int) -> Screen:
        """The screen of that size after a resume without an answer."""
        terminal = self._terminal(columns, lines, Level.INFO)
        assert driving.resume(observer=terminal).why == "waiting"
        return self._left(terminal, columns, lines)

    def _terminal(self, columns: int, lines: int, level: Level) -> Terminal:
        self.stderr.seek(0)
        self.stderr.truncate()
        self._patch.setattr("sys.stderr", self.stderr)
        self._patch.setenv("COLUMNS", str(columns))
        self._patch.setenv("LINES", str(lines))
        return Terminal(level)

    def _left(self, terminal: Terminal, columns: int, lines: int) -> Screen:
        terminal.close()
        screen = Screen(columns, lines)
        screen.feed(self.stderr.getvalue().replace("\n", "\r\n"))
        return screen


@pytest.fixture
def sitting(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sitting]:
    former = signal.getsignal(signal.SIGCONT)
    yield Sitting(project, monkeypatch)
    signal.signal(signal.SIGCONT, former)


def test_the_current_step_is_visible_at_any_size(sitting: Sitting) -> None:
    before = [(f"step-{number}", "auto", "stop", "") for number in range(30)]
    after = [(f"later-{number}", "auto", "stop", "") for number in range(30)]
    sitting.playbook(*before, ("in-the-middle", "gate_always", "stop", ""), *after)
    sitting.runs("default: {say: it is written}\n")

    wide = sitting.resumes(200, 80).text
    assert len(wide) == 1 + 61 + 3
    assert wide[1].startswith("✓  step-0 ")
    assert wide[1].endswith("it is written")
    assert wide[-2] == " in-the-middle#1 waits for you"

    common = sitting.resumes(100, 24).text
    assert common[0].startswith("many · 013-playbook-create · 30/61 · ")
    assert common[1] == "…  22 above"
    assert common[10].split() == ["?", "in-the-middle", "waits", "for", "you"]
    assert common[18] == "…  23 more"

    narrow = sitting.resumes(30, 20).text
    assert [line for line in narrow if line.startswith("?")] == ["?  in-the-midd…"]
    assert "written" not in "\n".join(narrow)

    low = sitting.resumes(60, 10)
    scrolled = ["".join(cell.character for cell in row) for row in low.scrolled]
    shown = [line.split()[1] for line in [*scrolled, *low.text] if line[:2] in ("✓ ", "? ", "· ")]
    assert shown == ["step-29", "in-the-middle", "later-0"]

    tiny = sitting.resumes(14, 6)
    scrolled = ["".join(cell.character for cell in row) for row in tiny.scrolled]
    assert any("?  in-the" in line for line in [*scrolled, *tiny.text])


def test_a_run_goes_on_where_no_thread_can_draw_its_list(
    sitting: Sitting, mocker: MockerFixture
) -> None:
    start = "playbook_supervisor.cli.render.terminal.threading.Thread.start"
    started = threading.Thread.start
    sitting.playbook(("one", "auto", "stop", ""), ("two", "auto", "stop", ""))

    def refused(thread: threading.Thread) -> None:
        if thread.name.endswith("(_run)"):
            raise RuntimeError("can't start new thread")
        started(thread)

    mocker.patch(start, autospec=True, side_effect=refused)
    screen, ending = sitting.runs("default: {say: it is written}\n")
    assert ending.why == "completed"
    assert [line[:6] for line in screen.text[-2:]] == ["✓  one", "✓  two"]


@pytest.mark.parametrize(
    ("current", "room", "shown"),
    [
        ([0], 5, (0, 3)),
        ([9, 10], 6, (8, 12)),
        ([9, 10, 11, 12], 4, (9, 11)),
        ([19], 5, (17, 20)),
        ([9], 1, (9, 10)),
    ],
)
def test_the_list_scrolls_with_the_running_steps(
    current: list[int], room: int, shown: tuple[int, int]
) -> None:
    assert live._visible(0, 20, current, room) == shown


def test_a_parallel_group_shows_the_output_of_each_step(sitting: Sitting) -> None:
    sitting.playbook(
        ("one", "auto", "stop", ", parallel_group: both"),
        ("two", "auto", "stop", ", parallel_group: both"),
    )
    held = Held.put(sitting.project, say="looking around")
    seen: list[str] = []

    def look(picture: str) -> None:
        lines = SEQUENCE.sub("", picture).splitlines()
        seen[:] = [line for line in lines if line[:1] in SPINNER and "  looking around" in line]
        if len(seen) == 2:
            sitting.stderr.look = None
            held.let_go()

    sitting.stderr.look = look
    _, ending = sitting.runs(held.agent)
    assert ending.why == "completed"
    assert [line.split()[1] for line in seen] == ["one", "two"]


def test_a_parallel_group_leaves_a_line_for_each_step(sitting: Sitting) -> None:
    sitting.playbook(
        ("one", "auto", "stop", ", parallel_group: both"),
        ("two", "auto", "retry_once", ", parallel_group: both"),
        ("three", "skip", "stop", ""),
        ("four", "auto", "stop", ""),
    )
    screen, ending = sitting.runs(
        "steps:\n  two: [{fail: red}, {say: green}]\n  four: {fail: it is broken}\n"
        "default: {say: done}\n"
    )
    assert ending.why == "failed"
    marks = [line[:8].rstrip() for line in screen.text[1:]]
    assert marks == ["✓  one", "✓  two#2", "–  three", "✗  four"]
    assert screen.text[3].endswith("skipped by the playbook")
    assert "it is broken" in screen.text[4]


def test_a_retry_that_waits_and_a_step_that_is_due_say_so(sitting: Sitting) -> None:
    seen: set[str] = set()

    def look(picture: str) -> None:
        seen.update(line[3:] for line in SEQUENCE.sub("", picture).splitlines())

    sitting.stderr.look = look
    sitting.project.write(
        ".playbooks/playbooks/many.yaml",
        HEAD.replace("1.0", "1.1")
        + "  - {id: one, command: cli false, autonomy: auto, error_policy: 'retry:1'}\n"
        + "  - {id: two, title: The second, command: cli true, autonomy: auto, "
        "error_policy: stop}\n",
    )
    _, ending = sitting.runs("steps: {}\ndefault: {say: done}\n")
    assert ending.why == "failed"
    shown = "\n".join(sorted(seen))
    assert re.search(r"^one#1 +retry in [\d.]+ s · false ended with exit status 1$", shown, re.M)
    assert re.search(r"^two +The second$", shown, re.M)


def test_lines_above_the_list_stay(sitting: Sitting) -> None:
    sitting.playbook(("one", "auto", "stop", ""))
    screen, _ = sitting.runs("exec:printf 'first\\n\\033[0m\\nsecond\\n'", Level.DEBUG)
    assert screen.text[:2] == ["one#1: first", "one#1: second"]
    list_, note = screen.text[-2:], screen.text[2]
    assert list_[0].startswith("many · ")
    assert list_[1].startswith("✓  one")
    assert note.startswith("note: the session is committed")


def test_a_closed_terminal_does_not_stop_a_run(
    sitting: Sitting, monkeypatch: pytest.MonkeyPatch
) -> None:
    sitting.playbook(("one", "auto", "stop", ""))

    def gone(self: Tty) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Tty, "flush", gone)
    _, ending = sitting.runs("default: {say: done}\n")
    assert ending.why == "completed"


def test_a_stop_while_drawing_is_not_lost() -> None:
    """One thread gets the signal while another draws; the next picture is below."""

    class Stopped(Tty):
        def write(self, text: str) -> int:
            if not self.getvalue():
                region.leave()
            return super().write(text)

    stream = Stopped()
    region = Region(Console(file=stream, width=40))
    for picture in ("one", "two", "three"):
        region.draw(Text(picture))
    screen = Screen(40, 10)
    screen.feed(stream.getvalue().replace("\n", "\r\n"))
    assert screen.text == ["one", "three"]


def test_an_unreadable_journal_does_not_hide_a_gate(
    sitting: Sitting, monkeypatch: pytest.MonkeyPatch
) -> None:
    sitting.playbook(("one", "auto", "stop", ""), ("two", "gate_always", "stop", ""))
    sitting.runs("default: {say: done}\n")

    def refused(snapshot: Snapshot) -> Iterator[tuple[str, Entry]]:
        raise StateError("PB-STATE-CORRUPT", "it cannot be read")

    monkeypatch.setattr("playbook_supervisor.cli.render.terminal._journaled", refused)
    terminal = Terminal(Level.INFO)
    assert driving.resume(observer=terminal).why == "waiting"
    terminal.close()
    assert "?\x1b[0m  \x1b[1;33mtwo" in sitting.stderr.getvalue()


def spent(step: str, **agent: str | float) -> Entry:
    return Entry(
        step, EntryStatus.DONE, Decision.AUTO, 0, completed_at=60_000, agent={"name": "x", **agent}
    )


def test_a_summary_adds_up_reported_costs() -> None:
    """Unknown values stay unknown; values that are not numbers are ignored."""
    entries = [
        spent("one", cost_usd=1.2, input_tokens=48_000, output_tokens=900),
        spent("two", cost_usd=0.121, input_tokens=240),
        spent("three", cost_usd="much"),
    ]
    assert text.cost(entries) == "1.32 USD"
    assert text.tokens(entries) == "48.2k tokens in, 900 out"
    assert (text.cost(entries[2:]), text.tokens(entries[2:])) == ("", "")
    assert text.cost([spent("one", cost_usd=0.0042)]) == "0.0042 USD"
    assert text.cost([spent("one", cost_usd=0)]) == "0.00 USD"
    assert steps_table({each.id: each for each in entries}) == [
        "  one#1    done  1 min  1.20 USD",
        "  two#1    done  1 min  0.12 USD",
        "  three#1  done  1 min",
    ]
    assert steps_table({entries[0].id: entries[0]}) == []
