"""A driver believes what it wrote: of what others write, it accepts an answer and nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest
from cli.terminal import Terminal
from support.scratch_project import Project

from playbook_supervisor.sessions.files.local_state import NAME
from playbook_supervisor.system.disk.ab_file import ABFile

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
FOLDERS = "for slot in private.glob('runtime-*'):\n    slot.unlink()\n    slot.mkdir()\n"
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
DRIVER = """\
for folder in (session, private):
    file = folder / "session.yaml"
    if file.exists():
        file.write_text(file.read_text().replace("exec:./agent.py", "exec:./other.py"))
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
    "its agent": (DRIVER + SLOTS, "driver.agent was 'exec:./agent.py' and is 'exec:./other.py'"),
}


@pytest.fixture
def guarded(project: Project) -> Project:
    project.write(".playbooks/playbooks/guarded.yaml", STEPS)
    project.write(".claude/commands/x.md", "x")
    return project


def exec_agent(project: Project, attack: str) -> str:
    """A program that attacks in the first step, and notes each step that it runs.

    It attacks once the runner has made its copies: before, the runner restores what is missing.
    """
    script = f"import os, pathlib, time\n{FIND}step = os.environ['PLAYBOOK_STEP']\n"
    script += "open('ran', 'a').write(step + '\\n')\nprint(step)\nif step == 'work':\n"
    script += "    while 'work' not in (private / 'journal.yaml').read_text(): time.sleep(0.01)\n"
    script += "    time.sleep(0.02)\n"
    script += "".join(f"    {line}\n" for line in attack.splitlines())
    program = project.write("agent.py", f"#!{sys.executable}\n{script}")
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
    guarded.write("agent.py", "#!/bin/sh\necho $PLAYBOOK_STEP | tee -a ran\n")
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


# ── for a process that comes later ──────────────────────────────────────────────────────────

REMOVED = {
    "the slots": "for slot in private.glob('runtime-*'):\n    slot.unlink()\n",
    "the slots' content": SLOTS,
    "the slots, for folders": FOLDERS,
    "all local state": "import shutil\nshutil.rmtree(root / '.git/playbook')\n",
    "all local state, and who began it": "import shutil\nshutil.rmtree(private)\n"
    "file = session / 'session.yaml'\nlines = file.read_text().splitlines(keepends=True)\n"
    "file.write_text(''.join(x for x in lines if not x.startswith('began_on')))\n",
}


@pytest.fixture
def waiting(guarded: Project) -> Project:
    """The session waits at the gate, and no process drives it."""
    assert guarded.playbook("run", "guarded", "--agent", exec_agent(guarded, "pass")).code == 4
    return guarded


def attack(project: Project, code: str) -> None:
    """What a process does that an agent left behind."""
    code = f"import pathlib\n{FIND}{code}"
    subprocess.run([sys.executable, "-c", code], cwd=project.root, check=True)


@pytest.mark.parametrize("removed", REMOVED)
def test_a_runtime_state_that_was_removed_needs_a_persons_look(
    waiting: Project, removed: str
) -> None:
    """With it, the gate could have been taken out of the pinned playbook unseen."""
    attack(waiting, PLAYBOOK + REMOVED[removed])
    refused = waiting.playbook("resume")
    assert refused.code == 3
    assert "so nothing proves its files [PB-STATE-UNCONFIRMED]" in refused.err
    assert waiting.playbook("answer", "continue").code == 3
    assert waiting.read("ran") == "work\n"


@pytest.mark.parametrize("removed", ["the slots", "all local state"])
def test_a_person_accepts_files_that_nothing_proves_at_a_terminal(
    waiting: Project, removed: str
) -> None:
    attack(waiting, PLAYBOOK + REMOVED[removed])
    for words in (("next",), ("resume", "--mode", "manual")):
        refused = waiting.playbook(*words)
        assert refused.code == 3, words
        assert "so nothing proves its files [PB-STATE-UNCONFIRMED]" in refused.err
    shown = waiting.playbook("status").out
    assert "so nothing proves its files\n  look at it: playbook repair " in shown
    assert "playbook answer" not in shown
    audited = waiting.playbook("audit")
    assert audited.code == 1
    assert "AUD-UNPROVED" in audited.out
    listed = waiting.playbook("repair")
    assert listed.code == 3
    assert "playbook.yaml: it differs from the project's playbook" in listed.out
    assert '"gate_always"' in listed.out or "gate_always" in listed.out
    refused = waiting.playbook("repair", "--take")
    assert "a person must accept the files at a terminal" in refused.err
    attack(waiting, PLAYBOOK.replace('"gate_always", "auto"', '"auto", "auto"'))
    with Terminal(waiting, "repair", "--take") as terminal:
        assert terminal.end() == 0
    (confirmed,) = waiting.manifest()["confirmed"]
    assert confirmed["what"].startswith("runtime state: it is ")
    assert "AUD-UNPROVED" not in waiting.playbook("audit").out
    assert waiting.playbook("resume").code == 4


def test_a_runtime_state_of_a_newer_version_is_no_damage(waiting: Project) -> None:
    private = waiting.root / ".git/playbook" / waiting.session.name
    place = ABFile(private / NAME)
    written = place.read()
    assert written is not None
    place.write(written.replace(b'"format":1', b'"format":9', 1))
    refused = waiting.playbook("next")
    assert (refused.code, "[PB-STATE-NEWER]" in refused.err) == (3, True), refused.err


def test_a_damaged_slot_does_not_blame_the_journal(waiting: Project) -> None:
    before = (waiting.session / "journal.yaml").read_bytes()
    private = waiting.root / ".git/playbook" / waiting.session.name
    newest = max(private.glob("runtime-*"), key=lambda file: int(file.read_bytes().split()[0]))
    newest.write_bytes(newest.read_bytes()[:-40])
    refused = waiting.playbook("resume")
    assert refused.code == 3
    assert "is damaged, so nothing proves its files" in refused.err
    assert "journal" not in refused.err
    assert waiting.playbook("repair", "--restore").code == 3
    assert (waiting.session / "journal.yaml").read_bytes() == before
    with Terminal(waiting, "repair", "--take") as terminal:
        assert terminal.end() == 0
    assert (waiting.session / "journal.yaml").read_bytes() == before
    assert waiting.playbook("answer", "continue").code == 0
    assert waiting.playbook("resume").code == 0
