"""`status --watch`."""

from __future__ import annotations

import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest
from support.controlled_time import Held
from support.scratch_project import Project

from cli.scripts import GATED, HANGS, LONG, WORKS
from cli.terminal import Terminal
from playbook_supervisor.cli.render import live
from playbook_supervisor.cli.render.terminal import Board
from playbook_supervisor.cli.render.text import Line
from playbook_supervisor.commands.views import queries
from playbook_supervisor.commands.views.progress import Progress
from playbook_supervisor.errors import StateError
from playbook_supervisor.system.git import checkout

pytestmark = pytest.mark.measured

Look = Callable[[], tuple[Progress, ...]]


@pytest.fixture
def look(project: Project) -> Look:
    """Read the sessions once more."""
    watch: Iterator[tuple[Progress, ...]] = queries.watch(cwd=project.root)
    return lambda: next(watch)


def until(look: Look, seen: Callable[[Progress], object]) -> Progress:
    """Read until a session satisfies the condition."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        for progress in look():
            if seen(progress):
                return progress
        time.sleep(0.05)
    raise AssertionError(look())


def private(project: Project) -> Path:
    return checkout.find(project.root).runtime / project.session.name


def test_a_worker_s_last_line_is_shown_while_its_runner_lives(project: Project, look: Look) -> None:
    project.write(".playbooks/playbooks/long.yaml", LONG)
    assert look() == ()
    with project.spawn("run", "long", "--agent", project.script(HANGS)) as runner:
        seen = until(look, lambda each: each.lines.get("think#1"))
        assert seen.lines == {"think#1": "I am thinking"}
        assert list(seen.at_work) == ["think#1"]
        assert (seen.done, seen.total) == (0, 1)
        assert live.session_line(seen).endswith(": think#1 running, 0/1 step")
        assert look() == look()
        for rubbish in ("[", "[]", '{"think#1": 7}'):
            (private(project) / "said.json").write_text(rubbish)
            assert look()[0].lines == {}
        runner.send_signal(signal.SIGKILL)
    left = until(look, lambda each: not each.at_work)
    assert live.session_line(left).endswith(": in_progress, no driver, 0/1 step")
    assert project.playbook("abort").code == 0
    ended = until(look, lambda each: not each.seen.open)
    assert live.session_line(ended).endswith(": aborted, 0/1 step")


def test_sessions_come_and_go_with_their_worktrees(
    project: Project, look: Look, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    project.git("worktree", "add", "-q", str(other), "-b", "014-other")
    assert look() == ()
    beside = Project(other, project.home)
    beside.playbook("begin", "auto-validate", "013")
    (seen,) = look()
    assert seen.seen.root == other
    project.playbook("begin", "auto-validate", "013")
    assert len(look()) == 2
    assert seen in look()  # what has not changed is not read again
    project.playbook("abort")
    with pytest.raises(StateError, match="no session"):
        next(queries.watch("20260219-a7k", cwd=project.root))
    (beside.session / "session.yaml").write_text("{")
    assert any("unreadable" in live.session_line(each) for each in look())
    (beside.session / "journal.yaml").write_text("{")
    (beside.session / "playbook.yaml").unlink()
    assert (0, 0) in [(each.done, each.total) for each in look()]
    shutil.rmtree(other)
    assert any("is gone" in live.session_line(each) for each in look())
    project.git("worktree", "prune")
    (seen,) = look()
    assert seen.seen.root == project.root


def test_the_board_shows_gates_and_how_to_answer(project: Project) -> None:
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    with Terminal(project, "status", "--watch") as terminal:
        terminal.until("No session is open.")
        project.playbook("run", "gated", "--agent", project.script(WORKS))
        name = project.session.name
        terminal.until(f"{name}  gated  013-playbook-create  WAITS FOR A HUMAN at publish#1?1")
        terminal.until("Run /feature.pr (step publish) now")
        terminal.until(f"playbook answer {name} …")
        terminal.until("branch 013-playbook-create, no commits, no changes since")
        terminal.resize(60, 4)
        terminal.until("… 5 more lines")
        project.playbook("answer", "continue")
        terminal.until("playbook resume")
        project.playbook("resume")
        terminal.until("completed after")  # how it ended is still shown
        terminal.interrupt()
        assert terminal.end() == 130
        assert "Traceback" not in terminal.shown


def test_a_question_is_wrapped_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other lines are cut, so that each session keeps its lines."""
    monkeypatch.setenv("COLUMNS", "40")
    question = "  plan ended without plan_exists: mend it and continue, retry, or abort?"
    shown = StringIO()
    Board(shown).draw([Line(question, "plain", whole=True), Line("w" * 80)])
    seen = re.sub(r"\x1b\[[?0-9]*[A-Za-z]|\r", "", shown.getvalue())
    lines = seen.splitlines()
    assert max(map(len, lines)) <= 40
    *asked, cut = filter(None, lines)
    assert " ".join(" ".join(asked).split()) == question.strip()
    assert all(each.startswith("    ") for each in asked[1:])
    assert cut.endswith("w…")


def test_a_named_session_is_watched_to_its_end(project: Project) -> None:
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    held = Held.put(project, say="looking around")
    project.playbook("run", "gated", "--agent", held.agent)
    name = project.session.name
    with (
        Terminal(project, "status", name, "--watch") as terminal,
        project.spawn("status", "--watch", name) as told,
    ):
        terminal.until("WAITS FOR A HUMAN")
        assert told.stdout is not None
        lines = [told.stdout.readline().decode()]
        assert "publish#1?1 WAITS FOR A HUMAN: Run /feature.pr" in lines[0]
        project.playbook("answer", "continue")
        with project.spawn("resume") as runner:
            terminal.until("publish#1  ")
            terminal.until("looking around")
            while " running, " not in lines[-1]:
                lines.append(told.stdout.readline().decode())
                assert lines[-1], lines
            held.let_go()
            runner.communicate(timeout=120)
            assert runner.returncode == 0
        lines += told.stdout.read().decode().splitlines(keepends=True)
        assert told.wait(120) == 0
        assert terminal.end() == 0
    said = [line.rstrip().partition(" gated on 013-playbook-create: ")[2] for line in lines]
    assert said[-1] == "completed, 1/1 step"
    assert "publish#1 running, 0/1 step" in said
    assert len(said) == len(set(said))
