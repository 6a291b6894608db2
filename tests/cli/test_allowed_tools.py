"""Tools that a person allows once a session, in a real project."""

from __future__ import annotations

import pytest
from support.controlled_time import wait_until
from support.scratch_project import Project, remote
from test_clones import cloned
from test_journeys import kill, open_entry

WRITING = """\
name: writing
description: Draft, polish, test
version: "1.1"
args: [{name: topic, description: What it is about, required: true}]
defaults: {autonomy: auto, error_policy: retry_once}
steps:
  - {id: look, command: prompt, with: {text: "Look at {{topic}}"}, tools: [Read, Grep]}
  - {id: draft, title: Draft it, command: prompt, with: {text: "Draft {{topic}}"}, tools: [Write]}
  - {id: polish, command: prompt, with: {text: Polish it}, tools: [Read, Write]}
  - {id: test, command: prompt, with: {text: Test it}, tools: [Write, "Bash(make test)"]}
"""
WORKS = "steps: {look: {say: a}, draft: {say: b}, polish: {say: c}, test: {say: d}}"
ASKED = (
    "draft is going to use Write (Draft it): continue to allow this for the whole session, "
    "skip the step, or abort? 1/4 steps done."
)


@pytest.fixture
def writing(project: Project) -> Project:
    project.write(".playbooks/playbooks/writing.yaml", WRITING)
    return project


def gates(project: Project) -> list[tuple[str, str, str]]:
    return [
        (gate["id"], gate["reason"], gate.get("by", "").split(" ")[0])
        for entry in project.journal()
        for gate in entry.get("gates", [])
    ]


def test_a_person_is_asked_once_about_each_tool(writing: Project) -> None:
    """cat FR-5.4, tyr 31."""
    agent = writing.script(WORKS)
    first = writing.playbook("run", "writing", "tea", "--agent", agent)
    assert first.code == 4
    assert f"draft#1 WAITS FOR A HUMAN: {ASKED}" in first.err
    assert "  tools: Write\n  text: Draft tea\n" in first.err
    assert writing.playbook("answer", "continue").code == 0
    second = writing.playbook("resume")
    assert second.code == 4
    assert "test is going to use Bash(make test) (Run prompt): continue" in second.err
    assert writing.playbook("answer", "continue").code == 0
    assert writing.playbook("resume").code == 0
    assert gates(writing) == [("draft#1?1", "tools", "Ada"), ("test#1?1", "tools", "Ada")]
    assert writing.playbook("audit").code == 0


def test_the_autonomous_mode_takes_the_playbook_s_word_and_says_so(writing: Project) -> None:
    """cat FR-5.4: the step's `tools` are enough."""
    agent = writing.script(WORKS)
    run = writing.playbook("run", "writing", "tea", "--mode", "autonomous", "--agent", agent)
    assert run.code == 0, run.err
    assert gates(writing) == [
        ("draft#1?1", "tools", "autonomous"),
        ("test#1?1", "tools", "autonomous"),
    ]


def test_a_failure_a_kill_and_another_machine_do_not_ask_again(writing: Project) -> None:
    remote(writing)
    assert writing.playbook("run", "writing", "tea", "--agent", writing.script(WORKS)).code == 4
    assert writing.playbook("answer", "continue").code == 0
    hangs = writing.script("steps: {draft: [{fail: no ink}, {hang: true}]}")
    runner = writing.spawn("resume", "--agent", hangs)
    wait_until(lambda: open_entry(writing, "draft") and len(writing.journal()) == 3)
    kill(runner)
    clone = cloned(writing)
    resumed = clone.playbook("resume", "--agent", writing.script(WORKS))
    assert "test is going to use Bash(make test)" in resumed.err
    assert [gate[0] for gate in gates(clone)] == ["draft#1?1", "test#1?1"]
    assert writing.playbook("abort").code == 0  # it ends the worker


def test_plan_and_graph_show_where_a_person_is_asked(writing: Project) -> None:
    plan = writing.playbook("run", "writing", "tea", "--dry-run").out
    assert plan.count("tools: asks you") == 2
    assert "tools: asks you to allow Write\n" in plan
    assert "tools: asks you to allow Bash(make test)\n" in plan
    alone = writing.playbook("run", "writing", "tea", "--dry-run", "--mode=autonomous").out
    assert alone.count("tools: approved automatically") == 2
    drawn = writing.playbook("graph", "writing").out
    assert [f"-->|continue| s{n}" in drawn for n in (1, 2, 3, 4)] == [False, True, False, True]


def test_what_a_tool_is_called_cannot_hide_what_is_asked(writing: Project) -> None:
    hostile = WRITING.replace("tools: [Write]", r'tools: ["Read\e[2J\u202e", "Wri\nte"]')
    writing.write(".playbooks/playbooks/writing.yaml", hostile)
    run = writing.playbook("run", "writing", "tea", "--agent", writing.script(WORKS))
    assert run.code == 4
    assert "\x1b" not in run.err
    assert "\u202e" not in run.err
    assert "draft#1 WAITS FOR A HUMAN" in run.err
