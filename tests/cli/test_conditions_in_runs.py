"""The conditions of version 1.1 in whole runs, headless, with an agent that tells lies."""

from __future__ import annotations

import sys

import pytest
from support.scratch_project import Project

PLAYBOOK = """\
name: change
description: Change something, and prove it
version: "1.1"
args: [{{name: folder, description: Where, required: false, default: src}}]
steps:
  - id: change
    command: /speckit.implement
    autonomy: auto
    error_policy: stop
    preconditions: {before}
    postconditions: {after}
"""
TEST = (
    "import pathlib, sys; sys.exit('1 failed' if 'bug' in pathlib.Path('src/a').read_text() else 0)"
)


def prepared(project: Project, after: str, before: str = "[]") -> Project:
    argv = [sys.executable, "-c", TEST]
    project.write(".playbooks/config.yaml", f"checks: {{test: {{run: {argv}}}}}\n")
    project.write(".playbooks/playbooks/change.yaml", PLAYBOOK.format(before=before, after=after))
    project.write("src/a", "fine\n")
    project.commit("Prepare")
    return project


def ran(project: Project, work: str) -> tuple[int, str]:
    """The exit status, and the error or the evidence of the only entry."""
    agent = project.script(f"steps: {{change: {work}}}\n")
    done = project.playbook("run", "change", "--agent", agent)
    (entry,) = project.journal()
    evidence = "; ".join(entry.get("evidence", []))
    return done.code, entry.get("error", evidence)


@pytest.mark.parametrize(
    ("after", "work", "told"),
    [
        ("[command_succeeds: test]", "{write: {src/a: 'a bug'}}", 'exit 1 in'),
        ("[changes_made: '{{folder}}/**']", "{say: done}", "nothing in src/** has changed"),
        (
            "[changes_within: 'src/**']",
            "{write: {src/b: x, README.md: x}}",
            "1 file changed outside src/**: README.md",
        ),
        ("[commits_made]", "{write: {src/b: x}}", "no commit since the launch"),
        ("[{file_contains: {path: src/a, text: better}}]", "{say: done}", 'lacks "better"'),
    ],
)  # fmt: skip
def test_a_lie_is_caught(project: Project, after: str, work: str, told: str) -> None:
    code, error = ran(prepared(project, after), work)
    assert (code, told in error) == (2, True), error


def test_the_truth_is_proved(project: Project) -> None:
    after = "[command_succeeds: test, changes_made: 'src/**', changes_within: '{{folder}}/**']"
    before = "[command_succeeds: test, git_clean]"
    code, evidence = ran(prepared(project, after, before), "{write: {src/a: better}}")
    assert code == 0
    assert "changes_made=src/**: 1 file, +1 −1: src/a" in evidence
    assert "check test: exit 0 in " in evidence
    assert project.playbook("audit").code == 0


def test_what_a_failed_attempt_has_left_outside_fails_the_next_one_until_a_person_takes_it_up(
    project: Project,
) -> None:
    """Chapter 4: an automatic retry does not make an earlier edit legitimate (decision 0162)."""
    prepared(project, "[changes_within: 'src/**', changes_made: 'src/**']")
    file = ".playbooks/playbooks/change.yaml"
    project.write(file, project.read(file).replace("policy: stop", "policy: retry_once"))
    outside, inside = "{write: {README.md: ours}}", "{write: {src/a: better}}"
    agent = project.script(f"steps: {{change: [{outside}, {inside}, {{write: {{src/a: best}}}}]}}")
    assert project.playbook("run", "change", "--agent", agent).code == 2
    first, second = project.journal()
    assert "nothing in src/** has changed since the launch" in first["error"]
    assert second["error"] == "changes_within=src/**: 1 file changed outside src/**: README.md"
    done = project.playbook("resume", "--retry", "--agent", agent)
    assert done.code == 0, done.err
    assert "changes_within=src/**: 1 file, +1 −1" in project.journal()[2]["evidence"]


def test_evidence_with_a_colon_in_a_parameter_is_read_by_the_audit(project: Project) -> None:
    prepared(project, "[{file_contains: {path: src/a, text: 'result: fail. fine'}}, tasks_done]")
    project.write("specs/013-playbook-create/tasks.md", "- [x] T001\n")
    project.commit("Tasks")
    code, evidence = ran(project, "{write: {src/a: 'result: fail. fine'}}")
    assert code == 0, evidence
    audited = project.playbook("audit")
    assert audited.code == 0, audited.out
    journal = project.session / "journal.yaml"
    journal.write_text(journal.read_text().replace("1 task done", "1 of 1 task not done: T001"))
    audited = project.playbook("audit")
    assert (audited.code, "AUD-REFUTED" in audited.out) == (1, True), audited.out


def test_what_could_never_be_checked_is_refused_before_anything_starts(project: Project) -> None:
    prepared(project, "[{file_exists: '{{folder}}/x'}]")
    agent = project.script("steps: {change: {say: hello}}\n")
    done = project.playbook("run", "change", "folder=..", "--agent", agent)
    assert done.code == 1
    assert "file_exists=../x: '../x' leads out of the repository" in done.err
    assert not project.sessions
