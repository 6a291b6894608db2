"""A newcomer's first hour at a terminal of 80 × 24, from an empty folder to a pull request.

The screens of the Python project are kept in tests/golden/first_hour. To keep them anew, delete
them and run this file: a screen that is missing is written, and its test fails once. Look at it.
"""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.terminal import Terminal
from screen import Screen
from support.document_examples import timeless
from support.first_hour_projects import (
    BRANCH,
    CHANGE,
    MAKE,
    NEWCOMERS,
    PYTHON,
    REVIEW,
    Newcomer,
)
from support.scratch_project import Project
from support.stand_in_forge import ADDRESS, Forge

from playbook_supervisor.project.settings import config

GOLDEN = Path(__file__).parent / "golden/first_hour"
PULL = f"{ADDRESS}/pull/7"
NEXT = "next: playbook run auto-change"
THOUGHT = 0.15
"""Seconds before an answer: a shorter wait at a gate is not shown."""

pytestmark = pytest.mark.unmeasured


class Small(Terminal):
    """The smallest terminal that people have."""

    columns, lines = 80, 24

    def __enter__(self) -> Small:
        return self

    def text(self, *, whole: bool = False) -> list[str]:
        """What stands on it; `whole` with what has left at the top."""
        screen = Screen(self.columns, self.lines)
        screen.feed(self.raw)
        above = screen.scrolled if whole else []
        return ["".join(cell.character for cell in row).rstrip() for row in above] + screen.text

    def answer(self, said: str) -> None:
        time.sleep(THOUGHT)
        self.type(f"{said}\n")

    def asked(self, since: str) -> None:
        """Wait for the question that begins with this text. All of it is on the screen."""
        self.until(since)
        self.until("> " if "waits" in since else "[Y/n] ")
        assert any(since in line for line in self.text()), self.text()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: it stands on a screen."""
    with tempfile.TemporaryDirectory() as made:
        yield Path(made).resolve()


@pytest.fixture
def forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Forge:
    return Forge(tmp_path / "forge", monkeypatch)


class Walk:
    """The first hour in one project; its screens are compared if they are `kept`."""

    def __init__(self, project: Project, agent: str, *, kept: bool = False) -> None:
        self.project, self._agent, self._kept = project, agent, kept
        self.new: list[Path] = []

    def init(self) -> None:
        with Small(self.project, "init") as terminal:
            terminal.asked("Add `test: ")
            self._keep("init-check", terminal)
            terminal.answer("?")
            terminal.asked("Add `test: ")
            terminal.answer("y")
            terminal.asked("Write these files?")
            self._keep("init-files", terminal)
            terminal.answer("")
            assert terminal.end() == 0
            assert NEXT in terminal.shown
            self._keep("init-end", terminal)
        self.project.commit("Set up playbooks")
        assert self.project.playbook("check").code == 0

    def dry_run(self) -> None:
        with Small(self.project, "run", "auto-change", CHANGE, "--dry-run") as terminal:
            assert terminal.end() == 0
            self._keep("dry-run", terminal, whole=True)
        assert self.project.sessions == []

    def run(self, *args: str) -> None:
        """One run: the tools are allowed, a review fails and sends back, the pull request opens."""
        with Small(self.project, "run", *args, "--agent", self._agent) as terminal:
            terminal.asked("change#1 waits for you")
            self._keep("gate-tools", terminal)
            terminal.answer("continue")
            terminal.asked("pr#1 waits for you")
            self._keep("gate-pull-request", terminal)
            terminal.answer("yes")
            assert terminal.end() == 0
            assert PULL in terminal.shown
            self._keep("run-end", terminal)

    def show(self) -> None:
        with Small(self.project, "show") as terminal:
            assert terminal.end() == 0
            self._keep("show", terminal, whole=True)

    def _keep(self, name: str, terminal: Small, *, whole: bool = False) -> None:
        """Compare the screen, or `whole` what was written; keep it if there is none yet."""
        lines, file = terminal.text(whole=whole), GOLDEN / f"{name}.txt"
        assert [line for line in terminal.shown.splitlines() if len(line) > terminal.columns] == []
        text = timeless("\n".join(lines).replace(str(self.project.root), "~/greet"))
        if not self._kept:
            return
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"{text}\n", "utf-8")
            self.new.append(file)
        assert text == file.read_text("utf-8").removesuffix("\n"), file


LONG = [
    pytest.param(each, id=each.name, marks=() if each is PYTHON else pytest.mark.long)
    for each in NEWCOMERS
]


@pytest.mark.parametrize("newcomer", LONG)
def test_from_an_empty_folder_to_a_pull_request(
    newcomer: Newcomer, folder: Path, home: Path, forge: Forge
) -> None:
    project = newcomer.begun(folder / "greet", home)
    walk = Walk(project, newcomer.agent(project), kept=newcomer is PYTHON)
    walk.init()
    assert config.load(project.root).checks["test"].argv == newcomer.check
    walk.dry_run()
    walk.run("auto-change", CHANGE)
    walk.show()
    assert walk.new == [], "they were missing and are written: look at them"

    steps = [(each["step_id"], each["status"]) for each in project.journal()]
    assert steps == [
        ("branch", "done"),
        ("change", "done"),
        ("review", "failed"),
        ("change", "done"),
        ("review", "done"),
        ("commit", "done"),
        ("pr", "done"),
    ]
    sent, again = project.journal()[2:4]
    assert (sent["back_to"], "resolution" in sent) == ("change", False)
    assert any(line.startswith("proved=test: ") for line in again["evidence"])
    assert [each["head"] for each in forge.pulls] == [BRANCH]
    changed = project.git(
        "diff", "--name-only", "main", f"origin/{BRANCH}", ":!.playbooks/sessions"
    )
    assert changed.split() == sorted([REVIEW, newcomer.code, newcomer.test])
    assert project.git("status", "--porcelain") == ""

    stays = project.playbook("finish")
    assert stays.code == 3
    assert "switch to another branch and remove its own with `git branch -d`" in stays.err


def test_a_worktree_is_removed_after_the_merge(folder: Path, home: Path, forge: Forge) -> None:
    project = MAKE.begun(folder / "greet", home)
    project.playbook("init", "--yes")
    project.commit("Set up playbooks")
    started = project.playbook("start", "auto-change", CHANGE)
    assert started.code == 0, started.err
    typed = shlex.split(started.err.partition("type there: playbook run ")[2])
    (root,) = (each for each in folder.glob("greet-*") if (each / ".git").exists())
    Walk(Project(root, home), MAKE.agent(project)).run(*typed)

    session = root.name.removeprefix("greet-session-")
    early = project.playbook("finish", session)
    assert (early.code, root.exists()) == (3, True)
    assert "not merged into main" in early.out
    project.git("merge", "-q", f"origin/{BRANCH}")
    done = project.playbook("finish", session)
    assert (done.code, root.exists()) == (0, False), done.err
    assert project.git("branch", "--list", BRANCH) == ""
    assert project.read(MAKE.code) == MAKE.right
