"""The evidence of a check: records of the launch, human decisions, and the files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.stored_sessions import FEATURE, Scene, ask, ids, step, unsynced, work

from playbook_supervisor.commands import repair
from playbook_supervisor.kernel.directives import Finish, Outcome
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.sessions.tree.session_tree import Supervisor

PLAN = f"specs/{FEATURE}/plan.md"
REPORT = f".agreements/{FEATURE}/check-report.md"
VERDICT = f".qa/{FEATURE}/verdict.md"
BREAKING = "---\nverdict: FAIL\nbreaking: true\n---\n"
OK = Outcome(output="ok")
GATED = {"error_policy": "gate"}

Answer = Callable[[Supervisor, Snapshot, Resolution], Snapshot]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return unsynced(monkeypatch, tmp_path)


def answer(supervisor: Supervisor, snapshot: Snapshot, resolution: Resolution) -> Snapshot:
    before = supervisor.answer(ask(snapshot).id, resolution, resolution.value, Principal("Ana"))
    return supervisor.advance().after(before)


def forget(scene: Scene, supervisor: Supervisor) -> Supervisor:
    """Only the journal is left, as with a session of kai's own tools."""
    scene.file(supervisor, "records.yaml").unlink(missing_ok=True)
    return scene.cloned(supervisor)


# ── written since the launch ────────────────────────────────────────────────────────────────


def test_a_verdict_from_before_the_launch_does_not_pass_this_run(scene: Scene) -> None:
    """Last week's PASS does not pass today's run."""
    scene.write(VERDICT, "verdict: PASS\n")
    supervisor = scene.create(step("qa", postconditions=["qa_verdict_pass"]))
    supervisor.begin()
    supervisor.report("qa#1", OK)
    (entry,) = scene.journal(supervisor)
    assert entry["status"] == "failed"
    assert "not written since the launch" in entry["error"]


def test_the_same_verdict_written_again_passes(scene: Scene) -> None:
    file = scene.write(VERDICT, "verdict: PASS\n")
    supervisor = scene.create(step("qa", postconditions=["qa_verdict_pass"]))
    supervisor.begin()
    before = file.stat()
    scene.write(VERDICT, "verdict: PASS\n").touch()
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    supervisor.report("qa#1", OK)
    assert scene.journal(supervisor)[0]["status"] == "done"


def test_without_a_record_of_the_launch_no_verdict_counts(scene: Scene) -> None:
    """A clone's files look new: their times show nothing."""
    scene.write(VERDICT, "verdict: PASS\n")
    supervisor = scene.create(step("qa", postconditions=["qa_verdict_pass"]))
    supervisor.begin()
    forget(scene, supervisor).report("qa#1", OK)
    (entry,) = scene.journal(supervisor)
    assert entry["status"] == "failed"
    assert "not written since the launch (no record of it)" in entry["error"]


def test_an_unchanged_artifact_exists_and_the_evidence_says_so(scene: Scene) -> None:
    scene.write(PLAN)
    supervisor = scene.create(step("plan", postconditions=["plan_exists"]))
    supervisor.begin()
    supervisor.report("plan#1", OK)
    (entry,) = scene.journal(supervisor)
    assert entry["status"] == "done"
    assert entry["evidence"] == [f"plan_exists: {PLAN}, 1 line, unchanged by this step"]


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
    supervisor = scene.create(step("plan", postconditions=["plan_exists"]), "next")
    snapshot = supervisor.begin()
    if after is not None:
        scene.write(PLAN, after)
    snapshot = scene.again(supervisor).lose(work(snapshot))
    journal = scene.journal(supervisor)
    if finished:
        assert ids(journal) == ["plan#1 done", "next#1 in_progress"]
        assert journal[0]["recovered"] is True
    else:
        assert ids(journal) == ["plan#1 failed", "plan#2 in_progress"]
        assert journal[0]["error_code"] == "PB-STATE-INTERRUPTED"


def test_a_lost_attempt_without_postconditions_runs_again(scene: Scene) -> None:
    supervisor = scene.create("a")
    assert work(supervisor.lose(work(supervisor.begin()))).id == "a#2"


def test_an_old_verdict_is_no_evidence_for_a_lost_attempt(scene: Scene) -> None:
    scene.write(VERDICT, "verdict: PASS\n")
    both = ["plan_exists", "qa_verdict_pass"]
    supervisor = scene.create(step("qa", postconditions=both))
    snapshot = supervisor.begin()
    scene.write(PLAN)
    assert work(supervisor.lose(work(snapshot))).id == "qa#2"
    scene.write(PLAN, "another\n")
    scene.write(VERDICT, "verdict: PASS\nagain\n")
    snapshot = supervisor.lose(work(supervisor.advance()))
    assert isinstance(snapshot.directive, Finish)


