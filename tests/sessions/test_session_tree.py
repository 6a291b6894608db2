"""A session whose steps run other playbooks: one tree of sessions, and one face for drivers."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml
from pytest_mock import MockerFixture
from support.stored_sessions import Scene, ask, failed, ids, step, work

from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.directives import Check, Finish, Outcome
from playbook_supervisor.kernel.state import Change
from playbook_supervisor.kernel.vocabulary import Resolution, SessionStatus
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.files.session_clock import SessionClock
from playbook_supervisor.sessions.store import selection
from playbook_supervisor.sessions.store.snapshot import Snapshot, running
from playbook_supervisor.sessions.tree import children
from playbook_supervisor.sessions.tree.session_tree import SessionTree

ANN = Principal("Ann <ann@x.org>")
OK = Outcome(output="all green")


def calls(name: str = "release", child: str = "child", **more: object) -> dict[str, object]:
    """A step that runs the playbook `child`."""
    return step(name, **{"command": f"playbook {child}", **more})


def text(name: str, steps: tuple[dict[str, object] | str, ...], **top: object) -> str:
    shape = {
        "name": name,
        "description": "A sample.",
        "version": "1.1",
        "args": [],
        "steps": [step(one) if isinstance(one, str) else one for one in steps],
    }
    return yaml.safe_dump(shape | top, sort_keys=False)


def define(scene: Scene, name: str, *steps: dict[str, object] | str, **top: object) -> None:
    """Put a playbook into the project."""
    scene.write(f".playbooks/playbooks/{name}.yaml", text(name, steps, **top))


def parent(scene: Scene, *steps: dict[str, object] | str, **top: object) -> SessionTree:
    """A session of a playbook with these steps that has not begun."""
    made = text("parent", steps, **top).encode()
    return begun(scene, made, {})


def begun(scene: Scene, made: bytes, args: dict[str, str]) -> SessionTree:
    """A session of this playbook, which keeps those of the project."""
    files = scene.root.glob(".playbooks/playbooks/*.yaml")
    name = scene.store.create(
        playbook="parent",
        text=made,
        feature="013-x",
        args=args,
        children={file.stem: file.read_bytes() for file in files},
    )
    return SessionTree(scene.store, name)


def leaves(snapshot: Snapshot) -> list[str]:
    return [attempt.id for attempt in running(snapshot)]


def entry(scene: Scene, tree: SessionTree, attempt: str = "release#1") -> dict[str, Any]:
    entries = scene.journal(tree)
    return next(e for e in entries if f"{e['step_id']}#{e.get('attempt', 1)}" == attempt)


def child_of(scene: Scene, tree: SessionTree, attempt: str = "release#1") -> SessionTree:
    """The child that works for an attempt, as a session of its own."""
    return SessionTree(scene.fresh(), entry(scene, tree, attempt)["session"])


# ── from the beginning of a child to its end ────────────────────────────────────────────────


def test_a_step_runs_another_playbook_as_a_child_session(scene: Scene) -> None:
    """cat FR-9.1: a session of its own, linked in both journals."""
    define(scene, "child", "plan", "pr")
    top = parent(scene, calls(), "last")
    snapshot = top.begin()
    assert leaves(snapshot) == ["release#1/plan#1"]
    assert [(event.change, event.id) for event in snapshot.events] == [
        (Change.LAUNCHED, "release#1"),
        (Change.LAUNCHED, "release#1/plan#1"),
    ]
    child = child_of(scene, top)
    assert scene.manifest(child)["parent"] == f"{top.id}/release#1"
    assert leaves(top.report("release#1/plan#1", OK)) == ["release#1/pr#1"]
    snapshot = top.report("release#1/pr#1", OK)
    assert leaves(snapshot) == ["last#1"]
    assert [event.id for event in snapshot.events] == [
        "release#1/pr#1",
        "release#1/pr#1",
        "release#1",
        "release#1",
        "last#1",
    ]
    assert ids(scene.journal(child)) == ["plan#1 done", "pr#1 done"]
    assert scene.manifest(child)["status"] == "completed"
    assert entry(scene, top)["output"] == "all green"
    assert top.report("last#1", OK).directive == Finish(SessionStatus.COMPLETED)


def test_the_end_of_a_childs_step_is_found_by_its_path(scene: Scene) -> None:
    define(scene, "child", "plan", "pr")
    top = parent(scene, calls(), "last")
    top.begin()
    asked = ("release#1/plan#1", "release#1/pr#1", "release#1")
    assert scene.store.settled_events(top.id, asked) == []
    top.report("release#1/plan#1", OK)
    assert [each.id for each in scene.store.settled_events(top.id, asked)] == [asked[0]]
    top.report("release#1/pr#1", OK)
    settled = scene.fresh().settled_events(top.id, asked)
    assert [(each.change, each.id) for each in settled] == [(Change.DONE, id_) for id_ in asked]


def test_asking_again_gives_the_same_and_writes_nothing(scene: Scene) -> None:
    define(scene, "child", "plan")
    top = parent(scene, calls())
    first = top.begin()

    def written() -> list[tuple[int, int]]:
        files = [path.stat() for path in sorted(scene.root.glob(".playbooks/sessions/*/*"))]
        return [(file.st_ino, file.st_mtime_ns) for file in files]

    before = written()
    again = scene.again(top)
    assert leaves(again.look()) == leaves(again.advance()) == leaves(first)
    assert (first.repeated, again.advance().repeated) == (False, True)
    assert written() == before


def test_a_child_knows_the_args_that_are_mapped_to_it_and_nothing_else(scene: Scene) -> None:
    """cat FR-9.2, FR-9.3."""
    args = [
        {"name": "who", "description": "w", "required": True},
        {"name": "level", "description": "l", "required": False, "default": "low"},
    ]
    define(scene, "child", step("greet", args="{{who}} {{level}}"), args=args)
    mapped = {"args": {"who": "{{name}} & co"}}
    made = text(
        "parent",
        (calls() | {"with": mapped},),
        args=[{"name": n, "description": n, "required": True} for n in ("name", "secret")],
    )
    given = {"name": "Ann", "secret": "not yours"}
    top = begun(scene, made.encode(), given)
    snapshot = top.begin()
    assert top.work(snapshot, work(snapshot)).args == "Ann & co low"
    manifest = scene.manifest(child_of(scene, top))
    assert manifest["args"] == {"who": "Ann & co", "level": "low"}


def test_a_later_step_reads_what_the_child_ended_with(scene: Scene) -> None:
    define(scene, "child", step("say", command="prompt", **{"with": {"text": "x"}}))
    top = parent(
        scene,
        calls(),
        step("read", command="cli cat", stdin="$release.json"),
        step("words", command="cli cat", stdin="$release.stdout"),
    )
    top.begin()
    said = "first line\nsecond line\n"
    snapshot = top.report("release#1/say#1", Outcome(output=said))
    ended = yaml.safe_load(top.input_of(work(snapshot)))
    session = entry(scene, top)["session"]
    assert ended == {"session": session, "status": "completed", "output": said}
    assert top.input_of(work(top.report("read#1", OK))) == said


def test_a_child_beyond_the_depth_that_the_top_allows_is_not_made(scene: Scene) -> None:
    """cat FR-9.5: the limit of the session that a person began counts."""
    define(scene, "child", calls("again"), limits={"max_depth": 100})
    top = parent(scene, calls(), limits={"max_depth": 2})
    assert top.begin().directive == Finish(SessionStatus.FAILED)
    assert len(scene.store.ids()) == 3
    deepest = child_of(scene, child_of(scene, top), "again#1")
    failed_there = entry(scene, deepest, "again#1")
    assert failed_there["error_code"] == "PB-STEP-DEPTH"
    assert "more than 2 levels" in failed_there["error"]
    assert "session" not in failed_there
    assert entry(scene, top)["error_cause"] == "PB-STEP-DEPTH"


def test_children_that_work_at_once_show_all_their_work_then_their_gates(scene: Scene) -> None:
    define(scene, "child", "plan", step("pr", autonomy="gate_always"))
    group = {"parallel_group": "g"}
    top = parent(scene, calls("one", **group), calls("two", **group), step("own", **group))
    assert leaves(top.begin()) == ["one#1/plan#1", "two#1/plan#1", "own#1"]
    assert leaves(top.report("one#1/plan#1", OK)) == ["two#1/plan#1", "own#1"]
    assert leaves(top.report("own#1", OK)) == ["two#1/plan#1"]
    snapshot = top.report("two#1/plan#1", OK)
    assert ask(snapshot).id == "one#1/pr#1?1"
    top.answer("one#1/pr#1?1", Resolution.CONTINUE, "go on", ANN)
    assert leaves(top.advance()) == ["one#1/pr#1"]
    assert ask(top.report("one#1/pr#1", OK)).id == "two#1/pr#1?1"


# ── gates ───────────────────────────────────────────────────────────────────────────────────


def test_a_gate_of_a_child_is_asked_and_answered_by_its_path(scene: Scene) -> None:
    define(scene, "child", step("pr", autonomy="gate_always"))
    top = parent(scene, calls())
    asked = ask(top.begin())
    assert (asked.id, asked.member.id) == ("release#1/pr#1?1", "release#1/pr#1")
    assert scene.again(top).look().question.startswith("Run /x (step pr) now")
    with pytest.raises(StateError, match="is not expected"):
        top.answer("release#1/pr#1?2", Resolution.CONTINUE, "continue", ANN)
    elsewhere = scene.again(top)
    elsewhere.answer("release#1/pr#1?1", Resolution.CONTINUE, "yes", ANN)
    assert top.changed()
    assert leaves(top.advance()) == ["release#1/pr#1"]
    (gate,) = entry(scene, child_of(scene, top), "pr#1")["gates"]
    assert (gate["id"], gate["text"], gate["by"]) == ("pr#1?1", "yes", ANN.name)


def test_an_abort_at_the_gate_of_a_child_ends_the_whole_tree(scene: Scene) -> None:
    """It is a person's abort and no failure, so that no error policy handles it."""
    define(scene, "child", calls("inner", child="grandchild"))
    define(scene, "grandchild", step("pr", autonomy="gate_always"))
    top = parent(scene, calls(error_policy="continue"), "never")
    gate = ask(top.begin()).id
    top.answer(gate, Resolution.ABORT, "abort: wrong branch", ANN)
    assert top.advance().directive == Finish(SessionStatus.ABORTED)
    for session_id in scene.store.ids():
        assert scene.store.manifest(session_id).status is SessionStatus.ABORTED
    assert entry(scene, top)["human_response"] == "abort: wrong branch"
    assert entry(scene, top)["error_code"] == "PB-STATE-ABORTED"


