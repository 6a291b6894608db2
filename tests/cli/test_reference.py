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
from cli.terminal import Terminal
from playbook_supervisor.agents.profiles import PROFILES
from playbook_supervisor.cli.app import EVERYDAY, SUMMARIES, groups, load, names

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "playbook_supervisor/project/schemas"


def listed(text: str) -> list[str]:
    return re.findall(r"^  ([a-z]+) {2,}", text, re.MULTILINE)


def test_help_shows_the_everyday_commands_and_how_to_see_the_rest(project: Project) -> None:
    """kai CS-1."""
    shown = project.playbook("--help")
    assert shown.code == 0
    assert listed(shown.out) == [*EVERYDAY]
    assert {"run", "resume", "start", "check", "init"} <= {*EVERYDAY}
    assert len(EVERYDAY) <= 14
    assert "`playbook help --all` lists all commands." in shown.out
    assert "`playbook help authoring` explains how to write a playbook." in shown.out
    assert project.playbook().out == project.playbook("-h").out == shown.out
    assert project.playbook("--version").out == f"playbook {playbook_supervisor.__version__}\n"


def test_help_authoring_prints_the_guide_and_pages_it_at_a_terminal(project: Project) -> None:
    """kai FR44: a guide explains how to write a playbook, and every word."""
    guide = (ROOT / "templates/playbook-authoring.md").read_text("utf-8")
    assert project.playbook("help", "authoring").out == guide
    pager = project.write("pager", "#!/bin/sh\necho paged; wc -l\n")
    pager.chmod(0o755)
    with Terminal(project, "help", "authoring", PAGER=str(pager)) as terminal:
        assert terminal.end() == 0
        assert "paged" in terminal.shown


def test_help_all_shows_all_commands_in_groups(project: Project) -> None:
    shown = project.playbook("help", "--all").out
    assert re.findall(r"^([A-Z][a-z, ]+):$", shown, re.MULTILINE) == [*groups()]
    assert sorted(listed(shown)) == sorted(names())
    assert {"update", "next", "fleet", "inbox"} <= {*names()}


def test_help_shows_the_help_of_a_command(project: Project) -> None:
    for words in (["run"], ["fleet", "submit"]):
        assert project.playbook("help", *words).out == project.playbook(*words, "--help").out


def test_the_help_of_run_names_every_agent(project: Project) -> None:
    shown = project.playbook("run", "--help").out
    assert [name for name in PROFILES if name not in shown] == []


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("submit x", "such command 'submit'. Did you mean 'playbook fleet submit'?"),
        ("cancel a7k", "such command 'cancel'. Did you mean 'playbook abort'?"),
        ("help submit", "such command 'submit'. Did you mean 'playbook fleet submit'?"),
        ("status --fleet", "such option '--fleet'. Did you mean 'playbook fleet status'?"),
        ("zzz", "such command 'zzz' [PB-ARG-USAGE]"),
    ],
)
def test_a_word_that_is_no_command_is_answered_with_the_nearest(
    project: Project, given: str, meant: str
) -> None:
    done = project.playbook(*given.split())
    assert done.code == 1
    assert f"no {meant}" in done.err


def test_every_command_has_examples(project: Project) -> None:
    reference = (ROOT / "docs/cli.md").read_text("utf-8")
    parts = re.findall(r"^## playbook (\w+)\n\n```text\n(.*?)^```$", reference, re.M | re.S)
    assert {command for command, _ in parts} == {*names()}
    for command, said in parts:
        examples = said.partition("Examples:\n")[2].partition("\n\n")[0]
        assert f"    playbook {command}" in examples, command
        assert "--debug" in said or command == "claude"  # all its options are the client's


def test_the_program_summarizes_a_command_as_its_own_help_does() -> None:
    for name, summary in SUMMARIES.items():
        command = load(name)
        assert (command.name, command.get_short_help_str(limit=100)) == (name, summary)


def test_the_reference_is_what_the_program_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate_reference.main(check=True) == 0, capsys.readouterr().out


def test_the_examples_of_a_schema_conform_to_it() -> None:
    for file in SCHEMAS.glob("*/*.json"):
        schema = json.loads(file.read_text("utf-8"))
        jsonschema.Draft7Validator.check_schema(schema)
        for example in schema.get("examples", []):
            jsonschema.validate(example, schema, cls=jsonschema.Draft7Validator)
