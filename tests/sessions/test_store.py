"""Sessions on disk: created, found, restored, and protected."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from pytest_mock import MockerFixture
from support.scratch_project import Project
from support.stored_sessions import (
    BEGAN,
    FEATURE,
    REFUSALS,
    Failing,
    Scene,
    ask,
    finish,
    ids,
    playbook,
    step,
    work,
)

from playbook_supervisor.errors import PlaybookError, StateError, StorageError
from playbook_supervisor.kernel.directives import Finish, Outcome
from playbook_supervisor.kernel.vocabulary import Resolution, SessionStatus
from playbook_supervisor.sessions.files import pinned_inputs
from playbook_supervisor.sessions.files.manifest import SESSION_ID
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.git import checkout

GOLDEN = Path(__file__).parents[1] / "golden" / "journals"
OK = Outcome(output="ok")


def make(store: DiskStore, text: bytes = b"") -> str:
    return store.create(
        playbook="sample", text=text or playbook("a"), feature=FEATURE, args={"n": "013"}
    )


# ── creating ────────────────────────────────────────────────────────────────────────────────


def test_a_new_session_is_a_folder_with_all_that_it_needs(scene: Scene) -> None:
    """kai FR11, FR12: id, manifest, empty journal and the playbook as it is now."""
    tree = scene.create("a", "b")
    assert SESSION_ID.match(tree.id)
    assert tree.id.startswith("20260219-")
    folder = scene.file(tree, "x").parent
    assert sorted(file.name for file in folder.iterdir()) == [
        "config.yaml",
        "journal.yaml",
        "playbook.yaml",
        "session.yaml",
    ]
    manifest = scene.manifest(tree)
    assert manifest["session_id"] == tree.id
    assert (manifest["status"], manifest["feature"]) == ("pending", FEATURE)
    assert (manifest["branch"], manifest["worktree"]) == (FEATURE, "")
    assert scene.journal(tree) == []
    assert scene.file(tree, "playbook.yaml").read_bytes() == playbook("a", "b")
    assert scene.store.ids() == [tree.id]
    assert scene.store.drives(tree.id)


def test_the_date_in_an_id_is_that_of_utc(scene: Scene) -> None:
    scene.clock.now = BEGAN - 10 * 3_600_000 - 2000  # one second before midnight
    assert scene.create("a").id.startswith("20260218-")


def test_a_used_id_is_not_reserved_again(scene: Scene, mocker: MockerFixture) -> None:
    first = scene.create("a")
    tail = bytes("abcdefghijklmnopqrstuvwxyz0123456789".index(c) for c in first.id[-3:])
    real = os.urandom
    wanted = [tail, tail, b"\0\1\2"]
    mocker.patch("os.urandom", lambda n: wanted.pop(0) if n == 3 else real(n))
    assert scene.create("a").id == "20260219-abc"
    assert wanted == []


def test_two_worktrees_cannot_get_the_same_id(project: Project, mocker: MockerFixture) -> None:
    project.git("worktree", "add", "-q", "../other", "-b", "other")
    main = DiskStore(checkout.find(project.root))
    other = DiskStore(checkout.find(project.root.parent / "other"))
    real = os.urandom
    tails = [b"\0\0\0", b"\0\0\0", b"\0\0\1"]
    mocker.patch("os.urandom", lambda n: tails.pop(0) if n == 3 else real(n))
    first, second = make(main), make(other)
    assert (first[-3:], second[-3:]) == ("aaa", "aab")
    assert other.manifest(second).worktree == "../other"
    assert other.manifest(second).branch == "other"
    assert main.ids() == [first]
    assert (other.drives(first), other.drives(second)) == (False, True)


# ── finding ─────────────────────────────────────────────────────────────────────────────────


def test_a_project_without_sessions_has_none(scene: Scene) -> None:
    assert (scene.store.ids(), scene.store.driven()) == ([], [])
    (scene.root / ".playbooks").mkdir()
    (scene.root / ".playbooks/sessions").write_text("a file in its place")
    assert scene.store.ids() == []


def test_other_folders_are_ignored(scene: Scene) -> None:
    tree = scene.create("a")
    for name in ("notes", "20260219-ABC", "20260219-aaaa", "20260219-zzz"):
        (scene.root / ".playbooks/sessions" / name).mkdir()
    assert scene.store.ids() == [tree.id]


@pytest.mark.parametrize(
    "name", ["20260219-zzz", "", "../../etc", "20260219-zz/", "20260219-zzz\n", "x" * 500]
)
@pytest.mark.parametrize("asked", ["open", "manifest", "journal"])
def test_an_invalid_id_is_refused(scene: Scene, name: str, asked: str) -> None:
    scene.create("a")
    deed = getattr(scene.store, asked)
    with pytest.raises(StateError) as caught, contextlib.nullcontext(deed(name)) as opened:
        opened.__enter__()
    assert caught.value.code == "PB-STATE-NO-SESSION"
    assert len(caught.value.message) < 120
    assert not (scene.store.checkout.runtime / "20260219-zzz").exists()


def test_an_open_session_notices_what_others_write(scene: Scene) -> None:
    tree = scene.create("a", "b")
    tree.begin()
    other = scene.again(tree)
    other.advance()
    assert not other.changed()
    tree.report("a#1", OK)
    assert other.changed()
    assert work(other.advance()).id == "b#1"
    assert scene.fresh().changed(tree.id)


# ── vanishing ───────────────────────────────────────────────────────────────────────────────


def test_a_session_that_is_open_here_counts_as_unchanged(scene: Scene) -> None:
    """A check's program may end because the session has changed: asking opens nothing again."""
    tree = scene.create("a")
    with scene.store.open(tree.id):
        assert not scene.store.changed(tree.id)
    with pytest.raises(ZeroDivisionError), scene.store.open(tree.id):
        raise ZeroDivisionError
    assert scene.store.changed(tree.id)


