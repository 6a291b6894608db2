"""An open session: what people write into its files survives, what others falsify is seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.stored_sessions import Scene, ask, failed, finish, ids, step, work

from playbook_supervisor.errors import CheckError, StateError, StorageError
from playbook_supervisor.kernel.directives import Finish, Outcome
from playbook_supervisor.kernel.vocabulary import Resolution, SessionStatus
from playbook_supervisor.sessions.files.journal import parse_journal
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.tree.session_tree import SessionTree

OK = Outcome(output="ok")


@pytest.fixture
def half_way(scene: Scene) -> SessionTree:
    """The steps a and b are done, c runs, d waits for a human afterwards."""
    tree = scene.create("a", "b", "c", step("d", autonomy="gate_always"))
    snapshot = tree.begin()
    for _ in range(2):
        snapshot = tree.report(work(snapshot).id, OK)
    with tree.store.open(tree.id) as opened:
        opened.copy()
    return tree


def refusal(scene: Scene, tree: SessionTree) -> StateError:
    """How a new process refuses to touch the session."""
    with pytest.raises(StateError) as caught:
        scene.again(tree).advance()
    assert caught.value.code == "PB-STATE-TAMPERED"
    return caught.value


# ── what people write ───────────────────────────────────────────────────────────────────────


NOTES = {
    "above everything": ("schema: 1", "# reviewed by Ana\n\nschema: 1"),
    "in a settled entry": ("  - step_id: b", "  - step_id: b   # Ana: why twice?"),
    "in the open entry": ("  - step_id: c", "  # slow\n  - step_id: c # Ana: watch this"),
    "a line in the open entry": ("step_id: c\n", "step_id: c\n    # a line of its own\n"),
    "between entries": ("  - step_id: b", "\n  # the second one\n\n  - step_id: b"),
    "an unknown key": ("step_id: c\n", "step_id: c\n    ticket: ABC-12\n"),
    "re-quoted": ("decision: auto", "decision: 'auto'"),
    "re-quoted in the open entry": ("in_progress", '"in_progress"'),
}


@pytest.mark.parametrize("old_process", [True, False])
@pytest.mark.parametrize("change", NOTES.values(), ids=NOTES.keys())
def test_a_reviewers_note_survives_every_later_write(
    scene: Scene, half_way: SessionTree, change: tuple[str, str], old_process: bool
) -> None:
    edited = scene.edit(half_way, "journal.yaml", change)
    tree = half_way if old_process else scene.again(half_way)
    assert isinstance(finish(tree, tree.advance()).directive, Finish)
    lines = scene.file(half_way, "journal.yaml").read_bytes().splitlines()
    settled, _, open_entry = edited.partition(b"- step_id: c")
    assert lines[: len(settled.splitlines()) - 1] == settled.splitlines()[:-1]
    kept = [line for line in open_entry.splitlines() if b"#" in line or b"ticket" in line]
    assert all(any(line in written for written in lines) for line in kept)
    assert ids(scene.journal(half_way)) == ["a#1 done", "b#1 done", "c#1 done", "d#1 done"]
    assert scene.again(half_way).advance().manifest.status is SessionStatus.COMPLETED


def test_a_note_in_a_journal_without_entries_survives(scene: Scene) -> None:
    tree = scene.create("a")
    scene.edit(tree, "journal.yaml", ("entries: []", "# nothing yet\nentries: []  # soon"))
    finish(tree, tree.begin())
    text = scene.file(tree, "journal.yaml").read_text()
    assert text.startswith("schema: 1\n# nothing yet\nentries:  # soon\n  - step_id: a\n")


def test_notes_in_the_manifest_survive_every_later_write(
    scene: Scene, half_way: SessionTree
) -> None:
    scene.edit(
        half_way,
        "session.yaml",
        ("schema: 1", "# Ana's\nschema: 1"),
        ("current_step: c", "current_step: 'c'  # now"),
        ("feature:", "ticket: ABC-12\n\nfeature:"),
    )
    finish(half_way, half_way.advance())
    text = scene.file(half_way, "session.yaml").read_text()
    assert text.startswith("# Ana's\nschema: 1\n")
    assert "ticket: ABC-12\n\nfeature:" in text
    assert 'current_step: ""  # now\n' in text
    assert scene.manifest(half_way)["status"] == "completed"


def test_comments_in_the_pinned_playbook_are_taken_silently(
    scene: Scene, half_way: SessionTree
) -> None:
    scene.edit(half_way, "playbook.yaml", ("steps:", "# these\nsteps:"))
    assert work(scene.again(half_way).advance()).id == "c#1"
    assert work(scene.again(half_way).advance()).id == "c#1"


@pytest.mark.parametrize("content", [None, b"", b"nonsense", b"{}"])
def test_the_compiled_playbook_is_made_again_when_it_is_gone(
    scene: Scene, half_way: SessionTree, content: bytes | None
) -> None:
    compiled = half_way.private / "compiled.json"
    before = compiled.read_bytes()
    compiled.unlink() if content is None else compiled.write_bytes(content)
    assert work(scene.again(half_way).advance()).id == "c#1"
    assert compiled.read_bytes() == before


# ── what others falsify ─────────────────────────────────────────────────────────────────────


LIES = {
    "a settled entry": (("status: done", "status: failed"), "entry a#1 was changed: status was"),
    "the open entry": (("in_progress", "done"), "entry c#1 was changed: status was 'in_progress'"),
    "a time": (("T10:00:0", "T09:00:0"), "entry a#1 was changed: started_at"),
    "a duration": (("duration_seconds: ", "duration_seconds: 9"), "the duration of a#1"),
    "an order": (("step_id: b", "step_id: z"), "entry b#1 was removed or moved"),
    "an answer": (
        ("output: ok", 'output: ok\n    human_response: "yes"'),
        "human_response was empty",
    ),
}


@pytest.mark.parametrize(("change", "said"), LIES.values(), ids=LIES.keys())
def test_changed_data_stop_the_next_command_which_names_the_entry(
    scene: Scene, half_way: SessionTree, change: tuple[str, str], said: str
) -> None:
    """cat FR-7.5."""
    edited = scene.edit(half_way, "journal.yaml", change)
    error = refusal(scene, half_way)
    assert said in error.message
    assert error.where.endswith(f"{half_way.id}/journal.yaml")
    assert scene.file(half_way, "journal.yaml").read_bytes() == edited
    assert f"`playbook repair {half_way.id}` shows the change" in error.guidance


def test_the_process_that_wrote_it_sees_a_change_as_well(
    scene: Scene, half_way: SessionTree
) -> None:
    scene.edit(half_way, "journal.yaml", ("in_progress", "done"))
    with pytest.raises(StateError, match="entry c#1 was changed"):
        half_way.report("c#1", OK)


def test_a_removed_entry_is_named(scene: Scene, half_way: SessionTree) -> None:
    file = scene.file(half_way, "journal.yaml")
    text = file.read_text()
    file.write_text(text[: text.index("  - step_id: c")])
    assert refusal(scene, half_way).message == "the entry c#1 was removed or moved"
    file.write_text(text[: text.index("  - step_id: a")] + text[text.index("  - step_id: b") :])
    assert refusal(scene, half_way).message == "the entry a#1 was removed or moved"


def test_an_added_entry_is_named(scene: Scene, half_way: SessionTree) -> None:
    file = scene.file(half_way, "journal.yaml")
    forged = file.read_text().split("  - ")[1].replace("step_id: a", "step_id: d")
    file.write_text(f"{file.read_text()}  - {forged}")
    assert refusal(scene, half_way).message == "the entry d#1 was added by something else"


def test_without_a_usable_copy_a_changed_settled_entry_is_still_seen(
    scene: Scene, half_way: SessionTree
) -> None:
    scene.edit(half_way, "journal.yaml", ("status: done", "status: failed"))
    copy = half_way.private / "journal.yaml"
    for content in (None, b"{", b"schema: 1\nentries: []\n"):
        copy.unlink() if content is None else copy.write_bytes(content)
        assert refusal(scene, half_way).message == "one of the first 2 entries was changed"


@pytest.mark.parametrize(
    "change", [("status: in_progress", "status: completed"), ("branch: 013-x", "branch: main")]
)
def test_changed_data_of_the_manifest_stop_the_next_command(
    scene: Scene, half_way: SessionTree, change: tuple[str, str]
) -> None:
    scene.edit(half_way, "session.yaml", change)
    error = refusal(scene, half_way)
    assert change[0].split(": ")[1] in error.message
    assert error.where.endswith("session.yaml")


@pytest.mark.parametrize("cache", ["as it was", "gone", "nonsense"])
@pytest.mark.parametrize(
    "change", [("command: /x", "command: /y"), ("- id: b", "- id: bb"), ("steps:", "steps: 1 #")]
)
def test_an_edited_pinned_playbook_stops_the_next_command(
    scene: Scene, half_way: SessionTree, change: tuple[str, str], cache: str
) -> None:
    compiled = half_way.private / "compiled.json"
    if cache == "gone":
        compiled.unlink()
    elif cache == "nonsense":
        compiled.write_bytes(b'{"digest": 1, "playbook": []}')
    scene.edit(half_way, "playbook.yaml", change)
    assert "the pinned playbook was changed" in refusal(scene, half_way).message


def test_a_journal_that_is_no_longer_one_is_reported_with_its_place(
    scene: Scene, half_way: SessionTree
) -> None:
    """cat FR-7.5."""
    scene.edit(half_way, "journal.yaml", ("- step_id: b", "- step_id: [b"))
    with pytest.raises(StateError) as caught:
        scene.again(half_way).advance()
    assert caught.value.code == "PB-STATE-CORRUPT"
    assert "journal.yaml:" in caught.value.where


@pytest.mark.parametrize("name", ["journal.yaml", "session.yaml", "playbook.yaml"])
def test_a_file_of_the_session_that_is_a_link_is_refused(
    scene: Scene, half_way: SessionTree, name: str
) -> None:
    file = scene.file(half_way, name)
    file.rename(scene.root / name)
    file.symlink_to(scene.root / name)
    with pytest.raises(StorageError) as caught:
        scene.again(half_way).advance()
    assert caught.value.code == "PB-IO-ESCAPE"
    assert name in caught.value.message


# ── what follows from the journal ───────────────────────────────────────────────────────────


def test_the_manifest_says_what_the_journal_says(scene: Scene) -> None:
    """kai FR12, D-ST: status, current step and the end follow from the entries."""
    tree = scene.create("a", step("b", autonomy="gate_always"))
    assert scene.manifest(tree)["status"] == "pending"
    snapshot = tree.begin()
    assert scene.manifest(tree)["current_step"] == "a"
    snapshot = tree.report(work(snapshot).id, OK)
    gate = scene.manifest(tree)["gate"]
    assert (gate["id"], gate["reason"]) == ("b#1?1", "gate_always")
    assert gate["question"] == snapshot.question
    tree.answer(ask(snapshot).id, Resolution.SKIP, "skip", Principal("Ana"))
    done = scene.manifest(tree)
    assert (done["status"], done["current_step"]) == ("completed", "")
    assert "gate" not in done
    assert done["completed_at"] == scene.journal(tree)[-1]["completed_at"]


def test_a_lagging_manifest_with_a_persons_note_is_repaired_and_keeps_it(
    scene: Scene, half_way: SessionTree
) -> None:
    file = scene.file(half_way, "session.yaml")
    before = file.read_bytes()
    half_way.report("c#1", OK)
    file.write_bytes(b"# Ana's\n" + before)
    scene.again(half_way).advance()
    assert file.read_bytes().startswith(b"# Ana's\nschema: 1\n")
    assert scene.manifest(half_way)["current_step"] == "d"


def test_opening_an_unchanged_session_writes_nothing(scene: Scene, half_way: SessionTree) -> None:
    def looks() -> dict[Path, int]:
        folders = [scene.file(half_way, "x").parent, half_way.private]
        return {f: f.stat().st_mtime_ns for folder in folders for f in folder.iterdir()}

    before = looks()
    assert work(scene.again(half_way).advance()).id == "c#1"
    assert looks() == before


# ── between two writes ──────────────────────────────────────────────────────────────────────


def crashed_before_the_journal(scene: Scene, tree: SessionTree) -> bytes:
    """As a crash leaves it: the intent is on the disk, the journal that was to come is not."""
    names = ("journal.yaml", "session.yaml")
    before = {name: scene.file(tree, name).read_bytes() for name in names}
    tree.report("c#1", failed())
    for name, data in before.items():
        scene.file(tree, name).write_bytes(data)
    return before["journal.yaml"]


def test_a_crash_between_intent_and_journal_leaves_the_former_journal_known_as_ours(
    scene: Scene, half_way: SessionTree
) -> None:
    before = crashed_before_the_journal(scene, half_way)
    snapshot = scene.again(half_way).advance()
    assert work(snapshot).id == "c#1"
    assert scene.file(half_way, "journal.yaml").read_bytes() == before
    assert work(scene.again(half_way).advance()).id == "c#1"


def test_comments_are_accepted_after_a_crash(scene: Scene, half_way: SessionTree) -> None:
    crashed_before_the_journal(scene, half_way)
    scene.edit(half_way, "journal.yaml", ("- step_id: c", "- step_id: c  # was it this?"))
    scene.edit(half_way, "session.yaml", ("schema: 1", "# crashed here\nschema: 1"))
    assert work(scene.again(half_way).advance()).id == "c#1"


def test_changed_data_are_detected_after_a_crash(scene: Scene, half_way: SessionTree) -> None:
    crashed_before_the_journal(scene, half_way)
    scene.edit(half_way, "journal.yaml", ("in_progress", "done"))
    assert "entry c#1 was changed" in refusal(scene, half_way).message


# ── another machine ─────────────────────────────────────────────────────────────────────────


def test_on_another_machine_an_invalid_playbook_is_refused(
    scene: Scene, half_way: SessionTree
) -> None:
    """cat FR-7.5."""
    scene.cloned(half_way)
    scene.edit(half_way, "playbook.yaml", ("steps:", "stepz:"))
    with pytest.raises(CheckError) as caught:
        scene.again(half_way).advance()
    assert caught.value.code == "PB-CHECK-INVALID"


@pytest.mark.parametrize(
    ("name", "code"),
    [("playbook.yaml", "PB-STATE-NO-PLAYBOOK"), ("journal.yaml", "PB-STATE-CORRUPT")],
)
def test_on_another_machine_a_missing_file_is_named(
    scene: Scene, half_way: SessionTree, name: str, code: str
) -> None:
    scene.cloned(half_way)
    scene.file(half_way, name).unlink()
    with pytest.raises(StateError) as caught:
        scene.again(half_way).advance()
    assert caught.value.code == code
    assert half_way.id in caught.value.message


def test_a_damaged_runtime_state_is_an_error_with_guidance(
    scene: Scene, half_way: SessionTree
) -> None:
    with half_way.store.open(half_way.id) as opened:
        opened.runtime.state = {"past": 1}
        opened.runtime.save(opened.place)
    with pytest.raises(StateError) as caught:
        scene.again(half_way).advance()
    assert caught.value.code == "PB-STATE-CORRUPT"
    assert "playbook repair" in caught.value.guidance


def test_a_session_in_which_kai_gave_up_stays_ended(scene: Scene, half_way: SessionTree) -> None:
    """The original's tools ended sessions without a journal entry."""
    scene.cloned(half_way)
    scene.edit(half_way, "session.yaml", ("schema: 1\n", ""), ("in_progress", "aborted"))
    with scene.fresh().open(half_way.id) as opened:
        assert opened.manifest.status is SessionStatus.ABORTED
    assert scene.manifest(half_way)["status"] == "aborted"


@pytest.mark.parametrize("damage", ["none", "another entry", "cut off", "removed"])
def test_the_entries_are_those_of_the_journal_even_if_what_is_kept_of_them_was_damaged(
    scene: Scene, half_way: SessionTree, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = half_way.private / "settled.jsonl"
    expected = parse_journal(scene.file(half_way, "journal.yaml").read_bytes(), "").entries
    match damage:
        case "another entry":
            lines.write_bytes(lines.read_bytes().replace(b'"ok"', b'"no"'))
        case "cut off":
            lines.write_bytes(lines.read_bytes()[:-9])
        case "removed":
            lines.unlink()
        case _:  # then no YAML is read
            monkeypatch.setattr(
                "playbook_supervisor.sessions.files.local_state.parse_journal", None
            )
    assert half_way.store.journal(half_way.id).entries == expected
    scene.edit(half_way, "journal.yaml", NOTES["between entries"])
    monkeypatch.undo()
    assert half_way.store.journal(half_way.id).entries == expected
    finish(half_way, half_way.advance())
    assert [each.step_id for each in half_way.store.journal(half_way.id).entries] == list("abcd")
