"""The program at a terminal."""

from __future__ import annotations

import re
import signal
import time

import pytest
from screen import Screen
from support.controlled_time import Held
from support.scratch_project import Project

from cli.scripts import GATED, WORKS
from cli.terminal import Terminal

pytestmark = pytest.mark.measured


@pytest.fixture
def gated(project: Project) -> Project:
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    return project


def run(project: Project, *args: str, **env: str) -> Terminal:
    return Terminal(project, "run", "gated", "--agent", project.script(WORKS), *args, **env)


def test_a_user_watches_the_steps_and_answers_the_gate(project: Project) -> None:
    """cat FR-6.2: the list with evidence, the question, the choices."""
    project.gh("open")
    agent = project.script(WORKS)
    with Terminal(project, "run", "auto-feature", "013", "--agent", agent) as terminal:
        terminal.until("pr#1 waits for you")
        shown = terminal.until("continue (Enter), skip or abort > ")
        assert "✓  implement#2" in shown
        assert "plan_exists: specs/013-playbook-create/plan.md, 1 line" in shown
        assert "?  pr" in shown
        terminal.type("hm\n")
        terminal.until("Please answer continue, skip or abort.")
        terminal.type("no\n")
        terminal.until("Skip this step, or abort the run?")
        time.sleep(1.1)  # a person reads, and the step is not charged with it
        terminal.type("looks good, continue\n")
        assert terminal.end() == 0
        lasted = re.findall(r"✓  pr +([\d.]+) s", terminal.shown)[-1]
        assert "completed, 8/8 steps" in terminal.shown
        assert "\a" in terminal.raw  # the bell calls
    entry = project.journal()[-1]
    assert entry["human_response"] == "looks good, continue"
    assert float(lasted) <= entry["duration_seconds"] - 1


def test_a_gate_shows_what_has_changed_since_the_launch(project: Project) -> None:
    agent = project.script("default: {say: done it, write: {made.py: '1'}}\n")
    with Terminal(
        project, "run", "auto-feature", "013", "--from", "agreement-check", "--agent", agent
    ) as terminal:
        terminal.until("agreement-check#1 waits for you")
        terminal.until("agreement_exists")
        terminal.until("abort > ")
        terminal.type("accept\n")
        terminal.until("agreement-check#1 waits for you")
        shown = terminal.until("abort > ")
        assert "agreement-check#1 said last: done it" in shown
        assert "   made.py (new) | 1 +" in shown
        terminal.type("hm\n")
        terminal.until("abort > ")
        terminal.type("\x04")
        assert terminal.end() == 4
        assert terminal.shown.count("said last") == 1


@pytest.mark.parametrize("size", [(0, 0), (1, 1)])
def test_a_gate_can_be_answered_on_a_terminal_without_a_size(
    project: Project, size: tuple[int, int]
) -> None:
    """As in containers and behind `ssh -tt`: a gate before a step, and one after a failure."""
    steps = "[{id: a, command: cli true, autonomy: gate_always}, {id: b, command: cli false}]"
    about = "name: sizes\ndescription: d\nversion: '1.1'\nargs: []\n"
    defaults = "defaults: {autonomy: auto, error_policy: gate}"
    project.write(".playbooks/playbooks/sizes.yaml", f"{about}{defaults}\nsteps: {steps}\n")
    with Terminal(project, "run", "sizes") as terminal:
        terminal.resize(*size)
        for answer in ("continue\n", "abort\n"):
            terminal.until(" > ")
            terminal.type(answer)
        assert terminal.end() == 2
        assert "PB-BUG" not in terminal.shown


def test_an_empty_line_runs_the_step_and_the_end_of_input_leaves_the_gate_open(
    gated: Project,
) -> None:
    """cat FR-6.5."""
    with run(gated) as terminal:
        terminal.until("abort > ")
        terminal.type("\x04")
        assert terminal.end() == 4
        assert "answer: playbook answer continue" in terminal.shown
    with Terminal(gated, "resume") as terminal:
        terminal.until("?  publish")
        terminal.until("abort > ")
        terminal.type("\n")
        assert terminal.end() == 0