def test_an_abort_of_the_session_ends_its_children_first(scene: Scene) -> None:
    define(scene, "child", "plan")
    group = {"parallel_group": "g"}
    top = parent(scene, calls("one", **group), calls("two", **group))
    top.begin()
    top.report("one#1/plan#1", OK)
    snapshot = top.abort("enough", ANN)
    assert snapshot.directive == Finish(SessionStatus.ABORTED)
    assert [event.id for event in snapshot.events] == ["two#1/plan#1", "one#1", "two#1"]


# ── failures ────────────────────────────────────────────────────────────────────────────────


def test_the_failure_of_a_child_is_an_error_of_its_step(scene: Scene) -> None:
    """cat FR-9.4: it names the child's session and step; the cause is the child's own code."""
    define(scene, "child", "plan", "never")
    top = parent(scene, calls())
    top.begin()
    snapshot = top.report("release#1/plan#1", failed("no disk"))
    assert snapshot.directive == Finish(SessionStatus.FAILED)
    settled = entry(scene, top)
    child = child_of(scene, top)
    assert settled["error"] == f"the child session {child.id} failed at plan: no disk"
    assert (settled["error_code"], settled["error_cause"]) == ("PB-STEP-CHILD", "PB-AGENT-FAILED")


def test_a_step_above_several_children_names_the_deepest_that_failed(scene: Scene) -> None:
    define(scene, "child", calls("inner", child="grandchild"))
    define(scene, "grandchild", "deep")
    top = parent(scene, calls())
    top.begin()
    top.report("release#1/inner#1/deep#1", failed("no disk"))
    session, _, said = entry(scene, top)["error"].removeprefix("the child session ").partition(" ")
    assert said == "failed at inner/deep: no disk"
    assert scene.store.manifest(session).playbook == "grandchild"