def test_without_a_record_existing_artifacts_decide(scene: Scene) -> None:
    """As kai asks: the evidence alone."""
    scene.write(PLAN)
    supervisor = scene.create(step("plan", postconditions=["plan_exists"]), "next")
    snapshot = supervisor.begin()
    assert work(forget(scene, supervisor).lose(work(snapshot))).id == "next#1"


# ── what a human waived ─────────────────────────────────────────────────────────────────────


def test_what_was_accepted_for_one_step_is_asked_about_at_each_later_one(scene: Scene) -> None:
    needs = {"preconditions": ["agreement_pass"]}
    supervisor = scene.create(
        step("check", postconditions=["agreement_pass"], **GATED),
        step("qa", **needs),
        step("pr", **needs),
    )
    snapshot = supervisor.begin()
    scene.write(REPORT, "verdict: FAIL\n")
    snapshot = supervisor.report(work(snapshot).id, OK)
    snapshot = answer(supervisor, snapshot, Resolution.ACCEPT)
    assert ask(snapshot).id == "qa#1?1"
    assert work(answer(supervisor, snapshot, Resolution.ACCEPT)).id == "qa#1"
    snapshot = supervisor.report("qa#1", OK)
    assert ask(snapshot).id == "pr#1?1"
    assert work(answer(supervisor, snapshot, Resolution.ACCEPT)).id == "pr#1"
    journal = scene.journal(supervisor)
    assert [entry.get("waived") for entry in journal] == [["agreement_pass"]] * 3


def test_an_acceptance_survives_the_loss_of_its_record(scene: Scene) -> None:
    supervisor = scene.create(
        step("plan", postconditions=["plan_exists"], **GATED),
        step("tasks", preconditions=["plan_exists"]),
    )
    snapshot = supervisor.report(work(supervisor.begin()).id, OK)
    snapshot = answer(supervisor, snapshot, Resolution.ACCEPT)
    supervisor.answer(ask(snapshot).id, Resolution.ACCEPT, "accept", Principal("Ana"))
    assert work(forget(scene, supervisor).advance()).id == "tasks#1"


def test_a_report_that_was_old_when_it_was_accepted_is_accepted_as_it_is(
    scene: Scene,
) -> None:
    scene.write(REPORT, "verdict: FAIL\n")
    supervisor = scene.create(
        step("check", postconditions=["agreement_pass"], **GATED),
        step("qa", preconditions=["agreement_pass"]),
    )
    snapshot = supervisor.report(work(supervisor.begin()).id, OK)
    snapshot = answer(supervisor, snapshot, Resolution.ACCEPT)
    assert ask(snapshot).id == "qa#1?1"  # the policy `stop` would end the session otherwise
    assert work(answer(supervisor, snapshot, Resolution.ACCEPT)).id == "qa#1"


# ── breaking changes ────────────────────────────────────────────────────────────────────────


def breaking_gate(scene: Scene) -> tuple[Supervisor, Snapshot]:
    """The step check has reported a breaking change; a careful step follows."""
    supervisor = scene.create(
        step("check", escalation_triggers=["agreement_breaking"]),
        step("careful", autonomy="gate_on_breaking"),
    )
    snapshot = supervisor.begin()
    scene.write(REPORT, BREAKING)
    snapshot = supervisor.report(work(snapshot).id, OK)
    assert ask(snapshot).reason == "agreement_breaking"
    return supervisor, snapshot


def test_an_accepted_breaking_change_is_not_asked_about_again(scene: Scene) -> None:
    """The same digest of the same report."""
    supervisor, snapshot = breaking_gate(scene)
    snapshot = answer(supervisor, snapshot, Resolution.ACCEPT)
    assert work(snapshot).id == "careful#1"
    assert isinstance(supervisor.report("careful#1", OK).directive, Finish)


def test_an_accepted_breaking_change_stays_accepted_where_the_files_were_taken_as_they_are(
    scene: Scene,
) -> None:
    """What was failing at an open gate is known after a repair, too."""
    supervisor, _ = breaking_gate(scene)
    journal = scene.file(supervisor, "journal.yaml")
    journal.write_bytes(journal.read_bytes().replace(b"breaking_changes: ", b"breaking: "))
    repair.take(scene.fresh(), supervisor.id)
    again = scene.again(supervisor)
    snapshot = answer(again, again.advance(), Resolution.ACCEPT)
    assert work(snapshot).id == "careful#1"


def test_another_breaking_report_is_asked_about(scene: Scene) -> None:
    supervisor, snapshot = breaking_gate(scene)
    snapshot = answer(supervisor, snapshot, Resolution.ACCEPT)
    scene.write(REPORT, f"{BREAKING}more of it\n")
    assert ask(supervisor.report("careful#1", OK)).id == "careful#1?1"


