"""What `check`, a run and its plan say of steps of version 1.1 before anything runs."""

from __future__ import annotations

import pytest
from project import Project

HEAD = """\
name: sample
description: Steps of several kinds
version: "1.1"
args: [{name: test, description: A program, required: false}]
steps:
"""


def write(project: Project, *steps: str) -> str:
    text = HEAD + "".join(f"  - {{{each}, autonomy: auto, error_policy: stop}}\n" for each in steps)
    project.write(".playbooks/playbooks/sample.yaml", text)
    return ".playbooks/playbooks/sample.yaml"


def test_steps_of_every_kind_are_checked(project: Project) -> None:
    file = write(
        project,
        "id: a, command: 'cli make {{test}}', with: {env: {CI: '1'}}",
        "id: b, command: prompt, with: {text: 'Review it.'}",
    )
    done = project.playbook("check", file)
    assert done.code == 0, done.out
    assert "0 errors" in done.err


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("command: 'cli true', with: {environment: {}}", "`with` of the cli step: $: Additional"),
        ("command: 'cli true', with: {env: {'A B': x}}", "`with` of the cli step: $.env"),
        ("command: prompt", "`with` of the prompt step: $: 'text' is a required property"),
        ("command: 'markdown a.md', with: {text: x}", "`with` of the markdown step: $: Additional"),
        ("command: 'cli \"open'", "cannot split"),
        (
            "command: 'cli true', output: json, output_schema: {type: strin}",
            "`output_schema` is not a JSON Schema: $.type: 'strin'",
        ),
    ],
)
def test_a_fault_is_an_error_of_check_and_refused_before_a_session(
    project: Project, step: str, said: str
) -> None:
    """kai NFR3; cat NFR-2.3."""
    file = write(project, f"id: a, {step}")
    done = project.playbook("check", file)
    assert done.code == 1
    assert said in done.out
    assert f"{file}:6:" in done.out
    run = project.playbook("run", "sample", "--agent", "exec:true")
    assert run.code == 1
    assert said.partition(":")[0] in run.err
    assert project.sessions == []
    assert said.partition(":")[0] in project.playbook("run", "sample", "--dry-run").err + done.out


def test_a_conversation_cannot_begin_with_a_fault(project: Project) -> None:
    write(project, "id: a, command: 'cli true', with: {environment: {}}")
    begun = project.playbook("begin", "sample")
    assert begun.code == 1
    assert "step a: `with` of the cli step" in begun.err
    assert project.sessions == []


def test_a_playbook_without_agents_runs_where_there_is_none(project: Project) -> None:
    """A check that a program can make costs no model and needs no client."""
    project.gh("missing")
    write(project, "id: say, command: 'cli cat README.md'")
    plan = project.playbook("run", "sample", "--dry-run")
    assert plan.code == 0, plan.err
    assert "no agent" in plan.out
    assert "runs   cli, without an agent" in plan.out
    done = project.playbook("run", "sample")
    assert done.code == 0, done.err
    assert "say#1 start cli cat README.md" in done.err
    assert "output: # A project" in project.playbook("show").out
    (entry,) = project.journal()
    assert entry["output"] == "# A project"
    assert "agent" not in entry


def test_a_playbook_with_a_prompt_needs_an_agent(project: Project) -> None:
    project.gh("missing")
    write(project, "id: ask, command: prompt, with: {text: 'Review it.'}")
    assert "no agent was named" in project.playbook("run", "sample").err
    plan = project.playbook("run", "sample", "--dry-run", "--agent", "exec:true")
    assert "runs   a prompt, by an agent" in plan.out


def test_the_arguments_of_a_program_are_shown_with_their_values(project: Project) -> None:
    write(project, "id: say, command: 'cli echo {{test}}'")
    done = project.playbook("run", "sample", "test=a b")
    assert done.code == 0, done.err
    assert "say#1 start cli echo 'a b'" in done.err
    assert "cli echo 'a b'" in project.playbook("run", "sample", "test=a b", "--dry-run").out
    assert project.playbook("status", "--all").code == 0
