"""spec-kit's workflow files in a real project."""

from __future__ import annotations

import json

from support.scratch_project import Project

CYCLE = """\
schema_version: "1.0"
workflow:
  id: sdd-cycle
  name: Full SDD cycle
  version: "1.0.0"
  description: Specify, plan, make tasks and implement, with two reviews
requires:
  speckit_version: ">=0.7"
  integrations: {any: [claude, copilot]}
inputs:
  spec: {type: string, required: true, prompt: What to build}
  integration: {type: string, default: claude}
  scope: {type: string, default: full, enum: [full, backend-only]}
steps:
  - id: specify
    command: speckit.specify
    integration: "{{ inputs.integration }}"
    input: {args: "{{ inputs.spec }}"}
  - id: review-spec
    type: gate
    message: "Is the spec of {{ inputs.spec }} right?"
    options: [approve, reject]
    on_reject: abort
  - id: plan
    command: speckit.plan
    input: {args: "{{ inputs.spec }}"}
  - id: review-plan
    type: gate
    message: Is the plan right?
    options: [approve, reject]
    on_reject: abort
  - id: tasks
    command: speckit.tasks
  - id: frontend
    type: if
    condition: "{{ inputs.scope == 'full' }}"
    then:
      - {id: count, type: shell, run: "printf %s {{ inputs.spec }}"}
  - id: implement
    command: speckit.implement
"""
FILE = ".playbooks/playbooks/sdd-cycle.yml"


def test_the_full_cycle_runs_from_gate_to_gate(project: Project) -> None:
    """Each gate is a checkpoint, and what a run does is in the journal as for any playbook."""
    project.write(FILE, CYCLE)
    checked = project.playbook("check", FILE, "--format", "json").json["files"][0]
    assert checked["ok"]
    assert "PB-CHECK-TRANSLATED" in {each["code"] for each in checked["problems"]}
    spec = "Photo albums; $(rm -rf /)"
    waits = project.playbook("run", "sdd-cycle", f"spec={spec}", "--agent", "exec:echo done")
    assert waits.code == 4
    assert f"Is the spec of {spec} right?" in waits.out + waits.err
    project.playbook("answer", "continue")
    assert project.playbook("resume", "--agent", "exec:echo done").code == 4
    project.playbook("answer", "continue")
    assert project.playbook("resume", "--agent", "exec:echo done").code == 0
    entries = {entry["step_id"]: entry for entry in project.journal()}
    assert list(entries) == [
        "specify",
        "review-spec",
        "plan",
        "review-plan",
        "tasks",
        "count",
        "implement",
    ]
    assert {entry["status"] for entry in entries.values()} == {"done"}
    assert entries["count"]["output"] == spec
    assert project.playbook("audit").code == 0


def test_the_session_keeps_the_playbook_that_it_was_read_as(project: Project) -> None:
    project.write(FILE, CYCLE)
    project.playbook("run", "sdd-cycle", "spec=x", "--agent", "exec:echo done")
    kept = project.session / "playbook.yaml"
    assert kept.read_text().startswith(f"# Translated from a spec-kit workflow: {FILE}\n")
    project.write("kept.yaml", kept.read_text())
    again = project.playbook("check", "kept.yaml", "--format", "json").json["files"][0]
    assert again["ok"]


def test_a_branch_that_the_inputs_do_not_take_is_skipped(project: Project) -> None:
    project.write(FILE, CYCLE.replace("type: gate", "type: prompt").replace("message", "prompt"))
    text = (project.root / FILE).read_text()
    for key in ("    options: [approve, reject]\n", "    on_reject: abort\n"):
        text = text.replace(key, "")
    project.write(FILE, text)
    args = ("spec=x", "scope=backend-only", "--agent", "exec:echo done")
    assert project.playbook("run", "sdd-cycle", *args).code == 0
    count = next(entry for entry in project.journal() if entry["step_id"] == "count")
    assert (count["status"], count["evidence"]) == ("skipped", ['when: $scope is "backend-only"'])


