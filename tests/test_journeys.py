"""The seeds' journeys and each way in which a step may end, through the real program.

Every playbook here is the test's own: 1.0 has no name for a broken test, so a missing QA plan
stands for it.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
from support.controlled_time import gone, wait_until
from support.scratch_project import FEATURE, Project

PASS = "---\nverdict: PASS\n---\n"

pytestmark = pytest.mark.unmeasured

BREAKING = "---\nverdict: FAIL\nbreaking_changes: 2\n---\n"

ARGS = "args:\n  - {name: feature, description: the feature, required: true}\n"


def playbook(project: Project, *steps: str, name: str = "own") -> str:
    """Write a playbook; a step is `id command autonomy error_policy [key=a,b …]`."""
    lines = [f'name: {name}\ndescription: of the test\nversion: "1.0"\n{ARGS}steps:\n']
    for step in steps:
        ident, command, autonomy, policy, *more = step.split()
        lines.append(f"  - id: {ident}\n    command: {command}\n    autonomy: {autonomy}\n")
        lines.append(f"    error_policy: {policy}\n")
        for pair in more:
            key, _, value = pair.partition("=")
            shown = value if key in ("parallel_group", "model") else f"[{value}]"
            lines.append(f"    {key}: {shown}\n")
    project.write(f".playbooks/playbooks/{name}.yaml", "".join(lines))
    return name


def summary(entries: Sequence[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(entry["step_id"], entry["status"], entry["decision"]) for entry in entries]


def kill(process: subprocess.Popen[bytes]) -> None:
    """The crash: nothing of the runner survives, not even its children."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def open_entry(project: Project, step: str) -> bool:
    return bool(project.sessions) and any(
        entry["step_id"] == step and entry["status"] == "in_progress" and "launched_at" in entry
        for entry in project.journal()
    )


def at_work(project: Project, step: str) -> bool:
    """Whether the first attempt has a worker that has been started, and is on record."""
    files = project.root.glob(f".git/playbook/*/worker-{step}#1")
    return any(file.stat().st_size for file in files)


STEPS = (
    "plan /speckit.plan auto stop preconditions=spec_exists postconditions=plan_exists",
    "tasks /speckit.tasks auto stop preconditions=plan_exists postconditions=tasks_exists",
    "agreement /agreement.create auto stop postconditions=agreement_exists",
    "implement /speckit.implement auto stop postconditions=qa_plan_exists"
    " escalation_triggers=postcondition_fail",
    "check /agreement.check auto stop postconditions=agreement_pass",
    "pr /feature.pr gate_always stop postconditions=pr_created",
)
WORK = f"""
steps:
  plan: {{write: {{"specs/{{{{feature}}}}/plan.md": "the plan\\n"}}}}
  tasks: {{write: {{"specs/{{{{feature}}}}/tasks.md": "- [ ] T1\\n"}}}}
  agreement: {{write: {{".agreements/{{{{feature}}}}/agreement.yaml": "a: 1\\n"}}}}
  implement: {{say: "all but one test pass"}}
  check: {{write: {{".agreements/{{{{feature}}}}/check-report.md": "{PASS.encode("unicode_escape").decode()}"}}}}
"""  # noqa: E501 - one deed a line


# ── journey 1 ───────────────────────────────────────────────────────────────────────────────


