"""Files of other systems with one value replaced, or one word misspelt."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.foreign_playbooks import INBOX, SHAPES

from playbook_supervisor.project.playbooks.schema import examine
from playbook_supervisor.project.playbooks.translation import translate

TYRUM = {
    "name": "inbox-triage",
    "description": "Sort the inbox",
    "args": {"tag": {"default": "family", "required": False}, "day": {"type": "string"}},
    "steps": [
        {"id": "collect", "command": "cli inbox list", "output": "json", "timeoutMs": 1500},
        {"id": "apply", "command": "cli inbox apply", "stdin": "$collect.stdout"},
        {"id": "end", "command": "cli true", "condition": "!$apply.skipped", "maxOutputBytes": 9},
    ],
}
CATALYST = {
    "id": "start-rollout",
    "description": "Plan a rollout",
    "reviewers": {"required": ["Architect"]},
    "inputs": [{"name": "kind", "type": "enum", "values": ["a", "b"], "default": "a"}],
    "steps": [
        {"id": "a", "type": "markdown", "config": {"markdown": "a.md", "tools": ["Read"]}},
        {"name": "b", "type": "commit", "config": {"message": "m", "files": ["a"], "noPush": True}},
        {
            "id": "c",
            "type": "bash",
            "config": {"command": "ls"},
            "errorPolicy": {"default": "fail"},
        },
    ],
    "outputs": ["a.md"],
}
FRONT = {
    "name": "entry",
    "inputs": [{"name": "topic"}],
    "tools": ["Read"],
    "limits": {"max_turns": 3},
}
WHOLE = {
    "tyrum.json": (TYRUM, "{}"),
    "catalyst.json": (CATALYST, "{}"),
    "entry.md": (FRONT, "---\n{}\n---\nDo {{{{topic}}}}.\n"),
}
STRANGE: list[Any] = [[], {}, None, 1, "{{x"]


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        yield (*path, key)
        yield from paths(value[key], (*path, key))


def damaged(whole: Any) -> Iterator[Any]:
    for path in paths(whole):
        for strange in STRANGE:
            copied = copy.deepcopy(whole)
            holder = copied
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = strange
            yield copied


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_file_is_a_playbook(name: str) -> None:
    data, form = WHOLE[name]
    playbook, problems, _ = examine(form.format(json.dumps(data)).encode(), name)
    assert playbook is not None, problems


@pytest.mark.parametrize("name", WHOLE)
def test_a_damaged_file_is_refused_or_kept_as_what_it_is_read_as(name: str) -> None:
    """cat NFR-2.3."""
    whole, form = WHOLE[name]
    for data in damaged(whole):
        text = form.format(json.dumps(data)).encode()
        playbook, problems, _ = examine(text, name)
        if playbook is None:
            assert any(each.severity == "error" for each in problems), data
            continue
        kept = translate(text, name).text.encode()
        assert examine(kept, "playbook.yaml")[0] == playbook, data


MORE = {
    "spec-kit with branches": """\
schema_version: "1.0"
workflow: {id: release-notes, name: Release notes, version: "1.0.0"}
inputs:
  style: {type: string, default: none, prompt: How much to tell}
steps:
  - {id: collect, type: shell, run: git log --oneline}
  - {id: review, type: gate, message: "Publish them?", options: [approve, reject], on_reject: abort}
  - id: detailed
    type: if
    condition: "{{ inputs.style == 'long' }}"
    then: [{id: authors, type: shell, run: git shortlog}]
  - {id: build, type: shell, run: make, continue_on_error: true}
  - {id: fan, type: fan-out, items: "{{ steps.collect.output.files }}", max_concurrency: 2,
     step: {id: one, type: shell, run: "echo '{{ item }}'"}}
""",
    "catalyst with programs": """\
id: start-rollout
description: Plan a rollout
owner: Engineer
inputs:
  - {name: rollout, type: string, required: true, transform: kebab-case}
steps:
  - {id: look, type: bash, config: {command: git status --short}}
  - id: draft
    type: ai-prompt
    config: {prompt: "Say how to roll out {{rollout}}."}
    errorPolicy: {"CATA-IO-001": "retry:3", default: fail}
