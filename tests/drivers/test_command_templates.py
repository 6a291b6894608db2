"""The shipped slash commands: short, stateless, and unable to decide."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from playbook_supervisor.cli.app import load
from playbook_supervisor.commands.install.shipped import COMMANDS
from playbook_supervisor.drivers.claude_code.settings import ALLOW
from playbook_supervisor.project.playbooks.schema import schema_text
from playbook_supervisor.project.slash_commands import BUILTINS

FOLDER = Path(__file__).parents[2] / "templates/commands"
FILES = sorted(FOLDER.glob("*.md"))
LOOP = ("playbook.run", "playbook.resume")
TYPED = (*LOOP, "playbook.pause", "playbook.abort", "playbook.goal")
READING = {"Read", "Glob", "Grep"}
MENTIONED = re.compile(r"`playbook ([a-z]+)([^`]*)`")


def split(path: Path) -> tuple[dict[str, Any], str]:
    """The front matter and the text."""
    _, head, text = path.read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(head), text


def read(name: str) -> tuple[dict[str, Any], str]:
    return split(FOLDER / f"{name}.md")


def tokens(text: str) -> float:
    """An upper estimate: English has more than four letters to a token."""
    return max(len(text) / 4, len(text.split()) * 1.4)


def tools(head: dict[str, Any]) -> set[str]:
    return {tool.strip() for tool in head.get("allowed-tools", "").split(",") if tool.strip()}


def test_these_ship_and_no_others() -> None:
    """kai CS-1."""
    assert [path.stem for path in FILES] == sorted(COMMANDS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
class TestEveryCommand:
    def test_says_in_the_menu_what_it_does(self, path: Path) -> None:
        head, _ = split(path)
        assert set(head) <= {
            *("description", "argument-hint", "allowed-tools", "disable-model-invocation"),
        }
        assert 20 < len(head["description"]) <= 100

    def test_does_not_replace_a_command_of_the_client(self, path: Path) -> None:
        assert path.stem not in BUILTINS

    def test_executes_nothing_when_it_is_expanded(self, path: Path) -> None:
        """A failing expansion drops the whole command silently."""
        _, text = split(path)
        assert "!`" not in text
        assert not re.search(r"(?:^|\s)@\w", text)
        assert not re.search(r"\$\d", text)

    def test_names_only_existing_commands_and_options(self, path: Path) -> None:
        for name, rest in MENTIONED.findall(path.read_text()):
            command = load(name)
            known = {option for each in command.params for option in each.opts}
            assert set(re.findall(r"--[a-z-]+", rest)) <= known, f"playbook {name}{rest}"

    def test_may_use_nothing_that_decides(self, path: Path) -> None:
        head, _ = split(path)
        drafting = READING | {
            "Bash(playbook check *)",
            "Bash(playbook index)",
            "Bash(playbook help *)",
        }
        assert tools(head) <= {*ALLOW, *(drafting if path.stem == "playbook.create" else ())}

    def test_may_run_the_commands_that_it_names(self, path: Path) -> None:
        head, text = split(path)
        mine = [
            name
            for name, _ in MENTIONED.findall(text)
            if name not in ("answer", "pause", "abort", "resume")  # the person's own
        ]
        granted = re.findall(r"Bash\(playbook ([a-z]+)", " ".join(tools(head)))
        assert set(mine) <= set(granted)

    def test_may_be_called_by_a_model_only_if_it_has_no_effect(self, path: Path) -> None:
        head, _ = split(path)
        assert head.get("disable-model-invocation", False) == (path.stem in TYPED)


def test_all_together_they_are_short() -> None:
    assert sum(tokens(path.read_text()) for path in FILES) < 2_500


class TestTheLoop:
    @pytest.mark.parametrize("name", LOOP)
    def test_knows_every_directive(self, name: str) -> None:
        _, text = read(name)
        assert set(re.findall(r"^- `([a-z]+)`:", text, re.MULTILINE)) == kinds()

    def test_is_identical_in_run_and_resume(self) -> None:
        (_, run), (_, resume) = map(read, LOOP)
        loops = [re.findall(r"^\*\*A directive\*\*.*?^If ", t, re.M | re.S) for t in (run, resume)]
        assert loops[0] == loops[1] != []

    def test_resume_needs_no_arguments(self) -> None:
        """kai FR15."""
        assert "$ARGUMENTS" not in read("playbook.resume")[1]


def test_a_draft_is_judged_by_the_checker_and_approved_by_a_person() -> None:
    """kai P3-1: `/playbook.create`."""
    _, text = read("playbook.create")
    assert "playbook check --strict" in text
    assert "Ask: keep it, change it, or discard it." in text
    assert "You never run it." in text
    assert "`playbook help authoring`" in text


def kinds() -> set[str]:
    """The kinds of directive that the program prints, including `wait` for clients."""
    shape = json.loads(schema_text("directive"))
    return {*shape["properties"]["directive"]["enum"], "wait"}