def test_a_vanished_folder_is_restored_with_a_sentence(project: Project) -> None:
    """A worker's `git clean -fdx` loses nothing."""
    store = DiskStore(checkout.find(project.root))
    tree = SessionTree(store, make(store, playbook("a", "b", "c")))
    tree.begin()
    tree.report("a#1", OK)
    before = {f.name: f.read_bytes() for f in project.session.iterdir()}
    project.git("clean", "-fdxq")
    assert project.sessions == []
    assert (store.ids(), store.driven()) == ([], [tree.id])
    assert work(tree.report("b#1", OK)).id == "c#1"
    (notice,) = store.notices
    assert tree.id in notice
    assert "session.yaml, journal.yaml, playbook.yaml, config.yaml had disappeared" in notice
    assert project.journal()[0]["step_id"] == "a"
    assert (project.session / "playbook.yaml").read_bytes() == before["playbook.yaml"]
    assert store.ids() == [tree.id]


def test_a_file_that_a_failing_machine_left_empty_is_restored(scene: Scene) -> None:
    tree = scene.create("a")
    scene.file(tree, "session.yaml").write_bytes(b"")
    again = scene.again(tree)
    assert again.look().pending
    assert "session.yaml had disappeared" in again.store.notices[0]
    assert scene.manifest(tree)["status"] == "pending"


def test_an_ended_session_that_vanished_is_left_alone(scene: Scene) -> None:
    tree = scene.create("a")
    finish(tree, tree.begin())
    shutil.rmtree(scene.file(tree, "x").parent)
    assert scene.fresh().driven() == []


def test_a_session_with_a_damaged_runtime_state_counts_as_open(scene: Scene) -> None:
    tree = scene.create("a")
    with scene.store.open(tree.id) as opened:
        opened.place.write(b"nonsense")
    assert scene.fresh().driven() == [tree.id]


# ── hostile surroundings ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("target", ["outside", "inside"])
def test_a_session_folder_that_is_a_link_is_refused(
    scene: Scene, tmp_path_factory: pytest.TempPathFactory, target: str
) -> None:
    tree = scene.create("a")
    folder = scene.file(tree, "x").parent
    elsewhere = {"outside": tmp_path_factory.mktemp("e") / "s", "inside": scene.root / "s"}[target]
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    for deed in (scene.again(tree).advance, lambda: scene.fresh().manifest(tree.id)):
        with pytest.raises(StorageError) as caught:
            deed()
        assert caught.value.code == "PB-IO-ESCAPE"


