"""A retry by `retry:N` waits for its time."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.stored_sessions import FEATURE, Clock, Scene, playbook, unsynced
from support.task_run import Watcher

from playbook_supervisor.drivers.headless import Runner
from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.vocabulary import Autonomy, EntryStatus
from playbook_supervisor.sessions.tree.session_tree import SessionTree

FAILED = Outcome(Failure("PB-STEP-FAILED", "exit status 1"))
FLAKY = (
    f"""cli {sys.executable} -c "import os; os.path.exists('up') or (open('up', 'w'), 1 / 0)" """
)
FAILS = "cli false"


class RealClock(Clock):
    def __call__(self) -> int:
        return time.time_ns() // 1_000_000


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    made = unsynced(monkeypatch, tmp_path)
    made.clock = RealClock()
    made.store = made.fresh()
    return made


def created(scene: Scene, command: str, policy: str = "retry:3") -> SessionTree:
    step = Step("flaky", command, Autonomy.AUTO, ErrorPolicy.read(policy))
    definition = Playbook("sample", "A sample.", "1.1", (), (step,))
    session_id = scene.store.create(
        playbook="sample",
        text=playbook("stand-in"),
        feature=FEATURE,
        args={},
        definition=definition,
    )
    return SessionTree(scene.store, session_id)


class Told(Watcher):
    """Does something as soon as a notice is shown."""

    def __init__(self, then: Callable[[], object]) -> None:
        super().__init__()
        self.then = then

    def on_notice(self, text: str) -> None:
        super().on_notice(text)
        threading.Thread(target=self.then).start()


def failed_once(scene: Scene, policy: str = "retry:3") -> SessionTree:
    """A session whose first attempt has just failed, as a client reports it."""
    tree = created(scene, FAILS, policy)
    tree.begin()
    tree.report("flaky#1", FAILED)
    return tree


def test_a_retry_begins_when_its_time_has_come_and_people_are_told(scene: Scene) -> None:
    watcher = Watcher()
    tree = created(scene, FLAKY)
    result = Runner(tree, None, watcher).drive(tree.begin)
    first, second = result.entries
    assert result.why == "completed"
    assert (first.status, second.status) == (EntryStatus.FAILED, EntryStatus.DONE)
    assert second.started_at - (first.completed_at or 0) >= 1000
    assert watcher.notices[0] == "flaky#2: retry in 1.0 s"


def test_an_interruption_ends_the_wait_and_the_next_runner_waits_for_the_rest(
    scene: Scene,
) -> None:
    tree = created(scene, FLAKY)
    watcher = Told(lambda: os.kill(os.getpid(), signal.SIGTERM))
    result = Runner(tree, None, watcher).drive(tree.begin)
    assert (result.why, result.signal) == ("interrupted", signal.SIGTERM)
    assert [entry.id for entry in result.entries] == ["flaky#1"]
    assert result.snapshot.manifest.status == "in_progress"
    again = scene.again(tree)
    resumed = Runner(again, None, Watcher()).drive(again.advance)
    first, second = resumed.entries
    assert resumed.why == "completed"
    assert second.started_at - (first.completed_at or 0) >= 1000


def test_a_clock_that_steps_back_makes_a_wait_no_longer(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a wait of a second could last for a day."""
    tree = failed_once(scene, "retry:10")
    early = time.time_ns() // 1_000_000 - 86_400_000
    monkeypatch.setattr(RealClock, "__call__", lambda _: early)
    snapshot = tree.advance()
    assert (snapshot.events, tree.delay(snapshot)) == ((), 1)
    monkeypatch.setattr(RealClock, "__call__", lambda _: early + 1000)
    assert [event.entry.id for event in tree.advance().events] == ["flaky#2"]


def test_an_interrupted_attempt_is_handed_out_again_at_once(scene: Scene) -> None:
    tree = created(scene, FAILS)
    tree.begin()
    tree.interrupt()
    assert [event.entry.id for event in tree.advance().events] == ["flaky#2"]
