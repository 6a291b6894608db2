"""Who drives a session, and how another terminal sends requests to a runner."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.drivers.driver_lock import Driver, Request
from playbook_supervisor.errors import StateError


@pytest.fixture(autouse=True)
def former() -> Iterator[None]:
    """Restores the test runner's signal handlers."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, driver_lock.request_signal())
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


def test_a_request_before_signal_handling_is_handled_later(tmp_path: Path) -> None:
    heard: list[int] = []
    with driver_lock.driving(tmp_path, "exec:mine"):
        assert not driver_lock.send_request(tmp_path, Request("pause", by="Ada"), timeout=0.0)
        with driver_lock.handling_signals(heard.append, tmp_path):
            assert heard == [driver_lock.request_signal()]
            os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [driver_lock.request_signal(), signal.SIGTERM]
        assert driver_lock.take_request(tmp_path) == Request("pause", by="Ada")
    assert driver_lock.take_request(tmp_path) is None, "a request is taken once"


@pytest.mark.parametrize(
    ("before", "told"), [(signal.SIG_DFL, [signal.SIGHUP]), (signal.SIG_IGN, [])]
)
def test_a_closed_terminal_interrupts_except_under_nohup(
    before: signal.Handlers, told: list[int], tmp_path: Path
) -> None:
    signal.signal(signal.SIGHUP, before)
    heard: list[int] = []
    with driver_lock.handling_signals(heard.append, tmp_path):
        os.kill(os.getpid(), signal.SIGHUP)
    assert heard == told
    assert signal.getsignal(signal.SIGHUP) is before


def test_a_request_of_an_earlier_drive_is_forgotten(tmp_path: Path) -> None:
    with driver_lock.driving(tmp_path, "exec:mine"):
        driver_lock.send_request(tmp_path, Request("abort"), timeout=0.0)
    heard: list[int] = []
    with (
        driver_lock.driving(tmp_path, "exec:mine"),
        driver_lock.handling_signals(heard.append, tmp_path),
    ):
        assert heard == []


def test_outside_the_main_thread_no_signal_is_handled(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def drive() -> None:
        with (
            driver_lock.driving(tmp_path, "mine"),
            driver_lock.handling_signals(seen.append, tmp_path),
        ):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=drive)
    thread.start()
    thread.join()
    assert seen == [before]


def test_an_unreadable_driver_file_names_no_driver(tmp_path: Path) -> None:
    with driver_lock.driving(tmp_path, "mine"):
        (tmp_path / "driver.json").write_text("[]")
        assert driver_lock.living(tmp_path) == Driver(0, "unknown")
        (tmp_path / "request.json").write_text('{"what": "pause", "unknown": 1}')
        assert driver_lock.take_request(tmp_path) is None
