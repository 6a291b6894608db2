"""The time of a session that goes on with another clock: it never goes back, and lasts are true."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.scratch_project import FEATURE, Project
from support.stored_sessions import BEGAN, Clock, Scene, playbook, step, work

from playbook_supervisor.audit.examination import examine_tree
from playbook_supervisor.commands.views import session_files
from playbook_supervisor.formats.timestamps import to_time
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.files.session_clock import NAME, SessionClock
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.git import checkout

HOUR = 3_600_000
OK = Outcome(output="done")
ANN = Principal("Ann <ann@x.org>")


def findings(scene: Scene, now: int) -> list[str]:
    """What the audit finds in all sessions, if this is the time."""
    records = list(session_files.find((), every=True, cwd=scene.root))
    assert records
    return [
        f"{problem.code}: {problem.message}"
        for record in records
        for report in examine_tree(record, now)
        for file in report.files
        for problem in file.problems
    ]


def elsewhere(scene: Scene, tree: SessionTree, *, later: int) -> SessionTree:
    """The session in a clone on a machine whose clock shows a time `later` by so many ms."""
    scene.clock.now += later
    return scene.cloned(tree)


def minutes_pass(scene: Scene, minutes: int) -> None:
    scene.clock.now += minutes * 60_000


def test_durations_are_true_on_a_machine_whose_clock_is_an_hour_behind(scene: Scene) -> None:
    first = scene.create("a", "b", step("c", autonomy="gate_always"))
    first.begin()
    minutes_pass(scene, 10)
    first.report("a#1", OK)
    second = elsewhere(scene, first, later=-HOUR)
    second.lose(work(second.advance()))
    assert work(second.advance()).id == "b#2"
    minutes_pass(scene, 5)
    second = scene.again(second)  # each call of a client is a process of its own
    second.report("b#2", OK)
    minutes_pass(scene, 20)
    second = scene.again(second)
    second.answer("c#1?1", Resolution.CONTINUE, "continue", ANN)
    work(second.advance())
    minutes_pass(scene, 2)
    ended = second.report("c#1", OK)
    entries = {entry["step_id"]: entry for entry in scene.journal(second)}
    lasted = {name: round(entry["duration_seconds"] / 60) for name, entry in entries.items()}
    assert lasted == {"a": 10, "b": 5, "c": 22}
    assert findings(scene, ended.manifest.completed_at or 0) == []


def test_nothing_is_earlier_than_what_a_machine_with_a_fast_clock_wrote(scene: Scene) -> None:
    first = scene.create("a", "b")
    scene.clock.now += HOUR
    first.begin()
    first.report("a#1", OK)
    second = elsewhere(scene, first, later=-HOUR)
    latest = second.look().state.latest
    second.report("b#1", OK)
    (entry, _) = reversed(scene.journal(second))
    assert entry["completed_at"] > to_time(latest)
    assert scene.store.clock.ahead == 0
    assert second.store.clock.ahead == pytest.approx(HOUR, abs=10_000)


def test_a_clock_that_is_set_back_during_a_run_counts_on(scene: Scene) -> None:
    tree = scene.create("a", "b")
    tree.begin()
    scene.clock.now -= HOUR
    tree.report("a#1", OK)
    minutes_pass(scene, 3)
    tree.report("b#1", OK)
    assert scene.journal(tree)[1]["duration_seconds"] == pytest.approx(180, abs=5)


@pytest.mark.parametrize("other", [HOUR, -HOUR])
def test_sessions_follow_the_clock_that_they_are_given(scene: Scene, other: int) -> None:
    """As the workers of a fleet follow the clock of its database."""
    scene.store.clock.follow(scene.clock.now + other)
    tree = SessionTree(scene.fresh(), scene.create("a").id)
    began = tree.begin().manifest.started_at
    assert began - BEGAN == pytest.approx(other, abs=10_000)
    minutes_pass(scene, 1)
    scene.again(tree).report("a#1", OK)
    (entry,) = scene.journal(tree)
    assert entry["duration_seconds"] == pytest.approx(60, abs=5)


def test_a_new_session_owes_nothing_to_an_earlier_journal(scene: Scene) -> None:
    first = scene.create("a")
    scene.clock.now += HOUR
    first.begin()
    first.report("a#1", OK)
    scene.clock.now -= HOUR
    scene.again(first).advance()
    assert scene.fresh().clock.ahead > 0
    scene.store = scene.fresh()
    second = scene.create("b")
    assert scene.store.manifest(second.id).started_at < BEGAN + HOUR
    assert scene.fresh().clock.ahead == 0


@pytest.mark.parametrize(
    "kept", [b"", b"{", b"[]", b'{"ahead": "x", "followed": 0}', b'{"ahead": 1e99, "followed": 0}']
)
def test_a_damaged_file_counts_as_none(tmp_path: Path, kept: bytes) -> None:
    (tmp_path / NAME).write_bytes(kept)
    clock = SessionClock(tmp_path, Clock())
    assert clock.ahead == 0
    clock.keep_up_with(BEGAN + HOUR)
    assert SessionClock(tmp_path, Clock()).ahead == pytest.approx(HOUR, abs=10_000)


def test_a_commit_of_the_session_is_of_the_sessions_time(project: Project) -> None:
    """Else the audit would find journal entries that are later than their commit."""
    project.write(".playbooks/config.yaml", "commit_sessions: step\n")
    project.commit("Commit each step")
    store = DiskStore(checkout.find(project.root))
    store.clock.follow(store.clock() + HOUR)
    name = store.create(playbook="sample", text=playbook("a", "b"), feature=FEATURE, args={})
    tree = SessionTree(store, name)
    tree.begin()
    snapshot = tree.report("a#1", OK)
    assert "the session is committed after a" in " ".join(snapshot.notices)
    committed = int(project.git("log", "-1", "--format=%ct")) * 1000
    assert committed == pytest.approx(store.clock(), abs=60_000)
    (record,) = session_files.find((name,), cwd=project.root)
    committed_record = session_files.with_history(record)
    (report,) = examine_tree(committed_record, store.clock())
    assert report.ok, report
