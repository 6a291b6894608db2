"""Steps that are repeated, in a real project."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.scratch_project import Project

LIST = """\
name: loop
description: List, build each, and read all
version: "1.1"
args: []
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: list, command: "cli cat tasks.json", output: json}
  - id: build
    command: cli echo built {{task.name}}
    for_each: {in: $list.json.tasks, as: task, max: 5}
    outputs: ["{{task.file}}"]
  - {id: read, command: cli cat, stdin: $build.stdout}
"""


def tasks(project: Project, *names: str) -> None:
    listed = [{"name": name, "file": f"{name}.txt"} for name in names]
    project.write("tasks.json", json.dumps({"tasks": listed}))
    for name in names:
        project.write(f"{name}.txt", "here\n")


def test_a_step_runs_once_for_each_item_of_a_list(project: Project) -> None:
    tasks(project, "one", "two and more", "three")
    project.write(".playbooks/playbooks/loop.yaml", LIST)
    assert project.playbook("check").code == 0
    done = project.playbook("run", "loop")
    assert done.code == 0, done.err
    entries = project.journal()
    assert [entry["step_id"] for entry in entries] == [
        "list",
        "build[1]",
        "build[2]",
        "build[3]",
        "read",
    ]
    assert [entry.get("output") for entry in entries[1:4]] == [
        "built one",
        "built two and more",
        "built three",
    ]
    assert entries[1]["items"] == 3
    assert json.loads(entries[1]["item"]) == {"name": "one", "file": "one.txt"}
    assert "file_exists: one.txt" in entries[1]["evidence"][0]
    kept = json.loads((project.session / "outputs/build.json").read_bytes())
    assert [each["attempt"] for each in kept["items"]] == ["build[1]#1", "build[2]#1", "build[3]#1"]
    assert entries[-1]["output"].startswith("built one")
    assert project.playbook("audit").code == 0


FILES = """\
name: files
description: Handle each file of an arg
version: "1.1"
args: [{name: files, description: The files, required: false}]
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: each, command: "cli echo {{file}}", for_each: {in: $files, as: file, max: 3}}
"""


def program(project: Project, name: str, script: str) -> None:
    project.write(name, f"#!/bin/sh\n{script}").chmod(0o755)


def run_files(project: Project, files: str, playbook: str = FILES) -> tuple[int, list[Any]]:
    project.write(".playbooks/playbooks/files.yaml", playbook)
    ended = project.playbook("run", "files", f"files={files}")
    return ended.code, project.journal()


@pytest.mark.parametrize(
    ("files", "items"),
    [
        ("a.py 'b c.py'", ["a.py", "b c.py"]),
        ('["-rf", true, {"b": 2.5}]', ["-rf", "true", '{"b":2.5}']),
        ("'{{files}}' '{{secret:HOME}}'", ["{{files}}", "{{secret:HOME}}"]),
    ],
)
def test_an_arg_is_a_list_of_words_or_json_and_each_item_one_word(
    project: Project, files: str, items: list[str]
) -> None:
    """Nothing in an item is replaced again, split or read as an option of ours."""
    code, entries = run_files(project, files)
    assert code == 0
    assert [entry["item"] for entry in entries] == items
    assert [entry.get("output") for entry in entries] == items


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ("a b c d", "$files has 4 items, more than 3"),
        ('["a", ["b"]]', "item 2 of $files is a list, not text"),
        ("'a", "$files cannot be split into words: No closing quotation"),
        ('["\\u001b[2J"]', "item 1 of $files contains the control character U+001B"),
    ],
)
def test_a_list_that_cannot_be_used_fails_the_step_before_its_first_item(
    project: Project, files: str, said: str
) -> None:
    code, entries = run_files(project, files)
    assert code == 2
    assert [(entry["step_id"], entry["error_code"]) for entry in entries] == [
        ("each", "PB-STEP-ITEMS")
    ]
    assert said in entries[0]["error"]


def test_a_loop_without_items_is_skipped(project: Project) -> None:
    code, entries = run_files(project, "")
    assert code == 0
    assert (entries[0]["step_id"], entries[0]["status"]) == ("each", "skipped")
    assert entries[0]["evidence"] == ["for_each: no items in $files"]


def test_a_step_that_reads_a_loop_without_items_fails_before_it_runs(project: Project) -> None:
    reads = FILES + "  - {id: read, command: cli cat, stdin: $each.stdout}\n"
    code, entries = run_files(project, "", reads)
    assert code == 2
    assert (entries[-1]["step_id"], entries[-1]["error_code"]) == ("read", "PB-STEP-DATA")


def test_the_outputs_of_all_items_have_a_bound(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playbook_supervisor.sessions.steps.output_files.MOST", 120)
    reads = FILES + "  - {id: read, command: cli cat, stdin: $each.stdout}\n"
    code, entries = run_files(project, f"a {'b' * 100} c", reads)
    assert code == 2
    assert [entry.get("error_code") for entry in entries] == [None, "PB-STEP-OUTPUT"]
    assert "the outputs of its loop have more than 120 bytes" in entries[-1]["error"]


def test_an_item_without_the_member_that_is_asked_for_is_named(project: Project) -> None:
    playbook = FILES.replace("echo {{file}}", "echo {{file.name}}")
    code, entries = run_files(project, '[{"name": "a"}, {"title": "b"}]', playbook)
    assert code == 2
    assert "item 2 of $files has no text for `{{file.name}}`" in entries[0]["error"]


def test_what_looks_like_a_secret_is_not_journaled_with_an_item(project: Project) -> None:
    project.env["API_TOKEN"] = "abcdefgh12345678"
    code, entries = run_files(project, "abcdefgh12345678")
    assert code == 0
    assert "abcdefgh" not in entries[0]["item"]


def test_a_failed_item_ends_the_run_and_a_resume_begins_there(project: Project) -> None:
    playbook = FILES.replace("echo {{file}}", "cat {{file}}")
    project.write("a", "first\n")
    project.write("c", "third\n")
    code, entries = run_files(project, "a b c", playbook)
    assert code == 2
    assert [entry["step_id"] for entry in entries] == ["each[1]", "each[2]"]
    project.write("b", "second\n")
    assert project.playbook("resume", "--retry").code == 0
    done = [(entry["step_id"], entry.get("attempt", 1)) for entry in project.journal()]
    assert done == [("each[1]", 1), ("each[2]", 1), ("each[2]", 2), ("each[3]", 1)]


def test_items_go_on_behind_a_failed_one_that_is_tolerated(project: Project) -> None:
    playbook = FILES.replace("echo {{file}}", "test {{file}} = a").replace("stop", "continue")
    code, entries = run_files(project, "a b a", playbook)
    assert code == 0
    assert [entry["status"] for entry in entries] == ["done", "failed", "done"]


def test_a_gate_is_asked_once_and_says_how_many_items_there_are(project: Project) -> None:
    playbook = FILES.replace("as: file,", "as: file, at_once: 2,").replace("auto,", "gate_always,")
    code, _ = run_files(project, "a b c", playbook)
    assert code == 4
    status = project.playbook("status")
    assert "for each of 3 items" in status.out
    project.playbook("answer", "continue")
    assert project.playbook("resume").code == 0
    entries = project.journal()
    assert [entry["step_id"] for entry in entries] == ["each[1]", "each[2]", "each[3]"]
    assert [len(entry.get("gates", ())) for entry in entries] == [1, 0, 0]


UNTIL = """\
name: until
description: Count
version: "1.1"
args: []
defaults: {autonomy: auto, error_policy: stop}
steps:
  - id: count
    command: cli ./count.sh
    until: {conditions: [{file_contains: {path: count, text: xxx}}], max: 4}
