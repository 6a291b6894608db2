"""What changed in a worker's clone: nothing hides it from a proof, and a commit takes all of it."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import pytest

from fleet.local_fleet import Fleet
from playbook_supervisor.fleet.storage.rows import State

Agent = Callable[[str], str]

WITHIN = """\
name: within
description: Work in one folder
version: "1.2"
args: []
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: plan, command: /speckit.plan, postconditions: [{changes_within: ["src/**"]}]}
"""
SHIPS = """\
name: ships
description: Work, and commit it behind a gate
version: "1.2"
args: []
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: plan, command: /speckit.plan}
  - id: ship
    command: commit
    autonomy: gate_always
    with: {message: Ship, paths: ["**"], push: false}
  - {id: look, command: /speckit.tasks}
"""
SHIPPED = """\
echo done
if [ "$PLAYBOOK_STEP" = plan ]; then
  echo made >made.py
  echo staged >staged.py && git add staged.py
  echo more >>README.md
else
  touch crlf.txt
  git status --porcelain -- . ':!.playbooks' >"$LOOT/status"
  git diff --cached --name-only HEAD -- . ':!.playbooks' >"$LOOT/staged"
fi
"""


@pytest.fixture
def agent(fleet: Fleet) -> Agent:
    """Make an agent of these lines of shell; `loot` is a folder outside its clone."""

    def made(script: str) -> str:
        program = fleet.folder.with_name("agent")
        program.write_text(f"#!/bin/sh\nLOOT={shlex.quote(str(fleet.folder.parent))}\n{script}")
        program.chmod(0o755)
        return f"exec:{program}"

    return made


def publish(fleet: Fleet, files: dict[str, str]) -> None:
    """Commit these files where workers get them."""
    for path, content in files.items():
        fleet.project.write(path, content)
        fleet.project.git("add", "--", path)  # no other: it would get other line ends
        fleet.project.git("commit", "-q", "-m", f"Write {path}")
    fleet.project.git("push", "-q")


def test_an_edit_that_a_flag_of_the_index_hides_breaks_the_proof(
    fleet: Fleet, agent: Agent
) -> None:
    publish(fleet, {".playbooks/playbooks/within.yaml": WITHIN})
    hides = "echo done; echo evil >README.md; git update-index --skip-worktree README.md\n"
    session = fleet.submit("within", agent=agent(hides))
    assert fleet.advance(session).state is State.FAILED
    assert "changes_within=src/**: 1 file changed outside src/**: README.md" in fleet.journal(
        session
    )


@pytest.mark.long
def test_an_ignored_folder_of_sessions_and_a_repository_inside_hide_nothing(
    fleet: Fleet, agent: Agent
) -> None:
    ignored = {".gitignore": ".playbooks/sessions/\n"}
    publish(fleet, {".playbooks/playbooks/within.yaml": WITHIN, **ignored})
    works = agent("echo done; mkdir src; git init -q src/sub; echo 1 >src/sub/one\n")
    assert fleet.advance(fleet.submit("within", agent=works)).state is State.COMPLETED
    strays = agent("echo done; git init -q sub; echo 1 >sub/one\n")
    session = fleet.submit("within", agent=strays)
    assert fleet.advance(session).state is State.FAILED
    assert "1 file changed outside src/**: sub/one" in fleet.journal(session)


def test_a_commit_takes_what_a_session_has_made_elsewhere_and_nothing_else(
    fleet: Fleet, agent: Agent
) -> None:
    """To git, the file with other line ends is changed from the beginning."""
    line_ends = {"crlf.txt": "one\r\n", ".gitattributes": "*.txt text\n"}
    publish(fleet, {".playbooks/playbooks/ships.yaml": SHIPS, **line_ends})
    session = fleet.submit("ships", agent=agent(SHIPPED))
    assert fleet.advance(session).state is State.WAITING
    fleet.answer(session, "continue")
    row = fleet.advance(session, "two")
    assert row.state is State.COMPLETED, fleet.told
    commit = fleet.origin.git("log", "--format=%H", "--grep=^Ship$", row.branch)
    taken = fleet.origin.git("show", "--format=", "--name-only", commit).splitlines()
    assert taken == ["README.md", "made.py", "staged.py"]
    seen = fleet.folder.parent
    assert (seen / "staged").read_text() == ""
    assert (seen / "status").read_text() == " M crlf.txt\n"