def test_shell_syntax_needs_a_shell_that_the_project_allows(project: Project) -> None:
    """The check says it at the place, and nothing runs; with `allow` it does."""
    shell = CYCLE.partition("steps:")[0] + "steps:\n  - {id: a, type: shell, run: 'echo b | cat'}\n"
    project.write(FILE, shell)
    refused = project.playbook("check", FILE)
    assert refused.code == 1
    assert f"{FILE}:15:31: error: a step may not run 'sh'" in refused.out
    assert project.playbook("run", "sdd-cycle", "spec=x").code != 0
    project.write(".playbooks/config.yaml", "allow: {cli: [sh]}\n")
    assert project.playbook("check", FILE).code == 0
    assert project.playbook("run", "sdd-cycle", "spec=x").code == 0
    assert project.journal()[-1]["output"] == "b"


def test_what_cannot_be_carried_stops_a_run_before_it_begins(project: Project) -> None:
    project.write(FILE, CYCLE.replace("== 'full'", "== 'full' and inputs.spec"))
    stopped = project.playbook("run", "sdd-cycle", "spec=x", "--agent", "exec:echo done")
    assert stopped.code == 1
    assert "`and` has no counterpart" in stopped.err
    assert not (project.root / ".playbooks/sessions").exists()


def test_a_workflow_in_json_is_read_too(project: Project) -> None:
    steps = [{"id": "a", "type": "shell", "run": "echo {{ inputs.x }}"}]
    whole = {"workflow": {"id": "tiny"}, "inputs": {"x": {"default": "y"}}, "steps": steps}
    project.write("tiny.json", json.dumps(whole))
    assert project.playbook("run", "tiny.json").code == 0
    assert project.journal()[0]["output"] == "y"


LOOPS = """\
workflow: {id: loops}
inputs:
  first: {default: a}
steps:
  - {id: scan, type: shell, run: cat tasks.json}
  - id: build
    type: fan-out
    items: "{{ steps.scan.output.tasks }}"
    max_concurrency: 2
    step: {id: one, type: shell, run: "cp README.md {{ item.file }}"}
  - {id: join, type: fan-in, wait_for: [build]}
  - id: mend
    type: while
    condition: "{{ steps.green.output.exit_code != 0 }}"
    max_iterations: 3
    steps:
      - {id: fix, type: prompt, prompt: Mend it}
      - {id: green, type: shell, run: grep -q mended made.txt}
"""
MENDS_AT_LAST = """\
steps:
  fix:
    - {say: I try, write: {"made.txt": "broken\\n"}}
    - {say: I mend, write: {"made.txt": "mended\\n"}}
"""


def test_a_fan_out_and_a_loop_run_as_often_as_they_need(project: Project) -> None:
    tasks = [{"file": "x y.txt"}, {"file": "b.txt"}, {"file": "$(c).txt"}]
    project.write("tasks.json", json.dumps({"tasks": tasks}))
    project.write("README.md", "hello\n")
    project.write("loops.yml", LOOPS)
    project.write("script.yaml", MENDS_AT_LAST)
    ran = project.playbook("run", "loops.yml", "--agent", "script:script.yaml")
    assert ran.code == 0, ran.err
    assert all((project.root / each["file"]).exists() for each in tasks)
    entries = project.journal()
    ids = [entry["step_id"] for entry in entries]
    assert ids == ["scan", "build[1]", "build[2]", "build[3]", "fix", "fix"]
    assert entries[-2]["error_code"] == "PB-COND-UNTIL"
    assert entries[-1]["status"] == "done"


def test_a_loop_whose_test_holds_is_skipped(project: Project) -> None:
    project.write("tasks.json", '{"tasks": []}')
    project.write("made.txt", "mended\n")
    project.write("loops.yml", LOOPS)
    project.write("script.yaml", MENDS_AT_LAST)
    assert project.playbook("run", "loops.yml", "--agent", "script:script.yaml").code == 0
    assert [entry["status"] for entry in project.journal()] == ["done", "skipped", "skipped"]


def test_what_the_format_cannot_say_is_no_warning(project: Project) -> None:
    """`--strict` passes: spec-kit's files have no postconditions."""
    project.write(FILE, CYCLE)
    strict = project.playbook("check", FILE, "--strict")
    assert strict.code == 0
    assert "note: `specify` has no postconditions" in strict.out
    assert "`playbook import` writes a playbook, which can have some." in strict.out
