"""An agent of ours does not decide for a person, after any change to its process."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from cli.scripts import GATED
from support.controlled_time import gone
from support.scratch_project import Project
from test_guards import DECIDING, WITH_TERMINAL
from test_journeys import playbook, summary

from playbook_supervisor.drivers import own_agents
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.process import ancestry
from playbook_supervisor.system.process.processes import Worker

# Runs what it is given in JSON: `[way, argv]` each; prints for each `[exit code, output]`.
AGENT = """\
import json, os, subprocess, sys, time

def directly(argv, **other):
    done = subprocess.run(argv, capture_output=True, text=True, **other)
    return done.returncode, done.stdout + done.stderr

def escaped(argv):
    '''With a session, a parent and an environment of its own, and none of our descriptors.'''
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while os.getppid() in parents: time.sleep(0.01)
            result = directly(argv, env=bare)
            with open("said.new", "w") as file:
                json.dump(result, file)
            os.rename("said.new", "said")
        os._exit(0)
    os.wait()
    while not os.path.exists("said"): time.sleep(0.01)
    with open("said") as file:
        result = json.load(file)
    os.unlink("said")
    return result

parents = [os.getpid()]
bare = {name: os.environ[name] for name in ("HOME", "PATH")}
WAYS = {
    "plainly": directly,
    "without our variables": lambda argv: directly(argv, env=bare),
    "with our file closed": lambda argv: directly(["sh", "-c", 'exec 3>&- 4>&- 5>&- 6>&- 7>&-; "$@"', "-", *argv]),
    "at a terminal of its own": lambda argv: directly([sys.executable, "-c", sys.argv[2], *argv], env=bare),
    "escaped": escaped,
}
results = [WAYS[way](argv) for way, argv in json.loads(sys.argv[1])]
with open(sys.argv[3], "w") as file:
    json.dump(results, file)
"""  # noqa: E501
PROGRAM = (sys.executable, "-m", "playbook_supervisor")
ABORT = [*PROGRAM, "abort"]
ANYWHERE = """\
import os, sys
from playbook_supervisor.drivers import own_agents
from playbook_supervisor.errors import StateError
os.chdir("/")
try:
    own_agents.require_none_anywhere("answer")
except StateError as error:
    print(error.code, error.message)
    sys.exit(error.exit_code)
