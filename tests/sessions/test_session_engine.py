"""The tree of one session: every call journals an observation and returns what is due next."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable

import pytest
from pytest_mock import MockerFixture
from support.scratch_project import FEATURE as SPECIFIED
from support.scratch_project import Project
from support.stored_sessions import FEATURE, Scene, ask, failed, finish, ids, playbook, step, work

from playbook_supervisor.cli.render import text
from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.directives import Failure, Finish, Outcome
from playbook_supervisor.kernel.state import Change
from playbook_supervisor.kernel.vocabulary import Resolution, SessionStatus
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.gate.gate_context import gate_context
from playbook_supervisor.sessions.gate.gate_text import lines
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.snapshot import running
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.git import checkout

OK = Outcome(output="all green")


def session_in(project: Project, *steps: dict[str, object] | str, feature: str = "") -> SessionTree:
    store = DiskStore(checkout.find(project.root))
    args = {"what": "the spec"}
    text = playbook(*steps).replace(
        b"args: []", b'args: [{name: what, description: "-", required: false}]'
    )
    name = store.create(playbook="sample", text=text, feature=feature or SPECIFIED, args=args)
    return SessionTree(store, name)


# ── what is outstanding ─────────────────────────────────────────────────────────────────────


def test_a_session_goes_from_step_to_step_to_its_end(scene: Scene) -> None:
    tree = scene.create("a", step("never", autonomy="skip"), "b")
    snapshot = tree.begin()
    assert (work(snapshot).id, snapshot.done, snapshot.total) == ("a#1", 0, 3)
    snapshot = tree.report("a#1", OK)
    assert [(event.change, event.entry.id) for event in snapshot.events] == [
        (Change.RETURNED, "a#1"),
        (Change.DONE, "a#1"),
        (Change.SKIPPED, "never#1"),
        (Change.LAUNCHED, "b#1"),
    ]
    assert (snapshot.done, snapshot.question) == (2, "")
    snapshot = tree.report("b#1", OK)
    assert snapshot.directive == Finish(SessionStatus.COMPLETED)
    assert running(snapshot) == ()
    assert ids(scene.journal(tree)) == ["a#1 done", "never#1 skipped", "b#1 done"]


def test_asking_twice_answers_the_same_and_writes_nothing(scene: Scene) -> None:
    tree = scene.create("a", step("b", autonomy="gate_always"))
    first = tree.begin()
    before = scene.file(tree, "journal.yaml").stat()
    assert tree.advance() == first.without_events() == scene.again(tree).advance()
    assert tree.look() == first.without_events()
    after = scene.file(tree, "journal.yaml").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert (first.repeated, tree.advance().repeated) == (False, True)


def test_a_repeated_report_changes_nothing_and_shows_what_is_due_now(scene: Scene) -> None:
    """Chapter 3, property 4."""
    tree = scene.create("a", "b", "c")
    tree.begin()
    tree.report("a#1", OK)
    before = scene.file(tree, "journal.yaml").read_bytes()
    snapshot = tree.report("a#1", failed("no, it broke"))
    assert (work(snapshot).id, snapshot.events) == ("b#1", ())
    assert scene.file(tree, "journal.yaml").read_bytes() == before


def test_an_unexpected_observation_is_refused_and_changes_nothing(scene: Scene) -> None:
    tree = scene.create("a", "b")
    tree.begin()
    before = scene.file(tree, "journal.yaml").read_bytes()
    for attempt in ("b#1", "a#2", "zzz#1", ""):
        with pytest.raises(StateError, match="outstanding is the work of a#1"):
            tree.report(attempt, OK)
    assert scene.file(tree, "journal.yaml").read_bytes() == before
    assert work(tree.report("a#1", OK)).id == "b#1"


def test_a_workers_outcome_is_written_before_anything_is_judged(
    scene: Scene, mocker: MockerFixture
) -> None:
    """An agent's work is expensive and must not be repeated because a check was lost."""
    tree = scene.create(step("plan", postconditions=["plan_exists"]))
    tree.begin()
    broken = RuntimeError("the disk fell out")
    mocker.patch("playbook_supervisor.project.conditions.conditions.probe", side_effect=broken)
    with pytest.raises(RuntimeError):
        tree.report("plan#1", OK)
    mocker.stopall()
    (entry,) = scene.journal(tree)
    assert (entry["status"], entry["output"]) == ("in_progress", "all green")
    assert "returned_at" in entry
    scene.write(f"specs/{FEATURE}/plan.md")
    assert isinstance(scene.again(tree).advance().directive, Finish)


@pytest.mark.parametrize("report", [SessionTree.report, SessionTree.note_return])
def test_a_huge_outcome_is_shortened_in_the_journal(
    scene: Scene, report: Callable[[SessionTree, str, Outcome], object]
) -> None:
    """A worker cannot fill the journal, which is read whole again and again (cat NFR-1.1)."""
    tree = scene.create("a")
    tree.begin()
    giant = Failure("PB-AGENT-FAILED", "m" * 1_000_000, "g" * 2_001, "c" * 2_000)
    report(tree, "a#1", Outcome(giant, "\n" + "o" * 500 + "\nand more"))
    (entry,) = scene.store.journal(tree.id).entries
    assert entry.output == "…" + "o" * 490 + "\nand more"
    assert entry.error == "m" * 1_999 + "…"
    assert entry.error_guidance == "g" * 1_999 + "…"
    assert entry.error_cause == "c" * 2_000


