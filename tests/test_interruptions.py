"""What crosses a run from outside: other terminals, other gits, clocks, folders and streams."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cli.terminal import Terminal
from project import FEATURE, Project
from test_journeys import STEPS, WORK, playbook, wait_until

from playbook_supervisor.drivers import presence
from playbook_supervisor.process_groups import worker_alive

SLEEPER = "exec:sleep 60"


@pytest.fixture
def orphaned(project: Project) -> Project:
    """A session whose runner was killed and whose worker goes on."""
    name = playbook(project, "plan /speckit.plan auto stop")
    runner = project.spawn("run", name, "013", "--agent", SLEEPER)
    wait_until(lambda: worker(project))
    runner.kill()
    runner.communicate()
    return project


def worker(project: Project) -> Path | None:
    """The worker file of `plan`, once it says who the worker is."""
    files = project.root.glob(".git/playbook/*/worker-plan#1")
    return next((file for file in files if file.stat().st_size), None)


def lives(project: Project) -> bool:
    file = worker(project)
    return file is not None and worker_alive(file)


# ── requests from elsewhere ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("command", "code", "status", "goes_on"),
    [("abort", 2, "aborted", False), ("pause", 0, "in_progress", True)],
)
def test_a_runner_that_waits_for_an_orphan_hears_what_is_asked_of_it(
    orphaned: Project, command: str, code: int, status: str, goes_on: bool
) -> None:
    runner = orphaned.spawn("resume")
    assert runner.stderr is not None
    assert b"still at work" in runner.stderr.readline()
    assert orphaned.playbook(command).code == 0
    runner.communicate(timeout=30)
    assert runner.returncode == code
    assert orphaned.manifest()["status"] == status
    assert lives(orphaned) is goes_on
    if goes_on:
        assert orphaned.playbook("abort").code == 0


def test_abort_ends_what_a_runner_that_is_gone_left_running(orphaned: Project) -> None:
    assert orphaned.playbook("abort").code == 0
    assert not lives(orphaned)
    assert orphaned.manifest()["status"] == "aborted"


def test_abort_reaches_a_session_whose_runner_has_just_stopped_driving(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner that ends at a gate at that moment does not swallow the request."""
    from playbook_supervisor.api import driving

    name = playbook(project, STEPS[5])
    project.playbook("run", name, "013", "--agent", project.script("steps: {}"))
    monkeypatch.setattr(presence, "living", lambda private: presence.Driver(0, "gone"))
    monkeypatch.setattr(presence, "until", lambda happened, patience: True)
    outlook = driving.abort(cwd=project.root)
    assert outlook.manifest.status == "aborted"


def test_an_answer_typed_too_late_is_told_so_and_the_run_goes_on(project: Project) -> None:
    """A gate is passed once, and its runner goes on with what was said."""
    name = playbook(project, STEPS[5], "qa /qa.plan auto stop")
    project.gh("open")
    with Terminal(project, "run", name, "013", "--agent", project.script("steps: {}")) as person:
        person.until("abort > ")
        os.kill(person.process.pid, signal.SIGSTOP)
        assert project.playbook("answer", "skip").code == 0
        person.type("continue\n")
        os.kill(person.process.pid, signal.SIGCONT)
        person.until("too late: pr#1?1 was answered elsewhere")
        assert person.end() == 0
    assert [entry["status"] for entry in project.journal()] == ["skipped", "done"]
    assert project.journal()[0]["human_response"] == "skip"


def test_who_asks_for_the_driver_is_not_taken_for_one(tmp_path: Path) -> None:
    """Many clients may ask at once whether somebody drives; none refuses another."""
    with presence.driving(tmp_path, "exec"):
        assert presence.living(tmp_path) == presence.Driver(os.getpid(), "exec")
    with ThreadPoolExecutor(8) as crowd:
        found = set(crowd.map(lambda _: presence.living(tmp_path), range(2_000)))
    assert found == {None}


# ── what surrounds the process ──────────────────────────────────────────────────────────────


