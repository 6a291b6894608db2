"""Playbooks of four other systems run as they are: at a terminal, from Python and for a program.

`tests/claude/test_other_systems.py` has the fourth way, inside the real client.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from support.foreign_playbooks import SHAPES, Shape
from support.scratch_project import Project

import playbook_supervisor


def by_commands(project: Project, shape: Shape, agent: str) -> None:
    done = project.playbook("run", shape.name, *shape.args, "--agent", agent)
    while done.code == 4:
        assert project.playbook("answer", "continue").code == 0
        done = project.playbook("resume")
    assert done.code == 0, done.err


def from_python(project: Project, shape: Shape, agent: str) -> None:
    done = playbook_supervisor.run(shape.name, shape.args, cwd=project.root, agent=agent)
    while done.why == "waiting":
        done = playbook_supervisor.resume(answer="continue", cwd=project.root)
    assert done.why == "completed"


def by_requests(project: Project, shape: Shape, agent: str) -> None:
    project.write(".playbooks/config.yaml", f"agent: {agent}\n")
    project.commit("Choose an agent")
    names = [
        arg.name for arg in playbook_supervisor.load_playbook(shape.name, cwd=project.root).args
    ]
    values = dict(each.split("=") for each in shape.args if "=" in each) or dict(
        zip(names, shape.args, strict=False)
    )
    request: dict[str, object] = {
        "action": "run",
        "pipeline": shape.name,
        "argsJson": json.dumps(values),
    }
    while True:
        envelope = project.playbook("rpc", input=json.dumps(request)).json
        assert envelope["ok"], envelope
        if envelope["status"] == "ok":
            return
        token = envelope["requiresApproval"]["resumeToken"]
        request = {"action": "resume", "token": token, "approve": True}


@pytest.mark.parametrize("way", [by_commands, from_python, by_requests])
@pytest.mark.parametrize("system", SHAPES)
def test_the_playbook_of_another_system_runs_to_its_end(
    project: Project, system: str, way: Callable[[Project, Shape, str], None]
) -> None:
    """cat FR-4.1, FR-4.2; tyr 12; own L-1."""
    shape = SHAPES[system]
    shape.put(project)
    checked = project.playbook("check", shape.file)
    assert checked.code == 0, checked.out
    way(project, shape, project.script(shape.script))
    shape.check(project)


@pytest.mark.parametrize("system", SHAPES)
def test_an_imported_playbook_runs_as_its_original(project: Project, system: str) -> None:
    shape = SHAPES[system]
    shape.put(project)
    assert project.playbook("import", shape.file, "--output", "imported.yaml").code == 0
    (project.root / shape.file).unlink()
    project.write(f".playbooks/playbooks/{shape.name}.yaml", project.read("imported.yaml"))
    (project.root / "imported.yaml").unlink()
    project.commit("Import it")
    by_commands(project, shape, project.script(shape.script))
    shape.check(project)