def test_a_linked_folder_of_all_sessions_is_refused(scene: Scene, tmp_path: Path) -> None:
    (scene.root / ".playbooks").mkdir()
    (scene.root / ".playbooks/sessions").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError) as caught:
        scene.create("a")
    assert caught.value.code == "PB-IO-ESCAPE"
    assert not (tmp_path / "elsewhere").exists()


def test_a_session_held_by_another_process_is_refused_in_time(
    scene: Scene, mocker: MockerFixture
) -> None:
    tree = scene.create("a")
    lock = scene.store.runtime(tree.id) / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        mocker.patch("time.monotonic", side_effect=iter(range(0, 10_000, 20)))
        with pytest.raises(StateError) as caught:
            tree.begin()
        mocker.stopall()
        holder.kill()
    assert caught.value.code == "PB-STATE-BUSY"
    assert work(tree.begin()).id == "a#1"


HOLD = """
import fcntl, sys
with open(sys.argv[1], "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("reason", REFUSALS, ids=errno.errorcode.get)
def test_any_failed_write_keeps_the_old_state_and_the_next_command_works(
    scene: Scene, mocker: MockerFixture, reason: int, lasting: bool
) -> None:
    """kai S-M4; cat NFR-2.2: a clear error, and nothing half-written."""
    refused = [
        turn for turn in range(1, 25) if not _reported(scene, mocker, turn, reason, lasting=lasting)
    ]
    assert len(refused) > 8


def _reported(
    scene: Scene, mocker: MockerFixture, turn: int, reason: int, *, lasting: bool
) -> bool:
    """Whether a report succeeds although its n-th write fails; and then all is as it should be."""
    tree = scene.create("a", "b")
    tree.begin()
    journal = scene.file(tree, "journal.yaml")
    before = journal.read_bytes()
    failing = Failing(mocker, turn, reason, lasting=lasting)
    try:
        tree.report("a#1", OK)
        caught = None
    except PlaybookError as error:
        caught = error
    mocker.stopall()
    if caught is not None:
        assert (caught.code, os.strerror(reason) in caught.message) == ("PB-IO-WRITE", True)
        # a disk that lets go of nothing any more cannot put the old file back, either
        assert lasting or journal.read_bytes() == before
    elif failing.left < 0 and lasting:
        assert journal.read_bytes() != before  # only session.yaml, which follows, was refused
    again = scene.again(tree) if turn % 2 else tree
    assert work(again.report("a#1", OK)).id == "b#1"
    assert ids(scene.journal(tree)) == ["a#1 done", "b#1 in_progress"]
    assert scene.manifest(tree)["current_step"] == "b"
    assert not list(journal.parent.glob(".playbook-tmp-*"))
    return caught is None


@pytest.mark.parametrize("reason", REFUSALS, ids=errno.errorcode.get)
def test_a_failed_creation_leaves_no_session(
    scene: Scene, mocker: MockerFixture, reason: int
) -> None:
    refused = 0
    for turn in range(1, 40, 3):
        Failing(mocker, turn, reason, lasting=True)
        with suppress(StorageError):
            scene.create("a")
            refused -= 1  # only a copy could not be written
        mocker.stopall()
        refused += 1
        assert not list(scene.root.glob(".playbooks/sessions/.*"))
    assert refused > 8
    made = scene.fresh().ids()
    assert sorted(path.name for path in scene.root.glob(".git/playbook/[0-9]*")) == made
    for session_id in made:
        assert SessionTree(scene.fresh(), session_id).look().pending
    assert work(scene.create("a").begin()).id == "a#1"


def test_what_a_killed_process_left_is_swept_once_no_process_creates_a_session(
    scene: Scene,
) -> None:
    kept = scene.create("a").id
    left = "20260219-abc"
    aside = f".playbooks/sessions/.playbook-tmp-{left}/playbook.yaml"
    for place in (aside, f".git/playbook/{left}/lock", f".git/playbook/ids/{left}/x"):
        scene.write(place)
    with scene.store.creating():
        scene.write(aside)  # the living process is at it
        assert scene.fresh().ids() == scene.fresh().driven() == [kept]
        assert (scene.root / aside).exists()
    assert scene.fresh().driven() == [kept]
    assert not list(scene.root.glob(f"**/*{left}*"))
    assert SessionTree(scene.fresh(), kept).look().pending


def test_a_vanished_worktree_is_a_clear_error(project: Project) -> None:
    """kai RK-2."""
    project.git("worktree", "add", "-q", "../other", "-b", "other")
    other = project.root.parent / "other"
    store = DiskStore(checkout.find(other))
    tree = SessionTree(store, make(store))
    tree.begin()
    project.git("worktree", "remove", "--force", "../other")
    for again in (tree, SessionTree(DiskStore(store.checkout), tree.id)):
        with pytest.raises(PlaybookError) as caught:
            again.report("a#1", OK)
        assert caught.value.exit_code == 3
    assert not other.exists()
    assert not store.checkout.runtime.exists()


# ── the original's own sessions ─────────────────────────────────────────────────────────────


KAI = """\
session_id: "20260219-a7k"
playbook: "sample"
feature: "012-playbook-supervisor"
args:
  feature: "012-playbook-supervisor"
