"""Playbooks of four other systems run as they are inside the real client."""

from __future__ import annotations

import re

import pytest
from support.foreign_playbooks import SHAPES
from support.scratch_project import Project

from claude.conftest import Sit
from claude.conversation import Reply, Request, call, text
from claude.obedient import Obedient


@pytest.fixture
def project(furnished: Project) -> Project:
    return furnished


@pytest.mark.sampled("spec-kit")
@pytest.mark.parametrize("system", SHAPES)
def test_the_playbook_of_another_system_runs_in_the_client(
    project: Project, sit: Sit, system: str
) -> None:
    """cat IP-1; tyr 12; own L-1: the worker of a prompt writes, and a person answers each gate."""
    shape = SHAPES[system]
    shape.put(project)

    def write(request: Request) -> Reply:
        path, content = shape.writes
        if request.called("Write"):
            return [text("It is written.")]
        return [call("Write", file_path=path, content=content)]

    terminal = sit(Obedient(prompted=write))
    terminal.say(f"/playbook.run {shape.name} {' '.join(map(_quoted, shape.args))}")
    for question in shape.asked:
        terminal.wait_for(re.escape(question), timeout=90)
        terminal.choose("continue")
    terminal.wait_for(f"{shape.name}: completed", timeout=90)
    shape.check(project)


def _quoted(word: str) -> str:
    return f'"{word}"' if " " in word else word
