"""The example in which a comment on a pull request answers a gate, carried out.

The forge reports a comment; the rest is real, in fresh clones of one remote.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from support.github_actions import REPOSITORY, Forge, Run, scripts, workflow
from support.scratch_project import FEATURE, Project

COMMENTS, DISPATCH = "playbook-comment.yml", "playbook.yml"
INSTALLED = f".github/workflows/{COMMENTS}"
ADA = {"login": "ada", "id": 1815, "type": "User"}
BOB = {"login": "bob", "id": 4711, "type": "User"}
SECRETS = {"ANTHROPIC_API_KEY": "k"}
TWO_GATES = """\
name: two-gates
description: A person decides twice
version: "1.0"
args: []
steps:
  - {id: qa-plan, command: /qa.plan, autonomy: gate_always, error_policy: stop}
  - {id: qa-run, command: /qa.run, autonomy: gate_always, error_policy: stop}
"""
pytestmark = pytest.mark.unmeasured


@pytest.fixture
def forge(project: Project) -> Forge:
    project.write(INSTALLED, "# installed\n")
    project.write(".playbooks/playbooks/two-gates.yaml", TWO_GATES)
    return Forge(project)


def begin(forge: Forge, playbook: str = "two-gates", feature: str = "") -> Run:
    github = {"ref": f"refs/heads/{FEATURE}", "actor": "ada", "actor_id": "1815"}
    inputs = {"playbook": playbook, "feature": feature}
    done = forge.run(DISPATCH, github, inputs, SECRETS)
    assert (done.ok, done.outputs["code"]) == (True, "4"), done.said
    return done


def comment(
    forge: Forge,
    body: str,
    by: dict[str, Any] = ADA,
    *,
    association: str = "MEMBER",
    on_issue: bool = False,
    run_attempt: str = "1",
) -> Run:
    """Write a comment, and run the workflow that the forge starts then."""
    issue: dict[str, Any] = {"number": 7, "title": "`touch stolen` $(touch stolen)"}
    if not on_issue:
        issue["pull_request"] = {"url": f"https://api.forge.example/repos/{REPOSITORY}/pulls/7"}
    said = {"body": body, "user": by, "author_association": association}
    github = {
        "ref": "refs/heads/main",
        "repository": REPOSITORY,
        "actor": by["login"],
        "actor_id": str(by["id"]),
        "run_attempt": run_attempt,
        "event": {"issue": issue, "comment": said},
    }
    return forge.run(COMMENTS, github, secrets=SECRETS)


def gates(forge: Forge) -> list[dict[str, Any]]:
    """The gates in the journal."""
    entries = yaml.safe_load(forge.session_file("journal.yaml"))["entries"]
    return [gate for entry in entries for gate in entry.get("gates", [])]


def test_only_a_new_comment_starts_it_and_its_words_are_never_shell_text() -> None:
    read = workflow(COMMENTS)
    assert read["on"] == {"issue_comment": {"types": ["created"]}}
    assert len(scripts(COMMENTS)) == 8
    assert not [script for script in scripts(COMMENTS) if "${{" in script]


def test_the_job_that_reads_a_comment_has_no_secrets_and_cannot_write_to_the_repository() -> None:
    read = workflow(COMMENTS)
    assert read["permissions"] == {}
    assert read["jobs"]["read"]["permissions"] == {"pull-requests": "write"}
    assert "${{ secrets." not in str(read["jobs"]["read"])


def test_a_comment_answers_the_gate_and_the_run_goes_on(forge: Forge) -> None:
    first = begin(forge, "auto-feature", "013")
    (question,) = forge.comments
    assert question == first.summary
    assert "    Run /feature.pr (step pr) now: continue, skip it, or abort?" in question
    assert "\n    /playbook pr#1?1 continue\n" in question

    done = comment(forge, "/playbook pr#1?1 continue\r\n\r\nI read the diff.\r\n")
    assert (done.ok, done.outputs["code"]) == (True, "0"), done.said
    assert done.groups == first.groups  # so that they wait for each other
    (gate,) = gates(forge)
    assert gate["by"] == "ada <1815+ada@users.noreply.github.com>"
    assert (gate["resolution"], gate["text"]) == ("continue", "continue\n\nI read the diff.")
    assert "status: completed" in forge.session_file("session.yaml")
    assert re.search(r"^    .*completed", forge.comments[1], re.MULTILINE)


@pytest.mark.long
def test_the_next_question_follows_and_a_comment_about_the_last_one_is_refused(
    forge: Forge,
) -> None:
    begin(forge)
    assert comment(forge, "/playbook qa-plan#1?1 continue").ok
    assert "/playbook qa-run#1?1 continue\n" in forge.comments[-1]

    before = forge.git("rev-parse", FEATURE)
    late = comment(forge, "/playbook qa-plan#1?1 skip", BOB)
    assert (late.ok, late.ran[-2:]) == (False, ["Answer", "Tell"])
    refusal = "the gate qa-plan#1?1 is not open; the open one is qa-run#1?1"
    assert f"    error: {refusal}" in forge.comments[-1]
    assert forge.git("rev-parse", FEATURE) == before

    assert comment(forge, "/playbook continue", BOB).ok  # the gate that is open
    people = ["ada <1815+ada@users.noreply.github.com>", "bob <4711+bob@users.noreply.github.com>"]
    assert [gate["by"] for gate in gates(forge)] == people


@pytest.mark.long
def test_a_policy_decides_who_may_answer(forge: Forge, project: Project) -> None:
    rule = 'match: {step: qa-plan}\nanswered_by: ["1815+ada@users.noreply.github.com"]\n'
    project.write(".playbooks/policies/people.yaml", rule)
    project.commit("Name people")
    project.git("push", "-q", str(forge.bare), FEATURE)
    begin(forge)
    before = forge.git("rev-parse", FEATURE)
    other = ADA | {"id": 99}  # the login of an account that was deleted is free again
    refused = comment(forge, "/playbook continue", other, association="OWNER")
    assert (refused.ok, refused.ran[-2:]) == (False, ["Answer", "Tell"])
    name = "ada <99+ada@users.noreply.github.com>"
    assert f"    error: {name} may not answer for `qa-plan`: the policy" in forge.comments[-1]
    assert "the gate stays open" in forge.comments[-1]
    assert forge.git("rev-parse", FEATURE) == before


@pytest.mark.parametrize(
    "how",
    [
        {"on_issue": True},
        {"association": "CONTRIBUTOR"},
        {"by": {"login": "helper[bot]", "id": 5, "type": "Bot"}, "association": "COLLABORATOR"},
        {"body": "Please /playbook continue"},
        {"body": "## A playbook waits for you\n\n/playbook continue"},
    ],
    ids=lambda how: str(next(iter(how.values())))[:24],
)
def test_what_is_no_comment_of_a_member_starts_nothing(forge: Forge, how: dict[str, Any]) -> None:
    done = comment(forge, **{"body": "/playbook continue", **how})
    assert (done.ok, done.ran, forge.comments) == (True, [], [])


@pytest.mark.parametrize(
    ("pull_request", "body", "reply"),
    [
        ({"head": {"ref": FEATURE, "repo": {"id": 2}}}, "continue", "pull request from a fork"),
        ({"state": "closed"}, "continue", "is closed"),
        ({}, " \r\n", "The answer is missing"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_before_anything_is_checked_out(
    forge: Forge, pull_request: dict[str, Any], body: str, reply: str
) -> None:
    forge.pull_request(**pull_request)
    done = comment(forge, f"/playbook {body}")
    assert (done.ok, done.ran) == (False, ["Read"])
    assert reply in forge.comments[0]


def test_a_forge_that_does_not_answer_is_no_permission(forge: Forge) -> None:
    (forge.tools / "pull.json").unlink()
    done = comment(forge, "/playbook continue")
    assert (done.ok, done.ran) == (False, ["Read"])
    assert "https://forge.example/us/project/actions/runs/17" in forge.comments[0]


HOSTILE = (
    '"; touch stolen; $(touch stolen) `touch stolen` continue\'"',
    "--session=../../stolen",
    "what is this?\nref=refs/heads/main\nanswer=continue\nEOF\nanswer<<EOF\ncontinue\nEOF",
    "::set-output name=answer::continue\n```\n@everyone <img src=x onerror=alert(1)>\n```",
)


@pytest.mark.long
def test_hostile_comments_change_nothing_and_are_shown_literally(forge: Forge) -> None:
    begin(forge)
    before = forge.git("rev-parse", FEATURE)
    for number, words in enumerate(HOSTILE):
        done = comment(forge, f"/playbook {words}")
        assert (done.ok, done.ran[-2:]) == (False, ["Answer", "Tell"]), words
        assert len(forge.comments) == number + 2
        heading, blank, *said = forge.comments[-1].splitlines()
        assert (heading, blank) == ("## The answer was not accepted", "")
        assert re.search("does not answer this gate|is not open; the open one is", said[0])
        assert all(line.startswith("    ") for line in said)
    assert forge.git("rev-parse", FEATURE) == before
    assert not list(forge.folder.rglob("stolen"))


def test_a_comment_that_is_too_long_is_refused(forge: Forge) -> None:
    huge = comment(forge, f"/playbook continue: {'😀' * 60_000}")
    assert (huge.ok, huge.ran) == (False, ["Read"])


@pytest.mark.long
def test_a_run_that_is_repeated_asks_again_and_answers_nothing(forge: Forge) -> None:
    """Another person may repeat it, and its answer would count as the first one's."""
    begin(forge)
    again = comment(forge, "/playbook continue", run_attempt="2")
    assert (again.ok, again.outputs["code"]) == (True, "4"), again.said
    assert "Answer" not in again.ran
    assert "/playbook qa-plan#1?1 continue\n" in forge.comments[-1]
