"""`run`, `answer`, `resume` and `abort` of a playbook whose steps run other playbooks."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from support.controlled_time import Held, eventually
from support.scratch_project import FEATURE, Project

from playbook_supervisor.system.process.process_groups import worker_alive

TOP = """\
name: top
description: Plan and publish
version: "1.1"
args: []
steps:
  - {id: begin, command: /speckit.specify, autonomy: auto, error_policy: stop}
  - {id: release, command: playbook publish, with: {args: {what: notes}}, autonomy: auto,
     error_policy: stop}
  - {id: last, command: cli cat, stdin: $release.json, autonomy: auto, error_policy: stop}
"""
PUBLISH = """\
name: publish
description: Write and publish
version: "1.1"
args: [{name: what, description: what to write, required: true}]
steps:
  - {id: write, command: "cli echo the {{what}}", autonomy: auto, error_policy: stop}
  - {id: ask, command: checkpoint, with: {message: "Publish the {{what}}?"}, autonomy: auto,
     error_policy: stop}
  - {id: say, command: /feature.pr, autonomy: auto, error_policy: stop}
"""
WORKS = "exec:echo done"


def put(project: Project, **texts: str) -> None:
    for name, text in ({"top": TOP, "publish": PUBLISH} | texts).items():
        project.write(f".playbooks/playbooks/{name}.yaml", text)


def worker(project: Project, playbook: str, attempt: str) -> Path:
    session: str = project.manifests()[playbook]["session_id"]
    return project.root / ".git/playbook" / session / f"worker-{attempt}"


# ── from the beginning to the end ───────────────────────────────────────────────────────────


def test_a_run_goes_to_the_gate_of_a_child_and_a_resume_through_it(project: Project) -> None:
    """cat FR-9.1, FR-9.2: one session for the person, who answers at the terminal as ever."""
    put(project)
    ran = project.playbook("run", "top", "--agent", WORKS)
    assert ran.code == 4, ran.err
    top, child = project.manifests()["top"], project.manifests()["publish"]
    assert child["parent"] == f"{top['session_id']}/release#1"
    assert " release#1/write#1 start cli echo the notes\n" in ran.err
    assert " release#1/ask#1 WAITS FOR A HUMAN: Publish the notes?" in ran.err
    answered = project.playbook("answer", "--gate", "release#1/ask#1?1", "continue")
    assert answered.code == 0, answered.err
    resumed = project.playbook("resume")
    assert resumed.code == 0, resumed.err
    assert f"{top['session_id']} top" in resumed.err
    ended = json.loads(project.journals()["top"][-1]["output"])
    assert ended["session"] == child["session_id"]
    shown = project.git("show", "--stat", "--format=%s", "HEAD")
    assert f"Record session {top['session_id']}: completed" in shown
    assert f"{child['session_id']}/journal.yaml" in shown
    assert project.git("status", "--porcelain", ".playbooks/sessions") == ""


def test_the_name_of_a_child_means_the_session_that_a_person_began(project: Project) -> None:
    put(project)
    project.playbook("run", "top", "--agent", WORKS)
    child = project.manifests()["publish"]["session_id"]
    answered = project.playbook("answer", "--session", child, "continue")
    assert answered.code == 0, answered.err
    assert project.playbook("resume", child).code == 0
    assert project.manifests()["top"]["status"] == "completed"


def test_the_result_of_a_run_has_the_gate_of_the_child_with_its_context(project: Project) -> None:
    put(project, publish=PUBLISH.replace('{{what}}?"}', '{{what}}?", preview: $write.stdout}'))
    result = project.playbook("run", "top", "--agent", WORKS, "--json").json
    assert result["gate"]["id"] == "release#1/ask#1?1"
    assert "the notes" in json.dumps(result["gate"])
    assert result["progress"] == {"done": 1, "total": 3}


def test_autonomous_mode_passes_the_checkpoints_of_children(project: Project) -> None:
    put(project)
    ran = project.playbook("run", "top", "--agent", WORKS, "--mode", "autonomous")
    assert ran.code == 0, ran.err
    assert project.journals()["publish"][1]["gates"][0]["by"] == "autonomous"


def test_a_playbook_whose_children_need_an_agent_needs_one(project: Project) -> None:
    put(project, top=TOP.replace("/speckit.specify", "cli true"))
    ran = project.playbook("run", "top", env={"PATH": "/usr/bin:/bin"})
    assert (ran.code, "no agent was named" in ran.err) == (2, True), ran.err
    assert project.sessions == []


# ── failures ────────────────────────────────────────────────────────────────────────────────


def test_a_child_that_fails_fails_its_step_which_names_it(project: Project) -> None:
    """cat FR-9.4."""
    put(project, publish=PUBLISH.replace("cli echo the {{what}}", "cli false"))
    ran = project.playbook("run", "top", "--agent", WORKS)
    assert ran.code == 2
    child = project.manifests()["publish"]["session_id"]
    assert f"the child session {child} failed at write" in ran.err
    entry = project.journals()["top"][-1]
    assert (entry["error_code"], entry["error_cause"]) == ("PB-STEP-CHILD", "PB-STEP-FAILED")
    retried = project.playbook("resume", "--retry")
    assert retried.code == 2
    assert len(project.sessions) == 3


def test_an_abort_at_the_gate_of_a_child_without_a_runner_ends_everything(project: Project) -> None:
    put(project)
    project.playbook("run", "top", "--agent", WORKS)
    assert project.playbook("answer", "abort").code == 0
    assert {each["status"] for each in project.manifests().values()} == {"aborted"}
    assert project.playbook("resume").code == 2


# ── while the agent of a child works ────────────────────────────────────────────────────────


BUSY = PUBLISH.replace(
    '- {id: write, command: "cli echo the {{what}}"', "- {id: write, command: /x"
)
ALONE = TOP.replace("command: /speckit.specify", "command: cli true")


def test_an_interrupted_run_goes_on_in_the_same_child(project: Project) -> None:
    put(project, top=ALONE, publish=BUSY)
    held = Held.put(project)
    with project.spawn("run", "top", "--agent", held.agent) as runner:
        assert eventually(lambda: len(project.sessions) == 2)
        assert eventually(lambda: worker_alive(worker(project, "publish", "write#1")))
        runner.send_signal(signal.SIGINT)
        runner.communicate(timeout=60)
    assert runner.returncode == 130
    (write,) = project.journals()["publish"]
    assert write["error_code"] == "PB-STATE-INTERRUPTED"
    assert project.journals()["top"][-1]["status"] == "in_progress"
    held.let_go()
    assert project.playbook("resume").code == 4
    assert len(project.sessions) == 2


@pytest.mark.parametrize(("command", "code"), [("abort", 2), ("pause", 4)])
def test_a_runner_at_work_in_a_child_can_be_stopped_from_elsewhere(
    project: Project, command: str, code: int
) -> None:
    put(project, top=ALONE, publish=BUSY)
    held = Held.put(project)
    with project.spawn("run", "top", "--agent", held.agent) as runner:
        assert eventually(lambda: len(project.sessions) == 2)
        assert eventually(lambda: worker_alive(worker(project, "publish", "write#1")))
        if command == "pause":
            held.let_go()
        stopped = project.playbook(command)
        runner.communicate(timeout=60)
    assert stopped.code == 0, stopped.err
    assert runner.returncode == code
    statuses = {each["status"] for each in project.manifests().values()}
    assert statuses == ({"aborted"} if command == "abort" else {"in_progress"})


def test_the_agents_of_parallel_children_work_at_once(project: Project) -> None:
    group = """\
  - {id: two, command: playbook second, parallel_group: g, autonomy: auto, error_policy: stop}
  - {id: one, command: playbook publish, parallel_group: g, with: {args: {what: x}}, autonomy: auto,
     error_policy: stop}
