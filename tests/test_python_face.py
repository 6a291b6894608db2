"""From Python: the six functions, and what they cost before they are asked for."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli.scripts import GATED
from support.scratch_project import Project

import playbook_supervisor
from playbook_supervisor.errors import ArgumentError, CheckError, StateError
from playbook_supervisor.kernel.state import Change, Event

WORKS = """
steps:
  qa-plan:
    write: {".qa/{{feature}}/test-plan.md": "# Plan\\n"}
  qa-run:
    - write: {".qa/{{feature}}/verdict.md": "---\\nverdict: FAIL\\n---\\n"}
    - write: {".qa/{{feature}}/verdict.md": "---\\nverdict: PASS\\n---\\n"}
"""


def test_a_program_runs_a_playbook_answers_its_gate_and_continues(project: Project) -> None:
    """cat PL-1, PL-2: what the command line calls itself."""
    agent = project.script(WORKS)
    events: list[Event] = []
    ending = playbook_supervisor.run(
        "auto-validate", {"feature": "013"}, cwd=project.root, agent=agent, on_event=events.append
    )
    assert (ending.why, ending.exit_code) == ("waiting", 4)
    assert events[0].change is Change.LAUNCHED

    with pytest.raises(ArgumentError):
        playbook_supervisor.resume(answer="perhaps", cwd=project.root)
    ended = playbook_supervisor.resume(answer="retry", cwd=project.root, on_event=events.append)
    assert ended.why == "completed"
    assert [event.change for event in events].count(Change.DONE) == 2
    assert {step: entry.id for step, entry in ended.steps.items()} == {
        "qa-plan": "qa-plan#1",
        "qa-run": "qa-run#2",
    }
    assert [entry.id for entry in ended.entries] == ["qa-plan#1", "qa-run#1", "qa-run#2"]


TYPED = """
name: typed
description: Says what it was given
version: "1.1"
args:
  - {name: count, description: How many, required: false, type: number, default: "3"}
  - {name: dry, description: Nothing is done, required: false, type: boolean, default: "true"}
  - {name: names, description: A list, required: false}
steps:
  - {id: say, command: "cli echo {{count}} {{dry}} {{names}}", autonomy: auto, error_policy: stop}
"""


@pytest.mark.parametrize(
    ("args", "bound"),
    [
        ({"count": None, "dry": None}, {"count": "3", "dry": "true", "names": ""}),
        ({"count": -4, "dry": False}, {"count": "-4", "dry": "false", "names": ""}),
        ({"count": 0.5, "names": ["a", 1]}, {"count": "0.5", "dry": "true", "names": '["a",1]'}),
        ([7, None, Path("a")], {"count": "7", "dry": "true", "names": "a"}),
    ],
)
def test_values_of_a_program_are_those_of_a_person(
    project: Project, args: object, bound: dict[str, str]
) -> None:
    """cat FR-2.2: as JSON writes them, and None is no value."""
    project.write(".playbooks/playbooks/typed.yaml", TYPED)
    ending = playbook_supervisor.run("typed", args, cwd=project.root)  # type: ignore[arg-type]
    assert (ending.why, project.manifest()["args"]) == ("completed", bound)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"count": "many"}, 'count must be a number, not "many"'),
        ({"count": True}, 'count must be a number, not "true"'),
        ({"dry": "None"}, 'dry must be true or false, not "None"'),
    ],
)
def test_a_value_that_does_not_fit_begins_nothing(
    project: Project, args: object, said: str
) -> None:
    project.write(".playbooks/playbooks/typed.yaml", TYPED)
    with pytest.raises(ArgumentError, match=re.escape(said)):
        playbook_supervisor.run("typed", args, cwd=project.root)  # type: ignore[arg-type]
    assert project.sessions == []


def test_a_program_limits_a_run_as_a_person_does(project: Project) -> None:
    project.write(
        ".playbooks/playbooks/typed.yaml",
        TYPED.replace("echo {{count}} {{dry}} {{names}}", "sleep 9"),
    )
    ending = playbook_supervisor.run("typed", cwd=project.root, timeout=0.2)
    assert (ending.why, ending.steps["say"].error_code) == ("failed", "PB-STEP-TIMEOUT")


def test_a_program_lists_and_loads_playbooks(project: Project) -> None:
    """cat FR-1.4."""
    names = [each.name for each in playbook_supervisor.list_playbooks(project.root)]
    assert names == ["auto-feature", "auto-speckit", "auto-validate"]
    assert playbook_supervisor.load_playbook("auto-validate", cwd=project.root).steps
    good = playbook_supervisor.check(project.root / ".playbooks/playbooks/auto-validate.yaml")
    assert good.ok
    bad = project.write("bad.yaml", "name: bad\n")
    assert not playbook_supervisor.check(bad).ok
    with pytest.raises(CheckError):
        playbook_supervisor.load_playbook("./bad.yaml", cwd=project.root)


def test_a_program_decides_with_a_token(project: Project) -> None:
    """tyr 8, 22: the envelope is that of `run --json`."""
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    agent, here = project.script("default: {}\n"), project.root
    waits = playbook_supervisor.envelope(playbook_supervisor.run("gated", cwd=here, agent=agent))
    assert (waits["protocol"], waits["session"]) == (1, project.session.name)
    assert waits["requiresApproval"]["prompt"].startswith("Run /feature.pr")
    token = waits["requiresApproval"]["resumeToken"]
    with pytest.raises(ArgumentError, match="no other decision"):
        playbook_supervisor.resume(token=token, answer="skip", cwd=here)
    ended = playbook_supervisor.resume(token=token, approve=False, cwd=here)
    assert playbook_supervisor.envelope(ended)["status"] == "cancelled"
    with pytest.raises(StateError, match="has been used"):
        playbook_supervisor.resume(token=token, cwd=here)


def test_the_package_alone_imports_nothing() -> None:
    program = (
        "import sys, playbook_supervisor;"
        "print(sorted(m for m in sys.modules if m.startswith('playbook_supervisor')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "['playbook_supervisor']\n"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = playbook_supervisor.nonsense


def test_paths_may_be_strings(project: Project) -> None:
    assert playbook_supervisor.list_playbooks(str(Path(project.root)))