def test_a_later_step_can_read_how_a_child_has_failed(scene: Scene) -> None:
    define(scene, "child", "plan")
    asks = "$release.json.status == 'failed'".replace("'", '"')
    top = parent(scene, calls(error_policy="continue"), step("mend", when=asks))
    top.begin()
    assert leaves(top.report("release#1/plan#1", failed())) == ["mend#1"]


@pytest.mark.parametrize(
    ("policy", "ends"),
    [
        ({"default": "stop", "PB-AGENT-FAILED": "continue"}, SessionStatus.COMPLETED),
        ({"default": "stop", "PB-STEP-CHILD": "continue"}, SessionStatus.COMPLETED),
        ({"default": "continue", "PB-AGENT-FAILED": "stop"}, SessionStatus.FAILED),
        ({"PB-STEP-CHILD": "continue", "PB-AGENT-FAILED": "stop", "default": "continue"}, None),
    ],
)
def test_a_policy_names_the_code_of_the_child_or_that_of_every_child(
    scene: Scene, policy: dict[str, str], ends: SessionStatus | None
) -> None:
    """cat FR-9.4: the most precise code decides, through two levels as well."""
    define(scene, "child", calls("inner", child="grandchild"))
    define(scene, "grandchild", "deep")
    top = parent(scene, calls(error_policy=policy))
    top.begin()
    ended = top.report("release#1/inner#1/deep#1", failed()).directive
    assert ended == Finish(ends or SessionStatus.FAILED)


