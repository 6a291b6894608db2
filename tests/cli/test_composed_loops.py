"""Loops one after the other: what is left out, what has failed, and what becomes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.scratch_project import FEATURE, Project

SORTED = """\
name: sorted
description: Sort reports, mend the bugs, and say what is left
version: "1.2"
args: []
defaults: {error_policy: stop}
steps:
  - {id: list, command: cli cat reports.json, output: json}
  - id: sort
    command: cli ./sort {{report.name}}
    for_each: {in: $list.json, as: report}
    output: json
    error_policy: continue
  - id: mend
    command: cli echo mended {{bug.name}}
    for_each: {in: $sort.json, as: bug, where: '$bug.kind == "bug"'}
  - {id: left, command: cli cat, stdin: $sort.failed, when: $sort.failed}
  - {id: all, command: cli echo all sorted, when: $sort.done}
  - id: again
    command: "cli echo {{each.item}}: {{each.error}}"
    for_each: {in: $sort.failed, as: each}
"""
SORT = """\
#!/bin/sh
case $1 in
  a) echo '{"name": "a", "kind": "bug"}' ;;
  b) echo 'no idea' >&2; exit 3 ;;
  *) echo '{"name": "'$1'", "kind": "wish"}' ;;
esac
"""


def sort(project: Project, *names: str, book: str = SORTED) -> list[dict[str, Any]]:
    project.write("reports.json", json.dumps([{"name": name} for name in names]))
    project.write("sort", SORT).chmod(0o755)
    project.write(".playbooks/playbooks/sorted.yaml", book)
    assert project.playbook("check", "--strict").code == 0
    done = project.playbook("run", "sorted")
    assert done.code == 0, done.err
    return project.journal()


def test_a_failed_item_leaves_a_hole_that_later_loops_pass_over_and_a_step_can_list(
    project: Project,
) -> None:
    entries = {entry["step_id"]: entry for entry in sort(project, "a", "b", "c")}
    assert [entries[f"mend[{n}]"]["status"] for n in (1, 2, 3)] == ["done", "skipped", "skipped"]
    (hole,), (where,) = entries["mend[2]"]["evidence"], entries["mend[3]"]["evidence"]
    assert hole.startswith("item 2 of $sort.json has no value, sort[2]#1 failed: ./sort ended with")
    assert where == 'where: $bug.kind is "wish"'
    assert entries["left"]["output"].startswith('sort[2] ({"name":"b"}): ./sort ended with exit')
    assert entries["all"]["status"] == "skipped"
    assert entries["again[1]"]["output"].startswith('{"name":"b"}: ./sort ended with exit status 3')
    assert project.playbook("audit").code == 0


def test_where_nothing_has_failed_there_is_nothing_to_list(project: Project) -> None:
    entries = {entry["step_id"]: entry for entry in sort(project, "a", "c")}
    assert entries["left"]["status"] == "skipped"
    assert entries["all"]["output"] == "all sorted"
    assert entries["again"]["evidence"] == ["for_each: no items in $sort.failed"]


def test_a_where_without_an_answer_fails_the_loop_before_its_first_item(project: Project) -> None:
    project.write("reports.json", '[{"name": "a"}]')
    project.write("sort", SORT).chmod(0o755)
    book = SORTED.replace("""'$bug.kind == "bug"'""", "'$bug.kind'")
    project.write(".playbooks/playbooks/sorted.yaml", book)
    assert project.playbook("run", "sorted").code == 2
    assert "neither true nor false: compare it" in project.journal()[-1]["error"]
    assert project.journal()[-1]["error_code"] == "PB-STEP-ITEMS"


def test_the_item_of_a_loop_belongs_to_where_and_not_to_when(project: Project) -> None:
    book = SORTED.replace("""where: '$bug.kind == "bug"'}""", "}\n    when: $bug.kind")
    project.write(".playbooks/playbooks/sorted.yaml", book)
    checked = project.playbook("check")
    assert "`when` is asked once for the whole loop, and knows no item" in checked.out
    assert "Write it as `where`, under `for_each`: `where: $bug.kind`" in checked.out


# ── what failed is undone ─────────────────────────────────────────────────────────────────

UPGRADES = """\
name: upgrades
description: Try each upgrade
version: "1.2"
args: [{name: names, description: The packages, required: true}]
steps:
  - id: upgrade
    command: cli ./upgrade {{name}}
    for_each: {in: $names, as: name}
    error_policy: continue
    undo: true
    postconditions: [{changes_made: "**"}]
  - {id: report, command: cli cat, stdin: $upgrade.failed, when: $upgrade.failed}
