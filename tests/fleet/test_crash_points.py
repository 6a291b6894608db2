"""A worker that is killed at any point of a take-up costs nothing that has settled.

The whole worker gets SIGKILL just before or just after one of its effects: a transaction, a push,
the start of a child. Another worker then brings the session to the same end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.controlled_time import eventually

from fleet import chains, crashing_worker, ledger
from fleet.local_fleet import ADA, Fleet
from playbook_supervisor.fleet.engine.worker import work
from playbook_supervisor.fleet.storage.rows import State

PLAYBOOK = """\
name: four
description: Four steps, a gate before the third
version: "1.1"
args: []
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: one, command: /work}
  - {id: two, command: /work}
  - {id: three, command: /work, autonomy: gate_always}
  - {id: four, command: /work}
"""
STEPS = {"one#1", "two#1", "three#1", "four#1"}
LEASE = 3.0  # seconds
MOST = 40
"""More points than a take-up has."""
STRIDE = int(os.environ.get("FLEET_STRIDE") or 9)
"""Of so many points one is tried, and the last; `make fuzz` tries all."""


@pytest.fixture
def steps(fleet: Fleet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The ledger of the steps. No process of the test lives on after it."""
    fleet.project.write(".playbooks/playbooks/four.yaml", PLAYBOOK)
    fleet.project.write(".claude/commands/work.md", "Do $ARGUMENTS.\n")
    fleet.project.write("tools/step", ledger.STEP).chmod(0o755)
    fleet.project.commit("Add a playbook")
    fleet.project.git("push", "-q", "origin", "HEAD")
    fleet.origin.git("config", "core.logAllRefUpdates", "always")
    settings = tmp_path / "config/playbook/worker.yaml"
    settings.write_text(f"transports: [file]\nlease: {LEASE:g}\n")
    fleet.settle(lease=LEASE)
    monkeypatch.setenv("FLEET_LEDGER", str(tmp_path / "ledger"))
    monkeypatch.setenv("FLEET_WORK", "1")
    monkeypatch.setenv("FLEET_MACHINE", "here")
    yield tmp_path / "ledger"
    assert eventually(lambda: not living(tmp_path))


def living(folder: Path) -> list[str]:
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"PLAYBOOK_WORKER={folder}/".encode() in environment.read_bytes():
                found.append(environment.parent.name)
        except OSError:  # it has ended
            continue
    return found


def killed_at(fleet: Fleet, point: int) -> list[str]:
    """Let a worker begin, and kill it at that point; the points that it came to."""
    log = fleet.folder.with_name("points")
    log.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, crashing_worker.__file__, str(point), str(log), "--drain"],
        cwd=fleet.project.root,
        env=fleet.project.environment,
        capture_output=True,
        check=False,
    )
    points = log.read_text().splitlines()
    assert done.returncode == (-signal.SIGKILL if len(points) == point else 0), done.stderr
    return points


def go_on(fleet: Fleet, session: str, state: State) -> None:
    """Let other workers do what is left."""
    until = time.monotonic() + 60
    while fleet.row(session).state is not state and time.monotonic() < until:
        work(
            fleet.database,
            fleet.settings,
            drain=True,
            tell=lambda _, sentence: fleet.told.append(sentence),
            log=lambda _, line: fleet.logged.append(line),
        )
    assert fleet.row(session).state is state, fleet.told


@pytest.mark.long
@pytest.mark.parametrize("point", sorted({*range(1, MOST, STRIDE), MOST}))
def test_a_worker_killed_at_any_point_costs_nothing_that_has_settled(
    fleet: Fleet, steps: Path, point: int
) -> None:
    session = fleet.submit("four", "steps: {}", agent=f"exec:{fleet.project.root}/tools/step")
    first = killed_at(fleet, point)
    go_on(fleet, session, State.WAITING)
    fleet.database.answer(session, "three#1?1", "continue", ADA)
    second = killed_at(fleet, point)
    go_on(fleet, session, State.COMPLETED)
    if point == MOST:
        assert len(first) < MOST, "there are more points"
        assert len(second) < MOST, "there are more points"
    judge(fleet, session, ledger.read(steps))


def judge(fleet: Fleet, session: str, attempts: list[ledger.Attempt]) -> None:
    chain = chains.read(fleet.origin.root)[session]
    settled = {session: chain.tip.done}
    assert {each.rpartition("#")[0] for each in chain.tip.done} == {
        each.rpartition("#")[0] for each in STEPS
    }
    answers = [chains.Answer("three#1?1", "continue", ADA)]
    broken = [
        *ledger.begun_after(attempts, settled),
        *ledger.repeated(attempts),
        *ledger.not_worked(attempts, settled),
        *map(str, ledger.overlaps(attempts)),
        *chains.broken_lines(chain),
        *chains.dropped(chain),
        *chains.undone(chain),
        *chains.done_twice(chain),
        *chains.answers_lost(chain, answers),
        *chains.answers_unasked(chain, answers),
        *chains.unpublished(chain),
    ]
    assert broken == []
    assert fleet.row(session).failures == 0
    audited = fleet.audit()
    assert audited.code == 0, audited.out
