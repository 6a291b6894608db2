"""The child playbooks that a session can reach are those of its beginning."""

from __future__ import annotations

import shutil

import pytest
from support.stored_sessions import FEATURE, Scene, playbook

from playbook_supervisor.commands import repair
from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.vocabulary import Autonomy
from playbook_supervisor.project.policies.session_policy import Demand, Policy
from playbook_supervisor.sessions.tree.session_tree import SessionTree

CHILD = "playbooks/release.yaml"


def release(*steps: str) -> bytes:
    return playbook(*steps).replace(b"name: sample", b"name: release")


def began(scene: Scene, policy: Policy | None = None) -> SessionTree:
    """A session with one child."""
    session_id = scene.store.create(
        playbook="sample",
        text=playbook("plan"),
        feature=FEATURE,
        args={},
        policy=policy,
        children={"release": release("publish")},
    )
    return SessionTree(scene.store, session_id)


def steps(tree: SessionTree) -> list[str]:
    """The steps of the child that the session keeps."""
    with tree.store.open(tree.id) as opened:
        return [each.id for each in opened.pinned.child("release").playbook.steps]


def test_a_session_keeps_its_children_as_they_were(scene: Scene) -> None:
    tree = began(scene)
    assert scene.file(tree, CHILD).read_bytes() == release("publish")
    assert steps(tree) == steps(scene.again(tree)) == ["publish"]


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
    tree = began(scene)
    scene.edit(tree, CHILD, ("publish", "hide"))
    with pytest.raises(StateError) as caught:
        steps(scene.again(tree))
    assert caught.value.code == "PB-STATE-TAMPERED"
    assert caught.value.where.endswith(f"{tree.id}/{CHILD}")


def test_what_is_put_beside_it_is_no_child(scene: Scene) -> None:
    tree = began(scene)
    scene.file(tree, "playbooks/deploy.yaml").write_bytes(release("b"))
    with scene.again(tree).store.open(tree.id) as opened:
        assert list(opened.pinned.children) == ["release"]


@pytest.mark.parametrize("held", [True, False])
def test_a_vanished_one_is_restored(scene: Scene, held: bool) -> None:
    tree = began(scene)
    if held:
        scene.store.hold(tree.id)
    else:
        tree = scene.again(tree)
    shutil.rmtree(scene.file(tree, "playbooks"))
    assert steps(tree) == ["publish"]
    assert scene.file(tree, CHILD).read_bytes() == release("publish")
    assert tree.store.notices == [f"{tree.id}: {CHILD} had disappeared; restored from the copy"]


def test_a_repair_names_the_change_and_undoes_it(scene: Scene) -> None:
    tree = began(scene)
    scene.edit(tree, CHILD, ("publish", "hide"))
    (found,) = repair.repair(tree.id, cwd=scene.root).differences
    assert (found.file, found.what) == (CHILD, "the pinned playbook was changed")
    assert "publish" in found.changes[0][1]
    repair.repair(tree.id, undo=True, cwd=scene.root)
    assert steps(scene.again(tree)) == ["publish"]


def test_policies_of_a_child_go_with_it(scene: Scene) -> None:
    """kai P3-2: they do not apply to a step of the same name in the session itself."""
    demand = Demand("publish", "release.yaml", Autonomy.GATE_ALWAYS, playbook="release")
    tree = scene.again(began(scene, Policy((demand,))))
    with tree.store.open(tree.id) as opened:
        assert list(opened.policy.of("publish")) == []
        assert opened.pinned.child("release").policy == Policy(
            (Demand("publish", "release.yaml", Autonomy.GATE_ALWAYS),)
        )
        (publish,) = opened.pinned.tightened_children["release"].steps
    assert publish.autonomy is Autonomy.GATE_ALWAYS
