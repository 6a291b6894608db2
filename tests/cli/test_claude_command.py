"""`playbook claude` with a shell script in the client's place: what passes, what is believed."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.bubblewrap import needs_bubblewrap
from support.in_process import Result
from support.scratch_project import Project, without_bubblewrap

from playbook_supervisor.system.process.process_groups import until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has namespaces"),
    needs_bubblewrap,
    pytest.mark.unmeasured,
]

ASK = """\
import os, socket
for data, given in ((b"x" * 9, 0), (b"x", 3), (bytes(4), 0), (bytes(4), 3)):
    with socket.socket(socket.AF_UNIX) as broker:
        broker.connect(os.environ["PLAYBOOK_BROKER"])
        socket.send_fds(broker, [data], [0] * given)
        try:
            answer = broker.recv(1)
        except ConnectionResetError:
            answer = b""
        print(answer or "unanswered")
"""
Stand = Callable[[str], None]


@pytest.fixture
def stand_in(project: Project) -> Stand:
    """Put a script on PATH as `claude`, and `playbook` beside it; isolation is required."""
    folder = project.root.with_name("programs")
    folder.mkdir()
    project.env["PATH"] = f"{folder}:{project.environment['PATH']}"
    for name, text in (("playbook", f'exec {sys.executable} -m playbook_supervisor "$@"'),):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    project.write(".playbooks/config.yaml", "isolation: required\n")

    def stand(script: str) -> None:
        (folder / "claude").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "claude").chmod(0o755)

    return stand


def claude(project: Project, *args: str) -> Result:
    return project.process("claude", *args)


class TestTheClient:
    def test_gets_all_arguments_as_they_are_and_its_status_is_passed_on(
        self, project: Project, stand_in: Stand
    ) -> None:
        stand_in('printf "[%s]" "$@"; cat; exit 7')
        with project.spawn("claude", "--help", "--", "-x", "", "a=b c") as process:
            out, _ = process.communicate(b"input")
        assert (out, process.returncode) == (b"[--help][--][-x][][a=b c]input", 7)

    def test_gets_the_signal_that_asks_the_command_to_end(
        self, project: Project, stand_in: Stand
    ) -> None:
        stand_in('trap "echo asked; exit 3" TERM HUP; echo ready; while :; do sleep 0.1; done')
        with project.spawn("claude") as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(signal.SIGTERM)
            assert (process.stdout.read(), process.wait(20)) == (b"asked\n", 3)

    def test_starts_without_isolation_only_if_that_is_not_required(
        self, project: Project, stand_in: Stand
    ) -> None:
        stand_in('echo "started ${PLAYBOOK_ISOLATION:-as it is}"')
        programs = project.env["PATH"].partition(":")[0]
        (few := project.root.with_name("few")).mkdir()
        without_bubblewrap(project, few)
        project.env["PATH"] = f"{programs}:{project.env['PATH']}"
        refused = claude(project)
        assert (refused.code, refused.out) == (3, "")
        assert "isolation is required, but bubblewrap (bwrap) is not installed" in refused.err
        project.write(".playbooks/config.yaml", "isolation: auto\n")
        noted = claude(project)
        assert noted.out == "started as it is\n"
        assert "without isolation: bubblewrap (bwrap) is not installed" in noted.err

    def test_writes_what_the_steps_of_the_playbooks_are_to_write(
        self, project: Project, stand_in: Stand
    ) -> None:
        judged = "postconditions: [verdict_pass: .playbooks/reviews/a.md]"
        step = f"{{id: review, command: /qa.run, {judged}}}"
        head = 'name: reviewed\ndescription: d\nversion: "1.2"\nargs: []\n'
        project.write(".playbooks/playbooks/reviewed.yaml", f"{head}steps:\n  - {step}\n")
        stand_in("cd .playbooks; echo PASS >reviews/a.md; echo x >policies.yaml; ls")
        done = claude(project)
        assert project.read(".playbooks/reviews/a.md") == "PASS\n", done.err
        assert "policies.yaml: Read-only file system" in done.err

    def test_starts_as_it_is_if_the_settings_ask_for_nothing(
        self, project: Project, stand_in: Stand
    ) -> None:
        stand_in('echo "started ${PLAYBOOK_ISOLATION:-as it is}"')
        project.write(".playbooks/config.yaml", "{}\n")
        assert (done := claude(project)).out == "started as it is\n"
        assert done.err == ""

    def test_is_needed_and_so_is_a_repository(self, project: Project, stand_in: Stand) -> None:
        missing = project.process("claude", env={"PATH": "/usr/bin:/bin"})
        assert "cannot start 'claude': it is not on PATH [PB-IO-PROGRAM]" in missing.err
        stand_in("echo started")
        elsewhere = project.process("claude", cwd=project.root.parent)
        assert (elsewhere.code, elsewhere.out) == (3, "")
        assert "PB-STATE-NO-REPOSITORY" in elsewhere.err


class TestACommandInside:
    def test_is_carried_out_outside_with_the_streams_of_its_caller(
        self, project: Project, stand_in: Stand
    ) -> None:
        stand_in('playbook status 2>err; echo "status $?"; playbook next; echo "status $?"')
        done = claude(project)
        assert done.out == "status 0\nstatus 3\n"
        assert project.read("err") == "No session is open.\n"
        assert "PB-STATE-NO-SESSION" in done.err

    def test_takes_neither_programs_nor_places_from_its_caller(
        self, project: Project, stand_in: Stand
    ) -> None:
        """Else an agent could have its own git run outside, or lead us to its own repository."""
        project.write("evil/git", '#!/bin/sh\necho "$PPID" >>"$MARK"\n').chmod(0o755)
        mark = project.root / "mark"
        stand_in(
            f"""
            git init -q below && git -C below config core.fsmonitor "touch {mark}"
            git -C below config alias.status "!touch {mark}"
            cd below
            export MARK={mark} GIT_DIR=/nowhere XDG_STATE_HOME=/nowhere CLAUDE_PROJECT_DIR=$PWD
            export PYTHONPATH=/nowhere PYTHONSTARTUP=/nowhere
            PATH={project.root}/evil:$PATH exec playbook status
            """
        )
        assert "No session is open." in claude(project).err
        assert not mark.exists()

    def test_names_no_files(self, project: Project, stand_in: Stand) -> None:
        stand_in("playbook show --html page.html || playbook report x#1 --output=/etc/passwd")
        done = claude(project)
        assert done.code == 1
        assert done.err.count("--html and --output cannot be used in isolation") == 2

    def test_answers_no_gate_and_ends_no_session(self, project: Project, stand_in: Stand) -> None:
        assert project.playbook("begin", "auto-feature", "013").code == 0
        stand_in("playbook abort; env -u CLAUDECODE -u PLAYBOOK_BROKER playbook abort")
        assert claude(project).code != 0
        assert project.manifest()["status"] == "in_progress"

    def test_ends_with_its_caller(self, project: Project, stand_in: Stand) -> None:
        """Only the program itself is left below the process outside."""
        stand_in("playbook status --watch & sleep 2; kill $!; echo over; read line")
        with project.spawn("claude") as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"over\n"
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            assert until(lambda: len(children.read_text().split()) == 1, 10)
            process.communicate(b"\n")

    def test_poses_in_vain_as_a_hook(self, project: Project, stand_in: Stand) -> None:
        stand_in("""echo '{"hook_event_name": "Stop"}' | CLAUDE_PID=2 playbook hook""")
        done = claude(project)
        assert (done.code, done.err) == (1, "playbook hook: this input is not from Claude Code\n")

    def test_that_asks_in_a_way_of_its_own_is_not_answered(
        self, project: Project, stand_in: Stand
    ) -> None:
        ask = project.write("ask.py", ASK)
        stand_in(f"{sys.executable} {ask}; playbook status")
        done = claude(project)
        assert done.out == "unanswered\n" * 4
        assert "No session is open." in done.err


def test_many_commands_inside_are_carried_out_at_the_same_time(
    project: Project, stand_in: Stand
) -> None:
    stand_in("for each in 1 2 3 4 5 6 7 8; do playbook status 2>&1 & done; wait")
    began = time.monotonic()
    assert claude(project).out == "No session is open.\n" * 8
    assert time.monotonic() - began < 60
