"""Which session is meant without a name: by manifests and branches, never by times of files."""

from __future__ import annotations

import os
import shutil

import pytest
from support.stored_sessions import FEATURE, Scene, ask, finish, playbook, step

from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.sessions.store import selection
from playbook_supervisor.sessions.tree.session_tree import SessionTree

KAI = """\
session_id: 20260301-k2b
playbook: sample
feature: ""
args: {n: 13}
status: in_progress
started_at: 2026-03-01T09:00:00Z
completed_at: ""
current_step: a
worktree: ""
"""


def chosen(scene: Scene) -> str:
    return selection.choose(scene.fresh()).session_id


def touched(scene: Scene, tree: SessionTree) -> None:
    """As if its files had just been written."""
    for folder in (scene.file(tree, "x").parent, tree.private):
        for file in (folder, *folder.iterdir()):
            os.utime(file, (4_000_000_000, 4_000_000_000))


def failed(scene: Scene) -> SessionTree:
    tree = scene.create("a")
    tree.begin()
    tree.report("a#1", Outcome(Failure("PB-AGENT-FAILED", "no")))
    return tree


def kai(scene: Scene) -> None:
    folder = scene.root / ".playbooks/sessions/20260301-k2b"
    folder.mkdir(parents=True)
    (folder / "session.yaml").write_text(KAI)
    (folder / "journal.yaml").write_text("entries: []\n")


class TestAmongSeveralOfThisWorktree:
    def test_one_that_waits_comes_before_one_that_runs_and_one_that_is_pending(
        self, scene: Scene
    ) -> None:
        waits = scene.create(step("a", autonomy="gate_always"))
        assert ask(waits.begin())
        runs = scene.create("a")
        runs.begin()
        pending = scene.create("a")
        touched(scene, pending)
        found = selection.choose(scene.fresh())
        assert found.session_id == waits.id
        assert found.others == (runs.id, pending.id)

    def test_the_session_that_began_last_counts_not_the_last_written_file(
        self, scene: Scene
    ) -> None:
        first, second = scene.create("a"), scene.create("a")
        first.begin()
        second.begin()
        touched(scene, first)
        assert chosen(scene) == second.id

    def test_an_ended_one_is_not_chosen_while_another_is_open_or_failed(self, scene: Scene) -> None:
        lost, done = failed(scene), scene.create("a")
        finish(done, done.begin())
        touched(scene, done)
        assert chosen(scene) == lost.id
        opened = scene.create("a")
        touched(scene, done)
        assert chosen(scene) == opened.id

    def test_the_last_ended_one_is_chosen_where_none_is_unfinished(self, scene: Scene) -> None:
        both = [scene.create("a"), scene.create("a")]
        for each in both:
            finish(each, each.begin())
        touched(scene, both[0])
        assert chosen(scene) == both[1].id


def test_one_that_began_here_is_chosen_though_its_runtime_state_and_its_branch_are_gone(
    scene: Scene,
) -> None:
    lost = scene.create("a")
    shutil.rmtree(lost.private)
    (scene.root / ".git/HEAD").write_text("ref: refs/heads/014-other\n")
    assert chosen(scene) == lost.id


class TestOneThatAnotherToolBegan:
    def test_is_never_chosen_and_the_error_says_how_to_name_it(self, scene: Scene) -> None:
        kai(scene)
        with pytest.raises(StateError) as caught:
            chosen(scene)
        assert caught.value.code == "PB-STATE-NO-SESSION"
        assert caught.value.guidance == (
            "Name one, as in `playbook resume 20260301-k2b`: "
            "20260301-k2b (sample n=13, in progress, of another tool)."
        )
        assert selection.open_here(scene.fresh()) == []

    def test_does_not_hide_ours_and_is_this_worktrees_once_it_was_resumed(
        self, scene: Scene
    ) -> None:
        kai(scene)
        ours = failed(scene)
        assert chosen(scene) == ours.id
        assert selection.choose(scene.fresh(), "k2b").session_id == "20260301-k2b"
        pinned = scene.root / ".playbooks/sessions/20260301-k2b/playbook.yaml"
        pinned.write_bytes(playbook("a"))
        with scene.fresh().open("20260301-k2b"):
            pass
        assert chosen(scene) == "20260301-k2b"


class TestAnAbbreviation:
    IDS = ("20260219-yd9", "20260219-a7k", "20260301-yd1")

    @pytest.mark.parametrize("named", ["yd9", "9", "-yd9", "20260219-y", "20260219-yd9"])
    def test_is_the_beginning_or_the_end_of_one_id(self, named: str) -> None:
        assert selection.full_id(self.IDS, named) == "20260219-yd9"

    def test_may_be_the_beginning_of_the_last_part(self) -> None:
        assert selection.full_id(self.IDS, "a7") == "20260219-a7k"

    @pytest.mark.parametrize("named", ["20260219", "2026"])
    def test_of_several_is_refused_with_their_ids(self, named: str) -> None:
        with pytest.raises(StateError) as caught:
            selection.full_id(self.IDS, named)
        assert "20260219-a7k, 20260219-yd9" in caught.value.guidance

    def test_of_none_is_left_as_it_is(self) -> None:
        assert selection.full_id(self.IDS, "zzz") == "zzz"


def test_a_session_without_a_feature_is_shown_with_its_arguments(scene: Scene) -> None:
    with_feature = scene.store.manifest(scene.create("a").id)
    assert with_feature.subject == FEATURE
    kai(scene)
    assert scene.store.manifest("20260301-k2b").subject == "n=13"
