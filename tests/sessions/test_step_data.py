"""What a later step reads of a step's output."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from jsonschema import Draft7Validator
from support.stored_sessions import Scene, failed, playbook, work

from playbook_supervisor.commands import repair
from playbook_supervisor.errors import StateError, StepError, StorageError
from playbook_supervisor.kernel.directives import Finish, Outcome
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import Limits, Playbook, Step
from playbook_supervisor.kernel.vocabulary import Autonomy, OutputFormat, SessionStatus
from playbook_supervisor.project.playbooks.schema import schema_text
from playbook_supervisor.sessions.steps import output_files, step_data
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.sessions.tree.session_tree import SessionTree

JSON = OutputFormat.JSON
SCHEMA = json.dumps({"type": "object", "properties": {"count": {"type": "integer"}}})


def step(name: str, stdin: str = "", **more: object) -> Step:
    settings = {"autonomy": Autonomy.AUTO, "error_policy": ErrorPolicy.STOP, **more}
    return Step(name, "cli cat" if stdin else "/x", stdin=stdin, **settings)  # type: ignore[arg-type]


def session(scene: Scene, *steps: Step) -> SessionTree:
    definition = Playbook("sample", "A sample.", "1.1", (), steps)
    text = playbook(*map(written, steps)).replace(b"'1.0'", b"'1.1'")
    name = scene.store.create(
        playbook="sample", text=text, feature="", args={}, definition=definition
    )
    return SessionTree(scene.store, name)


def written(step: Step) -> dict[str, object]:
    """The step as its author writes it."""
    shape: dict[str, object] = {
        "id": step.id,
        "command": step.command,
        "autonomy": step.autonomy.value,
        "error_policy": step.error_policy.written,
    }
    return shape | ({"stdin": step.stdin} if step.stdin else {})


def kept(scene: Scene, tree: SessionTree, name: str = "build") -> dict[str, object]:
    shape: dict[str, object] = json.loads(scene.file(tree, f"outputs/{name}.json").read_bytes())
    Draft7Validator(json.loads(schema_text("outputs"))).validate(shape)
    return shape


def read(tree: SessionTree, name: str = "test") -> str:
    with tree.store.open(tree.id) as opened:
        return step_data.input_of(opened, opened.playbook.step(name))


def reported(scene: Scene, outcome: Outcome, *steps: Step) -> tuple[SessionTree, Snapshot]:
    tree = session(scene, *steps)
    tree.begin()
    return tree, tree.report("build#1", outcome)


# ── what is kept ────────────────────────────────────────────────────────────────────────────


def test_a_later_step_reads_the_whole_text_of_an_earlier_one(scene: Scene) -> None:
    """tyr 19."""
    text = "".join(f"line {number}\n" for number in range(500))
    tree, snapshot = reported(
        scene, Outcome(output=text), step("build"), step("test", "$build.stdout")
    )
    assert work(snapshot).id == "test#1"
    assert read(tree) == read(scene.again(tree)) == text
    assert kept(scene, tree) == {"schema": 1, "attempt": "build#1", "stdout": text}
    assert len(scene.journal(tree)[0]["output"]) <= 500


def test_nothing_is_kept_of_a_step_that_no_later_step_names(scene: Scene) -> None:
    """cat NFR-1.1."""
    tree, _ = reported(scene, Outcome(output="x"), step("build"), step("test"))
    assert not scene.file(tree, "outputs").exists()
    assert read(tree) == ""


def test_only_the_part_that_is_named_is_kept(scene: Scene) -> None:
    tree, _ = reported(
        scene,
        Outcome(output='{"count": 3}'),
        step("build", output=JSON),
        step("test", "$build.json"),
    )
    assert kept(scene, tree) == {"schema": 1, "attempt": "build#1", "json": {"count": 3}}
    assert json.loads(read(tree)) == {"count": 3}


def test_a_condition_of_a_later_step_also_names_output(scene: Scene) -> None:
    tree, _ = reported(
        scene,
        Outcome(output="[1, 2]"),
        step("build", output=JSON),
        step("test", when="$build.json[0] == 1"),
    )
    assert kept(scene, tree)["json"] == [1, 2]


def test_text_beyond_the_cap_is_cut_and_marked(scene: Scene) -> None:
    tree, _ = reported(
        scene,
        Outcome(output="a" * 2000 + "z"),
        step("build", limits=Limits(max_output_bytes=1000)),
        step("test", "$build.stdout"),
    )
    assert kept(scene, tree)["cut"] is True
    assert "[… 1,001 bytes left out …]" in read(tree)
    assert read(tree).endswith("z")


def test_the_output_of_the_last_attempt_counts(scene: Scene) -> None:
    tree, _ = reported(
        scene,
        failed("first"),
        step("build", error_policy=ErrorPolicy.RETRY_ONCE),
        step("test", "$build.stdout"),
    )
    assert kept(scene, tree)["attempt"] == "build#1"
    tree.report("build#2", Outcome(output="second"))
    assert read(tree) == "second"


def test_a_repeated_report_keeps_nothing(scene: Scene) -> None:
    steps = (step("build"), step("test", "$build.stdout"))
    tree, _ = reported(scene, Outcome(output="first"), *steps)
    tree.report("build#1", Outcome(output="second"))
    assert read(tree) == "first"
    with pytest.raises(StateError):
        tree.report("build#7", Outcome(output="third"))
    with pytest.raises(StateError):
        tree.report("nothing#1", Outcome(output="third"))
    assert kept(scene, tree)["stdout"] == "first"


def test_control_characters_and_secrets_of_the_environment_are_not_kept(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "hunter2-hunter2")
    tree, _ = reported(
        scene,
        Outcome(output="\x1b[31mred\ta hunter2-\x1b[0mhunter2 b\x07"),
        step("build"),
        step("test", "$build.stdout"),
    )
    assert read(tree) == "red\ta [redacted] b"


# ── output that promises JSON ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "output", ['{"count": 3}', ' \n{"count": 3}\n', '```json\n{"count": 3}\n```', '{"count":\t3}']
)
def test_the_last_message_of_an_agent_is_read_as_json(scene: Scene, output: str) -> None:
    """tyr 33."""
    tree, snapshot = reported(
        scene,
        Outcome(output=output),
        step("build", output=JSON, output_schema=SCHEMA),
        step("test", "$build.json"),
    )
    assert work(snapshot).id == "test#1"
    assert json.loads(read(tree)) == {"count": 3}


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (Outcome(output="all green"), "its output is not JSON: line 1, column 1:"),
        (Outcome(output=""), "its output is not JSON"),
        (Outcome(output='{"count": 3'), "its output is not JSON: line 1, column 12:"),
        (Outcome(output="[1] [2]"), "line 1, column 5: extra data"),
        (Outcome(output="[" * 100_000), "nested too deeply"),
        (Outcome(output="[" * 100_000), "(it was cut at 1,000 bytes)"),
        (Outcome(output="NaN"), "NaN is not a JSON number"),
        (Outcome(output='{"count": "3"}'), "does not match output_schema at $.count"),
        (Outcome(output=f'"{"x" * 2000}"'), "more than 1,000"),
        (Outcome(data={"count": {1, 2}}), "its data are not JSON"),
        (Outcome(data={"count": float("nan")}), "its data are not JSON"),
    ],
)
def test_a_step_that_breaks_its_promise_of_json_fails_with_the_place(
    scene: Scene, outcome: Outcome, said: str
) -> None:
    """tyr 20, 33."""
    limits = Limits(max_output_bytes=1000)
    tree, snapshot = reported(
        scene,
        outcome,
        step("build", output=JSON, output_schema=SCHEMA, limits=limits),
        step("test", "$build.json"),
    )
    assert snapshot.directive == Finish(SessionStatus.FAILED)
    (entry,) = scene.journal(tree)
    assert (entry["error_code"], entry["status"]) == ("PB-STEP-OUTPUT", "failed")
    assert said in entry["error"]


def test_a_surrogate_in_json_is_kept_as_its_escape(scene: Scene) -> None:
    tree, _ = reported(
        scene, Outcome(output='"\\ud800"'), step("build", output=JSON), step("test", "$build.json")
    )
    assert kept(scene, tree)["json"] == "\ud800"


def test_json_of_an_executor_is_taken_as_it_is(scene: Scene) -> None:
    tree, _ = reported(
        scene,
        Outcome(output="shown", data={"count": 3}),
        step("build", output=JSON, output_schema=SCHEMA),
        step("test", "$build.json"),
        step("last", "$build.stdout"),
    )
    assert json.loads(read(tree)) == {"count": 3}
    assert read(tree, "last") == "shown"


# ── output that is not there ────────────────────────────────────────────────────────────────


def test_a_failed_step_left_text_but_no_json(scene: Scene) -> None:
    outcome = Outcome(output="it broke", error=failed().error)
    reading = (step("test", "$build.json"), step("last", "$build.stdout"))
    tree, _ = reported(scene, outcome, step("build", output=JSON), *reading)
    assert read(tree, "last") == "it broke"
    with pytest.raises(StepError):
        read(tree)


def test_the_output_of_an_attempt_that_is_not_the_last_is_not_read(scene: Scene) -> None:
    retried = step("build", error_policy=ErrorPolicy.RETRY_ONCE)
    tree, _ = reported(scene, failed(), retried, step("test", "$build.stdout"))
    with tree.store.open(tree.id) as opened:
        assert step_data.data_of(opened, "build") is None


# ── crashes, copies and other hands ─────────────────────────────────────────────────────────


KILLED = """
import os, signal, sys
from pathlib import Path
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.sessions.steps.open_session import OpenSession
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.git import checkout

