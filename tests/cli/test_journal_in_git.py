"""A pull request that contains the journal of its run, with a fake forge."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from support.scratch_project import FEATURE, Project
from test_journeys import playbook

from cli.scripts import WORKS

FORGE = """\
#!/bin/sh
# Stands in for gh: a pull request is what the remote holds of the branch beyond main.
case "$1 $2" in
  "pr create") git diff --name-only origin/main...origin/"$4" >"$0.diff" ;;
  *) [ -e "$0.diff" ] && echo '[{"number":7,"url":"https://forge.example/7","state":"OPEN"}]' \\
       || echo '[]' ;;
esac
"""
AGENT = """\
#!/bin/sh
# What `/feature.pr` does by hand.
git add --all && git commit -q -m 'Create playbooks' && git push -q -u origin HEAD
gh pr create --head "$(git branch --show-current)"
"""


@pytest.fixture
def forge(project: Project) -> Path:
    """A bare remote, a fake `gh`, and an agent that knows `/feature.pr`."""
    bare = project.root.with_name("remote.git")
    subprocess.run(["git", "clone", "-q", "--bare", str(project.root), str(bare)], check=True)
    subprocess.run(["git", "-C", str(bare), "branch", "-q", "-D", FEATURE], check=True)
    project.git("remote", "add", "origin", str(bare))
    project.git("fetch", "-q", "origin")
    tools = project.root.with_name("bin")
    tools.mkdir()
    for name, text in (("gh", FORGE), ("agent", AGENT)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    project.env["PATH"] = f"{tools}:{project.environment['PATH']}"
    return bare


def test_the_journal_is_in_the_pull_request_and_closed(project: Project, forge: Path) -> None:
    """kai FR14, FR40, J3: the reviewer sees the journal in the diff."""
    run = project.playbook("run", "auto-feature", "013", "--agent", project.script(WORKS))
    assert run.code == 4, run.err
    assert project.playbook("answer", "continue").code == 0
    ended = project.playbook("resume", "--agent", "exec:agent")
    assert ended.code == 0, ended.err

    folder = f".playbooks/sessions/{project.session.name}"
    shown = (project.root.parent / "bin/gh.diff").read_text().splitlines()
    assert [name for name in shown if name.startswith(folder)] == [
        f"{folder}/{name}.yaml" for name in ("config", "journal", "playbook", "records", "session")
    ]
    assert "made.py" in shown

    log = project.git("-C", str(forge), "log", "--reverse", "--format=%s", f"main..{FEATURE}")
    assert log.splitlines() == [
        f"Record session {project.session.name} before pr",
        "Create playbooks",
        f"Record session {project.session.name}: completed",
    ]
    reviewed, closed = (
        yaml.safe_load(project.git("-C", str(forge), "show", f"{commit}:{folder}/journal.yaml"))
        for commit in (f"{FEATURE}~1", FEATURE)
    )
    last = reviewed["entries"][-1]
    assert (last["step_id"], last["status"]) == ("pr", "in_progress")
    assert closed["entries"] == project.journal()
    assert closed["entries"][-1]["status"] == "done"
    assert project.git("status", "--porcelain", "--branch") == (f"## {FEATURE}...origin/{FEATURE}")
    assert ended.err.count("note: the session is committed") == 2
    assert f"note: its last commit is pushed to origin/{FEATURE}" in ended.err


def test_a_client_without_hooks_is_told_about_the_commit(project: Project) -> None:
    project.write(".playbooks/config.yaml", "commit_sessions: step\n")
    project.write(f".qa/{FEATURE}/test-plan.md", "# Plan\n")
    begun = project.playbook("begin", "auto-validate", "013")
    assert "committed" not in begun.err
    reported = project.playbook("report", "qa-plan#1", "--json")
    assert reported.json["directive"] == "run"
    assert "the session is committed after qa-plan: " in reported.err
    assert project.git("log", "-1", "--format=%s").endswith(" after qa-plan")


def test_repeated_git_failures_are_reported_at_the_first_and_at_the_end(
    project: Project,
) -> None:
    project.write(".playbooks/config.yaml", "commit_sessions: step\n")
    project.git("switch", "-q", "--detach")
    steps = [f"s{number} /qa.plan auto stop" for number in range(4)]
    name = playbook(project, *steps)
    done = project.playbook("run", name, "013", "--agent", project.script("steps: {}"))
    assert done.code == 0, done.err
    lines = done.err.splitlines()
    told = [number for number, line in enumerate(lines) if "HEAD is on no branch" in line]
    assert len(told) == 2
    assert any("s1#1" in line for line in lines[told[0] :])
    assert not any("s3#1 start" in line for line in lines[told[1] :])
