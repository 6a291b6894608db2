"""Files that must exist after a step, or at the end of a playbook."""

from __future__ import annotations

import pytest
from support.stored_sessions import Scene, ask, ids, work

from playbook_supervisor.kernel.directives import Finish, Outcome
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import Step
from playbook_supervisor.kernel.vocabulary import Autonomy, OutputFormat, Resolution, SessionStatus
from playbook_supervisor.sessions.files.principal import Principal

OK = Outcome(output="all done")
COMPLETED, FAILED = Finish(SessionStatus.COMPLETED), Finish(SessionStatus.FAILED)


def step(name: str, **more: object) -> Step:
    settings = {"autonomy": Autonomy.AUTO, "error_policy": ErrorPolicy.STOP, **more}
    return Step(name, "/x", **settings)  # type: ignore[arg-type]


# ── of a step ───────────────────────────────────────────────────────────────────────────────


def test_a_step_is_done_if_its_outputs_exist(scene: Scene) -> None:
    """cat FR-4.2."""
    tree = scene.define(step("build", outputs=("dist/app.txt",)))
    tree.begin()
    scene.write("dist/app.txt")
    assert tree.report("build#1", OK).directive == COMPLETED
    (entry,) = scene.journal(tree)
    assert entry["evidence"][0].startswith("file_exists: dist/app.txt, ")


def test_missing_and_empty_outputs_fail_the_step_with_all_of_them(scene: Scene) -> None:
    outputs = ("dist/a b.txt", "dist/empty", "dist/there")
    tree = scene.define(step("build", outputs=outputs))
    tree.begin()
    scene.write("dist/there")
    scene.write("dist/empty", "")
    assert tree.report("build#1", OK).directive == FAILED
    (entry,) = scene.journal(tree)
    assert entry["error_code"] == "PB-COND-POSTCONDITION"
    for said in ("file_exists='dist/a b.txt': ", "file_exists: dist/empty is"):
        assert said in entry["error"]
    assert "dist/there" not in entry["error"]


@pytest.mark.parametrize("path", ["../outside.txt", "link/outside.txt", "/etc/passwd"])
def test_an_output_outside_the_repository_does_not_count(scene: Scene, path: str) -> None:
    outside = scene.root.parent / f"{scene.root.name}-outside"
    outside.mkdir()
    (outside / "outside.txt").write_text("x")
    (scene.root / "link").symlink_to(outside)
    tree = scene.define(step("build", outputs=(path,)))
    tree.begin()
    assert tree.report("build#1", OK).directive == FAILED


# ── of the playbook ─────────────────────────────────────────────────────────────────────────


def test_all_outputs_of_the_playbook_must_exist_at_its_end(scene: Scene) -> None:
    """cat FR-8.1."""
    tree = scene.define(step("a"), step("b"), outputs=("report.md",))
    tree.begin()
    assert work(tree.report("a#1", OK)).id == "b#1"
    scene.write("report.md")
    assert tree.report("b#1", OK).directive == COMPLETED


@pytest.mark.parametrize("policy", [ErrorPolicy.STOP, ErrorPolicy.IGNORE])
def test_missing_ones_fail_the_session_with_their_names(scene: Scene, policy: ErrorPolicy) -> None:
    """cat FR-8.2: whatever the policy of the last step."""
    outputs = ("one.md", "two.md", "three.md")
    tree = scene.define(step("a", error_policy=policy), outputs=outputs)
    tree.begin()
    scene.write("two.md")
    assert tree.report("a#1", OK).directive == FAILED
    (entry,) = scene.journal(tree)
    assert entry["error_code"] == "PB-COND-OUTPUT"
    assert "one.md" in entry["error"]
    assert "three.md" in entry["error"]
    assert "two.md" not in entry["error"]


def test_who_accepts_a_failure_at_the_end_accepts_missing_outputs_too(scene: Scene) -> None:
    """They are named at the gate, whatever comes after it in the group."""
    members = [
        step("a", parallel_group="g", outputs=("a.md",), error_policy=ErrorPolicy.GATE),
        step("b", parallel_group="g"),
    ]
    tree = scene.define(*members, outputs=("report.md",))
    tree.begin()
    tree.report("a#1", OK)
    gate = ask(tree.report("b#1", OK))
    assert gate.member.id == "a#1"
    tree.answer(gate.id, Resolution.ACCEPT, "accept", Principal("Ana"))
    assert tree.advance().directive == COMPLETED
    entry, _ = scene.journal(tree)
    assert "report.md" in entry["error"]
    assert "file_exists=report.md" in entry["waived"]


# ── steps that are passed over ──────────────────────────────────────────────────────────────


def answered(scene: Scene, resolution: Resolution, when: str) -> list[str]:
    gated = step("review", autonomy=Autonomy.GATE_ALWAYS)
    tree = scene.define(gated, step("ship", when=when))
    snapshot = tree.begin()
    tree.answer(ask(snapshot).id, resolution, resolution.value, Principal("Ana"))
    tree.advance()
    if resolution is Resolution.CONTINUE:
        tree.report("review#1", OK)
    scene.again(tree).advance()
    return ids(scene.journal(tree))


@pytest.mark.parametrize(
    ("when", "resolution", "ends"),
    [
        ("$review.approved", Resolution.CONTINUE, "ship#1 in_progress"),
        ("$review.approved", Resolution.SKIP, "ship#1 skipped"),
        ("!$review.skipped", Resolution.SKIP, "ship#1 skipped"),
        ("$review.skipped", Resolution.SKIP, "ship#1 in_progress"),
    ],
)
def test_what_a_person_answered_decides_whether_a_later_step_runs(
    scene: Scene, when: str, resolution: Resolution, ends: str
) -> None:
    """tyr 24."""
    assert answered(scene, resolution, when)[-1] == ends


def reviewed(scene: Scene, output: str, when: str) -> dict[str, object]:
    tree = scene.define(step("review", output=OutputFormat.JSON), step("fix", when=when))
    tree.begin()
    tree.report("review#1", Outcome(output=output))
    entry: dict[str, object] = scene.journal(tree)[1]
    return entry


def test_what_an_earlier_step_said_decides_with_its_evidence(scene: Scene) -> None:
    when = '$review.json.verdict == "changes"'
    assert reviewed(scene, '{"verdict": "changes"}', when)["status"] == "in_progress"
    skipped = reviewed(scene, '{"verdict": "pass"}', when)
    assert (skipped["status"], skipped["decision"]) == ("skipped", "skipped")
    assert skipped["evidence"] == ['when: $review.json.verdict is "pass"']


def test_what_an_earlier_step_did_not_say_is_an_error_and_never_false(scene: Scene) -> None:
    entry = reviewed(scene, "{}", "$review.json.verdict")
    assert (entry["status"], entry["error_code"]) == ("failed", "PB-STEP-DATA")
    assert "$review.json has no `verdict`" in str(entry["error"])


def test_a_step_is_passed_over_if_all_of_skip_if_hold(scene: Scene) -> None:
    skipping = step(
        "plan", skip_if=("file_exists=a.md", "file_exists=b.md"), preconditions=("spec_exists",)
    )
    scene.write("a.md")
    assert scene.define(skipping).begin().directive == FAILED  # its precondition was asked
    scene.write("b.md")
    tree = scene.define(skipping)
    assert tree.begin().directive == COMPLETED
    (entry,) = scene.journal(tree)
    assert (entry["status"], entry["decision"]) == ("skipped", "skipped")
    assert entry["evidence"][0].startswith("file_exists: a.md, ")
    assert "file_exists: b.md, " in entry["evidence"][0]
