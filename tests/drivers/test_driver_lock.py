"""Who drives a session, and how a person at another terminal sends requests to a runner."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest
from support.scratch_project import Project

from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.drivers.driver_lock import Driver, Request
from playbook_supervisor.errors import StateError
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.process import ancestry, channel
from playbook_supervisor.system.process.channel import Connection

pytestmark = pytest.mark.measured


@pytest.fixture(autouse=True)
def former() -> Iterator[None]:
    """Restores the test runner's signal handlers."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_a_driver_is_known_while_it_lives_and_no_longer(tmp_path: Path) -> None:
    assert driver_lock.living(tmp_path) is None
    with driver_lock.driving(tmp_path, "exec:mine"):
        assert driver_lock.living(tmp_path) == Driver(os.getpid(), "exec:mine")
        refused = pytest.raises(StateError, match=str(os.getpid()))
        with refused as caught, driver_lock.driving(tmp_path, "two"):
            pass
        assert f"`playbook pause {tmp_path.name}`" in caught.value.guidance
    assert driver_lock.living(tmp_path) is None


def test_the_process_number_is_not_kept_after_the_drive(tmp_path: Path) -> None:
    with driver_lock.driving(tmp_path, "exec:mine"):
        pass
    assert json.loads((tmp_path / "driver.json").read_text())["pid"] == 0
    assert driver_lock.ever_driven(tmp_path), "that a runner drove here is remembered"


@pytest.mark.parametrize(
    ("before", "told"), [(signal.SIG_DFL, [signal.SIGHUP]), (signal.SIG_IGN, [])]
)
def test_a_closed_terminal_interrupts_except_under_nohup(
    before: signal.Handlers, told: list[int]
) -> None:
    signal.signal(signal.SIGHUP, before)
    heard: list[int] = []
    with driver_lock.handling_signals(heard.append):
        os.kill(os.getpid(), signal.SIGHUP)
    assert heard == told
    assert signal.getsignal(signal.SIGHUP) is before


def test_outside_the_main_thread_no_signal_is_handled() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def drive() -> None:
        with driver_lock.handling_signals(seen.append):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=drive)
    thread.start()
    thread.join()
    assert seen == [before]


# ── requests ────────────────────────────────────────────────────────────────────────────────

# Sends a request as `playbook pause` does; prints how it ended.
SENDER = """
import sys
from pathlib import Path
from playbook_supervisor.drivers.driver_lock import Request, send_request
from playbook_supervisor.errors import StateError
try:
    send_request(Path(sys.argv[1]), Request("abort", "enough", "Ada"), timeout=float(sys.argv[2]))
    print("released")
except StateError as error:
    print(error.code, error.message)
"""
OPENED = f"import os; os.open(os.environ['WORKER'], os.O_RDONLY)\n{SENDER}"


class Session:
    """A session's private folder, and the requests that its runner has taken."""

    def __init__(self, project: Project) -> None:
        self.here = checkout.find(project.root)
        self.private = self.here.runtime / "20260219-a7k"
        self.private.mkdir(parents=True)
        self.taken: SimpleQueue[Request] = SimpleQueue()

    def sends(
        self, *, timeout: float = 60, code: str = SENDER, **env: str
    ) -> subprocess.Popen[str]:
        """Another process sends a request."""
        return subprocess.Popen(
            [sys.executable, "-c", code, str(self.private), str(timeout)],
            env={**os.environ, **env},
            stdout=subprocess.PIPE,
            text=True,
        )

    def drives(self) -> Drives:
        return Drives(self)


class Drives:
    """The test drives the session, and takes requests from `listen` on."""

    def __init__(self, session: Session) -> None:
        self._driving = driver_lock.driving(session.private, "mine")
        self._taking = driver_lock.taking_requests(session.here, session.private, session.taken.put)

    def __enter__(self) -> Callable[[], None]:
        self._driving.__enter__()
        return lambda: self._taking.__enter__()

    def __exit__(self, *error: object) -> None:
        self._taking.__exit__(None, None, None)
        self._driving.__exit__(None, None, None)


@pytest.fixture
def session(project: Project, monkeypatch: pytest.MonkeyPatch) -> Session:
    """Its runner is this process, which must not count as the runner of what it starts."""
    monkeypatch.setattr("playbook_supervisor.drivers.own_agents.RUNNER", "not the driver")
    return Session(project)


def said(sender: subprocess.Popen[str]) -> str:
    out, _ = sender.communicate(timeout=60)
    return out.strip()


