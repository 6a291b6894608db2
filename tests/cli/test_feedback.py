"""A retry is told what did not hold at the attempt before it, and what a person said."""

from __future__ import annotations

import sys
import textwrap

import pytest
from claude import playbooks
from support.hook_calls import Hooked
from support.scratch_project import FEATURE, Project

pytestmark = pytest.mark.measured

STRICT = """\
name: strict
description: A step that is asked about when it fails
version: "1.0"
args: [{name: feature, description: "-", required: true}]
steps:
  - id: plan
    command: /speckit.plan
    args: "{{feature}}"
    autonomy: auto
    preconditions: [spec_exists]
    postconditions: [spec_exists, plan_exists]
    error_policy: gate
"""
WORDS = "retry, and this time without the CLI"
MISSING = f"plan_exists: specs/{FEATURE}/plan.md"


@pytest.fixture
def strict(project: Project) -> Project:
    project.write(".playbooks/playbooks/strict.yaml", STRICT)
    return project


def heard(project: Project) -> list[str]:
    """What each attempt of an agent that keeps what it reads was told, on stdin."""
    return [(project.root.parent / f"heard-{name}").read_text() for name in ("plan#1", "plan#2")]


def listener(project: Project) -> str:
    """What `--agent` takes for an agent that writes down its stdin and its environment."""
    file = project.root.parent / "listener.py"
    file.write_text(
        textwrap.dedent(f"""
        import os, sys
        name = os.environ["PLAYBOOK_DIRECTIVE"]
        with open({str(project.root.parent)!r} + "/heard-" + name, "w") as kept:
            kept.write(sys.stdin.read() + "|" + os.environ["PLAYBOOK_FEEDBACK"])
        print("I wrote no plan.")
        """)
    )
    return f"exec:{sys.executable} {file}"


def test_an_agent_on_stdin_reads_it_after_the_command(strict: Project) -> None:
    agent = listener(strict)
    assert strict.playbook("run", "strict", "013", "--agent", agent).code == 4
    assert strict.playbook("answer", f"{WORDS}\n\nFirst read the specification").code == 0
    assert strict.playbook("resume").code == 4
    assert f"'{WORDS} First read the specification'" in strict.playbook("show").out
    first, second = heard(strict)
    assert first == f"/speckit.plan {FEATURE}|"
    told, _, in_environment = second.partition("|")
    command, empty, *lines = told.splitlines()
    assert (command, empty) == (f"/speckit.plan {FEATURE}", "")
    assert "(plan#1)" in lines[0]
    assert any(line.startswith(f"What did not hold: {MISSING}") for line in lines)
    assert any(line.startswith("What held: spec_exists") for line in lines)
    person = lines.index("A person said:")
    assert lines[person + 1 : person + 3] == [f"> {WORDS}", "> First read the specification"]
    assert in_environment.splitlines() == lines


def test_an_automatic_retry_is_told_the_error_and_its_last_lines(project: Project) -> None:
    script = project.script("""
    steps:
      implement:
        - {fail: one test is red}
        - {say: "told: {{feedback}}"}
    default: {say: "told: {{feedback}}", write: {"specs/{{feature}}/plan.md": "# Plan\\n"}}
    """)
    project.write(
        ".playbooks/playbooks/two.yaml",
        STRICT.replace("strict", "two").replace("error_policy: gate", "error_policy: stop")
        + "  - {id: implement, command: /speckit.implement, autonomy: auto, "
        "error_policy: retry_once}\n",
    )
    assert project.playbook("run", "two", "013", "--agent", script).code == 0
    plan, _, implement = project.journal()
    assert plan["output"] == "told:"
    assert "What did not hold: one test is red" in implement["output"]


def test_it_can_be_turned_off(strict: Project) -> None:
    strict.write(".playbooks/config.yaml", "feedback: false\n")
    agent = listener(strict)
    strict.playbook("run", "strict", "013", "--agent", agent)
    strict.playbook("answer", WORDS)
    strict.playbook("resume")
    assert heard(strict) == [f"/speckit.plan {FEATURE}|"] * 2


def test_inside_the_client_it_follows_the_command_in_the_subagents_prompt(
    project: Project,
) -> None:
    playbooks.shelve(project)
    project.write(".playbooks/playbooks/strict.yaml", STRICT)
    person = Hooked(project)
    person.types("/playbook.run strict 013")
    first = person.launches("plan#1")
    person.ran("plan#1", "speckit.plan", FEATURE)
    person.ended("plan#1", "I wrote no plan.")
    person.stops()
    person.says("the spec is at fault, retry")
    second = person.launches("plan#2")
    command = (
        f"Run the Skill `speckit.plan` with args `{FEATURE}`, first, then follow it to its end."
    )
    assert first.given["prompt"] == command
    assert second.given["prompt"].startswith(f"{command}\n\n")
    assert f"What did not hold: {MISSING}" in second.given["prompt"]
    assert "A person said: the spec is at fault, retry" in second.given["prompt"]
    person.ran("plan#2", "speckit.plan", FEATURE)
    project.write(f"specs/{FEATURE}/plan.md", "# Plan\n")
    person.ended("plan#2", "Now it is there.\nTwo pages.")
    assert project.journal()[-1]["status"] == "done"
    assert project.journal()[-1]["output"] == "Now it is there.\nTwo pages."
    assert project.playbook("logs", "plan").out == "Now it is there.\nTwo pages.\n"
