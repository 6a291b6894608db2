"""The shell lines of commands, before which newer clients ask a hook."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.scratch_project import Project

from claude.client import NEWEST, running
from claude.conftest import Start
from claude.model import Reply, Request, call, text
from claude.scripts import FREE, Disobedient, furnished

PLAYBOOK = """\
name: one
description: One step without conditions
version: "1.1"
args: []
steps:
  - {id: a, command: /peeks, autonomy: auto, error_policy: stop}
"""
HEAD = "---\ndescription: d\nallowed-tools: Bash\n---\n"
PEEKS = f"{HEAD}It is: !`cat .playbooks/sessions/*/journal.yaml`\n"
HELLO = f"{HEAD}It says: !`echo hello there`\n"


@pytest.fixture
def project(pristine: Path, tmp_path: Path, home: Path) -> Project:
    made = Project(furnished(pristine, tmp_path / "inside"), home)
    made.write(".playbooks/playbooks/one.yaml", PLAYBOOK)
    made.write(".claude/commands/peeks.md", PEEKS)
    made.write(".claude/commands/hello.md", HELLO)
    settings = json.loads((made.root / ".claude/settings.json").read_text())
    settings["hooks"]["PreSkillShellCommand"] = settings["hooks"]["PreToolUse"]
    made.write(".claude/settings.json", json.dumps(settings))
    assert made.playbook("update").code == 0
    return made


@pytest.fixture(autouse=True)
def newest() -> Iterator[None]:
    if not NEWEST.exists():
        pytest.skip(f"{NEWEST} is missing: `make .venv/newest-client`")
    with running(NEWEST):
        yield


def test_are_judged_like_calls_of_the_shell(start: Start, project: Project) -> None:
    """A step's command may not touch the journal; the conversation may not run another's lines."""
    told: list[str] = []

    def main(request: Request) -> Reply | None:
        if not request.called("Skill"):
            return [call("Skill", skill="hello")]
        told.extend(request.texts)
        return None

    def worker(request: Request) -> Reply:
        if request.called("Skill"):
            told.extend(request.texts)
            return [text("It is done.")]
        return [call("Skill", skill="peeks")]

    client = start(Disobedient(main, worker))
    client.run("/playbook.run one", *FREE)
    said = "\n".join(told)
    assert "It is: [not run: blocked by hook: " in said
    assert "Only playbook writes the journal" in said
    assert "hello there" not in said


def test_of_a_command_that_a_person_types_run(start: Start, project: Project) -> None:
    client = start(lambda request: [text("Hello.")])
    client.run("/hello", *FREE)
    assert any("It says: hello there" in words for words in client.model.main[0].texts)
