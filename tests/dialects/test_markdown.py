"""Markdown files that are playbooks: front matter, and the prompt of one step."""

from __future__ import annotations

import json

import pytest
from support.scratch_project import Project

from playbook_supervisor.formats.strict_yaml import MAX_BYTES
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.project.playbooks import library
from playbook_supervisor.project.playbooks.schema import examine
from playbook_supervisor.project.playbooks.translation import translate

ENTRY = """\
---
description: Write an entry of the changelog
inputs:
  - {name: feature, transform: kebab-case}
  - {name: tone, default: short}
tools: [Read, Write]
owner: Engineer
limits: {max_turns: 20}
outputs: ["changes/{{feature}}.md"]
---

Write changes/{{feature}}.md.
Be {{tone}}.
"""


def read(text: str, source: str = "changelog-entry.md") -> Playbook:
    playbook, problems, _ = examine(text.encode(), source)
    assert playbook is not None, problems
    return playbook


def said(text: str | bytes, source: str = "entry.md") -> list[str]:
    """`line:col message` of each error."""
    data = text if isinstance(text, bytes) else text.encode()
    _, problems, _ = examine(data, source)
    errors = [each for each in problems if each.severity == "error"]
    return [f"{each.line}:{each.col} {each.message}" for each in errors]


def test_the_front_matter_is_the_playbook_and_the_text_the_prompt() -> None:
    """own L-1."""
    playbook = read(ENTRY)
    assert (playbook.name, playbook.owner) == ("changelog-entry", "Engineer")
    assert playbook.description == "Write an entry of the changelog"
    assert [(arg.name, arg.required) for arg in playbook.args] == [
        ("feature", True),
        ("tone", False),
    ]
    assert playbook.limits.max_turns == 20
    (step,) = playbook.steps
    assert (step.command, step.tools) == ("prompt", ("Read", "Write"))
    assert json.loads(step.options) == {"text": "Write changes/{{feature}}.md.\nBe {{tone}}."}


def test_what_a_session_keeps_of_it_is_the_same_playbook() -> None:
    kept = translate(ENTRY.encode(), "changelog-entry.md").text
    assert "    with:\n      text: |-\n        Write changes/{{feature}}.md.\n" in kept
    assert read(kept, "playbook.yaml") == read(ENTRY)


def test_a_file_of_nothing_but_markdown_has_the_name_of_the_file() -> None:
    playbook = read("\n# Look around\n\nSay what you see.\n", "docs/look.md")
    assert (playbook.name, playbook.description) == ("look", "Look around")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_reference_that_leads_nowhere_is_reported_at_its_line(end: str) -> None:
    text = ENTRY.replace("Be {{tone}}", "Be {{ton}}").replace("\n", end)
    assert said(text) == ["13:4 `{{ton}}` is not a declared input"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("---\nname: a\n", "1:1 the front matter has no end"),
        ("---\n- a\n---\nDo it.\n", "2:1 the front matter is no mapping"),
        ("---\nname: ../a\n---\nDo it.\n", "2:7 `../a` is not a valid `name` of a playbook"),
        ("---\ntool: [Read]\n---\nDo it.\n", "2:1 `tool` is not a known key of a front matter"),
        ("---\nname: a\n---\n", "4:1 there is no text"),
        ("---\ninputs: []\nargs: []\n---\nDo it.\n", "2:1 `inputs` and `args` are both there"),
        ("---\nname: &a [*a]\n---\nDo it.\n", "2:7 anchors and aliases"),
        ("---\nname: !!python/name:os.system a\n---\nDo it.\n", "2:7 tags (`!…`) are not allowed"),
        ("---\na: " + "[" * 80 + "\n---\nDo it.\n", "2:67 nested deeper than 64 levels"),
        ("---\nname: a\nname: b\n---\nDo it.\n", "3:1 the key `name` appears for the second time"),
        ("Do it.\0\n", "1:7 the character U+0000 is not allowed"),
        ("a" * (MAX_BYTES + 1), "1:1 1,048,577 bytes; at most 1,048,576 are read"),
    ],
)
def test_a_hostile_or_mistaken_file_is_refused_at_the_place(text: str, found: str) -> None:
    """cat FR-1.5."""
    first, *_ = said(text)
    assert first.startswith(found)


def test_a_prompt_of_a_mebibyte_is_read() -> None:
    text = "word " * (MAX_BYTES // 5)
    assert len(json.loads(read(text, "long.md").steps[0].options)["text"]) == len(text)


def test_a_markdown_file_is_listed_if_it_has_a_front_matter_and_a_name_of_a_playbook(
    project: Project,
) -> None:
    folder = ".playbooks/playbooks"
    project.write(f"{folder}/changelog-entry.md", ENTRY)
    project.write(f"{folder}/README.md", ENTRY)
    project.write(f"{folder}/readme.md", ENTRY)
    project.write(f"{folder}/start-rollout.md", "Text for a step: {{anything}}\n")
    project.write(f"{folder}/.hidden.md", ENTRY)
    (project.root / folder / "gone.md").symlink_to("nowhere")
    names = [each.file.name for each in library.playbooks(project.root)]
    assert [name for name in names if name.endswith(".md")] == ["changelog-entry.md"]
    assert library.find(project.root, "changelog-entry").playbook.args
    assert project.playbook("check", f"{folder}/start-rollout.md", f"{folder}/README.md").code == 0


def test_one_that_is_not_listed_is_run_by_its_path(project: Project) -> None:
    project.write("docs/look.md", "# Look around\n")
    assert library.find(project.root, "docs/look.md").playbook.name == "look"
