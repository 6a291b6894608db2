"""A session goes on in another clone, after a real push and a real clone, as well as here.

What a killed runner leaves is an entry in progress. In a clone every file looks new.
"""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

import pytest
from project import FEATURE, Project, remote
from test_journeys import PASS, kill, open_entry, playbook, wait_until

from playbook_supervisor.commands import driving
from playbook_supervisor.commands.driving import DriveOptions
from playbook_supervisor.drivers.observers import NullObserver
from playbook_supervisor.kernel.state import Event
from playbook_supervisor.sessions.snapshot import Snapshot
from playbook_supervisor.sessions.store import DiskStore
from playbook_supervisor.sessions.supervisor import Supervisor
from playbook_supervisor.system import checkout

pytestmark = pytest.mark.unmeasured

REPORT = f".agreements/{FEATURE}/check-report.md"
VERDICT = f".qa/{FEATURE}/verdict.md"
PLAN = f"specs/{FEATURE}/plan.md"
CHECK = "check /agreement.check auto gate postconditions=agreement_pass"
QA = "qa /qa.run auto gate postconditions=qa_verdict_pass"
PLANS = "plan /speckit.plan auto stop postconditions=plan_exists"
AGENT = """\
#!/bin/sh
# Does the work of every step, and says in a file outside which it was.
echo "$PLAYBOOK_STEP" >> "$RAN"
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


def launched(project: Project, name: str) -> Supervisor:
    """Begin a session and launch its first step, whose runner then dies."""
    began = project.playbook("begin", name, "013")
    assert began.code == 0, began.err
    store = DiskStore(checkout.find(project.root))
    return Supervisor(store, store.ids()[0])


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
        (QA, VERDICT, PASS, PASS, AGAIN),
        (PLANS, PLAN, "last week\n", "last week\n", AGAIN),
        (CHECK, REPORT, PASS, f"{PASS}new\n", RECOVERED),
        (QA, VERDICT, "", PASS, RECOVERED),
        (PLANS, PLAN, "last week\n", "this week\n", RECOVERED),
    ],
)
def test_in_a_clone_only_what_the_lost_attempt_changed_shows_that_it_finished(
    shared: Project, step: str, artifact: str, before: str, after: str, expected: list[Any]
) -> None:
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