def test_a_prompt_is_repeated_in_the_foreground(gated: Project) -> None:
    """After Ctrl-Z and `fg` only the typed text is lost."""
    with run(gated) as terminal:
        terminal.until("skip or abort > ")
        terminal.process.send_signal(signal.SIGSTOP)
        terminal.process.send_signal(signal.SIGCONT)
        terminal.until("skip or abort > ")
        terminal.type("continue\n")
        assert terminal.end() == 0


def test_an_answer_from_elsewhere_ends_the_prompt(gated: Project) -> None:
    with run(gated) as terminal:
        terminal.until("abort > ")
        assert f"driven by process {terminal.process.pid}" in gated.playbook("status").out
        answered = gated.playbook("answer", "continue")
        assert answered.out.splitlines()[-1] == "the runner continues by itself (0/1 step done)"
        assert terminal.end() == 0


def test_a_narrowed_terminal_shows_one_list(gated: Project) -> None:
    """The terminal has wrapped its lines; after Ctrl-Z and `fg` the list is below."""
    held = Held.put(gated, say="looking around " * 8)
    with Terminal(gated, "run", "gated", "--mode=autonomous", "--agent", held.agent) as terminal:
        screen = Screen(100, 30)
        terminal.draw_on(screen, lambda lines: any("looking around" in line for line in lines))
        for columns in (70, 50):
            terminal.resize(columns)
            screen.resize(columns)
            # A picture may come that was drawn before it became narrower.
            terminal.draw_on(screen, lambda lines: max(map(len, lines)) < screen.columns)
            assert len([line for line in screen.text if "gated ·" in line]) == 1
        terminal.process.send_signal(signal.SIGSTOP)
        terminal.process.send_signal(signal.SIGCONT)
        held.let_go()
        assert terminal.end() == 0
        terminal.draw_rest(screen)
    assert len([line for line in screen.text if "gated ·" in line]) == 2


def test_an_ascii_terminal_shows_one_list(gated: Project) -> None:
    """A cut line ends with three dots before the margin."""
    held = Held.put(gated, say="looking around " * 8)
    ascii_alone = {"PYTHONIOENCODING": "ascii"}
    run = ("run", "gated", "--mode=autonomous", "--agent", held.agent)
    with Terminal(gated, *run, **ascii_alone) as terminal:
        screen = Screen(100, 30)
        for _ in range(3):
            terminal.draw_on(screen, lambda lines: any("around..." in line for line in lines))
            assert len([line for line in screen.text if "gated |" in line]) == 1
            assert len([line for line in screen.text if "looking" in line]) == 1
        held.let_go()
        assert terminal.end() == 0


def test_colours_and_the_list_can_be_turned_off(gated: Project) -> None:
    with run(gated, NO_COLOR="1") as terminal:
        terminal.until("abort > ")
        assert "\x1b[1;33m" not in terminal.raw
        terminal.type("abort\n")
        assert terminal.end() == 2
    for env, options in (({"TERM": "dumb"}, []), ({}, ["--log-level", "error"])):
        with run(gated, *options, **env) as terminal:
            terminal.until("WAITS FOR A HUMAN")
            terminal.until("abort > ")
            terminal.type("abort\n")
            assert terminal.end() == 2
            assert "\x1b[" not in terminal.raw


def test_init_asks_before_it_writes(project: Project) -> None:
    with Terminal(project, "init") as terminal:
        terminal.until("Write these files? [Y/n] ")
        terminal.interrupt()
        assert terminal.end() == 130
    for said, code, written in (("n\n", 1, False), ("\n", 0, True)):
        with Terminal(project, "init") as terminal:
            terminal.until("Write these files? [Y/n] ")
            terminal.type(said)
            assert terminal.end() == code
        assert (project.root / ".playbooks/install.yaml").exists() is written