def test_spec_to_pr_while_the_developer_does_something_else(project: Project) -> None:
    """kai FR27, FR28, FR38, FR39, J1, S-U1, S-U4, S-B1."""
    name, agent = playbook(project, *STEPS), project.script(WORK)
    project.gh("open")
    first = project.process("run", name, "013", "--agent", agent)
    assert first.code == 4
    assert "qa_plan_exists" in first.err
    assert "continue (or retry, accept, back to agreement or abort)" in first.err
    assert "3/6 steps done" in first.err
    assert "all but one test pass" in first.err, "the agent's last line helps to decide"
    assert summary(project.journal())[:3] == [
        ("plan", "done", "auto"),
        ("tasks", "done", "auto"),
        ("agreement", "done", "auto"),
    ]

    project.write(f".qa/{FEATURE}/test-plan.md", "mended by hand\n")
    answered = project.process("answer", "fixed test, continue")
    assert answered.code == 0
    second = project.process("resume")
    assert second.code == 4
    assert "pr#1" in second.err
    implement = project.journal()[3]
    assert implement["decision"] == "escalated"
    assert implement["trigger"] == "postcondition_fail"
    assert implement["human_response"] == "fixed test, continue"
    assert implement["resolution"] == "continue"
    assert implement["status"] == "done"
    assert project.manifest()["gate"]["id"] == "pr#1?1"

    assert project.process("answer", "yes").code == 0
    last = project.process("resume")
    assert last.code == 0
    pr = project.journal()[-1]
    assert (pr["status"], pr["decision"], pr["human_response"]) == ("done", "gate", "yes")
    assert "pull request #7 is open" in pr["evidence"][0]
    assert project.manifest()["status"] == "completed"


def test_every_duration_is_what_its_timestamps_say(project: Project) -> None:
    """kai FR13, FR37: to the millisecond."""
    from playbook_supervisor.formats.timestamps import from_time

    name, agent = playbook(project, *STEPS[:3]), project.script(WORK)
    assert project.playbook("run", name, "013", "--agent", agent).code == 0
    for entry in project.journal():
        started, ended = from_time(entry["started_at"]), from_time(entry["completed_at"])
        assert started is not None
        assert ended is not None
        assert round(entry["duration_seconds"] * 1000) == ended - started


# ── journey 2 ───────────────────────────────────────────────────────────────────────────────


def test_after_a_crash_in_step_five_the_session_continues_there(project: Project) -> None:
    """kai FR16, J2, S-U3, S-T3; cat FR-7.4; tyr 4: unfinished work runs again, settled work
    never."""
    project.write(f".qa/{FEATURE}/test-plan.md", "a plan of last week\n")
    name = playbook(project, *STEPS[:5])
    agent = project.script(WORK.replace("check: {", "check: {seconds: 60, "))
    runner = project.spawn("run", name, "013", "--agent", agent)
    wait_until(lambda: open_entry(project, "check"))
    before = project.journal()
    kill(runner)

    resumed = project.playbook("resume", "--kill", "--agent", project.script(WORK))
    assert resumed.code == 0
    entries = project.journal()
    assert entries[:4] == before[:4], "settled entries never change"
    assert summary(entries[4:]) == [("check", "failed", "auto"), ("check", "done", "auto")]
    assert entries[4]["error_code"] == "PB-STATE-INTERRUPTED"
    assert entries[5]["attempt"] == 2


def test_finished_work_is_recovered_and_not_repeated(project: Project) -> None:
    """kai FR32, S-U3: what had been written since the launch counts as returned."""
    name = playbook(project, STEPS[0])
    agent = project.script("steps: {plan: {hang: true}}")
    runner = project.spawn("run", name, "013", "--agent", agent)
    wait_until(lambda: open_entry(project, "plan"))
    project.write(f"specs/{FEATURE}/plan.md", "finished just before the crash\n")
    kill(runner)

    assert project.playbook("resume", "--kill").code == 0
    (entry,) = project.journal()
    assert entry["status"] == "done"
    assert entry["recovered"] is True
    assert "attempt" not in entry


def test_an_agent_ends_with_its_runner(project: Project) -> None:
    """Also what it has started in a session of its own; the step runs again."""
    child = project.root.with_name("child")
    program = project.root.with_name("agent")
    program.write_text(
        f"#!/bin/sh\nsetsid sh -c 'echo $$ > {child}; exec sleep 600' &\nexec sleep 600\n"
    )
    program.chmod(0o755)
    runner = project.spawn("run", playbook(project, STEPS[0]), "013", "--agent", f"exec:{program}")
    wait_until(lambda: at_work(project, "plan") and child.exists() and child.read_text())
    runner.kill()
    runner.communicate()

    resumed = project.playbook("resume", "--agent", project.script(WORK))
    assert resumed.code == 0
    assert gone(int(child.read_text()))
    assert summary(project.journal()) == [("plan", "failed", "auto"), ("plan", "done", "auto")]