def test_a_new_attempt_is_a_new_child(scene: Scene) -> None:
    define(scene, "child", "plan")
    top = parent(scene, calls(error_policy="retry_once"))
    top.begin()
    assert leaves(top.report("release#1/plan#1", failed())) == ["release#2/plan#1"]
    assert child_of(scene, top).id != child_of(scene, top, "release#2").id
    top.report("release#2/plan#1", failed())
    assert leaves(top.go_on(retry=True)) == ["release#3/plan#1"]


def test_a_child_that_cannot_begin_is_a_failure_and_no_session(scene: Scene) -> None:
    define(scene, "child", "plan", args=[{"name": "who", "description": "w", "required": True}])
    top = parent(scene, calls(error_policy="retry_once"), calls("gone", child="nowhere"))
    assert top.begin().directive == Finish(SessionStatus.FAILED)
    assert scene.store.ids() == [top.id]
    settled = entry(scene, top)
    assert settled["error"] == "its child session cannot begin: child: who is missing"
    assert (settled["error_cause"], settled["error_lasts"]) == ("PB-ARG-INVALID", True)


# ── what is reported late, twice, or of nothing ─────────────────────────────────────────────


def test_a_repeated_report_changes_nothing_even_after_its_child_has_ended(scene: Scene) -> None:
    define(scene, "child", "plan", "pr")
    top = parent(scene, calls(), "last")
    top.begin()
    top.report("release#1/plan#1", OK)
    assert top.report("release#1/plan#1", failed()).events == ()
    top.report("release#1/pr#1", OK)
    snapshot = top.report("release#1/pr#1", failed())
    assert (leaves(snapshot), snapshot.events) == (["last#1"], ())