status: "{status}"
started_at: "2026-02-19T09:00:00Z"
completed_at: ""
current_step: ""
worktree: ""
"""


def kai(scene: Scene, name: str, status: str, *steps: dict[str, object] | str) -> SessionTree:
    """A session as the original's tools left it, given the playbook that it ran."""
    scene.write(".playbooks/sessions/20260219-a7k/session.yaml", KAI.format(status=status))
    journal = (GOLDEN / f"{name}.yaml").read_text()
    scene.write(".playbooks/sessions/20260219-a7k/journal.yaml", journal)
    pinned_inputs.write(scene.store.folder("20260219-a7k"), playbook(*steps), None)
    return SessionTree(scene.store, "20260219-a7k")


def test_a_session_of_the_originals_is_listed_before_it_has_a_playbook(scene: Scene) -> None:
    tree = kai(scene, "kai-crashed", "in_progress", "plan", "tasks")
    scene.file(tree, "playbook.yaml").unlink()
    assert scene.store.ids() == ["20260219-a7k"]
    assert scene.store.manifest("20260219-a7k").feature == "012-playbook-supervisor"
    with pytest.raises(StateError) as caught:
        tree.advance()
    assert caught.value.code == "PB-STATE-NO-PLAYBOOK"


def test_a_completed_session_of_the_originals_is_read_with_its_retries(scene: Scene) -> None:
    """A failed entry that another attempt follows was retried: the journal says no more."""
    tree = kai(scene, "kai-completed", "completed", "plan", "implement", "pr")
    before = scene.file(tree, "journal.yaml").read_bytes()
    snapshot = tree.advance()
    assert isinstance(snapshot.directive, Finish)
    assert snapshot.directive.status is SessionStatus.COMPLETED
    entries = scene.store.journal(tree.id).entries
    assert [entry.id for entry in entries] == ["plan#1", "implement#1", "implement#2", "pr#1"]
    assert entries[1].resolution is Resolution.RETRY
    assert scene.file(tree, "journal.yaml").read_bytes() == before
    assert scene.again(tree).advance() == snapshot


def test_a_retry_of_the_originals_keeps_its_stated_resolution(scene: Scene) -> None:
    tree = kai(scene, "kai-completed", "completed", "plan", "implement", "pr")
    said = ('error: "2 tests failed"', 'error: "2 tests failed"\n    resolution: skip')
    scene.edit(tree, "journal.yaml", said)
    entries = scene.store.journal(tree.id).entries
    assert [entry.resolution for entry in entries] == [None, Resolution.SKIP, None, None]


