"""The program waits for a retry, whatever happens to it meanwhile."""

from __future__ import annotations

import sys
import time
from datetime import datetime
from itertools import pairwise

import pytest
from support import directive_lines
from support.scratch_project import Process, Project

from cli.scripts import conforms

pytestmark = pytest.mark.measured

FLAKY = f"""\
name: flaky
description: A program that works at its third try
version: "1.1"
args: []
steps:
  - id: fetch
    command: cli {sys.executable} try.py
    autonomy: auto
    error_policy: {{default: stop, PB-STEP-FAILED: "retry:3"}}
"""
TRY = """\
import os
tries = len(os.listdir("tries"))
open(f"tries/{tries}", "x").close()
raise SystemExit(tries < 2)
"""


@pytest.fixture
def flaky(project: Project) -> Project:
    project.write(".playbooks/playbooks/flaky.yaml", FLAKY)
    project.write("try.py", TRY)
    (project.root / "tries").mkdir()
    return project


def until_the_wait(runner: Process, retry: int) -> None:
    """Read what the runner shows until it waits for this attempt."""
    assert runner.stderr is not None
    for line in runner.stderr:
        if f"fetch#{retry}: retry in".encode() in line:
            return
    pytest.fail("it has ended")


def waited(project: Project) -> list[float]:
    """The seconds between the end of each attempt and the start of the next."""
    at, entries = datetime.fromisoformat, project.journal()
    return [
        (at(after["started_at"]) - at(before["completed_at"])).total_seconds()
        for before, after in pairwise(entries)
    ]


def test_a_killed_run_still_waits_for_its_retry(flaky: Project) -> None:
    with flaky.spawn("run", "flaky") as runner:
        until_the_wait(runner, 3)
        runner.kill()
        runner.wait(60)
    assert [entry["status"] for entry in flaky.journal()] == ["failed", "failed"]
    resumed = flaky.process("resume")
    assert resumed.code == 0, resumed.err
    assert [entry["status"] for entry in flaky.journal()] == ["failed", "failed", "done"]
    first, second = waited(flaky)
    assert first >= 1
    assert second >= 2


def test_a_run_that_waits_for_a_retry_can_be_ended_from_elsewhere(flaky: Project) -> None:
    with flaky.spawn("run", "flaky") as runner:
        until_the_wait(runner, 2)
        asked = time.monotonic()
        assert flaky.process("abort").code == 0
        assert time.monotonic() - asked < 30
        assert runner.wait(60) == 2
    assert flaky.manifest()["status"] == "aborted"
    assert flaky.journal()[0]["status"] == "failed"


LENIENT = """\
name: lenient
description: Two steps that may fail
version: "1.1"
args: []
steps:
  - {id: lint, command: cli false, autonomy: auto, error_policy: continue}
  - {id: notify, command: cli false, autonomy: auto, error_policy: ignore}
"""


def test_a_run_that_goes_on_after_a_failure_says_so_at_its_end(project: Project) -> None:
    project.write(".playbooks/playbooks/lenient.yaml", LENIENT)
    ran = project.process("run", "lenient")
    assert ran.code == 0
    ending = "completed with 1 failure and 1 waiver"
    assert f": {ending}, 2/2 steps" in ran.err
    assert "s auto: waived PB-STEP-FAILED: false ended with exit status 1\n" in ran.err
    assert ran.err.splitlines()[-1].endswith(" s  waived PB-STEP-FAILED")
    lint, notify = project.journal()
    assert (lint["status"], lint["error_code"]) == ("failed", "PB-STEP-FAILED")
    assert (notify["status"], notify["waived"]) == ("done", ["PB-STEP-FAILED"])
    manifest = project.manifest()
    assert (manifest["status"], manifest["failures"]) == ("completed", 1)
    assert manifest["waived"] == ["PB-STEP-FAILED"]
    over = project.playbook("next", "--json", "--session", project.session.name).json
    assert over["summary"] == f"lenient {ending}: 2/2 steps done."
    for looks in (
        ["status", "--all"],
        ["show"],
        ["show", "--html", "-"],
        ["graph", "--session", project.session.name],
    ):
        assert ending in project.playbook(*looks).out
    for looks in (["status", "--all", "--json"], ["show", "--json"]):
        (shown,) = (told := project.playbook(*looks).json).get("sessions", [told])
        assert (shown["failures"], shown["waived"]) == (1, ["PB-STEP-FAILED"])
    measured = project.playbook("metrics").out.splitlines()[0]
    assert measured.endswith("100% completed, 1 with failures and 1 with waivers")
    audited = project.process("audit", "--all")
    assert audited.code == 0, audited.out


def test_a_client_is_told_to_wait_and_next_waits(project: Project) -> None:
    """Hooks never wait: the directive names the command that does."""
    slow = FLAKY.replace(f"cli {sys.executable} try.py", "/qa.plan")
    slow = slow.replace("PB-STEP-FAILED", "PB-AGENT-FAILED")
    project.write(".playbooks/playbooks/flaky.yaml", slow)
    project.process("begin", "flaky")
    told = project.process("report", "fetch#1", "--error", "no network")
    assert "Wait with `playbook next --wait`: fetch#2" in told.out
    waits = conforms("directive", directive_lines.only(told.out))
    assert (waits["directive"], waits["steps"]) == ("wait", ["fetch#2"])
    assert waits["command"] == "playbook next --wait"
    assert waits["until"] > project.journal()[0]["completed_at"]
    due = conforms("directive", project.process("next", "--wait", "--json").json)
    assert (due["directive"], due["steps"][0]["id"]) == ("run", "fetch#2")
    assert waited(project)[0] >= 1