@pytest.mark.parametrize("path", ["release#2/plan#1", "release#1/zz#1", "last#1/x#1", "/", "a/b"])
def test_what_names_no_attempt_of_the_tree_is_refused(scene: Scene, path: str) -> None:
    define(scene, "child", "plan")
    top = parent(scene, calls(), "last")
    before = leaves(top.begin())
    with pytest.raises(StateError) as refused:
        top.report(path, OK)
    assert refused.value.code == "PB-STATE-REFUSED"
    assert leaves(top.look()) == before


def test_an_interruption_concerns_the_work_and_not_the_children(scene: Scene) -> None:
    define(scene, "child", "plan")
    top = parent(scene, calls())
    top.begin()
    snapshot = top.interrupt()
    assert [(event.change, event.id) for event in snapshot.events] == [
        (Change.FAILED, "release#1/plan#1")
    ]
    assert "completed_at" not in entry(scene, top)
    assert leaves(top.advance()) == ["release#1/plan#2"]


def test_the_lost_work_of_a_child_runs_again_in_the_same_child(scene: Scene) -> None:
    """kai FR32, NFR1."""
    define(scene, "child", "plan")
    top = parent(scene, calls())
    top.begin()
    again = scene.again(top)
    snapshot = again.lose(work(again.look()))
    assert leaves(snapshot) == ["release#1/plan#2"]
    assert len(scene.store.ids()) == 2


def test_a_return_is_noted_in_a_child_and_judged_later(scene: Scene) -> None:
    define(scene, "child", "plan")
    top = parent(scene, calls(), "last")
    top.begin()
    noted = top.note_return("release#1/plan#1", OK)
    assert [event.change for event in noted.events] == [Change.RETURNED]
    assert leaves(top.advance()) == ["last#1"]


# ── a process that was killed ───────────────────────────────────────────────────────────────