""",
    "tyrum's example": INBOX,
    **{name: shape.text for name, shape in SHAPES.items() if name != "markdown"},
}
OURS = r"`(?:autonomy|error_policy|version|args|with|at_once)` (?:is|has)|playbook key|step key"


@pytest.mark.parametrize("name", MORE)
def test_one_wrong_word_is_one_error_in_the_terms_of_its_system(name: str) -> None:
    """A file is recognised by its shape, and not by being valid."""
    text = MORE[name]
    assert examine(text.encode(), "file.yaml")[0] is not None
    for word in re.finditer(r"[A-Za-z_-]{4,}", text):
        wrong = word[0][:2] + word[0][3:] if len(word[0]) > 4 else word[0] + "q"
        damaged_text = text[: word.start()] + wrong + text[word.end() :]
        _, problems, _ = examine(damaged_text.encode(), "file.yaml")
        errors = [each.message for each in problems if each.severity == "error"]
        assert len(errors) <= 1, (word[0], wrong, errors)
        assert not any(re.search(OURS, each) for each in errors), (word[0], wrong, errors)


def refusal(text: str) -> tuple[int, str]:
    """The line and the text of the only error."""
    _, problems, _ = examine(text.encode(), "file.yaml")
    (error,) = [each for each in problems if each.severity == "error"]
    return error.line, f"{error.message}. {error.guidance}"


LOBSTER = """\
name: umbrella
args:
  town: {default: Bern}
steps:
  - id: ask-sky
    run: echo ${town}
  - id: agree
    approval: Send the note?
    stdin: $ask-sky.json
  - id: send
    run: echo sent
    when: $agree.approved
"""
PUBLISHED = """\
name: deploy-to-staging
description: Deploys
owner: Engineer
inputs:
  - string: git-ref
    required: true
steps:
  - name: tests
    bash: npm test
  - ai-prompt: "Say what is deployed: {{git-ref}}"
    errorPolicy: continue
  - if: ${{ get('git-ref') == 'main' }}
    then: [{git-commit: Deploy}]
"""


def test_a_format_that_is_not_read_is_refused_with_one_error() -> None:
    """cat FR-1.3: with what to do instead."""
    line, said = refusal(LOBSTER)
    assert line == 6
    assert "this is a Lobster workflow: `run` is a line of shell" in said
    assert "Write `command: cli PROGRAM WORDS`" in said
    for text in (PUBLISHED, PUBLISHED.replace("name: deploy", "id: deploy")):
        line, said = refusal(text)
        assert line == 1
        assert "this is Catalyst's published format" in said


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (
            '[{id: a, type: shell, run: "{{ inputs.cmd }}"}]',
            "is the whole line: its value is split",
        ),
        (
            "[{id: a, type: shell, run: 'ls {{ inputs.cmd }}'}]",
            "without quotation marks is one word",
        ),
        ("[{id: a, type: shell, run: 'ls \"{{ inputs.cmd }}\"'}]", ""),
    ],
)
def test_a_value_that_spec_kit_gives_to_a_shell_is_noted(steps: str, said: str) -> None:
    text = f"workflow: {{id: a, name: A}}\ninputs: {{cmd: {{type: string}}}}\nsteps: {steps}\n"
    playbook, problems, _ = examine(text.encode(), "file.yaml")
    assert playbook is not None
    notes = [
        each.message for each in problems if "inputs" in each.message or "input w" in each.message
    ]
    assert [said in note for note in notes] == ([True] if said else [])


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("{id: a, type: shell, run: make}", "is always 0 here"),
        ("{id: a, type: shell, run: make, continue_on_error: true}", "no condition can ask for it"),
    ],
)
def test_the_exit_code_of_a_step_is_refused_for_the_right_reason(step: str, why: str) -> None:
    """After a step that may fail the run goes on, so that its exit code is not always 0."""
    branch = "{id: b, type: if, condition: '{{ steps.a.output.exit_code == 1 }}', then: [%s]}"
    inner = "{id: c, type: shell, run: ls}"
    text = f"workflow: {{id: a, name: A}}\nsteps:\n  - {step}\n  - {branch % inner}\n"
    assert why in refusal(text)[1]