def test_a_request_arrives_and_its_sender_waits_for_the_release(session: Session) -> None:
    with session.drives() as listen:
        listen()
        sender = session.sends()
        assert session.taken.get(timeout=60) == Request("abort", "enough", "Ada")
        still_waiting = sender.poll() is None
        assert still_waiting
    assert said(sender) == "released"
    assert not (session.private / channel.NAME).exists()


def test_a_request_to_a_runner_that_is_just_starting_is_not_lost(session: Session) -> None:
    with session.drives() as listen:
        sender = session.sends()
        assert sender.poll() is None
        listen()
        assert session.taken.get(timeout=60).what == "abort"
    assert said(sender) == "released"


def test_a_runner_that_takes_no_requests_is_named(session: Session) -> None:
    """The socket was removed, or the file system has none."""
    with session.drives() as listen:
        listen()
        (session.private / channel.NAME).unlink()
        refused = said(session.sends(timeout=0.5))
    assert refused == (
        f"PB-STATE-DRIVEN session 20260219-a7k is being driven by process {os.getpid()}, which "
        "takes no requests"
    )


def test_a_socket_of_another_process_is_not_the_runners(session: Session) -> None:
    """An agent that puts its own there learns no words and does not keep the sender waiting."""
    heard: list[bytes] = []
    code = (
        "import socket, sys\n"
        "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()\n"
        "print('listens', flush=True)\n"
        "while True:\n"
        "    print(s.accept()[0].recv(100), flush=True)\n"
    )
    with session.drives() as listen:
        listen()
        (session.private / channel.NAME).unlink()
        with subprocess.Popen(
            [sys.executable, "-c", code, channel.NAME],
            cwd=session.private,
            stdout=subprocess.PIPE,
        ) as impostor:
            assert impostor.stdout is not None
            assert impostor.stdout.readline() == b"listens\n"
            assert "takes no requests" in said(session.sends(timeout=0.5))
            impostor.kill()
            heard = [line for line in impostor.stdout if line.strip() != b"b''"]
    assert heard == []


def test_a_request_from_below_an_agent_is_refused(session: Session) -> None:
    """The kernel tells the runner which process it is; what the process says does not count."""
    worker = session.private / "worker-plan#1"
    worker.touch()
    with session.drives() as listen:
        listen()
        refused = said(session.sends(code=OPENED, WORKER=str(worker)))
        assert refused.startswith("PB-STATE-HUMAN-ONLY the runner of session 20260219-a7k refuses")
        assert "the agent of plan#1 in session 20260219-a7k has started this process" in refused
    assert session.taken.empty()


def test_a_request_of_a_process_that_has_gone_is_refused(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ancestry, "process", lambda pid: None)
    with session.drives() as listen:
        listen()
        assert "its process is unknown" in said(session.sends())
    assert session.taken.empty()


class TestHandedOver:
    """What a runner is given while it goes on driving."""

    def test_arrives_and_is_not_waited_for(self, session: Session) -> None:
        with session.drives() as listen:
            listen()
            driver_lock.hand_over(session.private, Request("pause", "", "Ada"))
            assert session.taken.get(timeout=60) == Request("pause", "", "Ada")
            assert driver_lock.living(session.private) is not None

    def test_is_refused_where_the_sender_is_no_person(
        self, session: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ancestry, "process", lambda pid: None)
        with session.drives() as listen:
            listen()
            with pytest.raises(StateError, match="its process is unknown") as refused:
                driver_lock.hand_over(session.private, Request("pause", "", "Ada"))
        assert refused.value.code == "PB-STATE-HUMAN-ONLY"


@pytest.mark.parametrize("line", [b"abort", b'{"what": "pause", "unknown": 1}'])
def test_what_is_no_request_does_nothing(session: Session, line: bytes) -> None:
    with session.drives() as listen:
        listen()
        connection = Connection(session.private)
        assert connection.ask(line) == b"it cannot be understood"
        connection.close()
    assert session.taken.empty()


def test_a_connection_that_says_nothing_does_not_keep_the_runner(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "_PROMPT", 0.3)
    with session.drives() as listen:
        listen()
        silent = Connection(session.private)
    silent.close()


def test_a_folder_may_have_a_long_name(tmp_path: Path) -> None:
    """A socket's address has about a hundred bytes."""
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    listener = channel.Listener(deep, lambda pid: "", lambda data: data.decode().upper())
    connection = Connection(deep)
    assert (connection.peer, connection.ask(b"heard")) == (os.getpid(), b"HEARD")
    connection.close()
    listener.close()


def test_without_proc_a_short_link_names_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "playbook_supervisor.system.process.channel.os.path.isdir", lambda path: False
    )
    test_a_folder_may_have_a_long_name(tmp_path)
