"""Steps that are repeated, in a real project."""

from __future__ import annotations

import json
from typing import Any

import pytest
from project import Project
from test_journeys import wait_until

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
        ('["a.py", "b c.py"]', ["a.py", "b c.py"]),
        ("[1, true, 2.5]", ["1", "true", "2.5"]),
        ('[{"b": 1}]', ['{"b":1}']),
        ("../../etc", ["../../etc"]),
        ("-rf", ["-rf"]),
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
        ("[null]", "item 1 of $files is null, not text"),
        ('["a", ["b"]]', "item 2 of $files is a list, not text"),
        ("[1", "$files is not JSON"),
        ("'a", "$files cannot be split into words: No closing quotation"),
        ('["\\u001b[2J"]', "item 1 of $files contains the control character U+001B"),
        (f'["{"x" * 70_000}"]', "item 1 of $files has 70,000 characters, more than 65,536"),
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


def test_a_run_that_was_killed_inside_a_loop_is_resumed_where_it_was(project: Project) -> None:
    """SIGKILL inside the second item; the first is not run again."""
    script = "if [ $1 = b ] && [ ! -e on ]; then touch on; exec sleep 600; fi; echo $1\n"
    program(project, "work.sh", script)
    playbook = FILES.replace("cli echo {{file}}", "cli ./work.sh {{file}}")
    project.write(".playbooks/playbooks/files.yaml", playbook)
    with project.spawn("run", "files", "files=a b c") as process:
        wait_until((project.root / "on").exists)
        process.kill()
    assert project.playbook("resume", "--kill").code == 0
    done = [(entry["step_id"], entry["status"]) for entry in project.journal()]
    assert done == [
        ("each[1]", "done"),
        ("each[2]", "failed"),
        ("each[2]", "done"),
        ("each[3]", "done"),
    ]


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
