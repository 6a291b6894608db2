"""Steps that need no agent inside the real client: our own process carries them out."""

from __future__ import annotations

import pytest
from project import Project

from claude.conftest import Sit
from claude.obedient import Obedient
from claude.recorder import Recorder

BUILT = """\
name: built
description: Programs before, beside and after an agent
version: "1.1"
args: [{name: what, description: What to build, required: true}]
defaults: {autonomy: auto, error_policy: stop}
steps:
  - id: list
    command: cli echo "{{what}} is built"
  - {id: implement, command: /speckit.implement, parallel_group: both}
  - id: count
    command: cli echo '{"n":42}'
    output: json
    parallel_group: both
  - {id: never, command: cli false, when: $count.json.n == 41}
  - {id: pr, command: cli true, autonomy: gate_always}
"""


@pytest.fixture
def project(furnished: Project) -> Project:
    return furnished


def test_programs_run_without_a_model_beside_and_between_agents(
    project: Project, sit: Sit, recorder: Recorder
) -> None:
    """Chapter 7; tyr 1: one turn of the model starts them and waits for all."""
    project.write(".playbooks/playbooks/built.yaml", BUILT)
    project.commit("Build")
    terminal = sit(Obedient())
    terminal.say("/playbook.run built it")
    terminal.wait_for(r"Run cli true \(step pr\) now", timeout=90)
    terminal.choose("continue")
    terminal.wait_for("built: completed")
    journal = {entry["step_id"]: entry for entry in project.journal()}
    assert {step: entry["status"] for step, entry in journal.items()} == {
        **dict.fromkeys(("list", "implement", "count", "pr"), "done"),
        "never": "skipped",
    }
    assert journal["list"]["output"] == "it is built"
    assert journal["list"].get("agent") is None
    launched = [seen["tool_input"]["prompt"] for seen in recorder.of("PreToolUse", tool="Agent")]
    assert launched == ["implement#1"]
    ran = [seen["tool_input"]["command"] for seen in recorder.of("PreToolUse", tool="Bash")]
    assert set(ran) == {"playbook next --wait"}
