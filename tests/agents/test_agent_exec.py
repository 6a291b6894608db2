"""Any program as an agent: how it is called, and what its exit means."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.agent_calls import SAMPLE, ended, error_of
from support.controlled_time import shorten_grace

from playbook_supervisor.agents.exec import ExecAgent
from playbook_supervisor.agents.protocol import Agent, Message
from playbook_supervisor.agents.registry import choose
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import replace
from playbook_supervisor.testing import AgentCheck, call_for

CONFORMING = """\
import fcntl, os, pathlib, signal, subprocess, sys, time

command = sys.stdin.read()
if command == "/works":
    pathlib.Path("works.txt").write_text("worked\\n")
    print("working")
elif command == "/fails":
    print("this cannot be done")
    sys.exit(3)
elif command == "/dies":
    os.kill(os.getpid(), signal.SIGKILL)
elif command == "/hangs":
    lock = open("hangs.lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    stubborn = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]
    subprocess.Popen(stubborn, pass_fds=[lock.fileno()])
    print("hanging", flush=True)
    time.sleep(3600)
elif command == "/shouts":
    for _ in range(100):
        print("A" * 100)
elif command == "/colours":
    print("\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07 \\x08\\x07 \\u202etxet", flush=True)
"""

Write = Callable[[str], Agent]


@pytest.fixture
def agent(tmp_path: Path) -> Write:
    """An agent whose program is this Python text."""

    def write(text: str) -> Agent:
        file = tmp_path / "agent.py"
        file.write_text(text)
        return ExecAgent("mine", [sys.executable, str(file)], tmp_path)

    return write


@pytest.mark.parametrize("check", SAMPLE, ids=lambda check: check.__name__)
def test_exec_passes_the_conformance_checks(
    check: AgentCheck, agent: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cat FR-5.5, FR-10.4, E-4."""
    shorten_grace(monkeypatch)
    check(agent(CONFORMING), tmp_path)


def test_the_program_receives_its_call_in_the_environment(agent: Write, tmp_path: Path) -> None:
    """cat FR-3.3, E-2."""
    told = agent(
        "import json, os, sys\n"
        "names = [name for name in os.environ if name.startswith(('PLAYBOOK_', 'SPECIFY_'))\n"
        "  and not name.startswith('PLAYBOOK_REQUIRE_')]\n"
        "print(json.dumps([sys.stdin.read(), {name: os.environ[name] for name in names}]))\n"
    )
    call = replace(
        call_for("implement", tmp_path),
        attempt=2,
        directive="implement#2",
        command="/speckit-implement",
        args="a\0b 'c' $HOME",
        prompt="/speckit-implement a 'c' $HOME",
        model="opus",
        env={"SPECIFY_FEATURE": "013-conformance"},
    )
    said = [message.text for message in told.run(call)]
    prompt, environment = json.loads(said[0])
    assert prompt == "/speckit-implement a 'c' $HOME"
    assert environment == {
        "PLAYBOOK_SESSION": "20260219-a7k",
        "PLAYBOOK_STEP": "implement",
        "PLAYBOOK_DIRECTIVE": "implement#2",
        "PLAYBOOK_COMMAND": "/speckit-implement",
        "PLAYBOOK_ARGS": "ab 'c' $HOME",
        "PLAYBOOK_FEATURE": "013-conformance",
        "PLAYBOOK_MODEL": "opus",
        "PLAYBOOK_FEEDBACK": "",
        "PLAYBOOK_WORKER": str(call.worker_file),
        "SPECIFY_FEATURE": "013-conformance",
    }


def test_the_parents_environment_reaches_the_program(
    agent: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_AGENT_ENDPOINT", "loopback")
    told = agent("import os\nprint(os.environ['MY_AGENT_ENDPOINT'])\n")
    assert ended(told, call_for("works", tmp_path)).output == "loopback"


def test_arguments_are_split_but_never_seen_by_a_shell(tmp_path: Path) -> None:
    file = tmp_path / "argv.py"
    file.write_text("import sys\nprint(sys.argv[1:])\n")
    spec = f"exec:{sys.executable} {file} '$(touch pwned)' ';' two\\ words"
    told = choose(spec, Config(), tmp_path)
    outcome = ended(told, call_for("works", tmp_path))
    assert outcome.output == "['$(touch pwned)', ';', 'two words']"
    assert outcome.agent == {"name": "exec"}
    assert not list(tmp_path.rglob("pwned"))


def test_a_program_need_not_read_its_prompt(agent: Write, tmp_path: Path) -> None:
    deaf = agent("print('done')\n")
    call = replace(call_for("works", tmp_path), prompt="word " * 200_000)
    assert ended(deaf, call).ok


def test_exit_status_zero_is_success_and_all_of_stdout_the_output(
    agent: Write, tmp_path: Path
) -> None:
    outcome = ended(agent("print()\nprint('x' * 500)\nprint('y')\n"), call_for("works", tmp_path))
    assert outcome.ok
    assert outcome.agent == {"name": "mine"}
    assert outcome.output == "x" * 500 + "\ny"


def test_blank_lines_are_not_messages(agent: Write, tmp_path: Path) -> None:
    messages = list(agent("print('\\n \\n')\nprint('y')\n").run(call_for("works", tmp_path)))
    assert [message.text for message in messages] == ["y", ""]


def test_another_exit_status_is_a_failure_with_the_last_lines(agent: Write, tmp_path: Path) -> None:
    failing = agent(
        "import sys\nprint('working')\nprint(*range(20), sep='\\n', file=sys.stderr)\nsys.exit(7)\n"
    )
    error = error_of(failing, call_for("works", tmp_path))
    assert error.code == "PB-AGENT-FAILED"
    assert error.message == "mine ended with exit status 7: 19"
    assert error.cause == "\n".join(map(str, range(5, 20)))


def test_stdout_explains_a_failure_without_stderr(agent: Write, tmp_path: Path) -> None:
    error = error_of(agent("print('no')\nexit(1)\n"), call_for("works", tmp_path))
    assert (error.message, error.cause) == ("mine ended with exit status 1: no", "no")


def test_a_failure_without_output_still_has_its_status(agent: Write, tmp_path: Path) -> None:
    error = error_of(agent("exit(1)\n"), call_for("works", tmp_path))
    assert (error.message, error.cause) == ("mine ended with exit status 1", "")


@pytest.mark.parametrize(("number", "name"), [("9", "SIGKILL"), ("40", "signal 40")])
def test_death_by_a_signal_is_a_crash(number: str, name: str, agent: Write, tmp_path: Path) -> None:
    dying = agent(f"import os\nos.kill(os.getpid(), {number})\n")
    error = error_of(dying, call_for("works", tmp_path))
    assert (error.code, error.message) == ("PB-AGENT-CRASHED", f"mine was killed by {name}")


def test_a_deadline_names_its_seconds(agent: Write, tmp_path: Path) -> None:
    hanging = agent("import time\nprint('hanging', flush=True)\ntime.sleep(3600)\n")
    wall = error_of(hanging, call_for("hangs", tmp_path, wall=0.5))
    idle = error_of(hanging, call_for("hangs", tmp_path, idle=0.5))
    assert wall.message == "mine ran for more than 0.5 s"
    assert idle.message == "mine printed nothing for 0.5 s"
    assert "--idle-timeout" in idle.guidance


def test_a_stopped_program_says_so(
    agent: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_grace(monkeypatch)
    running = agent(CONFORMING).run(call_for("hangs", tmp_path))
    messages = iter(running)
    assert next(messages).text == "hanging"
    running.stop()
    last = list(messages)[-1].outcome
    assert last is not None
    assert last.error is not None
    assert last.error.message == "mine was stopped before it ended"
    assert last.output == "hanging"


def test_a_program_that_vanished_is_an_outcome(tmp_path: Path) -> None:
    """Another step may have removed it since it was chosen."""
    gone = ExecAgent("mine", ["./gone"], tmp_path)
    error = error_of(gone, call_for("works", tmp_path))
    assert error.code == "PB-AGENT-FAILED"
    assert "mine could not be started" in error.message
    running = gone.run(call_for("works", tmp_path))
    running.stop()
    assert len(list(running)) == 1


def test_a_directory_that_vanished_is_an_outcome(agent: Write, tmp_path: Path) -> None:
    call = replace(call_for("works", tmp_path), cwd=tmp_path / "gone")
    assert "could not be started" in error_of(agent(CONFORMING), call).message


def test_secrets_are_redacted_even_where_terminal_sequences_hide_them(
    agent: Write, tmp_path: Path
) -> None:
    leaking = agent(
        "import sys\nprint('key hun\\x1b[0mter2')\nprint('hunter2', file=sys.stderr)\nsys.exit(1)\n"
    )
    call = replace(call_for("works", tmp_path), secrets=("hunter2",))
    messages = list(leaking.run(call))
    assert "hunter2" not in repr(messages)
    assert isinstance(messages[0], Message)
    assert messages[0].text.startswith("key ")


def test_too_much_output_is_cut_and_marked_once(agent: Write, tmp_path: Path) -> None:
    """tyr 32: output beyond the cap is cut and marked."""
    messages = list(agent(CONFORMING).run(call_for("shouts", tmp_path, cap=250)))
    assert [message.text for message in messages] == [
        "A" * 100,
        "A" * 100,
        "… cut: more than 250 bytes of output",
        "",
    ]
