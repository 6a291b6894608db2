"""The headless runner carries out the steps of executors as it does those of agents."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.scratch_project import Project
from support.stored_sessions import BEGAN, FEATURE, Scene, playbook
from support.task_run import Watcher

from playbook_supervisor.drivers.headless import Runner
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import Arg, Limits, Playbook, Step
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.kernel.vocabulary import Autonomy, OutputFormat
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.steps.attempt_log import log_path
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.process.process_groups import until, worker_alive

TOKEN = "correct-horse-battery-staple"
PYTHON = f"cli {sys.executable} -c"


def step(name: str, command: str, **more: Any) -> Step:
    options = json.dumps(more.pop("options", {}))
    policy = more.pop("error_policy", ErrorPolicy.STOP)
    return Step(name, command, Autonomy.AUTO, policy, options=options, **more)


def created(
    scene: Scene, *steps: Step, args: dict[str, str] | None = None, **top: Any
) -> SessionTree:
    """A pending session of these steps; each of `args` is optional."""
    args = args or {}
    declared = tuple(Arg(name, "An arg.", required=False) for name in args)
    definition = Playbook("sample", "A sample.", "1.1", declared, steps, **top)
    session_id = scene.store.create(
        playbook="sample",
        text=playbook("stand-in"),
        feature=FEATURE,
        args=args,
        definition=definition,
    )
    return SessionTree(scene.store, session_id)


def driven(tree: SessionTree, **more: Any) -> tuple[str, tuple[Entry, ...], Watcher]:
    watcher = Watcher()
    result = Runner(tree, None, watcher, **more).drive(tree.begin)
    return result.why, result.entries, watcher


def test_a_program_is_a_step(scene: Scene) -> None:
    """cat FR-3.4; tyr 14: started, shown, logged, judged and journaled like an agent's step."""
    tree = created(scene, step("say", "cli echo hello"), step("check", "cli true"))
    why, entries, watcher = driven(tree)
    assert why == "completed"
    assert [(entry.id, entry.status.value) for entry in entries] == [
        ("say#1", "done"),
        ("check#1", "done"),
    ]
    assert entries[0].output == "hello"
    assert not entries[0].agent
    assert watcher.lines == ["say#1: hello"]
    assert log_path(tree.private, "say#1").read_text() == "hello\n"
    assert entries[0].started_at >= BEGAN


def test_an_arg_fills_one_word_and_the_step_knows_its_session(scene: Scene) -> None:
    """cat FR-3.3, E-2."""
    code = "import os, sys; print(sys.argv[1:], os.environ['PLAYBOOK_DIRECTIVE'], os.getcwd())"
    (scene.root / "inner").mkdir()
    tree = created(
        scene,
        step("say", f'{PYTHON} "{code}" {{{{text}}}} {{{{none}}}} end', cwd="inner"),
        args={"text": "'; touch evil #", "none": ""},
    )
    why, entries, _ = driven(tree)
    assert why == "completed"
    assert entries[0].output == f"[\"'; touch evil #\", 'end'] say#1 {scene.root}/inner"


def test_a_failed_program_fails_the_step_by_its_policy(scene: Scene) -> None:
    policy = ErrorPolicy.RETRY_ONCE
    tree = created(scene, step("fail", "cli ls no-such-file", error_policy=policy))
    why, entries, _ = driven(tree)
    assert why == "failed"
    assert [entry.error_code for entry in entries] == ["PB-STEP-FAILED"] * 2
    assert "no-such-file" in entries[1].error


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("cli sh -c 'touch made'", "PB-POLICY-DENIED", "it is a shell"),
        ("nosuch thing", "PB-STEP-FAILED", "no kind of step 'nosuch'"),
        ("cli echo {{typo}}", "PB-STEP-FAILED", "unknown arg {{typo}}"),
    ],
)
def test_a_step_that_may_not_or_cannot_run_fails(
    scene: Scene, command: str, code: str, said: str
) -> None:
    why, entries, _ = driven(created(scene, step("run", command)))
    assert why == "failed"
    assert entries[0].error_code == code
    assert said in entries[0].error
    assert not (scene.root / "made").exists()


def test_a_folder_outside_the_repository_is_refused(scene: Scene, tmp_path: Path) -> None:
    """tyr 26, also by a symbolic link."""
    (scene.root / "link").symlink_to("/")
    for folder in ("..", "/", "link"):
        why, entries, _ = driven(created(scene, step("run", "cli touch made", cwd=folder)))
        assert why == "failed"
        assert "leads outside" in entries[0].error


