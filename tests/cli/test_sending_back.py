"""A gate, or a step itself, sends back to an earlier step, which runs again with what was found."""

from __future__ import annotations

import pytest
from support.scratch_project import Project

BOOK = """\
name: reviewed
description: Change, review, and commit
version: "1.2"
args: []
steps:
  - id: change
    command: prompt
    with: {text: Change it.}
    tools: [Write]
    postconditions: [{changes_made: "src/**"}]
  - id: review
    command: prompt
    with: {text: Review it.}
    tools: [Write]
    postconditions: [verdict_pass: review.md]
    ON_FAIL
  - id: commit
    command: commit
    with: {message: Done, paths: ["**"], push: false}
    autonomy: gate_always
"""
SCRIPT = """\
steps:
  change:
    - {say: "first: {{feedback}}", write: {src/a.py: "one"}}
    - {say: "then: {{feedback}}", write: {src/a.py: "two"}}
    - {say: "last: {{feedback}}", write: {src/a.py: "three"}}
  review:
    - {write: {review.md: "The empty list is not handled.\\n\\nverdict: FAIL\\n"}}
    - {write: {review.md: "verdict: VERDICT\\n"}}
"""


@pytest.fixture
def reviewed(project: Project) -> Project:
    project.write(".playbooks/config.yaml", "")
    return project


def run(project: Project, on_fail: str = "", second: str = "PASS") -> int:
    book = BOOK.replace("    ON_FAIL\n", f"    on_fail: {on_fail}\n" if on_fail else "")
    project.write(".playbooks/playbooks/reviewed.yaml", book)
    agent = project.script(SCRIPT.replace("VERDICT", second))
    project.commit("Add a playbook")
    ended = project.playbook("run", "reviewed", "--agent", agent)
    if ended.code == 4 and "change#1?1" in project.playbook("status").out:  # about its tools
        assert project.playbook("answer", "continue").code == 0
        ended = project.playbook("resume")
    return ended.code


def ids(project: Project) -> list[tuple[str, str]]:
    return [(f"{e['step_id']}#{e.get('attempt', 1)}", e["status"]) for e in project.journal()]


def log(project: Project, attempt: str) -> str:
    return project.playbook("logs", attempt).out


def test_a_person_sends_back_with_words_and_the_report(reviewed: Project) -> None:
    assert run(reviewed) == 4
    waiting = reviewed.playbook("status").out + reviewed.playbook("resume").err
    assert "back to change" in waiting
    done = reviewed.playbook("answer", "back to change: handle the empty list, and continue to")
    assert done.code == 0, done.err
    assert reviewed.playbook("resume").code == 4
    assert ids(reviewed) == [
        ("change#1", "done"),
        ("review#1", "failed"),
        ("change#2", "done"),
        ("review#2", "done"),
        ("commit#1", "in_progress"),
    ]
    sent = reviewed.journal()[1]
    assert (sent["resolution"], sent["back_to"]) == ("back", "change")
    told = log(reviewed, "change#2")
    assert "review#1 has sent its work back" in told
    assert "The empty list is not handled." in told
    assert "handle the empty list, and continue to" in told
    assert reviewed.playbook("audit").code == 0


def test_a_step_sends_back_by_itself_as_often_as_it_says(reviewed: Project) -> None:
    assert run(reviewed, "{back_to: change, times: 1}", second="FAIL") == 4
    assert ids(reviewed) == [
        ("change#1", "done"),
        ("review#1", "failed"),
        ("change#2", "done"),
        ("review#2", "in_progress"),
    ]
    assert "resolution" not in reviewed.journal()[1]
    assert reviewed.journal()[1]["back_to"] == "change"
    assert "The empty list is not handled." in log(reviewed, "change#2")
    assert reviewed.playbook("audit").code == 0


def test_a_step_that_changes_nothing_when_it_runs_again_has_not_done_its_work(
    reviewed: Project,
) -> None:
    script = SCRIPT.replace('write: {src/a.py: "two"}', 'write: {src/a.py: "one"}')
    reviewed.write(".playbooks/playbooks/reviewed.yaml", BOOK.replace("    ON_FAIL\n", ""))
    agent = reviewed.script(script.replace("VERDICT", "PASS"))
    reviewed.commit("Add a playbook")
    reviewed.playbook("run", "reviewed", "--agent", agent)
    reviewed.playbook("answer", "continue")
    assert reviewed.playbook("resume").code == 4
    reviewed.playbook("answer", "back")
    assert reviewed.playbook("resume").code == 4
    assert ids(reviewed)[-1] == ("change#2", "in_progress")
    assert reviewed.journal()[-1]["failing"] == ["changes_made=src/**"]


