"""What disturbs a run from outside: other terminals, git hooks, clocks, folders and streams."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from threading import Event as ThreadEvent

import pytest
from cli.terminal import Terminal
from support.controlled_time import Held, wait_until
from support.scratch_project import FEATURE, Project
from support.stored_sessions import ask, step, unsynced
from test_journeys import STEPS, WORK, at_work, playbook

from playbook_supervisor.agents.exec import ExecAgent
from playbook_supervisor.agents.protocol import Call, Message, Running, failed
from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.drivers.headless import Runner
from playbook_supervisor.drivers.observers import Observer, PromptAnswer
from playbook_supervisor.errors import StorageError
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.gate.gate_context import GateContext
from playbook_supervisor.sessions.store.snapshot import Snapshot, running
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.process.process_groups import worker_alive

pytestmark = pytest.mark.measured

SLEEPER = "exec:sleep 600"


@pytest.fixture
def orphaned(project: Project) -> Project:
    """A session whose runner was killed while its worker keeps running, as the settings say."""
    project.write(".playbooks/config.yaml", "orphans: wait\n")
    name = playbook(project, "plan /speckit.plan auto stop")
    runner = project.spawn("run", name, "013", "--agent", SLEEPER)
    wait_until(lambda: worker(project))
    runner.kill()
    runner.communicate()
    return project


def worker(project: Project) -> Path | None:
    """The worker file of `plan`, once it names the worker."""
    files = project.root.glob(".git/playbook/*/worker-plan#1")
    return next((file for file in files if file.stat().st_size), None)


def lives(project: Project) -> bool:
    file = worker(project)
    return file is not None and worker_alive(file)


# ── requests from elsewhere ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("command", "code", "status", "goes_on"),
    [("abort", 2, "aborted", False), ("pause", 4, "in_progress", True)],
)
def test_a_runner_that_waits_for_an_orphan_can_be_paused_and_aborted(
    orphaned: Project, command: str, code: int, status: str, goes_on: bool
) -> None:
    runner = orphaned.spawn("resume")
    assert runner.stderr is not None
    assert b"still running" in runner.stderr.readline()
    assert orphaned.playbook(command).code == 0
    runner.communicate(timeout=120)
    assert runner.returncode == code
    assert orphaned.manifest()["status"] == status
    assert lives(orphaned) is goes_on
    if goes_on:
        assert orphaned.playbook("abort").code == 0


def test_abort_ends_the_worker_of_a_runner_that_is_gone(orphaned: Project) -> None:
    assert orphaned.playbook("abort").code == 0
    assert not lives(orphaned)
    assert orphaned.manifest()["status"] == "aborted"


def test_abort_reaches_a_session_whose_runner_has_just_stopped(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner that stops at a gate at that moment does not swallow the request."""
    from playbook_supervisor.commands.driving import driving

    name = playbook(project, STEPS[5])
    project.playbook("run", name, "013", "--agent", project.script("steps: {}"))
    monkeypatch.setattr(driver_lock, "living", lambda private: driver_lock.Driver(0, "gone"))
    monkeypatch.setattr(driver_lock, "until", lambda happened, patience: True)
    snapshot = driving.abort(cwd=project.root)
    assert snapshot.manifest.status == "aborted"


class Late(Observer):
    """A person whose answer comes after one from another terminal. Records all notices."""

    def __init__(self, elsewhere: SessionTree) -> None:
        self.elsewhere = elsewhere
        self.heard: list[str] = []

    def ask(
        self, snapshot: Snapshot, context: GateContext | None, overtaken: Callable[[], bool]
    ) -> PromptAnswer:
        self.elsewhere.answer(ask(snapshot).id, Resolution.SKIP, "skip", Principal("Ana"))
        return PromptAnswer("continue")

    def not_understood(self, snapshot: Snapshot, question: str) -> None:
        raise AssertionError(question)

    def on_notice(self, text: str) -> None:
        self.heard.append(text)


def test_an_answer_that_comes_too_late_is_rejected_and_the_run_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = unsynced(monkeypatch, tmp_path)
    tree = scene.create(step("pr", autonomy="gate_always"))
    late = Late(scene.again(tree))
    ending = Runner(tree, Slow(Barrier(1)), late, late).drive(tree.begin)
    assert ending.why == "completed"
    assert late.heard == ["too late: pr#1?1 was answered elsewhere"]
    (entry,) = scene.store.journal(tree.id).entries
    assert (entry.status, entry.human_response) == ("skipped", "skip")


