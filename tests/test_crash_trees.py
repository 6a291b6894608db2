"""SIGKILL at every write of a run with child sessions: nothing is lost, or done twice, in any."""

from __future__ import annotations

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
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.kernel.vocabulary import EntryStatus
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.tree.session_tree import SessionTree

TOP = (
    step("first"),
    step("one", command="playbook one", parallel_group="g"),
    step("two", command="playbook two", parallel_group="g"),
    step("last"),
)
CHILDREN = {
    "one": (step("plan", postconditions=["plan_exists"]), step("pr", autonomy="gate_always")),
    "two": (step("fix", error_policy="retry_once"), step("inner", command="playbook deep")),
    "deep": (step("note"), step("check", autonomy="gate_always")),
}
SCRIPT = """
steps:
  plan: {write: {"specs/{{feature}}/plan.md": "a plan of {{attempt}}"}}
  fix: [{fail: two tests are red}, {say: mended}]
"""
DONE = {"first", "one", "one/plan", "one/pr", "two", "two/fix", "two/inner", "last"} | {
    "two/inner/note",
    "two/inner/check",
}


def children() -> dict[str, bytes]:
    return {
        name: playbook(*steps).replace(b"sample", name.encode(), 1).replace(b"1.0", b"1.1", 1)
        for name, steps in CHILDREN.items()
    }


def tops_of(scene: Scene) -> list[str]:
    """The sessions that a person began."""
    return [each for each in scene.store.ids() if not scene.store.manifest(each).parent]


def drive(scene: Scene, log: Log, script: ScriptAgent) -> None:
    """Create the session or take it up, and drive it to its end."""
    scene.store = DiskStore(scene.store.checkout)
    if sessions := tops_of(scene):
        (session_id,) = sessions
    else:
        text = playbook(*TOP).replace(b"1.0", b"1.1", 1)
        session_id = scene.store.create(
            playbook="sample", text=text, feature=FEATURE, args={}, children=children()
        )
    session_tree = LoggedTree(scene.store, session_id)
    session_tree.log = log
    pending = session_tree.look().pending
    runner = Runner(
        session_tree, LoggedAgent(script, log), LoggedWatcher(log), Ana(), by=Principal("Ana")
    )
    ending = runner.drive(lambda: session_tree.begin() if pending else session_tree.advance())
    assert ending.why == "completed", ending.snapshot


def entries_of(scene: Scene, session: str, path: str = "") -> Iterator[tuple[str, str, Entry]]:
    """Session, path and entry of every attempt of a tree: `two#1/fix#2`."""
    for entry in scene.store.journal(session).entries:
        yield session, f"{path}{entry.id}", entry
        if entry.session:
            yield from entries_of(scene, entry.session, f"{path}{entry.id}/")


def steps_of(path: str) -> str:
    """`two/fix` of `two#1/fix#2`."""
    return "/".join(part.partition("#")[0] for part in path.split("/"))


def broken_promises(scene: Scene, log: Log) -> Iterator[str]:
    scene.store = DiskStore(scene.store.checkout)
    tops = tops_of(scene)
    if len(tops) != 1:
        yield f"{len(tops)} sessions"
        return
    if not isinstance(SessionTree(scene.store, tops[0]).look().directive, Finish):
        yield "the session has not ended"
    tree = list(entries_of(scene, tops[0]))
    if strays := set(scene.store.ids()) - {session for session, _, _ in tree}:
        yield f"sessions of no tree: {strays}"
    done = [steps_of(path) for _, path, entry in tree if entry.status is EntryStatus.DONE]
    if sorted(done) != sorted(DONE):
        yield f"done: {sorted(done)}"
    ran = [words[1] for words in log.lines() if words[0] == "ran"]
    yield from (f"{one} ran twice" for one in {one for one in ran if ran.count(one) > 1})
    yield from (f"{one} is in no journal" for one in set(ran) - {path for _, path, _ in tree})
    settled: set[str] = set()
    completed = {path for _, path, entry in tree if entry.status is EntryStatus.DONE}
    for what, who, *_ in log.lines():
        if what == "ran" and steps_of(who) in settled:
            yield f"{who} ran although it was settled"
        if what == "settled" and who in completed:
            settled.add(steps_of(who))
    answered = [words[1] for words in log.lines() if words[0] == "answered"]
    gates = {f"{path}?{gate.id.partition('?')[2]}" for _, path, e in tree for gate in e.gates}
    yield from (f"the answer to {one} was lost" for one in set(answered) - gates)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shard", some_shards())
def test_a_run_with_children_killed_at_any_write_is_resumed_to_its_end(
    tmp_path: Path, shard: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """cat FR-9.2; kai NFR2."""
    point, broken = some_points(tmp_path / "work", shard, SCRIPT, drive, broken_promises)
    assert broken == []
    assert point > 200
    with capsys.disabled():
        print(f"\nkills survived: of every {STRIDE}th of {point} writes of a tree")
