"""The playbooks that ship are valid, say what they do, and teach the whole of version 1.1."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.tools import lacking
from playbook_supervisor.kernel.vocabulary import Autonomy, Condition, Trigger
from playbook_supervisor.project.playbooks.schema import examine, schema_text

TEMPLATES = Path(__file__).parent.parent / "templates"
SKELETON = TEMPLATES / "playbook.tpl.yaml"
VERSIONS = {"auto-validate": "1.0", "auto-intake": "1.1"}
"""The playbooks that need nothing of version 1.2."""
SHIPPED = [*sorted((TEMPLATES / "playbooks").glob("*.yaml")), SKELETON]

AUTO_FEATURE = """
plan            /speckit.plan       -           auto             spec_exists                   plan_exists      stop        -
tasks           /speckit.tasks      -           auto             plan_exists                   tasks_exists     stop        -
agreement       /agreement.create   {{feature}} auto             tasks_exists                  agreement_exists gate        subagent_error
implement       /speckit.implement  -           auto             tasks_exists,agreement_exists PROOF            retry_once  postcondition_fail
agreement-check /agreement.check    {{feature}} gate_on_breaking agreement_exists              agreement_pass   gate        agreement_breaking
qa-plan         /qa.plan            {{feature}} auto             agreement_pass                qa_plan_exists   stop        -
qa-run          /qa.run             {{feature}} auto             qa_plan_exists                qa_verdict_pass  gate        verdict_fail
pr              /feature.pr         {{feature}} gate_always      qa_verdict_pass               pr_created       stop        -
"""  # noqa: E501 - a table
AUTO_VALIDATE = """
qa-plan         /qa.plan            {{feature}} auto             -                             qa_plan_exists   stop        -
qa-run          /qa.run             {{feature}} auto             qa_plan_exists                qa_verdict_pass  gate        verdict_fail
"""  # noqa: E501
AUTO_HOTFIX = """
implement       /speckit.implement  -           auto             tasks_exists                  PROOF            retry_once  postcondition_fail
qa-plan         /qa.plan            {{feature}} auto             -                             qa_plan_exists   stop        -
qa-run          /qa.run             {{feature}} auto             qa_plan_exists                qa_verdict_pass  gate        verdict_fail
pr              /feature.pr         {{feature}} gate_always      qa_verdict_pass               pr_created       stop        -
"""  # noqa: E501
AUTO_INTAKE = """
specify         /speckit.specify    {{idea}}    auto             -                             spec_exists      gate        -
plan            /speckit.plan       -           gate_always      spec_exists                   plan_exists      stop        -
tasks           /speckit.tasks      -           auto             plan_exists                   tasks_exists     stop        -
agreement       /agreement.create   {{feature}} auto             tasks_exists                  agreement_exists gate        subagent_error
"""  # noqa: E501
PROOF = "tasks_done,changes_made=**,proved={{test}}"
AUTO_SPECKIT = """
plan            /speckit.plan       -           auto             spec_exists                   plan_exists      stop        -
tasks           /speckit.tasks      -           auto             plan_exists                   tasks_exists     stop        -
analyze         /speckit.analyze    -           auto             spec_exists,plan_exists,tasks_exists changes_within=.playbooks/sessions/** gate -
implement       /speckit.implement  -           gate_always      tasks_exists                  PROOF            gate        -
"""  # noqa: E501


def read(path: Path) -> Playbook:
    playbook, problems, _ = examine(path.read_bytes(), path.name)
    assert problems == ()
    assert playbook is not None
    return playbook


def row(step: Step) -> list[str]:
    cells = [
        step.id,
        step.command,
        step.args,
        step.autonomy,
        ",".join(step.preconditions),
        ",".join(step.postconditions),
        step.error_policy.default.word,
        ",".join(step.escalation_triggers),
    ]
    return [cell or "-" for cell in cells]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
class TestEveryTemplate:
    def test_is_valid_without_a_single_remark(self, path: Path) -> None:
        assert read(path).version == VERSIONS.get(path.stem, "1.2")

    def test_needs_a_feature_or_a_change(self, path: Path) -> None:
        first = read(path).args[0]
        assert first.name == ("change" if path.stem == "auto-change" else "feature")
        assert first.required


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("auto-feature", AUTO_FEATURE),
        ("auto-validate", AUTO_VALIDATE),
        ("auto-speckit", AUTO_SPECKIT),
        ("auto-hotfix", AUTO_HOTFIX),
        ("auto-intake", AUTO_INTAKE),
    ],
)
def test_a_shipped_playbook_is_what_was_promised(name: str, table: str) -> None:
    """kai S-B4, MVP-7, MVP-8, P2-3: the shipped playbooks, step by step."""
    playbook = read(TEMPLATES / f"playbooks/{name}.yaml")
    assert playbook.name == name
    assert [row(step) for step in playbook.steps] == [
        line.replace("PROOF", PROOF).split() for line in table.strip().splitlines()
    ]


def test_no_shipped_playbook_publishes_without_asking() -> None:
    published = [
        step
        for path in SHIPPED
        for step in read(path).steps
        if Condition.PR_CREATED in step.postconditions or step.namespace == "pr"
    ]
    assert published
    assert {step.autonomy for step in published} == {Autonomy.GATE_ALWAYS}


def test_auto_change_proves_reviews_and_commits_before_it_asks() -> None:
    """It needs no command of a project, only the check `test`."""
    playbook = read(TEMPLATES / "playbooks/auto-change.yaml")
    assert [(step.id, step.namespace) for step in playbook.steps] == [
        ("branch", "branch"),
        ("change", "prompt"),
        ("review", "prompt"),
        ("commit", "commit"),
        ("pr", "pr"),
    ]
    _, change, review, *_ = playbook.steps
    assert "proved=test" in change.postconditions
    reviewed = ".playbooks/reviews/{{branch}}.md"
    assert f"verdict_pass={reviewed}" in review.postconditions
    assert f"changes_within={reviewed}" in review.postconditions
    assert "Edit" not in review.tools
    assert not lacking(review, change.tools)  # a person is asked about tools once


POLICIES = ("stop", "retry_once", "retry:2", "gate", "continue", "ignore")
WORDS = (*Autonomy, *POLICIES, *Condition, *Trigger)


class TestTheSkeleton:
    """kai FR9: a commented skeleton from which people write their own."""

    def test_shows_every_field(self) -> None:
        data = yaml.safe_load(SKELETON.read_text())
        schema = json.loads(schema_text("playbook"))
        assert set(data) == set(schema["properties"])
        fields = {
            name: set(each["properties"])
            for name, each in schema["definitions"].items()
            if name in ("arg", "step")
        }
        assert {key for arg in data["args"] for key in arg} == fields["arg"]
        assert {key for step in data["steps"] for key in step} == fields["step"]
        assert {arg["required"] for arg in data["args"]} == {True, False}

    def test_explains_every_word(self) -> None:
        text = SKELETON.read_text()
        assert [word for word in WORDS if not re.search(rf"(?m)^ *#   {word} ", text)] == []


def test_the_guide_explains_every_word() -> None:
    """kai FR44."""
    text = (TEMPLATES / "playbook-authoring.md").read_text()
    names = ["retry:N" if word.startswith("retry:") else word for word in WORDS]
    assert [n for n in names if not re.search(rf"(?m)^\| `{n}[`:].* \| [`\w]", text)] == []
