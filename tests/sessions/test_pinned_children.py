"""The child playbooks that a session can reach are those of its beginning."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.stored_sessions import FEATURE, Scene, playbook

from playbook_supervisor.commands import repair
from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.vocabulary import Autonomy
from playbook_supervisor.project.policies.session_policy import Demand, Policy
from playbook_supervisor.sessions.tree.session_tree import Supervisor

CHILD = "playbooks/release.yaml"


def release(*steps: str) -> bytes:
    return playbook(*steps).replace(b"name: sample", b"name: release")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def began(scene: Scene, policy: Policy | None = None) -> Supervisor:
    """A session with one child."""
    session_id = scene.store.create(
        playbook="sample",
        text=playbook("plan"),
        feature=FEATURE,
        args={},
        policy=policy,
        children={"release": release("publish")},
    )
    return Supervisor(scene.store, session_id)


def steps(supervisor: Supervisor) -> list[str]:
    """The steps of the child that the session keeps."""
    with supervisor.store.open(supervisor.id) as opened:
        return [each.id for each in opened.pinned.child("release").playbook.steps]


def test_a_session_keeps_its_children_as_they_were(scene: Scene) -> None:
    supervisor = began(scene)
    assert scene.file(supervisor, CHILD).read_bytes() == release("publish")
    assert steps(supervisor) == steps(scene.again(supervisor)) == ["publish"]


def test_another_clone_reads_them_from_the_session(scene: Scene) -> None:
    """own L-7."""
    cloned = scene.cloned(began(scene))
    assert steps(cloned) == ["publish"]
    assert (cloned.store.runtime(cloned.id) / CHILD).read_bytes() == release("publish")


def test_a_playbook_that_it_does_not_keep_is_an_error(scene: Scene) -> None:
    with scene.store.open(began(scene).id) as opened, pytest.raises(StateError) as caught:
        opened.pinned.child("deploy")
    assert caught.value.code == "PB-STATE-NO-PLAYBOOK"
    assert caught.value.message == "the session keeps no playbook deploy"


def test_a_change_of_its_data_is_refused(scene: Scene) -> None:
    supervisor = began(scene)
    scene.edit(supervisor, CHILD, ("publish", "hide"))
    with pytest.raises(StateError) as caught:
        steps(scene.again(supervisor))
    assert caught.value.code == "PB-STATE-TAMPERED"
    assert caught.value.where.endswith(f"{supervisor.id}/{CHILD}")


def test_a_change_while_it_is_driven_is_refused(scene: Scene) -> None:
    supervisor = began(scene)
    scene.store.hold(supervisor.id)
    scene.edit(supervisor, CHILD, ("publish", "hide"))
    with pytest.raises(StateError):
        steps(supervisor)


def test_notes_in_it_are_a_persons(scene: Scene) -> None:
    supervisor = began(scene)
    scene.edit(supervisor, CHILD, ("name:", "# ours\nname:"))
    assert steps(scene.again(supervisor)) == ["publish"]


def test_what_is_put_beside_it_is_no_child(scene: Scene) -> None:
    supervisor = began(scene)
    scene.file(supervisor, "playbooks/deploy.yaml").write_bytes(release("b"))
    with scene.again(supervisor).store.open(supervisor.id) as opened:
        assert list(opened.pinned.children) == ["release"]


@pytest.mark.parametrize("held", [True, False])
def test_a_vanished_one_is_restored(scene: Scene, held: bool) -> None:
    supervisor = began(scene)
    if held:
        scene.store.hold(supervisor.id)
    else:
        supervisor = scene.again(supervisor)
    shutil.rmtree(scene.file(supervisor, "playbooks"))
    assert steps(supervisor) == ["publish"]
    assert scene.file(supervisor, CHILD).read_bytes() == release("publish")
    assert supervisor.store.notices == [
        f"{supervisor.id}: {CHILD} had disappeared; restored from the copy"
    ]


def test_a_repair_names_the_change_and_undoes_it(scene: Scene) -> None:
    supervisor = began(scene)
    scene.edit(supervisor, CHILD, ("publish", "hide"))
    (found,) = repair.repair(supervisor.id, cwd=scene.root).differences
    assert (found.file, found.what) == (CHILD, "the pinned playbook was changed")
    assert "publish" in found.changes[0][1]
    repair.repair(supervisor.id, undo=True, cwd=scene.root)
    assert steps(scene.again(supervisor)) == ["publish"]


def test_a_repair_accepts_the_change(scene: Scene) -> None:
    supervisor = began(scene)
    scene.edit(supervisor, CHILD, ("publish", "hide"))
    repair.repair(supervisor.id, accept=True, cwd=scene.root)
    assert steps(scene.again(supervisor)) == ["hide"]
    assert repair.repair(supervisor.id, cwd=scene.root).differences == ()


def test_policies_of_a_child_go_with_it(scene: Scene) -> None:
    """kai P3-2: they do not apply to a step of the same name in the session itself."""
    demand = Demand("publish", "release.yaml", Autonomy.GATE_ALWAYS, playbook="release")
    supervisor = scene.again(began(scene, Policy((demand,))))
    with supervisor.store.open(supervisor.id) as opened:
        assert list(opened.policy.of("publish")) == []
        assert opened.pinned.child("release").policy == Policy(
            (Demand("publish", "release.yaml", Autonomy.GATE_ALWAYS),)
        )
        (publish,) = opened.pinned.tightened_children["release"].steps
    assert publish.autonomy is Autonomy.GATE_ALWAYS


def test_a_child_of_a_project_without_policies_has_none(scene: Scene) -> None:
    with scene.store.open(began(scene).id) as opened:
        assert opened.pinned.child("release").policy is None