def test_a_surrounding_git_does_not_reach_the_agents(project: Project, tmp_path: Path) -> None:
    """Begun from a hook of another repository, each step still works in its own."""
    elsewhere = tmp_path / "elsewhere"
    subprocess.run(["git", "init", "-q", str(elsewhere)], check=True)
    said = tmp_path / "said"
    agent = tmp_path / "agent.sh"
    agent.write_text(f"#!/bin/sh\n{{ git rev-parse --show-toplevel; env; }} > {said}\n")
    agent.chmod(0o755)
    name = playbook(project, "plan /speckit.plan auto stop")
    hook = {
        "GIT_DIR": f"{elsewhere}/.git",
        "GIT_WORK_TREE": str(elsewhere),
        "GIT_INDEX_FILE": f"{elsewhere}/.git/index",
        "GIT_COMMON_DIR": f"{elsewhere}/.git",
    }
    assert project.playbook("run", name, "013", "--agent", f"exec:{agent}", env=hook).code == 0
    toplevel, *environment = said.read_text().splitlines()
    assert toplevel == str(project.root)
    assert not {line.partition("=")[0] for line in environment} & hook.keys()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_obstacle(project: Project, closed: str) -> None:
    name = playbook(project, STEPS[0])
    command = (
        f'exec "{sys.executable}" -m playbook_supervisor run {name} 013 --agent "$AGENT" {closed}'
    )
    environment = {**project.environment, "AGENT": project.script(WORK)}
    done = subprocess.run(
        ["sh", "-c", command], cwd=project.root, env=environment, check=False, capture_output=True
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert [entry["status"] for entry in project.journal()] == ["done"]


@pytest.mark.parametrize("kind", ["exec", "script"])
def test_a_session_begun_in_a_subfolder_is_resumed_at_the_top(project: Project, kind: str) -> None:
    """kai FR15: `resume` needs no arguments, wherever it is typed."""
    agent = project.write("below/agent", "#!/bin/sh\n" if kind == "exec" else "steps: {}\n")
    agent.chmod(0o755)
    name = playbook(project, "pr /feature.pr gate_always stop")
    begun = project.playbook(
        "run", name, "013", "--agent", f"{kind}:./agent", cwd=project.root / "below"
    )
    assert begun.code == 4
    assert project.playbook("answer", "continue").code == 0
    resumed = project.playbook("resume")
    assert (resumed.code, project.manifest()["status"]) == (0, "completed"), resumed.err


# ── before the first step ───────────────────────────────────────────────────────────────────


def test_a_first_step_whose_work_is_there_already_is_worth_a_warning(project: Project) -> None:
    """Its command may replace what was done by hand."""
    project.write(f"specs/{FEATURE}/plan.md", "by hand\n")
    name, agent = playbook(project, *STEPS[:2]), project.script(WORK)
    first = project.playbook("run", name, "013", "--agent", agent)
    assert f"/speckit.plan may replace it (plan_exists: specs/{FEATURE}/plan.md" in first.err
    second = project.playbook("run", name, "013", "--from", "tasks", "--agent", agent)
    assert "/speckit.tasks may replace it" in second.err
    assert "/speckit.plan" not in second.err


@pytest.mark.parametrize(
    "first",
    ["plan /speckit.plan skip stop postconditions=plan_exists", "plan /speckit.plan auto stop"],
)
def test_nothing_is_warned_of_where_nothing_can_be_lost(project: Project, first: str) -> None:
    project.write(f"specs/{FEATURE}/plan.md", "by hand\n")
    agent = project.script(WORK)
    name = playbook(project, first, name="without-tasks")
    assert "may replace" not in project.playbook("run", name, "013", "--agent", agent).err
    name = playbook(project, first, STEPS[1])
    assert "may replace" not in project.playbook("run", name, "013", "--agent", agent).err


def test_who_stands_in_a_folder_that_is_gone_is_told_so(project: Project, tmp_path: Path) -> None:
    """A worktree may vanish under a run: a clear error and 3, never a traceback."""
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f'rmdir "{gone}"; exec "{sys.executable}" -m playbook_supervisor status'
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=gone,
        env=project.environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3
    assert "the folder that you stand in is gone" in done.stderr


# ── one checkout, one open session ──────────────────────────────────────────────────────────


def test_a_failed_session_is_not_taken_up_beside_an_open_one(project: Project) -> None:
    """Two sessions would work in one tree; the open one goes first."""
    failing = playbook(project, "plan /speckit.plan auto stop", name="failing")
    assert project.playbook("run", failing, "013", "--agent", "exec:false").code == 2
    failed = project.session.name
    gated = playbook(project, "pr /feature.pr gate_always stop", name="gated")
    assert project.playbook("run", gated, "013", "--agent", "exec:true").code == 4
    refused = project.playbook("resume", failed, "--retry")
    assert (refused.code, "PB-STATE-OPEN" in refused.err) == (3, True)
    (waiting,) = (folder.name for folder in project.sessions if folder.name != failed)
    assert waiting in refused.err
    assert project.playbook("abort", waiting).code == 0
    assert project.playbook("resume", failed, "--retry", "--agent", "exec:true").code == 0


# ── what is worth a sentence ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "command", [("next",), ("next", "--json"), ("answer", "continue"), ("pause",), ("abort",)]
)
def test_a_vanished_session_is_restored_with_a_sentence(
    project: Project, command: tuple[str, ...]
) -> None:
    """A worker's `git clean -fdx` loses nothing, and every command says what it put back."""
    name = playbook(project, "pr /feature.pr gate_always stop")
    project.playbook("run", name, "013", "--agent", "exec:true")
    shutil.rmtree(project.session)
    done = project.playbook(*command)
    assert (done.code, "restored from the copy" in done.err) == (0, True)
    assert project.journal()[0]["step_id"] == "pr"


def test_a_client_is_warned_of_what_a_person_is_warned_of(project: Project) -> None:
    project.write(f"specs/{FEATURE}/plan.md", "by hand\n")
    begun = project.playbook("begin", playbook(project, STEPS[0]), "013")
    assert "note: what plan is to bring is there" in begun.err
