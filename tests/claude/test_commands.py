"""Which commands the client has, and in which of the two ways each of them runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.scratch_project import Project

from claude.conftest import Start
from claude.model import Reply, Request, text
from claude.runner import Headless
from claude.scripts import FREE, Disobedient, furnished

pytestmark = pytest.mark.usefixtures("each_client")

HEAD = "---\nname: {name}\ndescription: d\n{more}---\nDo $ARGUMENTS\n"
SKILLS = {
    ".claude/skills/otherdir/SKILL.md": HEAD.format(name="renamed", more=""),
    ".claude/skills/hidden/SKILL.md": HEAD.format(name="hidden", more="user-invocable: false\n"),
    ".claude/commands/closed.md": HEAD.format(name="c", more="disable-model-invocation: true\n"),
}
PLAYBOOK = """\
name: one
description: One step without conditions
version: "1.1"
args: []
steps:
  - {{id: a, command: /{command}, args: it, autonomy: auto, error_policy: stop}}
"""
WAYS = [
    ("renamed", True, True),
    ("hidden", False, True),
    ("closed", True, False),
]
"""Command, whether it runs headless, whether it runs inside the client."""


def prepare(project: Project, command: str) -> None:
    for path, content in SKILLS.items():
        project.write(path, content)
    project.write(".playbooks/playbooks/one.yaml", PLAYBOOK.format(command=command))


def says(request: Request) -> Reply:
    return [text("It is done.")]


@pytest.mark.sampled("pinned-*")
@pytest.mark.parametrize(("command", "works", "inside"), WAYS)
def test_headless(
    command: str, works: bool, inside: bool, headless: Headless, project: Project
) -> None:
    prepare(project, command)
    client = headless(says)
    checked = project.playbook("check", "--strict", ".playbooks/playbooks/one.yaml")
    assert ("not headless" in checked.out, "not inside" in checked.out) == (not works, not inside)
    assert "PB-CHECK-COMMAND" not in checked.out
    done = project.playbook("run", "one")
    if works:
        assert done.code == 0, done.err
        assert any("Do it" in words for words in client.model.main[0].texts)
    else:
        assert (done.code, project.sessions, client.model.requests) == (1, [], [])
        assert "do: Run it inside Claude Code: /playbook.run one" in done.err


@pytest.mark.sampled("pinned-renamed-*", "pinned-closed-*")
@pytest.mark.parametrize(("command", "outside", "works"), WAYS)
def test_inside(
    command: str,
    outside: bool,
    works: bool,
    pristine: Path,
    tmp_path: Path,
    home: Path,
    start: Start,
) -> None:
    del outside
    project = Project(furnished(pristine, tmp_path / "inside"), home)
    prepare(project, command)
    client = start(Disobedient(), project)
    done = client.run("/playbook.run one", *FREE)
    if works:
        assert [entry["status"] for entry in project.journal()] == ["done"]
    else:
        assert (project.sessions, client.model.requests) == ([], [])
        assert "playbook run one" in done.text
