"""A driver believes what it wrote: of what others write, it accepts an answer and nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
from project import Project

from playbook_supervisor.sessions.local_state import NAME

STEPS = """\
name: guarded
description: A step, and one behind a gate.
version: "1.0"
args: []
steps:
  - {id: work, command: /x, autonomy: auto, error_policy: gate}
  - {id: pr, command: /y, autonomy: gate_always, error_policy: gate}
"""
FIND = """\
root = pathlib.Path.cwd()
(session,) = root.glob(".playbooks/sessions/*")
private = root / ".git/playbook" / session.name
"""
PLAYBOOK = """\
for folder in (session, private):
    file = folder / "playbook.yaml"
    if file.exists():
        file.write_text(file.read_text().replace("gate_always", "auto"))
"""
SLOTS = """\
for slot in private.glob("runtime-*"):
    slot.write_bytes(b"")
for name in ("compiled.json", "settings.json"):
    (private / name).unlink(missing_ok=True)
"""
WORDS = """\
  - step_id: pr
    status: done
    decision: gate
    started_at: "2026-02-19T10:00:00Z"
    launched_at: "2026-02-19T10:00:00Z"
    completed_at: "2026-02-19T10:00:01Z"
    duration_seconds: 1
    human_response: "looks right, continue"
    gates:
      - {id: "pr#1?1", reason: gate_always, place: before, opened_at: "2026-02-19T10:00:00Z", \
answered_at: "2026-02-19T10:00:00Z", by: "Ada", text: "looks right, continue", resolution: continue}
"""
ENTRY = f"""\
for folder in (session, private):
    file = folder / "journal.yaml"
    if file.exists():
        file.write_text(file.read_text() + {WORDS!r})
"""
SETTINGS = """\
for folder in (session, private):
    (folder / "config.yaml").write_text("notify: [./evil]\\n")
"""
FORGED = {
    "the playbook": (PLAYBOOK, "the pinned playbook was changed"),
    "the playbook and the slots": (PLAYBOOK + SLOTS, "the pinned playbook was changed"),
    "a human's words": (ENTRY + SLOTS, "the entry pr#1 was added by something else"),
    "the settings": (SETTINGS + SLOTS, "the pinned settings were changed"),
}


@pytest.fixture
def guarded(project: Project) -> Project:
    project.write(".playbooks/playbooks/guarded.yaml", STEPS)
    project.write(".claude/commands/x.md", "x")
    return project


Agent = Callable[[Project, str], str]


def exec_agent(project: Project, attack: str) -> str:
    """A program that attacks in the first step, and notes each step that it runs."""
    script = f"import os, pathlib\n{FIND}step = os.environ['PLAYBOOK_STEP']\n"
    script += "open('ran', 'a').write(step + '\\n')\nif step == 'work':\n"
    script += "".join(f"    {line}\n" for line in attack.splitlines())
    program = project.write("agent.py", f"#!/usr/bin/env python3\n{script}")
    program.chmod(0o755)
    return "exec:./agent.py"


@pytest.mark.parametrize("forged", FORGED)
@pytest.mark.parametrize("mode", ["manual", "autonomous"])
def test_what_an_agent_forges_is_refused_in_the_run_and_after_it(
    guarded: Project, forged: str, mode: str
) -> None:
    attack, told = FORGED[forged]
    agent = exec_agent(guarded, attack)
    run = guarded.playbook("run", "guarded", "--agent", agent, "--mode", mode)
    assert run.code == 3, run.err
    assert "PB-STATE-TAMPERED" in run.err
    assert told in run.err
    assert guarded.read("ran") == "work\n"
    again = guarded.playbook("resume", "--agent", agent)
    assert again.code == 3, again.err
    assert guarded.read("ran") == "work\n"
    assert guarded.playbook("repair").code == 3
    assert guarded.playbook("repair", "--restore").code == 0
    guarded.write("agent.py", "#!/bin/sh\necho $PLAYBOOK_STEP >> ran\n")
    waits = guarded.playbook("resume", "--agent", agent, "--mode", "manual")
    assert waits.code == 4, waits.err
    assert guarded.journal()[-1]["step_id"] == "pr"
    assert "launched_at" not in guarded.journal()[-1]


def test_a_runtime_state_that_disappears_under_a_driver_is_written_again(guarded: Project) -> None:
    agent = exec_agent(guarded, "import shutil\nshutil.rmtree(root / '.git/playbook')")
    run = guarded.playbook("run", "guarded", "--agent", agent)
    assert run.code == 4, run.err
    private = guarded.root / ".git/playbook" / guarded.session.name
    assert list(private.glob(f"{NAME}-*"))
    assert guarded.playbook("answer", "continue").code == 0
    assert guarded.playbook("resume", "--agent", agent).code == 0


def test_comments_may_be_written_under_a_driver(guarded: Project) -> None:
    note = "file = session / 'journal.yaml'\nfile.write_text('# seen\\n' + file.read_text())"
    run = guarded.playbook("run", "guarded", "--agent", exec_agent(guarded, note))
    assert run.code == 4, run.err
    assert (guarded.session / "journal.yaml").read_text().startswith("# seen\n")


def test_files_that_disappear_under_a_driver_come_back(guarded: Project) -> None:
    gone = "import shutil\nshutil.rmtree(session)\nfor name in ('journal.yaml', 'playbook.yaml'):\n"
    gone += "    (private / name).write_text('forged')"
    run = guarded.playbook("run", "guarded", "--agent", exec_agent(guarded, gone))
    assert run.code == 4, run.err
    assert [entry["step_id"] for entry in guarded.journal()] == ["work", "pr"]
    shutil.rmtree(guarded.session)
    assert guarded.playbook("answer", "continue").code == 0