# ── every way in which a step may end ───────────────────────────────────────────────────────


def test_a_missing_precondition_stops_before_anything_runs(project: Project) -> None:
    """kai FR18: all failures together, each with the path that was looked at."""
    name = playbook(
        project, "tasks /speckit.tasks auto stop preconditions=plan_exists,agreement_exists"
    )
    ended = project.playbook("run", name, "013", "--agent", project.script("steps: {}"))
    assert ended.code == 2
    (entry,) = project.journal()
    assert entry["started_at"] == entry["completed_at"]
    assert f"plan_exists: specs/{FEATURE}/plan.md is missing" in entry["error"]
    assert f".agreements/{FEATURE}/agreement.yaml is missing" in entry["error"]


def test_a_breaking_change_halts_gate_on_breaking_and_is_asked_once(project: Project) -> None:
    """kai FR25: accepted once, a finding does not ask again."""
    name = playbook(
        project,
        "check /agreement.check gate_on_breaking gate postconditions=agreement_pass",
        "plan /qa.plan gate_on_breaking stop preconditions=agreement_pass"
        " postconditions=qa_plan_exists",
    )
    report = BREAKING.encode("unicode_escape").decode()
    agent = project.script(f"""
        steps:
          check: {{write: {{".agreements/{FEATURE}/check-report.md": "{report}"}}}}
          plan: {{write: {{".qa/{FEATURE}/test-plan.md": "plan\\n"}}}}
    """)
    halted = project.playbook("run", name, "013", "--agent", agent)
    assert halted.code == 4
    assert "breaking" in halted.err
    assert project.journal()[0]["trigger"] == "agreement_breaking"
    assert project.playbook("answer", "accept").code == 0
    assert project.playbook("resume").code == 4, "the next step needs the verdict, too"
    assert project.playbook("answer", "accept").code == 0
    assert project.playbook("resume").code == 0
    check, plan = project.journal()
    assert check["waived"] == ["agreement_pass", "agreement_breaking"]
    assert plan["waived"] == ["agreement_pass"], "of the finding it is not asked again"
    assert "trigger" not in plan
    assert plan["decision"] == "gate"


def test_a_group_runs_at_once_and_waits_for_all_before_it_fails(project: Project) -> None:
    """kai FR22, S-T5."""
    group = "parallel_group=checks"
    name = playbook(
        project,
        f"one /qa.plan auto stop {group}",
        f"two /qa.run auto gate {group} postconditions=qa_plan_exists",
        f"three /agreement.check auto stop {group}",
        "after /feature.pr auto stop",
    )
    agent = project.script("""
        steps:
          one: {seconds: 0.6, fail: broken}
          two: {seconds: 0.6}
          three: {seconds: 0.6, say: checked}
    """)
    halted = project.playbook("run", name, "013", "--agent", agent)
    assert halted.code == 4, "the open gate is put although another member has failed for good"
    starts = {entry["started_at"] for entry in project.journal()}
    assert len(starts) == 1, "all began together"
    assert project.playbook("answer", "accept").code == 0
    assert project.playbook("resume").code == 2
    assert summary(project.journal()) == [
        ("one", "failed", "auto"),
        ("two", "done", "escalated"),
        ("three", "done", "auto"),
    ]


# ── the human, and other terminals ──────────────────────────────────────────────────────────


def test_autonomous_mode_passes_gates_without_findings(project: Project) -> None:
    """cat FR-6.3, stricter: a gate with a trigger never approves itself."""
    name = playbook(
        project,
        "one /qa.plan gate_always stop",
        "two /qa.run auto gate postconditions=qa_plan_exists",
    )
    agent = project.script("steps: {}")
    ended = project.playbook("run", name, "013", "--mode", "autonomous", "--agent", agent)
    assert ended.code == 4
    one, two = project.journal()
    assert one["gates"][0]["by"] == "autonomous"
    assert two["trigger"] == "postcondition_fail"