"""
    second = BUSY.replace("name: publish", "name: second").replace(
        "required: true", "required: false"
    )
    put(project, top=TOP.partition("  - ")[0] + group, publish=BUSY, second=second)
    held = Held.put(project)
    with project.spawn("run", "top", "--agent", held.agent) as runner:
        assert eventually(lambda: len(project.sessions) == 3)
        busy = [worker(project, child, "write#1") for child in ("publish", "second")]
        assert eventually(lambda: all(map(worker_alive, busy)))
        held.let_go()
        runner.communicate(timeout=60)
    assert runner.returncode == 4
    assert project.playbook("answer", "continue").code == 0
    assert project.playbook("resume").code == 4
    assert project.playbook("answer", "continue").code == 0
    assert project.playbook("resume").code == 0


def test_the_journals_of_all_are_committed_before_a_child_publishes(project: Project) -> None:
    publishing = PUBLISH.replace("/feature.pr, ", "/feature.pr, postconditions: [pr_created], ")
    put(project, publish=publishing)
    project.gh("none")
    project.playbook("run", "top", "--agent", WORKS, "--mode", "autonomous")
    top, child = (project.manifests()[name]["session_id"] for name in ("top", "publish"))
    subjects = project.git("log", "--format=%s").splitlines()
    assert f"Record session {top} before say" in subjects
    commit = project.git("log", "--format=%H", "--grep=before say", "-1")
    names = project.git("show", "--name-only", "--format=", commit).splitlines()
    assert {name.split("/")[2] for name in names} == {top, child}
    assert FEATURE in project.git("log", "--format=%B", "-1", commit)


def test_a_changed_journal_of_a_child_stops_the_run_until_a_person_decides(
    project: Project,
) -> None:
    put(project)
    project.playbook("run", "top", "--agent", WORKS)
    child = project.manifests()["publish"]["session_id"]
    file = project.root / f".playbooks/sessions/{child}/journal.yaml"
    written = file.read_text()
    file.write_text(written.replace("the notes", "a lie"))
    stopped = project.playbook("resume")
    assert stopped.code == 3
    assert f"playbook repair {child}" in stopped.err
    assert project.playbook("repair", child).code == 3
    assert project.playbook("repair", child, "--restore").code == 0
    assert file.read_text() == written
    assert project.playbook("resume").code == 4
