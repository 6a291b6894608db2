"""How an agent ended is read from all that the real client says, headless and inside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.scratch_project import Project

from claude.conftest import Start
from claude.conversation import Reply, Request, call, text
from claude.runner import Headless
from claude.scripts import FREE, Disobedient, furnished
from claude.streams import FORKED, stopping

pytestmark = pytest.mark.usefixtures("each_client")

PLAYBOOK = """\
name: one
description: One step without conditions
version: "1.1"
args: []
steps:
  - {{id: a, command: /{command}, autonomy: auto, error_policy: retry_once}}
"""
COMMANDS = FORKED | {".claude/commands/plain.md": "---\ndescription: d\n---\nDo it.\n"}
HOOK = "a hook stopped claude in the middle of its work: PostToolUse:Write: policy stop"


def three_files(request: Request) -> Reply:
    """A model that writes three files, one in each answer."""
    written = [made for made in request.calls if made.name == "Write"]
    if len(written) == 3:
        return [text("All three are written.")]
    return [call("Write", file_path=f"{len(written)}.txt", content="x\n")]


def silent(request: Request) -> Reply:
    return []


ENDS = [
    pytest.param("plain", three_files, "PostToolUse", "PB-AGENT-HOOK", HOOK, id="hook"),
    pytest.param("forked", three_files, "PostToolUse", "PB-AGENT-HOOK", HOOK, id="hook-in-fork"),
    pytest.param("plain", silent, "", "PB-AGENT-SILENT", "said nothing and called", id="silent"),
]


def ended(project: Project) -> dict[str, Any]:
    """The last attempt."""
    return project.journal()[-1]


@pytest.fixture
def project(project: Project) -> Project:
    for path, content in COMMANDS.items():
        project.write(path, content)
    return project


@pytest.mark.sampled("pinned-hook-in-fork", "pinned-silent", "newest-hook")
@pytest.mark.parametrize(("command", "script", "event", "code", "told"), ENDS)
def test_headless(
    command: str,
    script: Any,
    event: str,
    code: str,
    told: str,
    headless: Headless,
    project: Project,
) -> None:
    project.write(".playbooks/playbooks/one.yaml", PLAYBOOK.format(command=command))
    for path, content in (stopping(event) if event else {}).items():
        project.write(path, content)
    headless(script)
    project.playbook("run", "one")
    assert ended(project).get("error_code", "") == code
    assert told in ended(project).get("error", "")
    if code == "PB-AGENT-HOOK":
        assert len(project.journal()) == 1, "it would end in the same way again"


@pytest.mark.sampled("pinned")
def test_the_conditions_of_a_silent_step_decide(headless: Headless, project: Project) -> None:
    project.write("out.txt", "x\n")
    one = PLAYBOOK.format(command="plain").replace("retry_once", "stop")
    one = one.replace("error_policy", "postconditions: [{file_exists: out.txt}], error_policy")
    project.write(".playbooks/playbooks/one.yaml", one)
    headless(silent)
    assert project.playbook("run", "one").code == 0


class TestInside:
    @pytest.fixture
    def project(self, pristine: Path, tmp_path: Path, home: Path) -> Project:
        made = Project(furnished(pristine, tmp_path), home)
        for path, content in COMMANDS.items():
            made.write(path, content)
        return made

    @pytest.mark.sampled("pinned-hook", "pinned-silent")
    @pytest.mark.parametrize(("command", "script", "event", "code", "told"), ENDS)
    def test_a_step_ends_in_the_same_way(
        self,
        command: str,
        script: Any,
        event: str,
        code: str,
        told: str,
        project: Project,
        start: Start,
    ) -> None:
        one = PLAYBOOK.format(command=command).replace("retry_once", "stop")
        project.write(".playbooks/playbooks/one.yaml", one)
        if event:
            merge(project, stopping(event.replace("Stop", "SubagentStop")))

        def worker(request: Request) -> Reply:
            if f"Skill `{command}`" not in request.prompt:
                return script(request)  # type: ignore[no-any-return]
            if not request.called("Skill"):
                return [call("Skill", skill=command)]
            return [text("It has run.")] if command == "forked" else script(request)

        client = start(Disobedient(worker=worker))
        client.run("/playbook.run one", *FREE)
        assert ended(project).get("error_code", "") == code, ended(project)
        assert told in ended(project).get("error", "")


def merge(project: Project, settings: dict[str, str]) -> None:
    """Add hooks to the project's own settings."""
    ((path, content),) = settings.items()
    known = json.loads((project.root / path).read_text())
    for event, entries in json.loads(content)["hooks"].items():
        matcher = {"matcher": "Write"} if event == "PostToolUse" else {}
        named = [{**matcher, **entry} for entry in entries]
        known["hooks"][event] = [*known["hooks"].get(event, []), *named]
    project.write(path, json.dumps(known))