"""


@pytest.mark.parametrize(("most", "code", "rounds"), [(4, 0, 3), (2, 2, 2)])
def test_a_step_runs_until_its_conditions_hold(
    project: Project, most: int, code: int, rounds: int
) -> None:
    program(project, "count.sh", "printf x >>count\n")
    project.write(".playbooks/playbooks/until.yaml", UNTIL.replace("max: 4", f"max: {most}"))
    assert project.playbook("run", "until").code == code
    codes = [entry.get("error_code") for entry in project.journal()]
    last = None if code == 0 else "PB-COND-POSTCONDITION"
    assert codes == ["PB-COND-UNTIL"] * (rounds - 1) + [last]
    assert project.playbook("audit").code == 0


FLAKY = """\
echo $1 >>ran
if [ $1 = b ] && [ "$(grep -c b ran)" -lt %d ]; then echo not yet; exit 3; fi
echo $1
"""
"""Fails for `b` until it has been called so often."""


def flaky(project: Project, policy: str, *, calls: int, at_once: int = 1) -> tuple[int, list[Any]]:
    program(project, "flaky.sh", FLAKY % calls)
    playbook = FILES.replace("cli echo {{file}}", "cli ./flaky.sh {{file}}")
    playbook = playbook.replace("error_policy: stop", f"error_policy: {policy}")
    playbook = playbook.replace("as: file,", f"as: file, at_once: {at_once},")
    return run_files(project, "a b c", playbook)


def attempts(project: Project) -> list[str]:
    return [f"{e['step_id']}#{e.get('attempt', 1)} {e['status']}" for e in project.journal()]


def test_the_gate_of_a_failed_item_is_its_own_and_retries_it_alone(project: Project) -> None:
    """kai FR5"""
    code, _ = flaky(project, "gate", calls=2)
    assert code == 4
    assert "each[2]#1?1" in project.playbook("status", "--json").out
    assert project.playbook("answer", "retry").code == 0
    assert project.playbook("resume").code == 0
    assert attempts(project) == [
        "each[1]#1 done",
        "each[2]#1 failed",
        "each[2]#2 done",
        "each[3]#1 done",
    ]
    assert project.read("ran").split() == ["a", "b", "b", "c"]


def test_an_item_that_fails_beside_another_is_asked_about_when_both_have_ended(
    project: Project,
) -> None:
    code, _ = flaky(project, "gate", calls=2, at_once=2)
    assert code == 4
    assert attempts(project)[0] == "each[1]#1 done"
    project.playbook("answer", "retry")
    assert project.playbook("resume").code == 0
    assert sorted(project.read("ran").split()) == ["a", "b", "b", "c"]


def test_each_item_is_retried_as_often_as_the_policy_says(project: Project, no_wait: None) -> None:
    """cat FR-4.11"""
    del no_wait
    ended, _ = flaky(project, "retry:1", calls=9)
    assert ended == 2
    assert attempts(project) == ["each[1]#1 done", "each[2]#1 failed", "each[2]#2 failed"]


@pytest.fixture
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries follow at once."""
    monkeypatch.setattr("playbook_supervisor.kernel.error_policy._FIRST_WAIT", 0)


