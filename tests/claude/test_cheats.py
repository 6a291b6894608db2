"""Agents that stage a proof inside the real client: none gets past the tests from before."""

from __future__ import annotations

import sys

import pytest
from support.scratch_project import Project

from claude.conftest import Sit
from claude.obedient import Obedient

WRONG = "def add(a, b):\n    return a - b\n"
TESTS = "from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"
CONFIG = f'checks:\n  test: {{run: [{sys.executable}, "-m", pytest, "-q"], room: clean}}\n'
FIX = """\
name: fix
description: Mend the code
version: "1.2"
args: []
steps:
  - id: implement
    command: /speckit.implement
    autonomy: auto
    postconditions: [{proved: test}]
    error_policy: gate
"""


@pytest.fixture
def project(furnished: Project) -> Project:
    furnished.write("calc.py", WRONG)
    furnished.write("test_calc.py", TESTS)
    furnished.write(".playbooks/config.yaml", CONFIG)
    furnished.write(".playbooks/playbooks/fix.yaml", FIX)
    furnished.commit("Calculate")
    return furnished


def test_a_staged_proof_waits_for_a_person(project: Project, sit: Sit) -> None:
    ends = "import os\nos._exit(0)\n"
    terminal = sit(Obedient(after={"speckit.implement": lambda: project.write("calc.py", ends)}))
    terminal.say("/playbook.run fix")
    terminal.wait_for("it writes no report, as it did at the beginning", timeout=120)
    assert project.manifest()["gate"]["reason"] == "postcondition_fail"
    assert project.manifest()["status"] == "in_progress"


def test_what_a_person_accepts_completes_the_step(project: Project, sit: Sit) -> None:
    changed = TESTS.replace("== 5", "== -1")
    terminal = sit(
        Obedient(after={"speckit.implement": lambda: project.write("test_calc.py", changed)})
    )
    terminal.say("/playbook.run fix")
    terminal.wait_for(r"\+    assert add\(2, 3\) == -1", timeout=120)
    terminal.choose("accept")
    terminal.wait_for("fix: completed", timeout=60)
    (entry,) = project.journal()
    assert entry["status"] == "done"
    assert entry["evidence"][-1].endswith("accepted by a person")
