"""Where our hooks do not reach: left out on purpose, below the root, or without the program."""

from __future__ import annotations

import json
import shutil

import pytest
from project import Project

from claude import playbooks
from claude.conftest import Start
from claude.model import Reply, Request, call, text
from claude.scripts import bash, steps, work

NO_SHELL = ("--permission-mode", "acceptEdits", "--allowedTools", "Agent,Skill")
"""What the commands of ours need beyond that, they bring themselves."""


def by_the_text(request: Request) -> Reply:
    """A model that follows what `/playbook.run` says for a client without our hooks."""
    if request.agent:
        return work(request)
    if not request.results:
        return [bash("playbook begin 'straight' '013' --json")]
    (last,) = request.results
    if last.tool == "Agent":
        attempt = str(request.calls[-1].input["description"]).split()[0]
        return [bash(f"playbook report {attempt} --json")]
    said, _ = json.JSONDecoder().raw_decode(last.text[last.text.index("{") :])
    if said.get("directive") != "run":
        return [text(last.text)]
    (step,) = said["steps"]
    given = {"description": step["description"], "prompt": step["prompt"]}
    return [call("Agent", **given, run_in_background=False)]


@pytest.fixture
def project(project: Project) -> Project:
    playbooks.shelve(project)
    return project


def test_without_hooks_the_model_asks_and_reports_and_the_playbook_runs(
    project: Project, start: Start
) -> None:
    assert project.playbook("init", "--yes", "--no-hooks").code == 0
    client = start(by_the_text)
    client.run("/playbook.run straight 013", *NO_SHELL)
    assert not (project.root / ".claude/settings.json").exists()
    assert steps(project) == ["plan#1 done", "tasks#1 done"]
    assert project.manifest()["status"] == "completed"


def test_below_the_root_nothing_begins_and_the_root_is_named(
    project: Project, start: Start
) -> None:
    """There the client finds the commands, and no hooks."""
    assert project.playbook("init", "--yes").code == 0
    client = start(by_the_text)
    client.cwd = project.root / "specs"
    client.trust(client.cwd)
    done = client.run("/playbook.run straight 013", *NO_SHELL)
    assert "PB-STATE-NO-HOOKS" in done.text
    assert f"Start Claude Code in {project.root} itself" in done.text
    assert project.sessions == []


def test_a_teammate_without_the_program_works_as_ever_and_is_told_how_to_get_it(
    project: Project, start: Start
) -> None:
    assert project.playbook("init", "--yes").code == 0
    client = start(lambda request: [text("at your service")])
    programs = client.scratch / "no playbook"
    programs.mkdir()
    for name in ("bash", "git", "nsenter", "sh"):
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    client.env["PATH"] = str(programs)
    assert client.run("hello", *NO_SHELL).text == "at your service"
    asked = len(client.model.main)
    told = client.run("/playbook.run straight 013", *NO_SHELL).text
    assert "uv tool install playbook-supervisor" in told
    assert "gitdir" not in told, "that is the hook's own text"
    assert len(client.model.main) == asked