PROMPTS = """\
name: prompts
description: Ask about each file
version: "1.1"
args: [{name: files, description: The files, required: true}]
defaults: {autonomy: auto, error_policy: retry_once}
steps:
  - id: look
    command: prompt
    with: {text: "Look at {{file}}"}
    for_each: {in: $files, as: file, max: 3}
  - {id: all, command: cli cat, stdin: $look.stdout}
"""
LOOKS = """\
steps:
  look: {say: "seen {{args}}"}
  "look[2]": [{fail: it is empty}, {say: seen again}]
"""


def test_an_agent_is_prompted_for_each_item_and_the_script_agent_does_what_its_step_says(
    project: Project,
) -> None:
    """An action for `look` is one for all its items, unless an item has its own."""
    project.write(".playbooks/playbooks/prompts.yaml", PROMPTS)
    project.write("script.yaml", LOOKS)
    ended = project.playbook("run", "prompts", "files=a b c", "--agent", "script:script.yaml")
    assert ended.code == 0, ended.err
    assert attempts(project) == [
        "look[1]#1 done",
        "look[2]#1 failed",
        "look[2]#2 done",
        "look[3]#1 done",
        "all#1 done",
    ]
    kept = json.loads((project.session / "outputs/look.json").read_bytes())["items"]
    said = {each["attempt"]: each["stdout"] for each in kept}
    assert said["look[2]#2"].strip() == "seen again"
    assert [text.startswith("seen") for text in said.values()] == [True] * 3


# ── too much ──────────────────────────────────────────────────────────────────────────────


def test_a_list_of_a_step_that_is_too_much_is_refused_before_its_first_item(
    project: Project,
) -> None:
    said = "item 1 of $list.json has 900,000 characters"
    project.write("tasks.json", json.dumps(["x" * 900_000]))
    project.write(".playbooks/playbooks/loop.yaml", MANY)
    ended = project.playbook("run", "loop")
    assert ended.code == 2
    assert said in project.journal()[-1]["error"]
    assert said in ended.err + ended.out
    assert attempts(project) == ["list#1 done", "build#1 failed"]
    assert "Traceback" not in ended.err


MANY = LIST.replace("$list.json.tasks", "$list.json").replace("max: 5", "max: 10000")
MANY = MANY.replace("{{task.name}}", "{{task}}").replace('    outputs: ["{{task.file}}"]\n', "")
