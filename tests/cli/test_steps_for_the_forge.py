"""A change from its branch to its pull request, through the real program, git and a fake forge."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from support.controlled_time import wait_until
from support.scratch_project import Project, remote
from support.stand_in_forge import ADDRESS, Forge
from test_journeys import kill

PLAYBOOK = """\
name: change
description: From a change to its pull request.
version: "1.1"
args:
  - {name: topic, description: what it is about, required: true, transform: kebab-case}
steps:
  - id: begin
    command: branch {{topic}}
    autonomy: auto
    error_policy: stop
    with: {create: required, base: main}
  - id: write
    command: cli sh-free
    autonomy: auto
    error_policy: stop
  - id: commit
    command: commit
    autonomy: auto
    error_policy: stop
    with: {message: "Change {{topic}}", paths: ["src/**"]}
  - id: open
    command: pr
    autonomy: gate_always
    error_policy: stop
    with: {title: "Change {{topic}}", body: "See the journal."}
"""
WRITES = "#!/bin/sh\nmkdir -p src && echo x > src/made.py && echo y > notes.txt\n"


@pytest.fixture
def forge(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Forge:
    """A stand-in `gh` on PATH, and beside it the program that the playbook runs."""
    project.write(".playbooks/playbooks/change.yaml", PLAYBOOK)
    forge = Forge(tmp_path / "forge", monkeypatch)
    (tmp_path / "forge/sh-free").write_text(WRITES)
    (tmp_path / "forge/sh-free").chmod(0o755)
    return forge


def test_a_change_reaches_its_pull_request_with_its_journal(project: Project, forge: Forge) -> None:
    """cat FR-3.4, FR-4.3, FR-4.4, FR-4.6: the journal is in what is pushed before."""
    bare = remote(project)
    ran = project.playbook("run", "change", "Log in twice")
    assert ran.code == 4, ran.err
    assert project.git("branch", "--show-current") == "log-in-twice"
    assert bare.git("show", "--format=%s", "--name-only", "log-in-twice").split("\n\n") == [
        "Change log-in-twice",
        "src/made.py",
    ]
    assert (project.root / "notes.txt").exists()
    assert forge.created == []

    assert project.playbook("answer", "continue").code == 0
    ended = project.playbook("resume")
    assert ended.code == 0, ended.err
    assert "is on branch" not in ended.err
    assert project.manifest()["branch"] == "log-in-twice"
    assert [entry["status"] for entry in project.journal()] == ["done"] * 4
    assert forge.pulls[0]["title"] == "Change log-in-twice"
    assert f"{ADDRESS}/pull/7" in str(project.journal()[-1]["output"])
    subjects = bare.git("log", "-3", "--format=%s", "log-in-twice").splitlines()
    name = project.session.name
    assert subjects == [
        f"Record session {name}: completed",
        f"Record session {name} before open",
        "Change log-in-twice",
    ]
    journal = bare.git("show", f"log-in-twice~1:.playbooks/sessions/{name}/journal.yaml")
    assert yaml.safe_load(journal)["entries"][-1]["status"] == "in_progress"


def test_the_end_says_what_is_not_committed_and_not_pushed(project: Project, forge: Forge) -> None:
    remote(project)
    without_pr = PLAYBOOK.partition("  - id: open")[0]
    project.write(".playbooks/playbooks/change.yaml", without_pr)
    ended = project.playbook("run", "change", "Log in twice")
    assert ended.code == 0, ended.err
    assert ended.err.splitlines()[-2:] == [
        "not committed: 1 file of this session: notes.txt",
        "not pushed: 1 commit; `git push` does it",
    ]


def test_a_runner_that_is_killed_while_it_waits_goes_on_waiting(
    project: Project, forge: Forge
) -> None:
    remote(project)
    waits = PLAYBOOK.replace('body: "See the journal."', "wait: merged")
    project.write(".playbooks/playbooks/change.yaml", waits)
    with project.spawn("run", "change", "Log in twice", "--mode", "autonomous") as process:
        wait_until(lambda: any(call[1] == "view" for call in forge.calls))
        kill(process)
    forge.changes(state="MERGED", headRefOid=project.git("rev-parse", "HEAD"))
    ended = project.playbook("resume")
    assert ended.code == 0, ended.err
    assert len(forge.created) == 1
    assert f"{ADDRESS}/pull/7" in str(project.journal()[-1]["output"])


def test_a_failed_step_says_what_and_how_to_mend_it(project: Project, forge: Forge) -> None:
    removes = WRITES + "git remote remove origin\n"
    remote(project)
    before = project.git("rev-parse", "main")
    (forge.folder / "sh-free").write_text(removes)
    ran = project.playbook("run", "change", "Log in twice")
    assert ran.code == 2
    assert "there is no remote to push log-in-twice to" in ran.err
    assert project.git("rev-parse", "log-in-twice") == before
    entry = project.journal()[-1]
    assert (entry["step_id"], entry["error_code"]) == ("commit", "PB-STEP-GIT")
    assert "`push: false`" in entry["error_guidance"]
