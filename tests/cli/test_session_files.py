"""Which files are a session's: what its gates show, its commits take, and what they leave alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.scratch_project import Project

DEV = """\
name: dev
description: Change files and commit them
version: "1.2"
args: []
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: work, command: "cli sh work.sh"}
  - id: ship
    command: commit
    autonomy: gate_always
    with: {message: Ship, paths: ["**"], push: false}
"""
SHOWS = """\
name: shows
description: A gate after work
version: "1.1"
args: []
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: work, command: "cli sh work.sh"}
  - {id: ask, command: checkpoint, with: {message: "Merge it?"}}
"""


@pytest.fixture
def dirty(project: Project) -> Project:
    """Two files that a person has changed, one of which the session is going to change, too."""
    project.write(".playbooks/playbooks/dev.yaml", DEV)
    project.write(".playbooks/playbooks/shows.yaml", SHOWS)
    project.write(".playbooks/config.yaml", "allow: {cli: [sh, git]}\ncommit_sessions: never\n")
    project.write("work.sh", "echo made >made.py; echo more >>mixed.txt; rm gone.txt\n")
    for name in ("mixed.txt", "mine.txt", "gone.txt"):
        project.write(name, "one\n")
    project.commit("Begin")
    project.write("mixed.txt", "by hand\n")
    project.write("mine.txt", "by hand\n")
    project.write("notes/draft.md", "by hand\n")
    return project


def context(project: Project) -> list[str]:
    lines: list[str] = project.playbook("next", "--json").json["gate"]["context"]
    return lines


def committed(project: Project) -> list[str]:
    return project.git("show", "--format=", "--name-only", "--no-renames").splitlines()


def test_a_commit_takes_what_its_gate_shows_and_leaves_alone_what_was_there(
    dirty: Project,
) -> None:
    run = dirty.playbook("run", "dev")
    assert run.code == 4
    left = "left alone: 3 files not committed before: mine.txt, mixed.txt, notes/draft.md"
    assert f"note: {left}" in run.err
    shown = context(dirty)
    at = shown.index("commits 3 files:")
    assert shown[at + 1 : at + 5] == [
        "  gone.txt",
        "  made.py",
        "  mixed.txt (not committed before the session either: all of it)",
        "leaves alone 2 files not committed before the session: mine.txt, notes/draft.md",
    ]
    assert dirty.playbook("answer", "continue").code == 0
    assert dirty.playbook("resume").code == 0
    assert committed(dirty) == ["gone.txt", "made.py", "mixed.txt"]
    left = dirty.git("status", "--porcelain", "-uall", "--", "*.txt", "notes")
    assert left.split() == ["M", "mine.txt", "??", "notes/draft.md"]


def test_also_uncommitted_takes_what_was_there(dirty: Project) -> None:
    dirty.write(".playbooks/playbooks/dev.yaml", f"{DEV}    also: uncommitted\n")
    dirty.git("commit", "-q", "-m", "also", ".playbooks")
    run = dirty.playbook("run", "dev")
    assert (run.code, "left alone" in run.err) == (4, False)
    assert "commits 5 files:" in context(dirty)
    dirty.playbook("answer", "continue")
    assert dirty.playbook("resume").code == 0
    assert committed(dirty) == ["gone.txt", "made.py", "mine.txt", "mixed.txt", "notes/draft.md"]


def test_the_steps_of_a_child_take_what_the_steps_of_its_parent_changed(dirty: Project) -> None:
    ship = DEV.replace("name: dev", "name: ship")
    ship = ship.replace('  - {id: work, command: "cli sh work.sh"}\n', "")
    dirty.write(".playbooks/playbooks/ship.yaml", ship)
    parent = DEV[: DEV.index("  - id: ship")].replace("name: dev", "name: parent")
    child = '  - {id: child, command: "playbook ship"}\n'
    dirty.write(".playbooks/playbooks/parent.yaml", parent + child)
    dirty.git("add", ".playbooks")
    dirty.git("commit", "-q", "-m", "child", ".playbooks")
    assert dirty.playbook("run", "parent").code == 4
    assert "commits 3 files:" in context(dirty)
    dirty.playbook("answer", "continue")
    assert dirty.playbook("resume").code == 0
    assert committed(dirty) == ["gone.txt", "made.py", "mixed.txt"]


def test_a_file_that_git_would_leave_out_is_no_silent_omission(dirty: Project) -> None:
    dirty.git("update-index", "--skip-worktree", "mixed.txt")
    dirty.playbook("run", "dev")
    unknown = "which files it takes is not known: a flag of the index hides mixed.txt from git"
    assert any(line.startswith(unknown) for line in context(dirty))
    dirty.playbook("answer", "continue")
    refused = dirty.playbook("resume")
    assert (refused.code, "a flag of the index hides mixed.txt" in refused.err) == (2, True)
    assert committed(dirty) != ["gone.txt", "made.py", "mixed.txt"]


def test_without_the_objects_of_the_beginning_nothing_of_a_person_is_taken(
    dirty: Project,
) -> None:
    dirty.playbook("run", "dev")
    record = dirty.root / ".git/playbook" / dirty.session.name / "uncommitted.json"
    beside = record.rename(record.with_name("beside"))
    shown = context(dirty)
    at = shown.index("commits 3 files:")
    assert shown[at + 3 : at + 5] == [
        "  mixed.txt",
        "which of their changes are older than the session is not known",
    ]
    beside.rename(record)
    shutil.rmtree(dirty.root / ".git/playbook/tree/objects")
    said = "changes are not known: what was here when the session began is not known to git. `git d"
    assert any(line.startswith(said) for line in context(dirty))
    dirty.playbook("answer", "continue")
    refused = dirty.playbook("resume")
    assert (refused.code, "what was here when the session began" in refused.err) == (2, True)


def test_what_was_there_before_is_not_shown_as_the_sessions(dirty: Project) -> None:
    assert dirty.playbook("run", "shows").code == 4
    shown = context(dirty)
    (line,) = [line for line in shown if "since the session began" in line]
    assert "no commits, 3 files changed" in line
    assert not any("mine.txt" in each or "draft.md" in each for each in shown)


def test_a_filter_of_content_is_no_change_anywhere(dirty: Project) -> None:
    dirty.git("config", "filter.big.clean", "tr a-z A-Z")
    dirty.git("config", "filter.big.smudge", "tr A-Z a-z")
    dirty.write(".gitattributes", "*.bin filter=big\n")
    dirty.write("big.bin", "content\n")
    dirty.write("work.sh", "true\n")
    dirty.git("add", "--all")
    dirty.git("commit", "-q", "-m", "Everything")
    assert dirty.playbook("run", "shows").code == 4
    (line,) = [line for line in context(dirty) if "since the session began" in line]
    assert "no commits, no changes" in line


def test_a_verdict_is_dated_by_what_has_changed_since(dirty: Project) -> None:
    judged = SHOWS.replace('sh work.sh"', 'sh work.sh", postconditions: [{verdict_pass: r.md}]')
    dirty.write(".playbooks/playbooks/shows.yaml", judged)
    dirty.write("work.sh", "echo 'verdict: PASS' >r.md\n")
    assert dirty.playbook("run", "shows").code == 4
    assert "✓ verdict_pass: r.md says PASS" in context(dirty)
    dirty.write("code.py", "broken\n")
    for number in range(4):
        dirty.write(f"more-{number}.py", "\n")
    dated = "(5 files changed since)"
    assert f"✓ verdict_pass: r.md says PASS {dated}" in context(dirty)


def test_a_shallow_clone_says_what_it_cannot_know_and_how_to_know(
    project: Project, tmp_path: Path
) -> None:
    project.write(".playbooks/playbooks/shows.yaml", SHOWS)
    project.write(".playbooks/config.yaml", "allow: {cli: [sh]}\ncommit_sessions: step\n")
    project.write("work.sh", "for i in 1 2; do echo x >$i; git add .; git commit -qm $i; done\n")
    project.commit("Begin")
    assert project.playbook("run", "shows").code == 4
    clone = Project(tmp_path / "clone", project.home, project.env)
    origin = f"file://{project.root}"
    project.git("clone", "-q", "--depth", "1", origin, str(clone.root))
    told = clone.playbook("status").out
    assert "commits and changes are not known: the commit at which the session began" in told
    assert "`git fetch --unshallow` brings it" in told
    assert "no commits" not in told
    assert "no changes" not in told
    clone.git("fetch", "-q", "--unshallow")
    told = clone.playbook("status").out
    assert "2 commits, 2 files changed, 2 insertions(+)" in told
    assert "not known" not in told


def test_an_ignored_folder_of_sessions_is_said_beforehand_and_costs_no_condition(
    project: Project,
) -> None:
    made = SHOWS.replace('sh work.sh"', 'sh work.sh", postconditions: [{changes_made: "**"}]')
    project.write(".playbooks/playbooks/shows.yaml", made)
    project.write(".playbooks/config.yaml", "allow: {cli: [sh]}\n")
    project.write("work.sh", "echo x >new.txt\n")
    project.commit("Begin")
    project.write(".git/info/exclude", ".playbooks/\n")
    said = "git ignores .playbooks/sessions/, so no session will be committed"
    assert said in project.playbook("doctor").out
    assert said in project.playbook("run", "shows", "--dry-run").out
    run = project.playbook("run", "shows")
    assert (run.code, said in run.err) == (4, True)
    assert project.journal()[0]["status"] == "done"
    project.write(".playbooks/config.yaml", "allow: {cli: [sh]}\ncommit_sessions: never\n")
    assert said not in project.playbook("doctor").out
