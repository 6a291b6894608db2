"""The evidence of a check: records of the launch, human decisions, and the files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.stored_sessions import FEATURE, Scene, ask, ids, step, work

from playbook_supervisor.kernel.directives import Finish, Outcome
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.sessions.tree.session_tree import SessionTree

PLAN = f"specs/{FEATURE}/plan.md"
REPORT = f".agreements/{FEATURE}/check-report.md"
VERDICT = f".qa/{FEATURE}/verdict.md"
BREAKING = "---\nverdict: FAIL\nbreaking: true\n---\n"
OK = Outcome(output="ok")
GATED = {"error_policy": "gate"}


def answer(tree: SessionTree, snapshot: Snapshot, resolution: Resolution) -> Snapshot:
    before = tree.answer(ask(snapshot).id, resolution, resolution.value, Principal("Ana"))
    return tree.advance().after(before)


def forget(scene: Scene, tree: SessionTree) -> SessionTree:
    """Only the journal is left, as with a session of kai's own tools."""
    scene.file(tree, "records.yaml").unlink(missing_ok=True)
    return scene.cloned(tree)


# ── written since the launch ────────────────────────────────────────────────────────────────


def test_a_verdict_from_before_the_launch_does_not_pass_this_run(scene: Scene) -> None:
    """Last week's PASS does not pass today's run."""
    scene.write(VERDICT, "verdict: PASS\n")
    tree = scene.create(step("qa", postconditions=["qa_verdict_pass"]))
    tree.begin()
    tree.report("qa#1", OK)
    (entry,) = scene.journal(tree)
    assert entry["status"] == "failed"
    assert "not written since the launch" in entry["error"]


# ── a lost attempt ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("before", "after", "finished"),
    [
        (None, "a plan\n", True),
        ("template\n", "a plan\n", True),
        ("a plan\n", None, False),
        ("a plan\n", "", False),
        (None, None, False),
    ],
    ids=["made", "changed", "untouched", "emptied", "missing"],
)
def test_a_lost_attempt_had_finished_if_its_artifacts_are_there_and_its_own(
    scene: Scene, before: str | None, after: str | None, finished: bool
) -> None:
    """What the attempt did not touch is no evidence that it finished."""
    if before is not None:
        scene.write(PLAN, before)
    tree = scene.create(step("plan", postconditions=["plan_exists"]), "next")
    snapshot = tree.begin()
    if after is not None:
        scene.write(PLAN, after)
    snapshot = scene.again(tree).lose(work(snapshot))
    journal = scene.journal(tree)
    if finished:
        assert ids(journal) == ["plan#1 done", "next#1 in_progress"]
        assert journal[0]["recovered"] is True
    else:
        assert ids(journal) == ["plan#1 failed", "plan#2 in_progress"]
        assert journal[0]["error_code"] == "PB-STATE-INTERRUPTED"


# ── what a human waived ─────────────────────────────────────────────────────────────────────


def test_what_was_accepted_for_one_step_is_asked_about_at_each_later_one(scene: Scene) -> None:
    needs = {"preconditions": ["agreement_pass"]}
    tree = scene.create(
        step("check", postconditions=["agreement_pass"], **GATED),
        step("qa", **needs),
        step("pr", **needs),
    )
    snapshot = tree.begin()
    scene.write(REPORT, "verdict: FAIL\n")
    snapshot = tree.report(work(snapshot).id, OK)
    snapshot = answer(tree, snapshot, Resolution.ACCEPT)
    assert ask(snapshot).id == "qa#1?1"
    assert work(answer(tree, snapshot, Resolution.ACCEPT)).id == "qa#1"
    snapshot = tree.report("qa#1", OK)
    assert ask(snapshot).id == "pr#1?1"
    assert work(answer(tree, snapshot, Resolution.ACCEPT)).id == "pr#1"
    journal = scene.journal(tree)
    assert [entry.get("waived") for entry in journal] == [["agreement_pass"]] * 3


def test_a_report_that_was_old_when_it_was_accepted_is_accepted_as_it_is(scene: Scene) -> None:
    scene.write(REPORT, "verdict: FAIL\n")
    tree = scene.create(
        step("check", postconditions=["agreement_pass"], **GATED),
        step("qa", preconditions=["agreement_pass"]),
    )
    snapshot = tree.report(work(tree.begin()).id, OK)
    snapshot = answer(tree, snapshot, Resolution.ACCEPT)
    assert ask(snapshot).id == "qa#1?1"  # the policy `stop` would end the session otherwise
    assert work(answer(tree, snapshot, Resolution.ACCEPT)).id == "qa#1"


# ── breaking changes ────────────────────────────────────────────────────────────────────────