def test_the_nearest_limit_holds(scene: Scene) -> None:
    """What a person gave to the run, else the step's, else the playbook's (tyr 25)."""
    sleep = step("sleep", "cli sleep 600", limits=Limits(timeout_seconds=0.3))
    why, entries, _ = driven(created(scene, sleep, limits=Limits(timeout_seconds=600)))
    assert (why, entries[0].error_code) == ("failed", "PB-STEP-TIMEOUT")
    assert entries[0].error == "cli ran for more than 0.3 s"
    silent = created(scene, step("sleep", "cli sleep 600"), limits=Limits(idle_timeout_seconds=0.2))
    _, entries, _ = driven(silent)
    patient = Limits(timeout_seconds=600)
    assert entries[0].error == "cli printed nothing for 0.2 s"
    _, entries, _ = driven(created(scene, replace(sleep, limits=patient)), wall=0.4)
    assert entries[0].error == "cli ran for more than 0.4 s"


def test_a_secret_reaches_the_program_and_nothing_that_is_kept(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY", TOKEN)
    code = "import os; T = os.environ['T']; print(len(T), T); raise SystemExit(T)"
    options = {"env": {"T": "{{secret:DEPLOY}}"}}
    tree = created(scene, step("leak", f'{PYTHON} "{code}"', options=options))
    _, entries, watcher = driven(tree)
    assert f"leak#1: {len(TOKEN)} [redacted]" in watcher.lines
    assert "[redacted]" in entries[0].error
    everything = [path for path in scene.root.rglob("*") if path.is_file()]
    assert any(path.name == "leak#1.log" for path in everything)
    for path in everything:
        assert TOKEN.encode() not in path.read_bytes(), path


def test_a_step_reads_the_output_of_an_earlier_one(scene: Scene) -> None:
    """cat FR-3.3, E-2; tyr 19: as text and as JSON, whole, in another process, too."""
    tree = created(
        scene,
        step("say", "cli echo '{\"a\": [1, 2]}'", output=OutputFormat.JSON),
        step("text", "cli cat", stdin="$say.stdout"),
        step("data", "cli cat", stdin="$say.json"),
    )
    why, entries, _ = driven(tree)
    assert why == "completed"
    assert [entry.output for entry in entries[1:]] == ['{"a": [1, 2]}'] * 2


def test_an_interruption_ends_the_program_and_what_it_started(scene: Scene) -> None:
    code = "import os, time; os.fork(); open('up', 'w'); time.sleep(600)"
    tree = created(scene, step("long", f'{PYTHON} "{code}"'))

    def interrupt() -> None:
        while not (scene.root / "up").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    why, entries, _ = driven(tree, wall=60)
    thread.join()
    assert (why, entries[0].error_code) == ("interrupted", "PB-STATE-INTERRUPTED")
    assert not worker_alive(tree.private / "worker-long#1")


# ── a runner that is killed ─────────────────────────────────────────────────────────────────

KILLED = """\
name: build
description: Build with a program
version: "1.1"
args: []
steps:
  - id: build
    command: cli ./build
    with: {env: {MADE: made.txt}}
    postconditions: [POST]
    autonomy: auto
    error_policy: stop
"""
BUILD = """\
#!/bin/sh
echo x >"$MADE"
[ -e again ] && exit 0
echo up
sleep 600
"""


@pytest.mark.parametrize(
    ("postconditions", "ending"),
    [("", ["failed", "done"]), ("{file_exists: made.txt}", ["done"])],
    ids=["without proof it runs again", "its postconditions decide"],
)
def test_a_killed_runner_s_program_ends_and_resume_goes_on(
    project: Project, postconditions: str, ending: list[str]
) -> None:
    text = KILLED.replace("[POST]", f"[{postconditions}]")
    project.write(".playbooks/playbooks/build.yaml", text)
    project.write("build", BUILD).chmod(0o755)
    with project.spawn("run", "build") as runner:
        until(lambda: (project.root / "made.txt").exists() and bool(project.sessions), 60)
        runner.kill()
        runner.wait()
    private = project.root / ".git/playbook" / project.session.name
    assert until(lambda: not worker_alive(private / "worker-build#1"), 20)
    project.write("again", "")
    done = project.playbook("resume")
    assert done.code == 0, done.err
    journal = project.journal()
    assert [entry["status"] for entry in journal] == ending
    if len(ending) == 1:
        assert journal[0]["recovered"] is True
    else:
        assert journal[0]["error_code"] == "PB-STATE-INTERRUPTED"
