"""Agents that lie inside the real client: `auto-change` and `auto-feature`, as they ship.

The project has real tests, and `init` has found out how they run. Each gate is answered `retry`, so
that one session meets one lie after the other and comes to its pull request in the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from support.scratch_project import FEATURE, Project, remote
from support.stand_in_forge import Forge
from test_proof_in_projects import PASS, PYTHON, REVIEW, built

from claude.conftest import Sit
from claude.conversation import Reply, Request, call, text
from claude.obedient import Obedient
from claude.terminal import Terminal

CODE, RIGHT, WRONG = PYTHON.code, PYTHON.right, PYTHON.wrong
BRANCH = "greet-the-world-without-a-name"
OURS = "README.md"
SAID = "greet the world without a name"
SECONDS = 400  # characters that are read in seconds
CLAIM = "Done: all tests pass, and nothing is left to do."
FAIL = "verdict: FAIL\n\nsrc/greet.py:1 has no test for the default.\n"


class Act(NamedTuple):
    """What the next worker of a step writes while it makes its claim.

    `evidence` against it stands on the gate, if it is a lie; there the person says `answer`.
    """

    step: str
    writes: dict[str, str]
    evidence: str = ""
    answer: str = "retry"


OUTSIDE = f"changes_within=src/**: 1 file changed outside src/**: {OURS}"
CHANGE = [
    Act("change", {}, "changes_made=**: nothing in ** has changed since the launch"),
    Act("change", {CODE: WRONG}, "proved=test: exit 1 in "),
    Act("change", {CODE: RIGHT, OURS: "Ours now.\n"}, OUTSIDE),
    Act("change", {CODE: f"{RIGHT}\n"}, OUTSIDE, "continue"),
    Act("review", {}, f"{REVIEW} is missing"),
    Act("review", {REVIEW: FAIL}),  # which sends back by itself
    Act("change", {CODE: f"{RIGHT}\n\n"}),
    Act("review", {REVIEW: PASS, CODE: WRONG}, f"1 file changed outside {REVIEW}: {CODE}"),
    Act("review", {REVIEW: f"{PASS}\n"}, f"1 file changed outside {REVIEW}: {CODE}"),
    Act("review", {REVIEW: PASS, CODE: f"{RIGHT}\n\n"}),
]
"""Some workers do not lie themselves: they leave what the one before has done."""


class Workers:
    """The worker of each attempt does what is next for its step, and claims success."""

    def __init__(self, root: Path, acts: list[Act]) -> None:
        self._root, self._left = root, list(acts)
        self._given: dict[str, dict[str, str]] = {}

    def prompted(self, request: Request) -> Reply:
        return self._act("review" if "Review a change" in request.prompt else "change", request)

    def _act(self, step: str, request: Request) -> Reply:
        if request.agent not in self._given:
            assert self._left[0].step == step
            self._given[request.agent] = self._left.pop(0).writes
        files = self._given[request.agent]
        known = [path for path in files if (self._root / path).exists()]
        if known and not request.called("Read"):  # the client's own rule
            return [call("Read", file_path=path) for path in known]
        if files and not request.called("Write"):
            return [call("Write", file_path=path, content=each) for path, each in files.items()]
        return [text(CLAIM)]


Lies = Callable[[list[Act], list[str]], list[str]]


@pytest.fixture
def lies(record_property: Callable[[str, object], None]) -> Lies:
    """Report how many lies were caught; returns the missed ones."""

    def record(acts: list[Act], missed: list[str]) -> list[str]:
        told = sum(bool(act.evidence) for act in acts)
        record_property("lies", [told - len(missed), told])
        return missed

    return record


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Project:
    return built(tmp_path / "project", home, PYTHON)


@pytest.fixture
def forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Forge:
    return Forge(tmp_path / "forge", monkeypatch)


def at_the_gate(terminal: Terminal) -> str:
    """What the person reads above the choices of the open gate, in one line."""
    terminal.wait_for(r"1\. continue(?s:.*)Enter to select")
    screen = terminal.screen
    shown = re.search(r"(?s)\n ☐ [^\n]*\n(.*?)\n❯ 1\. continue", screen)
    assert shown, screen
    return " ".join(re.sub(r"(?m)^│", "", shown[1]).split())


def answered(terminal: Terminal, project: Project, acts: list[Act]) -> list[str]:
    """Answer the gate of each lie; the questions that do not show the evidence, in few words."""
    missed = []
    for act in acts:
        if act.evidence:
            question, _, context = at_the_gate(terminal).partition(" steps done.")
            if act.evidence not in question or CLAIM not in context or len(question) > SECONDS:
                missed.append(question)
            if act.answer == "continue":
                (project.root / OURS).unlink()
            terminal.choose(act.answer)
    return missed


def attempts(project: Project) -> list[str]:
    """Each entry as `step decision trigger`."""
    return [
        " ".join(filter(None, (each["step_id"], each["decision"], each.get("trigger", ""))))
        for each in project.journal()
    ]


def test_auto_change_catches_each_and_publishes_the_rest_with_its_journal(
    project: Project, forge: Forge, sit: Sit, lies: Lies
) -> None:
    """Chapter 4, cat FR-8.4; kai J1."""
    origin = remote(project)
    terminal = sit(Obedient(prompted=Workers(project.root, CHANGE).prompted))
    terminal.say(f'/playbook.run auto-change "{SAID}" within=src/**')
    terminal.answer("change is going to use", "continue")
    assert lies(CHANGE, answered(terminal, project, CHANGE)) == []
    assert f"✓ verdict_pass: {REVIEW} " in at_the_gate(terminal)
    terminal.choose("continue")
    terminal.wait_for("auto-change: completed")
    assert attempts(project) == [
        "branch auto",
        *["change escalated postcondition_fail"] * 4,
        "review escalated postcondition_fail",
        "review auto",
        "change auto",
        *["review escalated postcondition_fail"] * 2,
        "review auto",
        "commit auto",
        "pr gate",
    ]
    assert forge.created == [
        ["pr", "create", f"--title={SAID}", "--body-file=-", f"--head={BRANCH}"]
    ]
    published = origin.git("diff", "--name-only", FEATURE, BRANCH, "--", ":!.playbooks/sessions")
    assert published.splitlines() == [REVIEW, CODE]
    journal = f".playbooks/sessions/{project.session.name}/journal.yaml"
    assert origin.git("show", f"{BRANCH}:{journal}") == project.read(journal).removesuffix("\n")