"""


def tries(project: Project, attempts: list[tuple[str, list[str]]]) -> list[Any]:
    """What an agent of a run is told when it runs these commands, in these ways."""
    program, said = project.root.with_name("agent.py"), project.root.with_name("tried.json")
    program.write_text(AGENT)
    given = project.root.with_name("given.sh")
    words = (sys.executable, program, json.dumps(attempts), WITH_TERMINAL, said)
    quoted = " ".join("'" + str(word).replace("'", "'\\''") + "'" for word in words)
    given.write_text(f"#!/bin/sh\necho I try\nexec {quoted}\n")
    given.chmod(0o755)
    name = playbook(project, "plan /speckit.plan auto stop")
    ran = project.playbook("run", name, "013", "--agent", f"exec:{given}")
    assert ran.code == 0, ran.err
    assert summary(project.journal()) == [("plan", "done", "auto")]
    return list(json.loads(said.read_text()))


class TestAnAgent:
    def test_may_run_no_command_that_decides(self, project: Project) -> None:
        begins = [["run", "own", "013", "--mode", "autonomous"], ["begin", "own", "--from", "plan"]]
        commands = [*DECIDING.values(), *begins]
        heard = tries(project, [("plainly", [*PROGRAM, *argv]) for argv in commands])
        for (code, said), argv in zip(heard, commands, strict=True):
            assert (code, "PB-STATE-HUMAN-ONLY" in said) == (3, True), (argv, said)
            assert f"but the agent of plan#1 in session {project.session.name}" in said
            assert "Leave it to a person: in a terminal of their own" in said

    def test_is_recognised_after_any_change_to_its_process(self, project: Project) -> None:
        ways = [
            "plainly",
            "without our variables",
            "with our file closed",
            "at a terminal of its own",
            "escaped",
        ]
        for way, (code, said) in zip(
            ways, tries(project, [(way, ABORT) for way in ways]), strict=True
        ):
            assert (code, "PB-STATE-HUMAN-ONLY" in said) == (3, True), (way, said)

    def test_decides_about_no_session_of_another_worktree(
        self, project: Project, tmp_path: Path
    ) -> None:
        project.git("worktree", "add", "-q", str(tmp_path / "there"), "-b", "there")
        there = Project(tmp_path / "there", project.home, project.env)
        there.write(".playbooks/playbooks/gated.yaml", GATED)
        assert there.playbook("run", "gated", "--agent", "exec:echo done").code == 4
        waiting = there.session.name
        answer = [*PROGRAM, "answer", "--session", waiting, "continue"]
        for code, said in tries(project, [("without our variables", answer), ("escaped", answer)]):
            assert (code, "PB-STATE-HUMAN-ONLY" in said) == (3, True), said
        assert there.manifest()["gate"]["id"] == "publish#1?1"

    def test_is_asked_at_no_prompt_of_a_run_that_it_begins(
        self, project: Project, tmp_path: Path
    ) -> None:
        """The gate stays open, although there is a terminal."""
        project.git("worktree", "add", "-q", str(tmp_path / "there"), "-b", "there")
        there = Project(tmp_path / "there", project.home, project.env)
        there.write(".playbooks/playbooks/gated.yaml", GATED)
        run = ["env", "-C", str(there.root), *PROGRAM, "run", "gated", "--agent", "exec:echo done"]
        ((code, said),) = tries(project, [("at a terminal of its own", run)])
        assert (code, there.manifest()["gate"]["id"]) == (4, "publish#1?1"), said

    def test_may_test_a_project_of_its_own(self, project: Project, tmp_path: Path) -> None:
        """Its tests may answer gates in another repository."""
        other = tmp_path / "other"
        project.git("clone", "-q", ".", str(other))
        theirs = Project(other, project.home, project.env)
        theirs.write(".playbooks/playbooks/gated.yaml", GATED)
        assert theirs.playbook("run", "gated", "--agent", "exec:echo done").code == 4
        answer = ["env", "-u", "PLAYBOOK_SESSION", "-C", str(other), *PROGRAM, "answer", "continue"]
        ((code, said),) = tries(project, [("plainly", answer)])
        assert code == 0, said

    def test_is_recognised_where_no_repository_is(self, project: Project) -> None:
        """A fleet's sessions may belong to any repository."""
        asks = [sys.executable, "-c", ANYWHERE]
        ways = ["plainly", "without our variables", "at a terminal of its own", "escaped"]
        for way, (code, said) in zip(
            ways, tries(project, [(way, asks) for way in ways]), strict=True
        ):
            assert (code, "PB-STATE-HUMAN-ONLY" in said) == (3, True), (way, said)
            assert f"but the agent of plan#1 in session {project.session.name} has" in said, way

    def test_leaves_no_process_to_answer_the_next_gate(self, project: Project) -> None:
        """A process with a session, a parent and an environment of its own."""
        left = project.root.with_name("left")
        waits = f"echo $$ > {left}; until {' '.join(PROGRAM)} answer continue; do sleep 0.05; done"
        agent = project.root.with_name("agent")
        agent.write_text(
            "#!/bin/sh\n"
            f'setsid env -i PATH="$PATH" HOME="$HOME" sh -c \'{waits}\' >&- 2>&- <&- &\n'
            f"while ! [ -s {left} ]; do sleep 0.01; done; echo left\n"
        )
        agent.chmod(0o755)
        name = playbook(project, "qa /qa.plan auto stop", "pr /feature.pr gate_always stop")
        ran = project.playbook("run", name, "013", "--agent", f"exec:{agent}")
        assert ran.code == 4
        assert "qa#1: it left processes behind, which were ended: sh (" in ran.err
        assert gone(int(left.read_text()))
        assert project.manifest()["gate"]["id"] == "pr#1?1"
        assert "human_response" not in project.journal()[-1]


class TestAGitHookOfARunner:
    def test_does_not_decide_either(self, project: Project) -> None:
        """An agent may have written it; a session commit runs it."""
        said = project.root.with_name("said")
        hook = project.write(
            ".git/hooks/post-commit", f"#!/bin/sh\n{' '.join(ABORT)} > {said} 2>&1\n"
        )
        hook.chmod(0o755)
        project.write(".playbooks/config.yaml", "commit_sessions: step\n")
        name = playbook(project, "qa /qa.plan auto stop")
        assert project.playbook("run", name, "013", "--agent", "exec:echo done").code == 0
        assert f"but the runner of session {project.session.name} has started" in said.read_text()


def test_any_program_on_a_leash_of_ours_is_an_agents(tmp_path: Path) -> None:
    """Also below a file that is in no session's folder, as a worker of the fleet has it."""
    argv = [sys.executable, "-c", ANYWHERE]
    worker = Worker(argv, cwd=tmp_path, worker_file=tmp_path / "child")
    (said,) = worker.lines()
    assert worker.returncode == 3
    assert "but a program that is on our leash has started this process" in said


class TestAPerson:
    def test_decides_in_any_terminal_and_any_script(self, project: Project) -> None:
        agent = project.script("default: {say: done}\n")
        project.write(".playbooks/playbooks/gated.yaml", GATED)
        assert project.playbook("run", "gated", "--agent", agent).code == 4
        assert own_agents.above(checkout.find(project.root)) == ""
        assert own_agents.above_any() == ""
        own_agents.require_none_anywhere("answer")
        assert project.process("answer", "continue").code == 0
        assert project.playbook("resume", "--mode", "autonomous").code == 0

    def test_is_recognised_by_recorded_numbers_where_the_system_lists_no_files(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        here = checkout.find(project.root)
        (above,) = ancestry.ancestors()[:1]
        file = here.runtime / "20260219-a7k" / "worker-plan#1"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"pid": above.pid, "pgid": above.pid}))
        monkeypatch.setattr(ancestry, "tells_files", lambda: False)
        assert own_agents.above(here) == "", "that worker has ended"
        monkeypatch.setattr(own_agents, "worker_alive", lambda file: True)
        assert "the agent of plan#1 in session 20260219-a7k" in own_agents.above(here)
