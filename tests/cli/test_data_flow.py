"""Output that flows from step to step, in a real project."""

from __future__ import annotations

import json

from support.scratch_project import Project

FLOW = """\
name: flow
description: Say, make, and read
version: "1.1"
args: []
outputs: [report.md]
steps:
  - {id: say, command: "cli echo '{\\"go\\": false}'", output: json,
     autonomy: auto, error_policy: stop}
  - {id: make, command: "cli cp README.md report.md", outputs: [report.md],
     autonomy: auto, error_policy: stop}
  - {id: never, command: "cli false", when: $say.json.go, autonomy: auto, error_policy: stop}
  - {id: read, command: "cli cat", stdin: $say.json, autonomy: gate_always, error_policy: stop}
"""


def test_a_step_reads_what_was_committed_with_the_session(project: Project) -> None:
    """cat FR-8.1; tyr 24: up to a gate here, and to the end after a resume."""
    project.write("README.md", "hello\n")
    project.write(".playbooks/playbooks/flow.yaml", FLOW)
    assert project.playbook("run", "flow", "--agent", "exec:echo done").code == 4
    entries = project.journal()
    assert [entry["status"] for entry in entries] == ["done", "done", "skipped", "in_progress"]
    assert entries[2]["evidence"] == ["when: $say.json.go is false"]
    kept = json.loads((project.session / "outputs/say.json").read_bytes())
    assert kept == {"schema": 1, "attempt": "say#1", "json": {"go": False}}
    project.playbook("answer", "continue")
    assert project.playbook("resume").code == 0
    assert project.journal()[-1]["output"] == '{"go": false}'
    assert "outputs/say.json" in project.git("show", "--stat", "--format=", "HEAD")
    assert project.playbook("audit").code == 0


BRANCHES = """\
name: branches
description: Steps that only some runs need
version: "1.1"
args:
  - {name: scope, description: What to build, required: true, type: enum, values: [full, small]}
  - {name: tests, description: Whether to test, required: false, type: boolean}
  - {name: count, description: How often, required: false, type: number, default: "2"}
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: full, command: cli true, when: $scope == "full"}
  - {id: twice, command: cli true, when: $count == 2}
  - {id: test, command: cli true, when: $tests}
"""


def test_an_arg_decides_which_steps_run(project: Project) -> None:
    project.write(".playbooks/playbooks/branches.yaml", BRANCHES)
    plan = project.playbook("run", "branches", "small", "--dry-run")
    assert '$scope == "full": the arg decides' in plan.out
    assert project.playbook("run", "branches", "small", "tests=yes").code == 0
    full, twice, test = project.journal()
    assert (full["status"], full["evidence"]) == ("skipped", ['when: $scope is "small"'])
    assert [twice["status"], test["status"]] == ["done", "done"]


def test_an_arg_that_was_not_given_is_neither_true_nor_false(project: Project) -> None:
    project.write(".playbooks/playbooks/branches.yaml", BRANCHES)
    failed = project.playbook("run", "branches", "full", "count=0.5")
    assert failed.code == 2
    assert '$tests is "", neither true nor false' in failed.err
    assert [entry["status"] for entry in project.journal()] == ["done", "skipped", "failed"]