def test_a_crashed_session_of_the_originals_is_resumed(scene: Scene) -> None:
    """Its evidence is not there, so the step runs again, and every byte of kai stays."""
    tasks = step("tasks", postconditions=["tasks_exists"])
    tree = kai(scene, "kai-crashed", "in_progress", "plan", tasks, "last")
    before = scene.file(tree, "journal.yaml").read_text()
    snapshot = tree.advance()
    assert work(snapshot).id == "tasks#1"
    snapshot = tree.lose(work(snapshot))
    assert work(snapshot).id == "tasks#2"
    scene.write("specs/012-playbook-supervisor/tasks.md")
    tree.report("tasks#2", OK)
    snapshot = finish(scene.again(tree), scene.again(tree).advance())
    assert snapshot.manifest.status is SessionStatus.COMPLETED
    text = scene.file(tree, "journal.yaml").read_text()
    assert text.startswith(before[: before.index("  status: in_progress")])
    assert "# the laptop died here\n- step_id: tasks\n  status: failed\n" in text
    assert [entry["step_id"] for entry in yaml.safe_load(text)["entries"]] == [
        "plan",
        "tasks",
        "tasks",
        "last",
    ]
    scene.edit(tree, "journal.yaml", ("# the laptop", "# as we know: the laptop"))
    assert scene.again(tree).advance().manifest.status is SessionStatus.COMPLETED


def test_a_session_of_the_originals_continues_after_its_finished_step(scene: Scene) -> None:
    tasks = step("tasks", postconditions=["tasks_exists"])
    tree = kai(scene, "kai-crashed", "in_progress", "plan", tasks, "last")
    scene.write("specs/012-playbook-supervisor/tasks.md")
    snapshot = tree.lose(work(tree.advance()))
    assert work(snapshot).id == "last#1"
    (crashed,) = [e for e in scene.store.journal(tree.id).entries if e.step_id == "tasks"]
    assert crashed.recovered


def test_a_pending_session_of_the_originals_begins(scene: Scene) -> None:
    tree = kai(scene, "kai-pending", "pending", step("plan", autonomy="gate_always"))
    assert tree.look().pending
    assert ask(tree.begin()).id == "plan#1?1"
    assert scene.manifest(tree)["status"] == "in_progress"


def test_a_journal_that_diverges_from_its_playbook_is_reported_with_its_place(scene: Scene) -> None:
    tree = kai(scene, "kai-crashed", "in_progress", "tasks", "plan")
    with pytest.raises(StateError) as caught:
        tree.advance()
    assert caught.value.code == "PB-STATE-DIVERGED"
    assert "plan#1 where the playbook expects tasks" in caught.value.message


def test_a_worktree_that_was_removed_is_not_made_again(project: Project) -> None:
    worktree = project.root.with_name("beside")
    project.git("worktree", "add", "-q", str(worktree), "-b", "beside")
    store = DiskStore(checkout.find(worktree))
    session_id = make(store)
    shutil.rmtree(worktree)
    for again in (store, DiskStore(store.checkout)):
        with pytest.raises(StateError) as refused, again.open(session_id):
            pass
        assert refused.value.code == "PB-STATE-NO-WORKTREE"
        assert refused.value.guidance.startswith(f"`playbook repair {session_id} --restore`")
    assert not worktree.exists()


def test_an_edited_status_in_the_manifest_is_ignored(scene: Scene) -> None:
    """Where this worktree drives the session, what it wrote itself counts for listings, too."""
    session_id = make(scene.store)
    file = scene.store.folder(session_id) / "session.yaml"
    file.write_text(file.read_text().replace("status: pending", "status: completed"))
    assert scene.store.manifest(session_id).status is SessionStatus.PENDING
    with pytest.raises(StateError) as refused, DiskStore(scene.store.checkout).open(session_id):
        pass
    assert refused.value.code == "PB-STATE-TAMPERED"


def test_a_folder_without_a_runtime_state_is_not_driven(scene: Scene) -> None:
    """A crash may leave it, before anything was known."""
    scene.store.runtime("20260219-a7k").mkdir(parents=True)
    assert scene.store.driven() == []
    assert scene.store.driven() == []