def test_a_child_whose_launch_alone_was_journaled_is_created_by_the_next_process(
    scene: Scene, mocker: MockerFixture
) -> None:
    define(scene, "child", "plan")
    top = parent(scene, calls())
    mocker.patch.object(children, "create_missing", side_effect=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        top.begin()
    mocker.stopall()
    session = entry(scene, top)["session"]
    assert scene.store.ids() == [top.id]
    again = scene.again(top)
    assert leaves(again.look()) == ["release#1"]
    assert leaves(again.advance()) == ["release#1/plan#1"]
    assert sorted(scene.store.ids()) == sorted([top.id, session])


def test_several_processes_make_one_child_and_begin_it_once(
    scene: Scene, mocker: MockerFixture
) -> None:
    define(scene, "child", "plan")
    top = parent(scene, calls())
    mocker.patch.object(children, "create_missing", side_effect=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        top.begin()
    mocker.stopall()
    barrier = threading.Barrier(4)

    def go_on(tree: SessionTree) -> list[str]:
        barrier.wait()
        return leaves(tree.advance())

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(go_on, [scene.again(top) for _ in range(4)]))
    assert found == [["release#1/plan#1"]] * 4
    assert len(scene.store.ids()) == 2
    assert ids(scene.journal(child_of(scene, top))) == ["plan#1 in_progress"]


def test_a_child_that_another_process_begins_at_that_moment_goes_on(
    scene: Scene, mocker: MockerFixture
) -> None:
    define(scene, "child", "plan")
    top = parent(scene, calls())
    begin = SessionTree.begin

    def begun_elsewhere(child: SessionTree, start: str = "") -> Snapshot:
        if child.parent is not None:
            begin(SessionTree(scene.fresh(), child.id))
        return begin(child, start)

    mocker.patch.object(SessionTree, "begin", begun_elsewhere)
    assert leaves(top.begin()) == ["release#1/plan#1"]
    assert ids(scene.journal(child_of(scene, top))) == ["plan#1 in_progress"]


def test_a_child_that_was_created_and_did_not_begin_begins(
    scene: Scene, mocker: MockerFixture
) -> None:
    define(scene, "child", "plan")
    top = parent(scene, calls())
    mocker.patch.object(SessionTree, "_advanced", side_effect=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        top.begin()
    mocker.stopall()
    assert scene.store.manifest(entry(scene, top)["session"]).status is SessionStatus.PENDING
    assert leaves(scene.again(top).advance()) == ["release#1/plan#1"]


def test_the_end_of_a_child_that_its_parent_has_not_heard_of_is_journaled_by_the_next_process(
    scene: Scene, mocker: MockerFixture
) -> None:
    define(scene, "child", "plan")
    top = parent(scene, calls(), "last")
    top.begin()
    mocker.patch.object(children, "outcome", side_effect=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        top.report("release#1/plan#1", OK)
    mocker.stopall()
    assert leaves(scene.again(top).advance()) == ["last#1"]
    assert entry(scene, top)["output"] == "all green"


def test_what_happened_before_an_error_is_reported_by_the_next_snapshot(
    scene: Scene, mocker: MockerFixture
) -> None:
    define(scene, "child", "plan")
    top = parent(scene, calls(), "last")
    top.begin()
    mocker.patch.object(children, "outcome", side_effect=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        top.report("release#1/plan#1", OK)
    mocker.stopall()
    snapshot = top.advance()
    told = [(event.change, event.id) for event in snapshot.events]
    assert told == [
        (Change.RETURNED, "release#1/plan#1"),
        (Change.DONE, "release#1/plan#1"),
        (Change.RETURNED, "release#1"),
        (Change.DONE, "release#1"),
        (Change.LAUNCHED, "last#1"),
    ]
    assert all(snapshot.of(event) for event in snapshot.events)


def test_another_checkout_goes_on_with_the_children(scene: Scene) -> None:
    define(scene, "child", "plan", "pr")
    top = parent(scene, calls(), step("read", command="cli cat", stdin="$release.stdout"))
    top.begin()
    top.report("release#1/plan#1", OK)
    cloned = scene.cloned(top)
    assert leaves(cloned.advance()) == ["release#1/pr#1"]
    snapshot = cloned.report("release#1/pr#1", Outcome(output="made here"))
    assert cloned.input_of(work(snapshot)) == "made here"


# ── which session is meant ──────────────────────────────────────────────────────────────────


def test_a_child_is_never_chosen_by_itself_and_its_name_means_its_top(scene: Scene) -> None:
    define(scene, "child", calls("inner", child="grandchild"))
    define(scene, "grandchild", "deep")
    top = parent(scene, calls())
    top.begin()
    child = child_of(scene, top)
    grandchild = child_of(scene, child, "inner#1")
    store = scene.fresh()
    assert store.driven() == [top.id]
    assert selection.choose(store) == selection.SelectedSession(top.id)
    for named in (top.id, child.id, grandchild.id):
        assert selection.choose(store, named).session_id == top.id
    top.abort("enough", ANN)
    assert selection.choose(scene.fresh()).session_id == top.id


# ── what waits ──────────────────────────────────────────────────────────────────────────────


def test_a_retry_in_a_child_waits_for_its_time(scene: Scene) -> None:
    define(scene, "child", step("plan", error_policy="retry:2"))
    group = {"parallel_group": "g"}
    top = parent(scene, calls("one", **group), step("own", **group))
    top.begin()
    now = [scene.clock()]
    scene.store.clock = SessionClock(scene.root, lambda: now[0])
    snapshot = top.report("one#1/plan#1", failed())
    assert (leaves(snapshot), top.delay(snapshot)) == (["own#1"], 1.0)
    snapshot = top.report("own#1", OK)
    asked = snapshot.directive
    assert isinstance(asked, Check)
    assert asked.id.startswith("one#1/before:plan#2")
    assert [member.id for member in asked.members] == ["one#1/plan#2"]
    assert top.delay(snapshot) == 1.0
    now[0] += 1000
    assert leaves(top.advance()) == ["one#1/plan#2"]
