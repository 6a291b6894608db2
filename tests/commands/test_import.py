"""`playbook import`: a file of another system becomes a playbook of the project."""

from __future__ import annotations

import pytest
from support.scratch_project import Project

TARGET = ".playbooks/playbooks/inbox-triage.yaml"
INBOX = """\
name: inbox-triage
args:
  tag:
    default: "family"
steps:
  - id: collect
    command: cli inbox list --json
    output: json
  - id: apply
    command: cli inbox apply --execute
    stdin: $collect.stdout
    condition: "!$collect.skipped"
"""


@pytest.fixture
def foreign(project: Project) -> Project:
    project.write("workflows/inbox.yaml", INBOX)
    return project


def test_what_is_written_passes_the_check_and_names_its_origin(foreign: Project) -> None:
    made = foreign.playbook("import", "workflows/inbox.yaml")
    assert made.code == 0
    assert f"wrote {TARGET}" in made.err
    assert "line 12: `condition` is read as `when`" in made.err
    assert "postconditions: none say when these are done: collect, apply" in made.err
    text = foreign.read(TARGET)
    assert text.startswith("# yaml-language-server: $schema=../playbook.schema.json\n")
    assert "# Imported from a Tyrum workflow: workflows/inbox.yaml\n" in text
    assert foreign.playbook("check", TARGET).code == 0
    assert foreign.playbook("index", "--check").code == 0


def test_it_overwrites_nothing_unless_it_is_told_to(foreign: Project) -> None:
    foreign.write(TARGET, "mine\n")
    refused = foreign.playbook("import", "workflows/inbox.yaml")
    assert refused.code == 1
    assert f"{TARGET} exists already" in refused.err
    assert foreign.read(TARGET) == "mine\n"
    assert foreign.playbook("import", "workflows/inbox.yaml", "--force").code == 0
    assert "name: inbox-triage" in foreign.read(TARGET)


def test_it_writes_where_it_is_told_to(foreign: Project) -> None:
    made = foreign.playbook("import", "workflows/inbox.yaml", "--output", "new/a.yaml")
    assert made.code == 0
    assert foreign.playbook("check", "new/a.yaml").code == 0


def test_a_playbook_of_ours_needs_no_import(foreign: Project) -> None:
    made = foreign.playbook("import", ".playbooks/playbooks/auto-feature.yaml")
    assert made.code == 0
    assert "is a playbook already; there is nothing to do" in made.err


def test_an_original_beside_its_translation_is_to_be_removed(foreign: Project) -> None:
    foreign.write(".playbooks/playbooks/inbox.yaml", INBOX)
    made = foreign.playbook("import", ".playbooks/playbooks/inbox.yaml")
    assert "remove inbox.yaml: two files with one name cannot be run" in made.err


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (INBOX.replace("condition", "conditions"), 1, "`conditions` is not a known key of a step"),
        ("name: &a b\n", 1, "anchors and aliases"),
        ("hello\n", 1, "not a playbook"),
    ],
)
def test_what_cannot_be_translated_is_not_written(
    foreign: Project, text: str, code: int, said: str
) -> None:
    before = foreign.git("status", "--short")
    foreign.write("workflows/inbox.yaml", text)
    made = foreign.playbook("import", "workflows/inbox.yaml")
    assert (made.code, said in made.err) == (code, True)
    assert foreign.git("status", "--short") == before


def test_a_file_that_is_not_there_and_a_project_that_is_none(foreign: Project) -> None:
    assert "there is no file gone.yaml" in foreign.playbook("import", "gone.yaml").err
    foreign.git("mv", ".playbooks", "elsewhere")
    assert "has no .playbooks/" in foreign.playbook("import", "workflows/inbox.yaml").err