def breaking_gate(scene: Scene) -> tuple[SessionTree, Snapshot]:
    """The step check has reported a breaking change; a careful step follows."""
    tree = scene.create(
        step("check", escalation_triggers=["agreement_breaking"]),
        step("careful", autonomy="gate_on_breaking"),
    )
    snapshot = tree.begin()
    scene.write(REPORT, BREAKING)
    snapshot = tree.report(work(snapshot).id, OK)
    assert ask(snapshot).reason == "agreement_breaking"
    return tree, snapshot


def test_an_accepted_breaking_change_is_not_asked_about_again(scene: Scene) -> None:
    tree, snapshot = breaking_gate(scene)
    snapshot = answer(tree, snapshot, Resolution.ACCEPT)
    assert work(snapshot).id == "careful#1"
    assert isinstance(tree.report("careful#1", OK).directive, Finish)


def test_another_breaking_report_is_asked_about(scene: Scene) -> None:
    tree, snapshot = breaking_gate(scene)
    snapshot = answer(tree, snapshot, Resolution.ACCEPT)
    scene.write(REPORT, f"{BREAKING}more of it\n")
    assert ask(tree.report("careful#1", OK)).id == "careful#1?1"


def test_an_acceptance_that_never_reached_the_journal_does_not_count(scene: Scene) -> None:
    """Only a journaled answer passes a gate."""
    tree, snapshot = breaking_gate(scene)
    journal = scene.file(tree, "journal.yaml")
    manifest = scene.file(tree, "session.yaml")
    before = journal.read_bytes(), manifest.read_bytes()
    tree.answer(ask(snapshot).id, Resolution.ACCEPT, "accept", Principal("Ana"))
    journal.write_bytes(before[0])
    manifest.write_bytes(before[1])
    again = scene.again(tree)
    assert ask(again.advance()).id == ask(snapshot).id
    assert ask(answer(again, again.advance(), Resolution.CONTINUE)).id == "check#1?2"


@pytest.mark.parametrize(("seconds", "asked"), [(-3600, False), (3600, True)])
def test_where_the_beginning_is_not_on_record_the_time_of_the_report_decides(
    scene: Scene, seconds: int, asked: bool
) -> None:
    tree = scene.create("a", step("careful", autonomy="gate_on_breaking"))
    tree.begin()
    file = scene.write(REPORT, BREAKING)
    at = scene.clock.now // 1000 + seconds
    os.utime(file, (at, at))
    snapshot = forget(scene, tree).report("a#1", OK)
    assert isinstance(snapshot.directive, Finish) is False
    assert (scene.journal(tree)[-1].get("trigger") == "agreement_breaking") is asked


def test_a_red_verdict_written_by_the_step_raises_its_trigger(scene: Scene) -> None:
    """kai D-T: an old verdict is not that of the step."""
    scene.write(VERDICT, "verdict: FAIL\n")
    triggered = step("qa", escalation_triggers=["verdict_fail"])
    tree = scene.create(triggered, {**triggered, "id": "again"})
    snapshot = tree.begin()
    snapshot = tree.report("qa#1", OK)
    assert work(snapshot).id == "again#1"  # what stood there before is not this step's verdict
    scene.write(VERDICT, "verdict: FAIL\nred again\n")
    assert ask(tree.report("again#1", OK)).reason == "verdict_fail"


# ── what asks the world ─────────────────────────────────────────────────────────────────────


@pytest.fixture
def forge(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What `gh` says is the content of this file."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "gh").write_text('#!/bin/sh\ncat "$(dirname "$0")/says"\n')
    (folder / "gh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    (folder / "says").write_text("[]")
    return folder / "says"


OPEN = '[{"number":7,"url":"https://forge.example/7","state":"OPEN"}]'


def test_a_condition_that_starts_a_program_is_judged_like_any_other(
    scene: Scene, forge: Path
) -> None:
    pr = step("pr", postconditions=["pr_created"], **GATED)
    skipped = step("never", autonomy="skip", preconditions=["pr_created"])
    tree = scene.create(skipped, pr, step("last", preconditions=["pr_created"]))
    snapshot = tree.report(work(tree.begin()).id, OK)
    assert ask(snapshot).reason == "postcondition_fail"
    forge.write_text(OPEN)
    assert work(answer(tree, snapshot, Resolution.CONTINUE)).id == "last#1"
    assert scene.journal(tree)[1]["evidence"] == [
        "pr_created: pull request #7 is open: https://forge.example/7"
    ]


def test_a_lost_attempt_at_a_pull_request_had_finished_if_there_is_one(
    scene: Scene, forge: Path
) -> None:
    pr = step("pr", postconditions=["pr_created"], **GATED)
    tree = scene.create(pr)
    snapshot = tree.lose(work(tree.begin()))
    assert work(snapshot).id == "pr#2"
    forge.write_text(OPEN)
    assert isinstance(tree.lose(work(snapshot)).directive, Finish)
