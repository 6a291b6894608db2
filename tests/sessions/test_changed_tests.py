"""Changed tests in a session: what was accepted is on record, and the gate shows the change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from collected_journals import FILES, NOW, problems, session
from support.stored_sessions import Scene, ask, step, work

from playbook_supervisor.audit.examination import examine
from playbook_supervisor.audit.session_record import read
from playbook_supervisor.kernel.directives import Answer, Finish, Outcome, Probed
from playbook_supervisor.kernel.vocabulary import Condition, Resolution
from playbook_supervisor.project.conditions import conditions
from playbook_supervisor.project.conditions.conditions import Workspace
from playbook_supervisor.project.proofs.questions import keep_question
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.gate import gate_text
from playbook_supervisor.sessions.gate.gate_context import GateContext, gate_context
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.sessions.tree.session_tree import SessionTree

OK = Outcome(output="ok")
JUDGED = step("a", postconditions=["plan_exists"])
LATER = step("b", preconditions=["plan_exists"])
HELD = "plan_exists: 2 lines differ, accepted by a person"


@dataclass
class TestFiles:
    """What has changed of the tests by which `plan_exists` is judged here."""

    __test__ = False
    lines: list[str] = field(default_factory=lambda: ["- assert f() == 2", "+ assert f() == 3"])


@pytest.fixture
def tests(monkeypatch: pytest.MonkeyPatch) -> TestFiles:
    changed, real = TestFiles(), conditions.probe

    def probe(name: str, workspace: Workspace, **more: Any) -> Probed:
        if name != Condition.PLAN_EXISTS:
            return real(name, workspace, **more)
        if not changed.lines:
            return Probed(name, Answer.HELD, "no test differs")
        asked = keep_question(workspace.root, changed.lines)
        said = f"{len(changed.lines)} lines differ"
        return Probed(name, Answer.NOT_HELD, said, code="PB-COND-WITNESSES", asked=asked)

    monkeypatch.setattr(conditions, "probe", probe)
    return changed


def answer(tree: SessionTree, snapshot: Snapshot, resolution: Resolution) -> Snapshot:
    before = tree.answer(ask(snapshot).id, resolution, resolution.value, Principal("Ana"))
    return tree.advance().after(before)


def asked_about_tests(scene: Scene, *more: dict[str, object]) -> tuple[SessionTree, Snapshot]:
    """The step a has changed the tests by which it is judged."""
    tree = scene.create(JUDGED, *more)
    snapshot = tree.report(work(tree.begin()).id, OK)
    assert ask(snapshot).id == "a#1?1"
    assert ask(snapshot).reason == scene.manifest(tree)["gate"]["reason"] == "witnesses"
    return tree, snapshot


def shown(snapshot: Snapshot) -> GateContext:
    context = gate_context(snapshot)
    assert context is not None
    return context


# ── what was accepted ───────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("tests")
def test_an_accepted_change_holds_for_the_session_and_is_no_waiver(scene: Scene) -> None:
    tree, snapshot = asked_about_tests(scene, LATER, {**JUDGED, "id": "c"})
    snapshot = answer(tree, snapshot, Resolution.ACCEPT)
    assert work(snapshot).id == "b#1"
    assert work(tree.report("b#1", OK)).id == "c#1"
    assert isinstance(tree.report("c#1", OK).directive, Finish)
    first, _, last = scene.journal(tree)
    assert (first["status"], first["evidence"], last["evidence"]) == ("done", [HELD], [HELD])
    assert "waived" not in first
    assert "waived" not in scene.manifest(tree)
    contents = {name: scene.file(tree, name).read_text() for name in FILES}
    assert problems(examine(read(session(contents), lambda _: None), NOW)) == []


@pytest.mark.usefixtures("tests")
@pytest.mark.parametrize("elsewhere", [Scene.again, Scene.cloned])
def test_an_accepted_change_holds_in_another_process_and_in_a_clone(
    scene: Scene, elsewhere: Callable[[Scene, SessionTree], SessionTree]
) -> None:
    tree, snapshot = asked_about_tests(scene, step("b"), {**JUDGED, "id": "c"})
    answer(tree, snapshot, Resolution.ACCEPT)
    tree = elsewhere(scene, tree)
    assert work(tree.report("b#1", OK)).id == "c#1"
    assert isinstance(tree.report("c#1", OK).directive, Finish)


def test_another_change_is_asked_about(scene: Scene, tests: TestFiles) -> None:
    tree, snapshot = asked_about_tests(scene)
    tests.lines = ["+ assert True"]
    snapshot = answer(tree, snapshot, Resolution.ACCEPT)
    assert ask(snapshot).id == "a#1?2"
    assert snapshot.question.startswith("The tests have changed again: ")
    assert "+ assert True" in shown(snapshot).preview
    snapshot = answer(tree, snapshot, Resolution.ACCEPT)
    assert isinstance(snapshot.directive, Finish)


@pytest.mark.parametrize("back", [True, False])
def test_a_continue_accepts_nothing(scene: Scene, tests: TestFiles, back: bool) -> None:
    tree, snapshot = asked_about_tests(scene)
    tests.lines = [] if back else tests.lines
    snapshot = answer(tree, snapshot, Resolution.CONTINUE)
    assert isinstance(snapshot.directive, Finish) is back


@pytest.mark.usefixtures("tests")
def test_a_change_that_was_waived_with_other_failures_is_asked_about_at_a_later_step(
    scene: Scene,
) -> None:
    """The person was not shown it, and let one step go on."""
    both = ["plan_exists", "tasks_exists"]
    tree = scene.create(step("a", postconditions=both, error_policy="gate"), LATER)
    snapshot = tree.report(work(tree.begin()).id, OK)
    assert ask(snapshot).reason == "postcondition_fail"
    snapshot = answer(tree, snapshot, Resolution.ACCEPT)
    assert scene.journal(tree)[0]["waived"] == both
    assert (ask(snapshot).id, ask(snapshot).reason) == ("b#1?1", "witnesses")
    assert work(answer(tree, snapshot, Resolution.ACCEPT)).id == "b#1"


# ── what the gate shows ─────────────────────────────────────────────────────────────────────


def test_a_gate_shows_the_change_before_everything_else(scene: Scene, tests: TestFiles) -> None:
    _, snapshot = asked_about_tests(scene)
    context = replace(shown(snapshot), people=("*@qa.example.org (policy tests.yaml)",))
    first = [*tests.lines, "answered by: *@qa.example.org (policy tests.yaml)"]
    assert gate_text.lines(context)[:3] == first
    assert gate_text.short(context)[:3] == first
    assert [line.words for line in gate_text.parts(context)][:3] == first


def test_a_large_change_leaves_room_for_the_rest_and_names_what_shows_it(
    scene: Scene, tests: TestFiles
) -> None:
    tests.lines = [f"+ line {number} {'x' * 300}" for number in range(40)]
    _, snapshot = asked_about_tests(scene)
    context = replace(shown(snapshot), people=("*",), began_at="9f31c2a")
    all_of_it = gate_text.lines(context)
    assert len(all_of_it) <= gate_text.MOST_LINES
    assert all_of_it[13].startswith("+ line 13 ")
    assert all_of_it[14:16] == [
        "  … 26 more lines: `git diff 9f31c2a` compares with the session's beginning",
        "answered by: *",
    ]
    assert [line.words for line in gate_text.parts(context)][14:16] == all_of_it[14:16]
    few = gate_text.short(replace(context, began_at=""))
    assert few[3].startswith("+ line 3 ")
    assert few[4:6] == ["  … 36 more lines: `git diff` tells more", "answered by: *"]


@pytest.mark.usefixtures("tests")
def test_a_change_that_is_not_on_record_is_shown_after_another_check(scene: Scene) -> None:
    tree, _ = asked_about_tests(scene)
    tree = scene.cloned(tree)
    snapshot = tree.advance()
    assert gate_text.lines(shown(snapshot))[0] == (
        "plan_exists: the change is not on record here; `continue` checks again and shows it"
    )
    snapshot = answer(tree, snapshot, Resolution.CONTINUE)
    assert gate_text.lines(shown(snapshot))[0] == "- assert f() == 2"
