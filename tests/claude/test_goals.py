"""`/playbook.goal CHECK` in the real client: the turn does not end before the tests prove it."""

from __future__ import annotations

import re
import sys

import pytest
from support.scratch_project import Project

from claude.conftest import Sit, Start
from claude.conversation import Reply, Request, call, text
from claude.scripts import FREE

WRONG, RIGHT = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"
TESTS = "from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"
FIX = "echo 'def add(a, b): return a + b' > calc.py"
WEAKEN = "sed -i 's/== 5/== -1/' test_calc.py"
DONE = "All tests pass."
CONFIG = f'checks:\n  test: {{run: [{sys.executable}, "-m", pytest, "-q"], room: clean}}\n'


@pytest.fixture
def project(furnished: Project) -> Project:
    furnished.write("calc.py", WRONG)
    furnished.write("test_calc.py", TESTS)
    furnished.write(".playbooks/config.yaml", CONFIG)
    furnished.commit("Calculate")
    return furnished


def shell(command: str) -> Reply:
    return [call("Bash", command=command, description="work")]


def told(request: Request) -> bool:
    return "The goal does not hold yet" in request.said + request.context


def test_a_turn_that_would_end_too_early_goes_on_until_the_tests_prove_it(
    project: Project, start: Start
) -> None:
    """The model claims success at once; only when it is told does it work."""

    def model(request: Request) -> Reply:
        if told(request) and not request.called("Bash"):
            return shell(FIX)
        return [text(DONE)]

    client = start(model)
    done = client.run("/playbook.goal test mend add", *FREE)
    assert done.code == 0, done.err
    assert project.read("calc.py") == "def add(a, b): return a + b\n"
    first, second, *_ = client.model.main
    assert "The goal of this conversation: `proved: test`." in first.context + first.said
    assert "mend add" in first.context + first.said
    said = second.said + second.context
    assert "The goal does not hold yet (1 of 5)." in said
    assert "> 1 of 1 test failed: test_calc::test_add" in said
    assert len(client.model.main) == 3
    assert project.sessions == []


def test_a_person_decides_about_tests_that_were_weakened(project: Project, sit: Sit) -> None:
    def model(request: Request) -> Reply:
        if request.said.strip().endswith("weaken it"):
            return shell(WEAKEN)
        return [text(DONE)]

    terminal = sit(model)
    terminal.say("/playbook.goal test")
    terminal.wait_for(r"Goal: proved=test, since tree [0-9a-f]{7}\.")
    terminal.wait_for(r"is not reached after 5 more tries", timeout=120)
    terminal.say("weaken it")
    terminal.wait_for(r"needs your decision: tests have changed", timeout=60)
    terminal.wait_for(re.escape("test_calc::test_add: changed"))
    terminal.wait_for(r"assert add\(2, 3\) == -1")
    terminal.say("/playbook.goal accept")
    terminal.wait_for("Goal reached: proved=test: ", timeout=60)
    terminal.wait_for("in a clean room, accepted by a person")
    terminal.say("/playbook.goal")
    terminal.wait_for("this conversation has no goal")