def test_a_return_can_be_noted_without_launching_anything(scene: Scene) -> None:
    tree = scene.create("a", "b")
    tree.begin()
    tree.note_return("a#1", OK)
    assert ids(scene.journal(tree)) == ["a#1 in_progress"]
    assert work(tree.advance()).id == "b#1"


# ── gates ───────────────────────────────────────────────────────────────────────────────────


def test_a_gate_waits_for_the_answer_that_names_it(scene: Scene) -> None:
    """cat PL-6: however long it takes; chapter 3, property 6."""
    tree = scene.create(step("a", autonomy="gate_always"))
    snapshot = tree.begin()
    assert "Run /x (step a) now" in snapshot.question
    assert snapshot.entry(ask(snapshot).member).id == "a#1"
    with pytest.raises(StateError):
        tree.answer("a#1?2", Resolution.CONTINUE, "yes", Principal("Ana"))
    with pytest.raises(StateError):
        tree.answer("a#1?1", Resolution.RETRY, "again", Principal("Ana"))
    scene.clock.now += 365 * 86_400_000
    answered = tree.answer("a#1?1", Resolution.CONTINUE, "yes", Principal("Ana <ana@example.org>"))
    assert not running(answered)
    snapshot = tree.advance().after(answered)
    assert [event.change for event in snapshot.events] == [Change.ANSWERED, Change.LAUNCHED]
    (entry,) = scene.journal(tree)
    assert (entry["human_response"], entry["decision"]) == ("yes", "gate")
    assert entry["gates"][0]["by"] == "Ana <ana@example.org>"


def test_the_context_of_a_gate_is_what_helps_to_answer_it(project: Project) -> None:
    """The agent's last words, evidence, and what has changed since the beginning."""
    both = ["spec_exists", "plan_exists"]
    tree = session_in(project, step("plan", postconditions=both, error_policy="gate"))
    tree.begin()
    assert gate_context(tree.look()) is None
    project.write("README.md", "# Another\n")
    snapshot = tree.report("plan#1", OK)
    said, spec, branch, *changed = lines(gate_context(snapshot))
    assert spec.startswith(f"✓ spec_exists: specs/{SPECIFIED}/spec.md")
    assert said == "plan#1 said last: all green"
    total = "1 file changed, 1 insertion(+), 1 deletion(-)"
    assert branch == f"branch {SPECIFIED}, no commits, {total} since the session began"
    assert changed == ["  README.md | 2 +-"]


# ── endings ─────────────────────────────────────────────────────────────────────────────────


def test_a_failed_session_can_be_resumed(scene: Scene) -> None:
    tree = scene.create("a", "b")
    tree.begin()
    assert tree.report("a#1", failed()).directive == Finish(SessionStatus.FAILED)
    snapshot = tree.go_on(retry=True)
    assert work(snapshot).id == "a#2"
    said = [text.event_line(event, snapshot, 1_771_496_426_000) for event in snapshot.events]
    assert said[0] == "2026-02-19T10:20:26Z a#1 is retried"  # now, and not when it failed
    assert scene.journal(tree)[0]["resolution"] == "retry"
    finish(tree, tree.advance())
    assert scene.manifest(tree)["status"] == "completed"


# ── what a worker needs ─────────────────────────────────────────────────────────────────────


def test_work_names_the_command_as_it_is_installed(project: Project) -> None:
    """kai FR23; the playbook's spelling and the installed one may differ."""
    (project.root / ".claude/commands/speckit.plan.md").rename(
        project.root / ".claude/commands/speckit-plan.md"
    )
    tree = session_in(
        project,
        step("plan", command="/speckit.plan", args="read {{what}}, \n"),
        step("other", command="/unheard-of"),
    )
    snapshot = tree.begin()
    ready = tree.work(snapshot, work(snapshot))
    assert (ready.command, ready.args) == ("/speckit-plan", "read the spec,")
    assert ready.typed == "/speckit-plan read the spec,"
    snapshot = tree.report("plan#1", OK)
    assert tree.work(snapshot, work(snapshot)).typed == "/unheard-of"


# ── others at the same time ─────────────────────────────────────────────────────────────────


def test_a_check_that_starts_a_program_does_not_hold_the_lock(
    scene: Scene, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While gh is asked, another process answers the check; what is due then counts."""
    folder = tmp_path_factory.mktemp("bin")
    fifo = folder / "wait"
    os.mkfifo(fifo)
    answer = json.dumps([{"number": 7, "url": "https://forge.example/7", "state": "OPEN"}])
    (folder / "gh").write_text(f"#!/bin/sh\n[ -e {folder}/slow ] && cat {fifo}\necho '{answer}'\n")
    (folder / "gh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    tree = scene.create(step("pr", postconditions=["pr_created"]), "next")
    tree.begin()
    tree.note_return("pr#1", OK)
    (folder / "slow").touch()
    seen: list[str] = []
    slow = threading.Thread(target=lambda: seen.append(work(scene.again(tree).advance()).id))
    slow.start()
    with fifo.open("w") as release:  # opens when the slow one reads, that is, is asking
        (folder / "slow").unlink()
        assert work(tree.advance()).id == "next#1"
        release.write("")
    slow.join(120)
    assert seen == ["next#1"]
    assert ids(scene.journal(tree)) == ["pr#1 done", "next#1 in_progress"]
