"""A newcomer's first hour at a terminal of 80 × 24, from an empty folder to a pull request.

The screens of the Python project are kept in tests/golden/first_hour. To keep them anew, delete
them and run this file: a screen that is missing is written, and its test fails once. Look at it.
"""

from __future__ import annotations

import re
import shlex
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.terminal import Terminal
from screen import Screen
from support.bubblewrap import needs_bubblewrap
from support.document_examples import timeless
from support.first_hour_projects import (
    BRANCH,
    CHANGE,
    MAKE,
    NEWCOMERS,
    PYTHON,
    REVIEW,
    Newcomer,
    begun,
)
from support.scratch_project import Project
from support.stand_in_forge import ADDRESS, Forge

from playbook_supervisor.project.settings import config

GOLDEN = Path(__file__).parent / "golden/first_hour"
PULL = f"{ADDRESS}/pull/7"
NEW: list[Path] = []
"""The golden screens that this test has written."""
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

    def end(self) -> int:
        """The exit code. No line is longer than the terminal, which would break a word."""
        code = super().end()
        assert [line for line in self.shown.splitlines() if len(line) > self.columns] == []
        return code

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
    new = [NEW.pop() for _ in list(NEW)]
    assert new == [], "these were missing and are written: look at them"


@pytest.fixture
def forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Forge:
    return Forge(tmp_path / "forge", monkeypatch)


def compare(name: str, lines: list[str], project: Project) -> None:
    """Compare with the golden screen; keep this one if there is none."""
    file = GOLDEN / f"{name}.txt"
    text = timeless("\n".join(lines).replace(str(project.root), "~/greet")) + "\n"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
        NEW.append(file)
    assert unwrapped(text) == unwrapped(file.read_text("utf-8")), file


def unwrapped(text: str) -> str:
    """The summary of a session in one line: where it is broken depends on how long it took."""
    return re.sub(r"(?m)^SESSION .*(?:\n +.*)*", lambda found: " ".join(found[0].split()), text)


class Walk:
    """The first hour in one project; its screens are compared if they are `kept`."""

    def __init__(self, project: Project, agent: str, *, kept: bool = False) -> None:
        self.project, self._agent, self._kept = project, agent, kept

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
        if self._kept:
            compare(name, terminal.text(whole=whole), self.project)


LONG = [
    pytest.param(each, id=each.name, marks=() if each is PYTHON else pytest.mark.long)
    for each in NEWCOMERS
]


@pytest.mark.sampled("python", "node")
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


@pytest.mark.long
@needs_bubblewrap
def test_a_change_is_made_proved_and_published_in_isolation(
    folder: Path, home: Path, forge: Forge
) -> None:
    """The stand-in for `gh` keeps what it is told in its own folder."""
    project = MAKE.begun(folder / "greet", home)
    walk = Walk(project, MAKE.agent(project))
    walk.init()
    settings = project.read(".playbooks/config.yaml")
    isolated = f"isolation: {{mode: required, write: [{forge.folder}]}}\n"
    project.write(".playbooks/config.yaml", settings + isolated)
    project.commit("Isolate agents")
    walk.run("auto-change", CHANGE)
    assert {each["isolation"] for each in project.journal()} == {"bwrap"}
    assert project.git("rev-parse", "--abbrev-ref", "@{upstream}").strip() == f"origin/{BRANCH}"
    assert [each["head"] for each in forge.pulls] == [BRANCH]


@pytest.mark.long
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


def init(project: Project, *options: str, screen: str = "") -> str:
    """What `init` shows at a terminal where it asks only whether to write."""
    with Small(project, "init", *options) as terminal:
        terminal.asked("Write these files?")
        terminal.answer("y")
        assert terminal.end() == 0
        if screen:
            compare(screen, terminal.text(whole=True), project)
        return terminal.shown


def can_begin(project: Project) -> bool:
    return project.playbook("run", "auto-change", CHANGE, "--dry-run").code == 0


def test_a_command_that_does_not_run_is_not_proposed_and_another_one_mends_it(
    folder: Path, home: Path, forge: Forge
) -> None:
    broken = MAKE.files["Makefile"].replace("@sh tests", "@no-such-program tests")
    project = begun(folder / "greet", home, {**MAKE.files, "Makefile": broken})
    shown = init(project, screen="init-wrong-tests")
    assert "Add `test:" not in shown
    assert not can_begin(project)
    project.write("Makefile", broken + MAKE.files["Makefile"].replace("test:", "check:", 1))
    with Small(project, "init", "--check", "make chekc") as terminal:
        assert terminal.end() == 1
        assert "`make chekc` runs no tests" in terminal.shown
    assert NEXT in init(project, "--check", "make check")
    assert config.load(project.root).checks["test"].argv == ("make", "check")
    assert can_begin(project)