"""
UPGRADE = """\
#!/bin/sh
echo $1 >> lock
echo $1 > notes-$1
git add notes-$1
case $1 in
  bad) exit 1 ;;
  worse)
    git commit -q -a -m "Upgrade $1"
    rm README.md
    mkdir -p made/by && echo x > made/by/$1
    exit 1 ;;
esac
git commit -q -a -m "Upgrade $1"
"""


@pytest.fixture
def upgrades(project: Project) -> Project:
    project.write("upgrade", UPGRADE).chmod(0o755)
    project.write("lock", "")
    project.write(".playbooks/playbooks/upgrades.yaml", UPGRADES)
    project.commit("Begin")
    return project


def subjects(project: Project) -> list[str]:
    log = project.git("log", "--format=%s", f"main..{FEATURE}").splitlines()
    return [line for line in log if line.startswith("Upgrade")]


def test_what_a_failed_item_has_changed_and_committed_is_undone(upgrades: Project) -> None:
    upgrades.write("mine.txt", "not yet committed\n")
    done = upgrades.playbook("run", "upgrades", "names=one bad worse two")
    assert done.code == 0, done.err
    assert upgrades.read("lock") == "one\ntwo\n"
    assert upgrades.read("mine.txt") == "not yet committed\n"
    assert subjects(upgrades) == ["Upgrade two", "Upgrade one"]
    assert not (upgrades.root / "made").exists()
    assert upgrades.git("status", "--short") == "?? mine.txt"
    bad, worse = (upgrades.journal()[at]["undone"] for at in (1, 2))
    assert bad.startswith("2 files put back; what stood there is kept: refs/playbook/undone/")
    assert worse.startswith("4 files and 1 commit put back; what stood there is kept: ")
    kept = worse.rpartition(" ")[2]
    assert upgrades.git("show", f"{kept}:made/by/worse") == "x"
    assert upgrades.git("show", f"{kept}:lock") == "one\nworse"
    assert upgrades.git("log", "-1", "--format=%s", f"{kept}^") == "Upgrade worse"
    assert "upgrade[2] (bad)" in upgrades.journal()[-1]["output"]
    assert upgrades.playbook("audit").code == 0
    assert f"undone: {bad}" in upgrades.playbook("show", "--all").out
    assert done.err.count("upgrade[2]#1 failed") == 1
    assert f"upgrade[2]#1 undone: {bad}" in done.err


def test_a_commit_that_is_on_a_remote_is_not_undone_and_the_run_ends(upgrades: Project) -> None:
    bare = upgrades.root.with_name("remote.git")
    upgrades.git("init", "-q", "--bare", str(bare))
    upgrades.git("remote", "add", "origin", str(bare))
    push = UPGRADE.replace("rm README.md", f"git push -q -u origin {FEATURE}")
    upgrades.write("upgrade", push).chmod(0o755)
    upgrades.commit("Push")
    ended = upgrades.playbook("run", "upgrades", "names=worse one")
    assert ended.code == 2
    (entry,) = upgrades.journal()
    assert entry["error_code"] == "PB-STEP-UNDO"
    assert f"is already on origin/{FEATURE}" in entry["error"]
    assert upgrades.read("lock") == "worse\n"


def test_undo_needs_a_step_that_runs_alone(upgrades: Project) -> None:
    book = UPGRADES.replace("as: name}", "as: name, at_once: 2}")
    upgrades.write(".playbooks/playbooks/upgrades.yaml", book)
    checked = upgrades.playbook("check")
    assert checked.code == 1
    assert "`undo` needs a step that runs alone" in checked.out
