"""Playbooks of Catalyst, read as playbooks of version 1.1."""

from __future__ import annotations

import json

import pytest

from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.project.playbooks.schema import examine
from playbook_supervisor.project.playbooks.translation import translate

TOP = """\
id: start-rollout
description: Plan a rollout
owner: Engineer
reviewers: {required: [Architect], optional: [Product Manager]}
inputs:
  - {name: feature-id, type: string, required: true, transform: kebab-case}
  - {name: kind, type: enum, values: [bug, feature], default: bug}
  - {name: urgent, type: boolean, default: false}
outputs: ["rollouts/{{feature-id}}.md"]
steps:
"""


def text(step: str) -> str:
    return f"{TOP}  - {step}\n"


def read(written: str) -> Playbook:
    playbook, problems, _ = examine(written.encode(), "p.yaml")
    assert playbook is not None, problems
    return playbook


def only(step: str) -> Step:
    return read(text(step)).steps[0]


def said(written: str, severity: str = "error") -> list[str]:
    """`line:col message` of each problem."""
    _, problems, _ = examine(written.encode(), "p.yaml")
    found = [each for each in problems if each.severity == severity]
    return [f"{each.line}:{each.col} {each.message}" for each in found]


def test_what_it_says_of_itself_is_kept() -> None:
    """cat FR-1.2."""
    playbook = read(text("{id: look, type: checkpoint}"))
    assert (playbook.name, playbook.owner) == ("start-rollout", "Engineer")
    assert playbook.reviewers.required == ("Architect",)
    assert playbook.outputs == ("rollouts/{{feature-id}}.md",)
    first, second, _ = playbook.args
    assert (first.required, first.transform) == (True, "kebab-case")
    assert (second.required, second.values, second.default) == (False, ("bug", "feature"), "bug")
    assert json.loads(playbook.steps[0].options) == {"message": "look"}


@pytest.mark.parametrize(
    ("stated", "command", "options"),
    [
        ("markdown, config: {markdown: ./a, inputs: {x: y}}", "markdown a",
         '{"inputs": {"x": "y"}}'),
        ("markdown, config: {markdown: my notes.md}", "markdown 'my notes.md'", ""),
        ("ai-prompt, config: {prompt: Do it}", "prompt", '{"text": "Do it"}'),
        ("checkpoint, config: {message: Go?}", "checkpoint", '{"message": "Go?"}'),
        ("branch, config: {name: b, requireNew: true}", "branch b", '{"create": "required"}'),
        (
            "commit, config: {message: m, files: [a], no-push: true, noPull: false}",
            "commit",
            '{"message": "m", "paths": ["a"], "push": false, "pull": true}',
        ),
        ("pull-request, config: {title: t, draft: true}", "pr", '{"title": "t", "draft": true}'),
        ("issue, config: {title: t, assignee: me}", "issue", '{"title": "t", "assignee": "me"}'),
        ("playbook, config: {playbook: b, inputs: {x: y}}", "playbook b", '{"args": {"x": "y"}}'),
        ('bash, config: {command: make "test one"}', 'cli make "test one"', ""),
    ],
)  # fmt: skip
def test_each_type_of_step_is_a_command(stated: str, command: str, options: str) -> None:
    """cat FR-4.1, FR-4.2, FR-4.3, FR-4.4, FR-4.5, FR-4.6, FR-4.7."""
    step = only(f"{{id: a, type: {stated}}}")
    assert step.command == command
    assert (json.loads(step.options) if step.options else "") == (
        json.loads(options) if options else ""
    )


@pytest.mark.parametrize(
    ("stated", "key", "value"),
    [
        ("condition: false", "autonomy", "skip"),
        ("condition: $b.approved", "when", "$b.approved"),
        ("condition: '!{{ urgent }}'", "when", "!$urgent"),
        ("checkpoint: true", "checkpoint", True),
        ("outputs: [a.md]", "outputs", ("a.md",)),
        ("name: Look at it", "title", "Look at it"),
    ],
)
def test_what_any_step_can_say_is_kept(stated: str, key: str, value: object) -> None:
    """cat FR-4.9, FR-6.1."""
    earlier = "{id: b, type: checkpoint}\n  - "
    playbook = read(text(f"{earlier}{{id: a, type: ai-prompt, config: {{prompt: x}}, {stated}}}"))
    assert getattr(playbook.steps[1], key) == value


def test_the_tools_of_a_prompt_and_the_pause_of_a_pull_request_belong_to_the_step() -> None:
    """cat FR-4.2, FR-4.6."""
    assert only("{id: a, type: ai-prompt, config: {prompt: x, tools: [Read]}}").tools == ("Read",)
    assert only("{id: a, type: pr, config: {title: x, pause: true}}").checkpoint