def test_the_gate_before_a_later_step_sends_back_to_the_work_and_not_to_its_review(
    reviewed: Project,
) -> None:
    assert run(reviewed, "{back_to: change}") == 4
    assert "back to change" in reviewed.playbook("resume").err
    assert reviewed.playbook("answer", "rename it, back to change").code == 0
    assert reviewed.journal()[-1]["status"] == "skipped"
    assert reviewed.playbook("resume").code == 4
    assert ids(reviewed)[-2:] == [("review#3", "done"), ("commit#2", "in_progress")]
    assert "rename it, back to change" in log(reviewed, "change#3")
    assert reviewed.playbook("audit").code == 0


def test_a_step_that_is_no_earlier_one_is_refused_and_the_gate_stays_open(
    reviewed: Project,
) -> None:
    assert run(reviewed) == 4
    for text in ("back to chagne", "back to commit"):
        refused = reviewed.playbook("answer", text)
        assert refused.code == 1
        assert "is no step before review" in refused.err
        assert "Answer `back to change`." in refused.err
    assert reviewed.playbook("answer", "back to change").code == 0


def test_a_session_that_was_sent_back_goes_on_in_a_clone(reviewed: Project) -> None:
    """What the journal says is enough: nothing local is needed."""
    assert run(reviewed) == 4
    assert reviewed.playbook("answer", "back to change").code == 0
    reviewed.commit("Keep what is there")
    clone = Project(reviewed.root.with_name("clone"), reviewed.home, reviewed.env)
    reviewed.git("clone", "-q", str(reviewed.root), str(clone.root))
    agent = clone.script(SCRIPT.replace("VERDICT", "PASS"))
    assert clone.playbook("resume", "--agent", agent).code == 4
    assert ids(clone)[2] == ("change#2", "done")


AGAIN = """\
name: again
description: List, build each, ask, and judge
version: "1.2"
args: []
defaults: {error_policy: stop}
steps:
  - {id: list, command: cli ./list, output: json}
  - id: build
    command: cli ./build {{part}}
    for_each: {in: $list.json, as: part}
    error_policy: continue
  - {id: look, command: checkpoint, with: {message: Is it right?}}
  - {id: tell, command: cli cat, stdin: $build.failed, when: $build.failed}
  - {id: send, command: cli echo sent, when: $look.approved}
  - id: judge
    command: cli echo judged
    postconditions: [{command_succeeds: cli test -f second}]
    on_fail: {back_to: list, times: 1}
"""


def test_what_counts_is_what_ran_since_the_step_that_was_sent_back_to(project: Project) -> None:
    """The list is another one, what failed of the old one is gone, and so is what was approved."""
    lists = '#!/bin/sh\nif [ -f first ]; then touch second; echo \'["c", "d"]\'; else touch first; '
    project.write("list", lists + 'echo \'["a", "b", "bad"]\'; fi\n').chmod(0o755)
    project.write("build", '#!/bin/sh\necho "built $1"; [ "$1" != bad ]\n').chmod(0o755)
    project.write(".playbooks/playbooks/again.yaml", AGAIN)
    project.commit("Begin")
    assert project.playbook("run", "again").code == 4
    project.playbook("answer", "continue")
    assert project.playbook("resume").code == 4
    entries = {entry["step_id"]: entry for entry in project.journal()[1:7]}
    assert "build[3] (bad)" in entries["tell"]["output"]
    assert entries["send"]["output"] == "sent"
    project.playbook("answer", "skip")
    done = project.playbook("resume")
    assert done.code == 0, done.err
    latest = {entry["step_id"]: entry for entry in project.journal()[8:]}
    assert [latest[f"build[{n}]"]["output"] for n in (1, 2)] == ["built c", "built d"]
    assert "build[3]" not in latest
    assert (latest["tell"]["status"], latest["send"]["status"]) == ("skipped", "skipped")
    assert "build" in project.playbook("show").out
    assert "2/2 items" in project.playbook("show").out
    assert project.playbook("audit").code == 0