def test_text_typed_before_a_question_does_not_answer_it(project: Project) -> None:
    """An impatient Enter while a step runs opens no pull request."""
    first = "qa /qa.plan gate_always stop"
    name = playbook(project, first, "pr /feature.pr gate_always stop")
    held = Held.put(project, say="thinking")
    with Terminal(project, "run", name, "013", "--agent", held.agent) as person:
        person.until("abort > ")
        person.type("continue\ncontinue\n")
        person.until("thinking")
        person.type("\n")
        held.let_go()
        person.until("abort > ")
        person.type("skip\n")
        assert person.end() == 0
    assert [entry["human_response"] for entry in project.journal()] == ["continue", "skip"]


def test_a_process_that_asks_for_the_driver_does_not_count_as_one(tmp_path: Path) -> None:
    """Many clients may look for the driver at once; none of them blocks another."""
    with driver_lock.driving(tmp_path, "exec"):
        assert driver_lock.living(tmp_path) == driver_lock.Driver(os.getpid(), "exec")
    with ThreadPoolExecutor(8) as crowd:
        found = set(crowd.map(lambda _: driver_lock.living(tmp_path), range(300)))
    assert found == {None}


@dataclass
class Slow:
    """An agent whose workers end once all were asked to. The last one to begin sends SIGINT."""

    together: Barrier
    name: str = "slow"

    def available(self) -> str | None:
        return None

    def run(self, call: Call) -> Running:
        ended = ThreadEvent()

        def messages() -> Iterator[Message]:
            if self.together.wait(60) == 0:
                os.kill(os.getpid(), signal.SIGINT)
            ended.wait(60)
            yield Message(outcome=failed("PB-AGENT-CRASHED", "stopped", name=self.name))

        def stop() -> None:
            self.together.wait(60)
            ended.set()

        return Running(messages(), stop)


def test_an_interruption_reaches_all_workers_of_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that ends slowly does not delay the others."""
    tree = unsynced(monkeypatch, tmp_path).create(
        *(step(name, parallel_group="g") for name in ("a", "b", "c"))
    )
    runner = Runner(tree, Slow(Barrier(3)), Observer())
    ending = runner.drive(tree.begin)
    assert (ending.why, ending.exit_code) == ("interrupted", 130)
    codes = [entry.error_code for entry in ending.snapshot.state.entries]
    assert codes == ["PB-STATE-INTERRUPTED"] * 3


# ── what surrounds the process ──────────────────────────────────────────────────────────────


def test_a_surrounding_git_does_not_reach_the_agents(project: Project, tmp_path: Path) -> None:
    """In a run started by a hook of another repository, each step works in its own."""
    elsewhere = tmp_path / "elsewhere"
    subprocess.run(["git", "init", "-q", str(elsewhere)], check=True)
    said = tmp_path / "said"
    agent = tmp_path / "agent.sh"
    agent.write_text(f"#!/bin/sh\n{{ git rev-parse --show-toplevel; env; }} > {said}\necho said\n")
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


@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"])
def test_a_run_works_with_closed_streams(project: Project, closed: str) -> None:
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
    """kai FR15: `resume` needs no arguments, in any folder."""
    agent = project.write(
        "below/agent", "#!/bin/sh\necho done\n" if kind == "exec" else "steps: {}\n"
    )
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


def test_a_first_step_that_may_replace_a_file_is_warned_about(project: Project) -> None:
    """Its command may replace work that was done by hand."""
    project.write(f"specs/{FEATURE}/plan.md", "by hand\n")
    name, agent = playbook(project, *STEPS[:2]), project.script(WORK)
    first = project.playbook("run", name, "013", "--agent", agent)
    assert f"/speckit.plan may replace it (plan_exists: specs/{FEATURE}/plan.md" in first.err
    second = project.playbook("run", name, "013", "--from", "tasks", "--agent", agent)
    assert "/speckit.tasks may replace it" in second.err
    assert "/speckit.plan" not in second.err


# ── one checkout, one open session ──────────────────────────────────────────────────────────


def test_a_failed_session_is_not_resumed_beside_an_open_one(project: Project) -> None:
    """Two sessions would work in one tree; the open one has priority."""
    failing = playbook(project, "plan /speckit.plan auto stop", name="failing")
    assert project.playbook("run", failing, "013", "--agent", "exec:false").code == 2
    failed = project.session.name
    gated = playbook(project, "pr /feature.pr gate_always stop", name="gated")
    assert project.playbook("run", gated, "013", "--agent", "exec:echo done").code == 4
    refused = project.playbook("resume", failed, "--retry")
    assert (refused.code, "PB-STATE-OPEN" in refused.err) == (3, True)
    (waiting,) = (folder.name for folder in project.sessions if folder.name != failed)
    assert waiting in refused.err
    assert project.playbook("abort", waiting).code == 0
    assert project.playbook("resume", failed, "--retry", "--agent", "exec:echo done").code == 0


# ── what is worth a sentence ────────────────────────────────────────────────────────────────


def test_a_group_is_limited_by_the_open_files_of_the_system(project: Project) -> None:
    """A program may raise a low soft limit of open files."""
    names = [f"s{number}" for number in range(16)]
    held = Held.put(project)
    name = playbook(project, *(f"{each} /qa.plan auto stop parallel_group=g" for each in names))
    command = f'ulimit -S -n 48; exec "{sys.executable}" -m playbook_supervisor run {name} 013'
    with subprocess.Popen(
        ["sh", "-c", f'{command} --agent "{held.agent}"'],
        cwd=project.root,
        env=project.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as runner:
        wait_until(lambda: all(at_work(project, each) for each in names))
        held.let_go()
        said, _ = runner.communicate(timeout=120)
    assert runner.returncode == 0, said
    assert {entry["status"] for entry in project.journal()} == {"done"}


# ── a runner that ends by an error of its own ───────────────────────────────────────────────


def test_a_runner_that_cannot_write_the_journal_ends_its_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is reported, and `resume` finds no orphan to wait for."""
    tree = unsynced(monkeypatch, tmp_path).create(
        step("quick", parallel_group="g"), step("slow", parallel_group="g")
    )
    agent = ExecAgent("both", ["sh", "-c", '[ "$PLAYBOOK_STEP" = quick ] || sleep 600'], tmp_path)

    def refuse(attempt_id: str, outcome: object) -> Snapshot:
        raise StorageError("PB-IO-WRITE", "cannot write the journal")

    monkeypatch.setattr(tree, "report", refuse)
    with pytest.raises(StorageError, match="cannot write the journal"):
        Runner(tree, agent, Observer()).drive(tree.begin)
    attempts = running(tree.look())
    assert [attempt.id for attempt in attempts] == ["quick#1", "slow#1"]
    assert not any(worker_alive(tree.worker_file(attempt)) for attempt in attempts)


