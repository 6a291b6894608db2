"""Proofs in a session: made outside the lock, kept before anything follows, never made twice."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.checked_project import Checked
from support.scratch_project import Project

from playbook_supervisor.system.process.process_groups import until

WORKS = """
steps:
  implement: {say: all tests are green, write: {"made.py": "1\\n"}}
"""
BREAKS = """
steps:
  implement:
    - {say: all tests are green, write: {"broken": "1\\n"}}
    - {say: now they are, write: {"broken": ""}}
"""
PATIENCE = 30.0


@pytest.fixture
def checked(project: Project, tmp_path: Path) -> Checked:
    return Checked(project, tmp_path)


def eventually(condition: Callable[[], object]) -> None:
    assert until(lambda: bool(condition()), PATIENCE)


def test_a_step_is_done_by_what_the_check_proves(checked: Checked) -> None:
    """Chapter 4: the evidence has the exit status, the seconds, the line and the tree."""
    project = checked.project
    ran = project.playbook("run", "proved", "--agent", project.script(WORKS))
    assert ran.code == 4
    implement, pr = project.journal()
    (evidence,) = implement["evidence"]
    said = r'command_succeeds=test: check test: exit 0 in [\d.]+ s, "312 passed", tree [0-9a-f]{7}'
    assert re.fullmatch(said, evidence)
    assert pr["gates"][0]["reason"] == "gate_always"
    assert re.search(r"implement#1 checking test$", ran.err, re.MULTILINE)


def test_what_one_step_proved_another_does_not_prove_again(checked: Checked) -> None:
    """Chapter 4: the same check on the same tree is not run twice."""
    project = checked.project
    ran = project.playbook("run", "proved", "--agent", project.script(WORKS))
    assert (checked.runs, [proof.by for proof in checked.kept]) == (1, ["implement#1"])
    assert re.search(
        r"✓ test passed on tree \w{7}, which is there now \(.*, implement#1\)", ran.err
    )
    assert project.playbook("answer", "continue", "--resume").code == 0
    assert checked.runs == 1


def test_a_gate_that_a_changed_tree_has_outdated_says_so(checked: Checked) -> None:
    project = checked.project
    project.playbook("run", "proved", "--agent", project.script(WORKS))
    project.write("later.py", "1\n")
    assert "; 1 file has changed since" in project.playbook("status").out
    project.playbook("answer", "continue", "--resume")
    assert checked.runs == 2


def test_an_agent_that_only_claims_success_is_caught(checked: Checked) -> None:
    project = checked.project
    ran = project.playbook("run", "proved", "--agent", project.script(BREAKS))
    assert ran.code == 4
    gate = project.manifest()["gate"]
    assert gate["reason"] == "postcondition_fail"
    assert "check test: exit 1 in " in gate["question"]
    assert '"1 failed, 311 passed"' in gate["question"]
    again = project.playbook("answer", "retry", "--resume")
    assert (again.code, project.manifest()["gate"]["reason"]) == (4, "gate_always")
    assert [entry["status"] for entry in project.journal()][:2] == ["failed", "done"]


TELLS = [sys.executable, "-c", "print('a banner\\nFAIL: test_b\\n1 failed'); raise SystemExit(1)"]
HEARS = "import pathlib, sys; pathlib.Path('told').write_text(sys.stdin.read()); print('heard')"


def test_a_gate_and_the_retry_are_told_which_test_has_failed(
    checked: Checked, tmp_path: Path
) -> None:
    """A person reads it in seconds, and an agent without a shell cannot find out."""
    project = checked.project
    project.write(".playbooks/config.yaml", f"checks: {{test: {{run: {TELLS}}}}}\n")
    project.commit("Tell")
    (hears := tmp_path / "hears.py").write_text(HEARS)
    ran = project.playbook("run", "proved", "--agent", f"exec:{sys.executable} {hears}")
    assert "  check test printed:\n    FAIL: test_b\n" in ran.err
    assert project.playbook("answer", "retry", "--resume").code == 4
    assert "\n> check test printed:\n>   FAIL: test_b\n" in project.read("told")


def test_a_waived_check_holds_for_its_tree_however_long_it_takes(checked: Checked) -> None:
    project = checked.project
    project.playbook("run", "proved", "--agent", project.script(BREAKS))
    assert project.playbook("answer", "accept", "--resume").code == 4
    gate = project.manifest()["gate"]
    assert gate["reason"] == "precondition_fail"
    assert "(waived for an earlier step)" in gate["question"]


# ── interrupted ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_ends_during_a_check_leaves_no_process_and_makes_it_again(
    checked: Checked, number: signal.Signals
) -> None:
    project = checked.project
    checked.hold()
    with project.spawn("run", "proved", "--agent", project.script(WORKS)) as running:
        eventually(lambda: checked.processes)
        running.send_signal(number)
        running.communicate(timeout=PATIENCE)
    assert running.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    eventually(lambda: checked.gone)
    assert (project.manifest()["status"], checked.kept) == ("in_progress", ())
    checked.release()
    assert project.playbook("resume").code == 4
    (implement, _) = project.journal()
    assert (implement["status"], implement.get("attempt", 1), checked.runs) == ("done", 1, 2)


def test_a_check_ends_at_its_deadline(checked: Checked) -> None:
    project = checked.project
    settings = f"checks: {{test: {{run: {checked.argv}, timeout_seconds: 1}}}}\n"
    project.write(".playbooks/config.yaml", settings)
    project.commit("Be quick")
    checked.hold()
    assert project.playbook("run", "proved", "--agent", project.script(WORKS)).code == 4
    question = project.manifest()["gate"]["question"]
    assert "it did not end within 1.0 s" in question
    assert checked.gone


def test_a_proof_outlives_a_run_that_is_killed_before_the_step_ends(
    checked: Checked, tmp_path: Path
) -> None:
    """It is on the disk before anything is judged by it."""
    project = checked.project
    killed = tmp_path / "killed.py"
    killed.write_text(_KILLED)
    script = project.script(WORKS)
    argv = [sys.executable, str(killed), str(project.root), script]
    ran = subprocess.run(argv, env=project.environment, capture_output=True, check=False)
    assert ran.returncode == -signal.SIGKILL
    (implement,) = project.journal()
    assert (implement["status"], "returned_at" in implement) == ("in_progress", True)
    assert [proof.by for proof in checked.kept] == ["implement#1"]
    assert project.playbook("resume").code == 4
    assert checked.runs == 1
    (implement, _) = project.journal()
    assert ", proved before, by implement#1" in implement["evidence"][0]


_KILLED = """\
import os, signal, sys
from playbook_supervisor.cli.app import invoke
from playbook_supervisor.sessions.engine.proofs import SessionProofs

keep = SessionProofs.keep

def keep_and_die(self, proof):
    keep(self, proof)
    os.kill(os.getpid(), signal.SIGKILL)

SessionProofs.keep = keep_and_die
os.chdir(sys.argv[1])
invoke(["run", "proved", "--agent", sys.argv[2]])
"""
