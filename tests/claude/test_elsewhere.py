"""Where our hooks do not reach: left out on purpose, below the root, or without the program."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from support.scratch_project import Project

from claude import playbooks
from claude.client import Client
from claude.conftest import FREE, Open, Start
from claude.model import Reply, Request, call, text
from claude.obedient import Obedient
from claude.recorder import Recorder
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


def test_a_teammate_without_the_program_works_as_before_and_is_told_how_to_install_it(
    project: Project, start: Start
) -> None:
    assert project.playbook("init", "--yes").code == 0
    client = start(lambda request: [text("at your service")])
    without_playbook(client)
    assert client.run("hello", *NO_SHELL).text == "at your service"
    asked = len(client.model.main)
    told = client.run("/playbook.run straight 013", *NO_SHELL).text
    assert "uv tool install playbook-supervisor" in told
    assert "gitdir" not in told, "that is the hook's own text"
    assert len(client.model.main) == asked


def test_a_person_whose_program_is_uninstalled_keeps_working_and_pauses_the_session(
    project: Project, start: Start, open_terminal: Open, recorder: Recorder
) -> None:
    """The playbook's own turn may do nothing any more, and the screen never shows shell text."""
    assert project.playbook("init", "--yes").code == 0
    note = str(project.root / "note.txt")

    def talk(request: Request) -> Reply | None:
        if request.said.strip().endswith("write a note"):
            return [call("Write", file_path=note, content="x")]
        return [text("So be it.")] if request.mentions("write a note") else None

    client = start(Obedient(talk=talk, held={"speckit.plan"}))
    installed = without_playbook(client) / "playbook"
    installed.symlink_to(Path(sys.executable).with_name("playbook"))
    terminal = open_terminal(client, *FREE)
    terminal.say("/playbook.run two 013")
    recorder.wait_for("Stop")
    installed.unlink()
    marker = project.root / ".git/playbook/bound"
    _, *rest = marker.read_text().splitlines()
    marker.write_text("\n".join(["/nowhere/playbook", *rest, ""]))
    client.model.release()  # the running agent is refused its tools
    terminal.client.model.wait_for(
        lambda request: bool(request.agent) and any(each.is_error for each in request.results)
    )
    terminal.say("write a note")
    recorder.wait_for("Stop", saying="So be it")
    terminal.settle()
    assert (project.root / "note.txt").read_text() == "x"
    assert terminal.screen.count("does not answer here, so nothing supervises") == 1
    assert "gitdir" not in terminal.screen
    journal = project.journal()
    terminal.say("/playbook.pause")
    terminal.wait_for("The session is paused")
    assert not marker.exists()
    assert project.journal() == journal
    assert "gitdir" not in terminal.screen


def without_playbook(client: Client) -> Path:
    """Give the client a PATH on which `playbook` is not found."""
    programs = client.scratch / "no playbook"
    programs.mkdir()
    for name in ("bash", "git", "nsenter", "rm", "sh"):
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    client.env["PATH"] = str(programs)
    return programs