root, session, place = sys.argv[1:]
setattr(OpenSession, place, lambda *args, **named: os.kill(os.getpid(), signal.SIGKILL))
store = DiskStore(checkout.find(Path(root)))
SessionTree(store, session).report("build#1", Outcome(output="first"))
"""


@pytest.mark.parametrize(("place", "left"), [("_write_outputs", False), ("_write_journal", True)])
def test_a_kill_around_the_write_of_an_output_loses_nothing(
    scene: Scene, place: str, left: bool
) -> None:
    """cat NFR-2.2: what a later step reads belongs to a return that the journal records."""
    tree = session(scene, step("build"), step("test", "$build.stdout"))
    tree.begin()
    argv = [sys.executable, "-c", KILLED, str(scene.root), tree.id, place]
    assert subprocess.run(argv, check=False).returncode == -signal.SIGKILL
    assert scene.file(tree, "outputs/build.json").exists() is left
    again = scene.again(tree)
    assert work(again.advance()).id == "build#1"
    again.report("build#1", Outcome(output="second"))
    assert read(scene.again(tree)) == "second"


@pytest.fixture
def built(scene: Scene) -> SessionTree:
    tree, _ = reported(scene, Outcome(output="built"), step("build"), step("test", "$build.stdout"))
    return tree


def test_a_changed_output_can_be_taken(scene: Scene, built: SessionTree) -> None:
    scene.edit(built, "outputs/build.json", ("built", "by hand"))
    repair.take(scene.fresh(), built.id)
    assert read(scene.again(built)) == "by hand"
    scene.file(built, "outputs/build.json").unlink()
    assert read(scene.again(built)) == "by hand"


def test_a_copy_that_was_changed_too_is_not_restored(scene: Scene, built: SessionTree) -> None:
    scene.edit(built, "outputs/build.json", ("built", "forged"))
    copy = scene.store.runtime(built.id) / "outputs/build.json"
    copy.write_text(copy.read_text().replace("built", "forged"))
    repair.restore(scene.fresh(), built.id)
    with pytest.raises(StepError):
        read(scene.again(built))


def test_a_missing_output_is_restored_from_its_copy(scene: Scene, built: SessionTree) -> None:
    scene.file(built, "outputs/build.json").unlink()
    scene.file(built, "outputs").rmdir()
    again = scene.again(built)
    assert read(again) == "built"
    assert "outputs/build.json had disappeared" in again.store.notices[0]


def test_an_output_that_is_gone_with_its_copy_fails_the_step_that_reads_it(
    scene: Scene, built: SessionTree
) -> None:
    scene.file(built, "outputs/build.json").unlink()
    (scene.store.runtime(built.id) / "outputs/build.json").unlink()
    with pytest.raises(StepError):
        read(scene.again(built))


def test_an_output_that_goes_while_the_session_is_open_is_not_there(
    scene: Scene, built: SessionTree
) -> None:
    with built.store.open(built.id) as opened:
        scene.file(built, "outputs/build.json").unlink()
        assert step_data.data_of(opened, "build") is None


def test_nothing_is_known_of_a_step_that_has_not_run(built: SessionTree) -> None:
    with built.store.open(built.id) as opened:
        facts = step_data.facts(opened)
        assert facts("build", "skipped") is False
        with pytest.raises(LookupError, match="later has not run"):
            facts("later", "approved")


def test_the_driver_restores_what_another_process_removes(scene: Scene, built: SessionTree) -> None:
    built.store.hold(built.id)
    scene.file(built, "outputs/build.json").unlink()
    assert read(built) == "built"


@pytest.mark.parametrize("name", ["outputs", "outputs/build.json"])
def test_an_output_behind_a_symbolic_link_is_refused(
    scene: Scene, built: SessionTree, name: str
) -> None:
    place = scene.file(built, name)
    outside = scene.root / "outside"
    place.rename(outside)
    place.symlink_to(outside)
    with pytest.raises(StorageError) as caught:
        scene.again(built).look()
    assert caught.value.code == "PB-IO-ESCAPE"


def test_nothing_is_written_through_a_folder_that_is_a_link(scene: Scene) -> None:
    tree = session(scene, step("build"), step("test", "$build.stdout"))
    tree.begin()
    outside = scene.root / "outside"
    outside.mkdir()
    scene.file(tree, "outputs").symlink_to(outside)
    with pytest.raises(StorageError) as caught:
        tree.report("build#1", Outcome(output="x"))
    assert caught.value.code == "PB-IO-ESCAPE"
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"schema": 1}',
        '{"schema": true}',
        '{"schema": 1, "attempt": 3}',
        "[" * 99999,
    ],
)
def test_a_file_that_is_no_output_is_corrupt(content: str) -> None:
    with pytest.raises(StateError) as caught:
        output_files.read(content.encode(), "outputs/build.json")
    assert caught.value.code == "PB-STATE-CORRUPT"


def test_an_output_of_a_newer_version_is_refused() -> None:
    with pytest.raises(StateError) as caught:
        output_files.read(b'{"schema": 2, "attempt": "build#1"}', "outputs/build.json")
    assert caught.value.code == "PB-STATE-NEWER"


def test_a_clone_reads_what_was_kept_elsewhere(scene: Scene, built: SessionTree) -> None:
    """tyr 19: the session's folder is all that a resume on another machine has."""
    clone = scene.cloned(built)
    assert read(clone) == "built"
    scene.file(built, "outputs/build.json").unlink()
    assert read(scene.again(clone)) == "built"
    scene.file(built, "outputs/build.json").write_text("{}")
    with pytest.raises(StateError):
        scene.again(clone).look()


def test_a_clone_refuses_an_output_that_is_none(scene: Scene, built: SessionTree) -> None:
    scene.file(built, "outputs/build.json").write_text('{"schema": 1}')
    with pytest.raises(StateError) as caught:
        scene.cloned(built).look()
    assert caught.value.code == "PB-STATE-CORRUPT"