def test_a_step_without_an_id_has_one_of_its_name() -> None:
    assert only("{name: Look At It, type: checkpoint}").id == "look-at-it"


@pytest.mark.parametrize(
    ("stated", "same"),
    [
        ("retry:3", "retry:3"),
        ("continue-on-error", "continue"),
        ("{default: ignore}", "{default: ignore}"),
        ('{"CATA-AI-429": retry:5}', "{PB-AGENT-RATE: retry:5, default: stop}"),
        ('{"CATA-IO-001": retry:3, default: fail}', "{default: fail}"),
        ("{PB-STEP-TIMEOUT: continue-on-error}", "{PB-STEP-TIMEOUT: continue, default: stop}"),
    ],
)
def test_an_error_policy_is_ours(stated: str, same: str) -> None:
    """cat FR-4.11."""
    ours = (
        'name: a\ndescription: a\nversion: "1.1"\nargs: []\nsteps:\n'
        f"  - {{id: a, command: prompt, with: {{text: x}}, autonomy: auto, error_policy: {same}}}\n"
    )
    step = only(f"{{id: a, type: ai-prompt, config: {{prompt: x}}, errorPolicy: {stated}}}")
    assert step.error_policy == read(ours).steps[0].error_policy


def test_a_code_that_no_failure_has_here_is_left_out_with_a_note() -> None:
    stated = '{id: a, type: checkpoint, errorPolicy: {"CATA-IO-001": retry:3}}'
    wanted = "no failure here has the code `CATA-IO-001`: its policy is left out"
    assert f"11:45 {wanted}" in said(text(stated), "note")


@pytest.mark.parametrize(
    ("step", "place", "message"),
    [
        ("{id: a, type: teleport}", "11:19", "`teleport` is no type of step that is known here"),
        ("{id: a, name: b}\n  - {id: b, type: checkpoint}", "11:5", "`type` is missing"),
        ("{id: a, type: bash, config: {command: a | b}}", "11:43", "a shell reads `|`"),
        ("{id: a, type: bash, config: {command: cd src}}", "11:43", "`cd` is a word of the shell"),
        ("{id: a, type: bash, config: {command: 'say \"a'}}", "11:43", "mark is not closed"),
        ('{id: a, type: bash, config: {command: "a\\nb"}}', "11:43", "it has several lines"),
        ("{id: a, type: markdown}", "11:5", "`config` has no `markdown`"),
        ("{id: a, type: ai-prompt, config: {promt: x}}", "11:39", "`promt` is not a known key"),
        (
            "{id: a, type: commit, config: {no-push: maybe}}",
            "11:36",
            "`no-push` is neither true nor false",
        ),
        (
            "{id: a, type: checkpoint, condition: '{{kind}} or b'}",
            "11:31",
            "this `condition` is none",
        ),
        (
            "{id: a, type: checkpoint, verify: x.ts}",
            "11:31",
            "`verify` is not a known key of a step",
        ),
    ],
)
def test_what_cannot_be_carried_is_refused_at_its_place(
    step: str, place: str, message: str
) -> None:
    """cat PL-5: also a type that nothing provides."""
    (found,) = said(text(step))
    assert found.startswith(place)
    assert message in found


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ("verify: check.ts", "1:1 `verify` names code of another program"),
        ("execution-mode: autonomous", "1:1 `execution-mode: autonomous` is not said in the file"),
        ("outputz: []", "1:1 `outputz` is not a known key of a Catalyst playbook"),
    ],
)
def test_what_a_playbook_cannot_say_is_refused(stated: str, message: str) -> None:
    assert message in said(f"{stated}\n{text('{id: a, type: checkpoint}')}")


def test_the_manual_mode_is_how_every_run_begins() -> None:
    """cat FR-6.3."""
    written = text("{id: a, type: checkpoint}") + "execution-mode: manual\n"
    assert "12:1 `execution-mode: manual` is how every run begins" in said(written, "note")


def test_a_type_of_an_installed_package_takes_its_config(monkeypatch: pytest.MonkeyPatch) -> None:
    """cat FR-4.10."""
    monkeypatch.setattr(
        "playbook_supervisor.project.expressions.namespaces.installed", lambda: ("teleport",)
    )
    step = only("{id: a, type: teleport, config: {to: moon}}")
    assert (step.command, step.options) == ("teleport", '{"to": "moon"}')


def test_what_a_session_keeps_of_it_is_the_same_playbook() -> None:
    written = text(
        '{id: a, type: ai-prompt, config: {prompt: "a\\n  b\\n\\nc\\n"}, checkpoint: true}'
    )
    kept = translate(written.encode(), "p.yaml").text
    assert kept.startswith("# Translated from a Catalyst playbook: p.yaml\nname: start-rollout\n")
    assert read(kept) == read(written)
