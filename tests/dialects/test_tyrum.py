"""Workflow files of Tyrum, read as playbooks of version 1.1."""

from __future__ import annotations

import pytest
from support.foreign_playbooks import INBOX

from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.project.playbooks.schema import examine
from playbook_supervisor.project.playbooks.translation import translate


def read(text: str, source: str = "inbox-triage.yaml") -> Playbook:
    playbook, problems, _ = examine(text.encode(), source)
    assert playbook is not None, problems
    return playbook


def said(text: str, severity: str = "error") -> list[str]:
    """`line:col message` of each problem."""
    _, problems, _ = examine(text.encode(), "w.yaml")
    found = [each for each in problems if each.severity == severity]
    return [f"{each.line}:{each.col} {each.message}" for each in found]


def test_a_minimal_workflow_file_is_a_playbook_as_it_is() -> None:
    """tyr 12, tyr 24."""
    playbook = read(INBOX)
    assert playbook.name == playbook.description == "inbox-triage"
    assert [(arg.name, arg.default, arg.required) for arg in playbook.args] == [
        ("tag", "family", False)
    ]
    approve, execute = playbook.steps[2:]
    assert approve.approval
    assert (execute.stdin, execute.when) == ("$categorize.stdout", "$approve.approved")
    assert {str(step.autonomy) for step in playbook.steps} == {"auto"}


def test_the_same_in_json_is_the_same_playbook() -> None:
    """tyr 12."""
    text = '{"name": "one", "steps": [{"id": "say", "command": "cli echo hi", "timeoutMs": 1500}]}'
    playbook = read(text, "one.json")
    assert playbook.steps[0].limits.timeout_seconds == 1.5


def test_what_was_translated_is_noted_at_its_place() -> None:
    assert said(INBOX, "note") == [
        "1:1 read as a Tyrum workflow: translated to version 1.1",
        "1:1 there is no `description`; the name stands for it",
        "2:1 `args` is a map; an arg is required where it has no `default`",
        "5:1 every step has `autonomy: auto`, `error_policy: stop`, as such files are run",
        "20:5 `condition` is read as `when`",
    ]
    assert said(INBOX, "warning") == []


def test_what_a_session_keeps_of_it_is_the_same_playbook() -> None:
    translation = translate(INBOX.encode(), "inbox.yaml")
    assert translation.text.startswith("# Translated from a Tyrum workflow: inbox.yaml\n")
    assert read(translation.text, "playbook.yaml") == read(INBOX)


@pytest.mark.parametrize(
    ("written", "instead", "message"),
    [
        ("approval: required", "approvals: required", "16:5 `approvals` is not a known key"),
        ("$approve.approved", "$aprove.approved", "20:16 `aprove` is no earlier step"),
        ("cli inbox list --json", "web open https://x.example", "7:14 "),
        ("name: inbox-triage", "name: ../triage", "1:7 `../triage` is not a valid `name`"),
        ('default: "family"', "default: [a]", "4:14 `default` is a list"),
    ],
)
def test_a_mistake_is_reported_at_its_place_in_the_file(
    written: str, instead: str, message: str
) -> None:
    """tyr 16: also a namespace that nothing provides."""
    assert any(each.startswith(message) for each in said(INBOX.replace(written, instead))), said(
        INBOX.replace(written, instead)
    )


@pytest.mark.parametrize(
    "changed",
    [
        INBOX.replace("name: inbox-triage", 'name: inbox-triage\nversion: "1.1"'),
        INBOX.replace("    output: json\n", "    output: json\n    autonomy: auto\n", 1),
        "name: a\nargs: []\nsteps: [{id: a, command: cli true}]\n",
        "name: a\nsteps: [{id: a, command: /a}]\n",
        "name: a\nsteps: []\n",
        "name: a\nsteps: [a]\n",
    ],
)
def test_a_playbook_of_ours_with_mistakes_is_not_taken_for_one(changed: str) -> None:
    assert said(changed, "note") == []