def test_a_breaking_change_that_was_retried_is_known_but_not_accepted(scene: Scene) -> None:
    supervisor, snapshot = breaking_gate(scene)
    snapshot = answer(supervisor, snapshot, Resolution.RETRY)
    assert work(snapshot).id == "check#2"
    assert ask(supervisor.report("check#2", OK)).id == "check#2?1"


def test_an_acceptance_that_never_reached_the_journal_does_not_count(scene: Scene) -> None:
    """Only a journaled answer passes a gate."""
    supervisor, snapshot = breaking_gate(scene)
    journal = scene.file(supervisor, "journal.yaml")
    manifest = scene.file(supervisor, "session.yaml")
    before = journal.read_bytes(), manifest.read_bytes()
    supervisor.answer(ask(snapshot).id, Resolution.ACCEPT, "accept", Principal("Ana"))
    journal.write_bytes(before[0])
    manifest.write_bytes(before[1])
    again = scene.again(supervisor)
    assert ask(again.advance()).id == ask(snapshot).id
    assert ask(answer(again, again.advance(), Resolution.CONTINUE)).id == "check#1?2"


def test_a_breaking_report_left_over_from_an_earlier_session_does_not_count(
    scene: Scene,
) -> None:
    scene.write(REPORT, BREAKING)
    supervisor = scene.create(step("careful", autonomy="gate_on_breaking"))
    assert work(supervisor.begin()).id == "careful#1"


@pytest.mark.parametrize(("seconds", "asked"), [(-3600, False), (3600, True)])
def test_where_the_beginning_is_not_on_record_the_time_of_the_report_decides(
    scene: Scene, seconds: int, asked: bool
) -> None:
    supervisor = scene.create("a", step("careful", autonomy="gate_on_breaking"))
    supervisor.begin()
    file = scene.write(REPORT, BREAKING)
    at = scene.clock.now // 1000 + seconds
    os.utime(file, (at, at))
    snapshot = forget(scene, supervisor).report("a#1", OK)
    assert isinstance(snapshot.directive, Finish) is False
    assert (scene.journal(supervisor)[-1].get("trigger") == "agreement_breaking") is asked


def test_a_red_verdict_written_by_the_step_raises_its_trigger(scene: Scene) -> None:
    """kai D-T: an old verdict is not that of the step."""
    scene.write(VERDICT, "verdict: FAIL\n")
    triggered = step("qa", escalation_triggers=["verdict_fail"])
    supervisor = scene.create(triggered, {**triggered, "id": "again"})
    snapshot = supervisor.begin()
    snapshot = supervisor.report("qa#1", OK)
    assert work(snapshot).id == "again#1"  # what stood there before is not this step's verdict
    scene.write(VERDICT, "verdict: FAIL\nred again\n")
    assert ask(supervisor.report("again#1", OK)).reason == "verdict_fail"


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
    supervisor = scene.create(skipped, pr, step("last", preconditions=["pr_created"]))
    snapshot = supervisor.report(work(supervisor.begin()).id, OK)
    assert ask(snapshot).reason == "postcondition_fail"
    forge.write_text(OPEN)
    assert work(answer(supervisor, snapshot, Resolution.CONTINUE)).id == "last#1"
    assert scene.journal(supervisor)[1]["evidence"] == [
        "pr_created: pull request #7 is open: https://forge.example/7"
    ]


def test_a_lost_attempt_at_a_pull_request_had_finished_if_there_is_one(
    scene: Scene, forge: Path
) -> None:
    pr = step("pr", postconditions=["pr_created"], **GATED)
    supervisor = scene.create(pr)
    snapshot = supervisor.lose(work(supervisor.begin()))
    assert work(snapshot).id == "pr#2"
    forge.write_text(OPEN)
    assert isinstance(supervisor.lose(work(snapshot)).directive, Finish)


def test_a_waiver_of_a_network_condition_holds_for_the_same_answer(
    scene: Scene, forge: Path
) -> None:
    supervisor = scene.create(
        step("pr", postconditions=["pr_created"], **GATED),
        step("a", preconditions=["pr_created"], **GATED),
    )
    snapshot = supervisor.report(work(supervisor.begin()).id, OK)
    snapshot = answer(supervisor, snapshot, Resolution.ACCEPT)
    assert work(answer(supervisor, snapshot, Resolution.ACCEPT)).id == "a#1"
    supervisor.interrupt()
    forge.write_text(OPEN.replace("OPEN", "CLOSED"))
    assert ask(supervisor.advance()).id == "a#2?1"
