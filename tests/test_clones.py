"""A session continues in another clone, after a real push and a real clone, as well as here.

What a killed runner leaves is an entry in progress. In a clone every file looks new.
"""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
from support.scratch_project import FEATURE, Project, remote
from test_journeys import PASS, playbook

from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.process.process_groups import MARK

REPORT = f".agreements/{FEATURE}/check-report.md"
VERDICT = f".qa/{FEATURE}/verdict.md"
PLAN = f"specs/{FEATURE}/plan.md"
CHECK = "check /agreement.check auto gate postconditions=agreement_pass"
QA = "qa /qa.run auto gate postconditions=qa_verdict_pass"
PLANS = "plan /speckit.plan auto stop postconditions=plan_exists"
BREAKING = "---\nverdict: FAIL\nbreaking: true\n---\n"
AGENT = """\
#!/bin/sh
# Does the work of every step, and says in a file outside which it was.
[ -e "$RAN.idle" ] && echo idle && exit 0
echo "$PLAYBOOK_STEP" | tee -a "$RAN"
mkdir -p .agreements/013-playbook-create .qa/013-playbook-create
printf -- '---\\nverdict: PASS\\n---\\ntoday\\n' > .agreements/013-playbook-create/check-report.md
printf -- '---\\nverdict: PASS\\n---\\ntoday\\n' > .qa/013-playbook-create/verdict.md
echo today > specs/013-playbook-create/plan.md
"""


@pytest.fixture
def shared(project: Project) -> Project:
    """A project with a remote, and an agent that everyone has with the repository."""
    project.write("tools/agent", AGENT).chmod(0o755)
    project.env["RAN"] = str(project.root.with_name("ran"))
    project.commit("Add an agent")
    remote(project)
    return project


def launched(project: Project, name: str) -> SessionTree:
    """Begin a session and launch its first step, whose runner then dies."""
    began = project.playbook("begin", name, "013")
    assert began.code == 0, began.err
    store = DiskStore(checkout.find(project.root))
    return SessionTree(store, store.ids()[0])


def cloned(project: Project) -> Project:
    """Everything is committed and pushed; a fresh clone on the branch of the session."""
    project.commit("Push what there is")
    project.git("push", "-q", "origin", FEATURE)
    root = project.root.with_name("clone")
    bare = project.git("remote", "get-url", "origin")
    subprocess.run(["git", "clone", "-q", "-b", FEATURE, bare, str(root)], check=True)
    return Project(root, project.home, project.env)


def ran(project: Project) -> list[str]:
    """The steps whose agents ran, in order."""
    file = project.root.with_name("ran")
    return file.read_text().split() if file.exists() else []


def outcomes(project: Project) -> list[tuple[str, str, bool]]:
    return [
        (entry["step_id"], entry["status"], entry.get("recovered", False))
        for entry in project.journal()
    ]


AGAIN = [("failed", False), ("done", False)]
RECOVERED = [("done", True)]


@pytest.mark.parametrize(
    ("step", "artifact", "before", "after", "expected"),
    [
        (CHECK, REPORT, PASS, PASS, AGAIN),
        (QA, VERDICT, "", PASS, RECOVERED),
        (PLANS, PLAN, "last week\n", "this week\n", RECOVERED),
    ],
)
def test_in_a_clone_only_what_the_lost_attempt_changed_shows_that_it_finished(
    shared: Project, step: str, artifact: str, before: str, after: str, expected: list[Any]
) -> None:
    """own L-7."""
    if before:
        shared.write(artifact, before)
    launched(shared, playbook(shared, step))
    shared.write(artifact, after)
    clone = cloned(shared)
    resumed = clone.playbook("resume", "--agent", "exec:tools/agent")
    assert resumed.code == 0, resumed.err
    name = step.split()[0]
    assert outcomes(clone) == [(name, *each) for each in expected]
    assert ran(shared) == ([] if expected == RECOVERED else [name])


def test_a_step_that_had_returned_is_not_passed_by_last_weeks_verdict(shared: Project) -> None:
    """own L-7."""
    shared.write(REPORT, PASS)
    tree = launched(shared, playbook(shared, CHECK))
    tree.note_return("check#1", Outcome(output="done"))
    clone = cloned(shared)
    assert clone.playbook("resume").code == 4
    (entry,) = clone.journal()
    assert entry["failing"] == ["agreement_pass"]
    assert "not written since the launch (by its content alone)" in entry["error"]


@pytest.mark.parametrize(
    ("step", "artifact", "expected"),
    [(CHECK, REPORT, AGAIN), (PLANS, PLAN, RECOVERED)],
)
def test_without_records_only_files_that_exist_show_that_a_step_finished(
    shared: Project, step: str, artifact: str, expected: list[Any]
) -> None:
    """A session of an earlier version, or of kai's own tools."""
    shared.write(artifact, PASS)
    launched(shared, playbook(shared, step))
    (shared.session / "records.yaml").unlink()
    clone = cloned(shared)
    assert clone.playbook("resume", "--agent", "exec:tools/agent").code == 0
    assert outcomes(clone) == [(step.split()[0], *each) for each in expected]


