"""SIGKILL at every write of a run with loops, also between two items: each item is done once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.crash_points import (
    STRIDE,
    Ana,
    Log,
    LoggedAgent,
    LoggedTree,
    LoggedWatcher,
    some_points,
    some_shards,
)
from support.stored_sessions import FEATURE, Scene, playbook, step

from playbook_supervisor.agents.script import ScriptAgent
from playbook_supervisor.drivers.headless import Runner
from playbook_supervisor.kernel.directives import Finish
from playbook_supervisor.kernel.vocabulary import EntryStatus
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.tree.session_tree import SessionTree

EACH = {"in": "$files", "as": "file", "max": 5}
STEPS = (
    step("fix", for_each=EACH, error_policy="retry_once", args="{{file}}"),
    step(
        "build",
        for_each={**EACH, "at_once": 2},
        args="{{file}}",
        autonomy="gate_always",
    ),
    step("last", command="cli cat", stdin="$fix.stdout"),
)
ITEMS = 3
DONE = {*(f"{name}[{item}]" for name in ("fix", "build") for item in (1, 2, 3)), "last"}
SCRIPT = """
steps:
  "fix[2]": [{fail: two tests are red}, {say: mended}]
"""


def drive(scene: Scene, log: Log, script: ScriptAgent) -> None:
    """Create the session or take it up, and drive it to its end."""
    scene.store = DiskStore(scene.store.checkout)
    if not (sessions := scene.store.ids()):
        text = playbook(*STEPS).replace(b"'1.0'", b"'1.1'", 1)
        declared = b"args:\n- {name: files, description: Them, required: true}\n"
        text = text.replace(b"args: []\n", declared, 1)
        args = {"files": "a.py b.py c.py"}
        sessions = [scene.store.create(playbook="sample", text=text, feature=FEATURE, args=args)]
    tree = LoggedTree(scene.store, sessions[0])
    tree.log = log
    pending = tree.look().pending
    runner = Runner(tree, LoggedAgent(script, log), LoggedWatcher(log), Ana(), by=Principal("Ana"))
    ending = runner.drive(lambda: tree.begin() if pending else tree.advance())
    assert ending.why == "completed", ending.snapshot


def broken_promises(scene: Scene, log: Log) -> Iterator[str]:
    scene.store = DiskStore(scene.store.checkout)
    sessions = scene.store.ids()
    if len(sessions) != 1:
        yield f"{len(sessions)} sessions"
        return
    tree = SessionTree(scene.store, sessions[0])
    if not isinstance(tree.look().directive, Finish):
        yield "the session has not ended"
    entries = scene.store.journal(sessions[0]).entries
    completed = {entry.id for entry in entries if entry.status is EntryStatus.DONE}
    done = [entry.step_id for entry in entries if entry.id in completed]
    if sorted(done) != sorted(DONE):
        yield f"done: {sorted(done)}"
    if len([gate for entry in entries for gate in entry.gates]) != 1:
        yield "the gate was not asked once"
    if {entry.items for entry in entries if entry.step_id != "last"} != {ITEMS}:
        yield "an entry does not know how many items there are"
    kept = json.loads(scene.file(tree, "outputs/fix.json").read_bytes())["items"]
    ended_last = {entry.id for entry in entries if entry.step_id.startswith("fix")} & completed
    if missing := ended_last - {each["attempt"] for each in kept}:
        yield f"the output of {missing} is lost"
    ran = [words[1] for words in log.lines() if words[0] == "ran"]
    yield from (f"{one} ran twice" for one in {one for one in ran if ran.count(one) > 1})
    yield from (f"{one} is not journaled" for one in set(ran) - {entry.id for entry in entries})
    settled: set[str] = set()
    for what, who, *_ in log.lines():
        if what == "ran" and who.partition("#")[0] in settled:
            yield f"{who} ran although its item was settled"
        if what == "settled" and who in completed:
            settled.add(who.partition("#")[0])


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shard", some_shards())
def test_a_run_with_loops_killed_at_any_write_is_resumed_to_its_end(
    tmp_path: Path, shard: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """cat NFR-1.2; kai NFR2: no item is lost, and none that is settled runs again."""
    point, broken = some_points(tmp_path / "work", shard, SCRIPT, drive, broken_promises)
    assert broken == []
    assert point > 100
    with capsys.disabled():
        print(f"\nkills survived: of every {STRIDE}th of {point} writes of loops")
