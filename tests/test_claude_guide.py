"""The guide to Claude Code names what there really is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from playbook_supervisor.drivers.claude_code import settings
from playbook_supervisor.drivers.claude_code.marker import MARK

REPOSITORY = Path(__file__).resolve().parent.parent
GUIDE = (REPOSITORY / "docs/claude-code.md").read_text("utf-8")
TEMPLATES = sorted((REPOSITORY / "templates/commands").glob("*.md"))


def test_every_hook_is_explained_and_no_other() -> None:
    (table,) = re.findall(r"^\| hook \|.*?\n\n", GUIDE, re.MULTILINE | re.DOTALL)
    told = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row[:60])}
    assert {name for name in told if name[0].isupper()} == set(settings.HOOKS | settings.OPTIONAL)


def test_every_command_is_explained() -> None:
    assert len(TEMPLATES) == 8
    for template in TEMPLATES:
        assert f"`/{template.stem}" in GUIDE


def test_every_rule_is_named() -> None:
    named = " ".join(GUIDE.split())
    for rule in settings.ALLOW:
        command = rule.removeprefix("Bash(playbook ").removesuffix(" *)")
        assert f"`{command}`" in named or f"`playbook {command}`" in named
    assert "deny` for edits of `.playbooks/sessions/`" in named
    assert f"`{MARK}`" in GUIDE


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_commands_cost_what_the_guide_says(template: Path) -> None:
    """Words times 1.3; a compacted conversation keeps 5,000 tokens of them at most."""
    tokens = len(template.read_text("utf-8").split()) * 1.3
    (row,) = re.findall(r"^\| tokens of the commands \|.*", GUIDE, re.MULTILINE)
    name = template.stem.removeprefix("playbook.")
    told = re.search(rf"`{name}`(?: and `\w+`)? (\d+)", row)
    assert told
    assert abs(int(told[1]) - tokens) <= max(10, tokens / 10)
