"""The help, and the documents that are generated from it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import generate_reference
import jsonschema
import pytest
from support.scratch_project import Project

import playbook_supervisor
from playbook_supervisor.cli.app import GROUPS, SUMMARIES, load

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "playbook_supervisor/project/schemas"


def test_help_shows_the_commands_in_groups(project: Project) -> None:
    """kai CS-1."""
    shown = project.playbook("--help")
    assert shown.code == 0
    titles = re.findall(r"^([A-Z][a-z ]+):$", shown.out, re.MULTILINE)
    assert titles[-len(GROUPS) :] == [*GROUPS]
    listed = re.findall(r"^  ([a-z]+) {2,}", shown.out, re.MULTILINE)
    assert {"run", "resume", "start", "check", "init", "update"} <= set(listed)
    assert project.playbook().out == project.playbook("-h").out == shown.out
    assert project.playbook("--version").out == f"playbook {playbook_supervisor.__version__}\n"


def test_every_command_has_examples(project: Project) -> None:
    reference = (ROOT / "docs/cli.md").read_text("utf-8")
    parts = re.findall(r"^## playbook (\w+)\n\n```text\n(.*?)^```$", reference, re.M | re.S)
    assert {command for command, _ in parts} == set(SUMMARIES)
    for command, said in parts:
        examples = said.partition("Examples:\n")[2].partition("\n\n")[0]
        assert f"    playbook {command}" in examples, command
        assert "--debug" in said


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_program_summarizes_a_command_as_its_own_help_does(name: str) -> None:
    command = load(name)
    assert command.name == name
    assert command.get_short_help_str(limit=100) == SUMMARIES[name]


def test_the_reference_is_what_the_program_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_reference.main(check=True) == 0, capsys.readouterr().out


@pytest.mark.parametrize("file", sorted(SCHEMAS.glob("*.json")), ids=lambda file: file.stem)
def test_the_examples_of_a_schema_conform_to_it(file: Path) -> None:
    schema = json.loads(file.read_text("utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    for example in schema.get("examples", []):
        jsonschema.validate(example, schema, cls=jsonschema.Draft7Validator)