# ── how it is driven ────────────────────────────────────────────────────────────────────────


def test_a_clone_drives_the_session_as_it_was_driven(shared: Project) -> None:
    """The agent is a file of the repository, which lies elsewhere in a clone (own L-7)."""
    name = playbook(shared, CHECK, "pr /feature.pr gate_always stop")
    options = ("--mode", "autonomous", "--timeout", "90", "--idle-timeout", "80")
    idle = shared.root.with_name("ran.idle")
    idle.touch()
    agent = ("--agent", "exec:./agent --quiet")
    halted = shared.playbook("run", name, "013", *agent, *options, cwd=shared.root / "tools")
    assert halted.code == 4, halted.err
    idle.unlink()
    clone = cloned(shared)
    driver = {
        "agent": "exec:./tools/agent --quiet",
        "mode": "autonomous",
        "timeout": 90.0,
        "idle_timeout": 80.0,
    }
    assert clone.manifest()["driver"] == driver
    assert clone.playbook("answer", "retry").code == 0
    agent_of_ours = {MARK: f"{clone.root}/.git/playbook/{clone.session.name}/worker-check#1"}
    refused = clone.playbook("resume", env=agent_of_ours)
    assert (refused.code, "resume --mode autonomous" in refused.err) == (3, True)
    resumed = clone.playbook("resume")
    assert resumed.code == 0, resumed.err
    assert "note: driven here as where it began: agent exec:./tools/agent --quiet" in resumed.err
    assert ran(shared) == ["check", "pr"]
    assert clone.journal()[-1]["gates"][0]["by"] == "autonomous"
    assert clone.manifest()["driver"] == driver


# ── what a person decided ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("taken_up", [False, True])
def test_a_gate_in_a_clone_says_what_it_knows_of_the_beginning_and_what_not(
    shared: Project, taken_up: bool
) -> None:
    """Some of what was there was not committed, so this machine cannot know it."""
    name = playbook(shared, "plan /speckit.plan auto stop", "qa /qa.run gate_always gate")
    assert shared.playbook("run", name, "013", "--agent", "exec:tools/agent").code == 4
    clone = cloned(shared)
    if taken_up:
        assert clone.playbook("resume").code == 4
    shown = clone.playbook("status").out
    assert re.search("branch 013-playbook-create, 1 commit since the session began", shown)
    assert "changes are not known: what was here when the session began is not known" in shown
    assert "Push what there is" in shown
    assert "`git diff " in shown


@pytest.mark.parametrize(("later", "code"), [("", 0), ("worse\n", 4)])
def test_a_waiver_holds_in_a_clone_for_the_same_evidence_only(
    shared: Project, later: str, code: int
) -> None:
    report = shared.write(REPORT, "verdict: FAIL\n")
    launched(shared, playbook(shared, "last /qa.plan auto gate preconditions=agreement_pass"))
    assert shared.playbook("answer", "accept").code == 0
    report.write_text(f"verdict: FAIL\n{later}")
    resumed = cloned(shared).playbook("resume", "--agent", "exec:tools/agent")
    assert resumed.code == code, resumed.err


def test_a_gate_about_a_finding_is_answered_in_a_clone_and_stays_answered(
    shared: Project,
) -> None:
    first = "check /agreement.check auto gate escalation_triggers=agreement_breaking"
    tree = launched(shared, playbook(shared, first))
    shared.write(REPORT, BREAKING)
    tree.report("check#1", Outcome(output="done"))
    clone = cloned(shared)
    assert clone.playbook("answer", "accept").code == 0
    assert clone.playbook("resume").code == 0
    assert clone.journal()[0]["waived"] == ["agreement_breaking"]


# ── on this machine ─────────────────────────────────────────────────────────────────────────


def test_a_change_of_the_records_stops_the_next_command(shared: Project) -> None:
    shared.write(REPORT, PASS)
    launched(shared, playbook(shared, CHECK))
    file = shared.session / "records.yaml"
    written = file.read_text()
    file.write_text(f"# a note\n{written}")
    assert shared.playbook("next").code == 0
    file.write_text(written.replace(REPORT, PLAN))
    refused = shared.playbook("next")
    assert refused.code == 3
    assert "it was changed by something else: launches" in refused.err
    assert "records.yaml" in refused.err
    shown = shared.playbook("repair")
    assert (shown.code, "records.yaml: it was changed" in shown.out) == (3, True)
    assert shared.playbook("repair", "--restore").code == 0
    assert file.read_text() == written
    file.unlink()
    assert shared.playbook("next").code == 0
    assert file.read_text() == written
    file.write_text(written.replace(REPORT, PLAN))
    assert shared.playbook("repair", "--take").code == 0
    assert PLAN in file.read_text()
    assert shared.playbook("audit").code == 0
    assert shared.playbook("show").code == 0