def test_an_outcome_is_journaled_once_the_full_disk_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step is expensive: it does not run again because the disk was full for a moment."""
    tree = unsynced(monkeypatch, tmp_path).create("a")
    report, full = tree.report, [True]

    def report_to_disk(attempt_id: str, outcome: Outcome) -> Snapshot:
        with monkeypatch.context() as disk:
            if full and full.pop():
                disk.setattr(os, "replace", refuse)
            return report(attempt_id, outcome)

    def refuse(*paths: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tree, "report", report_to_disk)
    watcher = Late(tree)
    ending = Runner(tree, ExecAgent("quick", ["echo", "done"], tmp_path), watcher).drive(tree.begin)
    assert ending.why == "completed"
    said = watcher.heard[0]
    assert said.startswith("a#1 returned, but cannot write ")
    assert "No space left on device: free some disk space" in said
    (entry,) = tree.store.journal(tree.id).entries
    assert (entry.id, entry.status) == ("a#1", "done")


@pytest.mark.parametrize(
    ("conditions", "fate"),
    [([], "so it runs again"), (["plan_exists"], "its postconditions decide whether it finished")],
)
def test_the_error_of_a_full_disk_says_what_happens_to_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conditions: list[str], fate: str
) -> None:
    tree = unsynced(monkeypatch, tmp_path).create(step("a", postconditions=conditions))

    def refuse(attempt_id: str, outcome: Outcome) -> Snapshot:
        os.kill(os.getpid(), signal.SIGINT)  # a person who does not wait for room
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise StorageError("PB-IO-WRITE", "cannot write journal.yaml") from full

    monkeypatch.setattr(tree, "report", refuse)
    with pytest.raises(StorageError) as caught:
        Runner(tree, ExecAgent("quick", ["echo", "done"], tmp_path), Observer()).drive(tree.begin)
    goes_on = f"Free some disk space, then `playbook resume {tree.id}`: a#1 had returned"
    assert caught.value.guidance.startswith(goes_on)
    assert fate in caught.value.guidance
