"""Which slash commands a project has, in every place and spelling that the client knows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from playbook_supervisor.agents.profiles import PROFILES
from playbook_supervisor.project.command_layouts import CLAUDE, LAYOUTS
from playbook_supervisor.project.slash_commands import (
    BUILTINS,
    CommandIndex,
    InstalledCommand,
    resolve,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def put(base: Path, path: str, text: str = "Do it.\n") -> Path:
    file = base / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (".claude/commands/speckit.plan.md", "/speckit.plan"),
        (".claude/commands/speckit-plan.md", "/speckit-plan"),
        (".claude/skills/speckit-plan/SKILL.md", "/speckit-plan"),
        (".claude/skills/speckit.plan/SKILL.md", "/speckit.plan"),
    ],
)
@pytest.mark.parametrize("asked", ["/speckit.plan", "/speckit-plan"])
@pytest.mark.parametrize(
    "of_user",
    [
        False,
    ],
)
def test_a_command_is_found_in_either_spelling_under_its_installed_name(
    root: Path, home: Path, path: str, name: str, asked: str, of_user: bool
) -> None:
    file = put(home if of_user else root, path)
    assert resolve(root, asked, home=home) == InstalledCommand(name, file, closed=False)


def test_a_command_in_a_subfolder_carries_the_folders_name(root: Path, home: Path) -> None:
    file = put(root, ".claude/commands/a/b/c.md")
    assert resolve(root, "/a:b:c", home=home) == InstalledCommand("/a:b:c", file, closed=False)
    assert resolve(root, "/c", home=home) is None


def test_the_spelling_of_the_playbook_wins_where_both_are_installed(root: Path, home: Path) -> None:
    put(root, ".claude/commands/qa.run.md")
    put(root, ".claude/skills/qa-run/SKILL.md")
    for name in ("/qa.run", "/qa-run"):
        found = resolve(root, name, home=home)
        assert found is not None
        assert found.name == name


@pytest.mark.parametrize(
    "integration",
    [
        {"integration_settings": {"claude": {"invoke_separator": "-"}}},
        {"separator": "-", "integration_settings": []},
    ],
)
def test_files_that_an_upgrade_of_spec_kit_left_behind_do_not_win(
    root: Path, home: Path, integration: dict[str, object]
) -> None:
    put(root, ".claude/commands/speckit.plan.md")
    live = put(root, ".claude/skills/speckit-plan/SKILL.md")
    put(root, ".specify/integration.json", json.dumps(integration))
    assert resolve(root, "/speckit.plan", home=home) == InstalledCommand(
        "/speckit-plan", live, closed=False
    )


@pytest.mark.parametrize(
    "integration",
    [
        "",
        '{"separator": "/"}',
    ],
)
def test_without_a_separator_the_spelling_of_the_playbook_wins(
    root: Path, home: Path, integration: str
) -> None:
    put(root, ".claude/skills/speckit-plan/SKILL.md")
    old = put(root, ".claude/commands/speckit.plan.md")
    put(root, ".specify/integration.json", integration)
    assert resolve(root, "/speckit.plan", home=home) == InstalledCommand(
        "/speckit.plan", old, closed=False
    )


def test_a_skill_wins_over_a_command_and_the_project_over_the_user(root: Path, home: Path) -> None:
    put(home, ".claude/skills/pr/SKILL.md")
    put(root, ".claude/commands/pr.md")
    skill = put(root, ".claude/skills/pr/SKILL.md")
    assert resolve(root, "/pr", home=home) == InstalledCommand("/pr", skill, closed=False)
    skill.unlink()
    command = resolve(root, "/pr", home=home)
    assert command is not None
    assert command.file == root / ".claude/commands/pr.md"


@pytest.mark.parametrize(
    "name",
    [
        "/status",
        "/verify",
    ],
)
def test_the_clients_own_commands_are_known_and_win(root: Path, home: Path, name: str) -> None:
    put(root, f".claude/commands/{name[1:]}.md")
    assert resolve(root, name, home=home) == InstalledCommand(
        name, None, closed=False, builtin=True
    )
    assert name[1:] in BUILTINS


@pytest.mark.parametrize(
    "command", ["/nothing", "speckit.plan", "/", "", "/a b", "/../x", "/speckit.plan\n", "/x:y"]
)
def test_what_is_not_installed_or_no_command_is_not_found(
    root: Path, home: Path, command: str
) -> None:
    put(root, ".claude/commands/speckit.plan.md")
    assert resolve(root, command, home=home) is None


@pytest.mark.parametrize(
    ("front", "closed"),
    [
        ("---\ndisable-model-invocation: true\n---\n", True),
        ("---\r\nname: x\r\ndisable-model-invocation: 'true' # why\r\n---\r\n", True),
        ("---\ndisable-model-invocation: false\n---\n", False),
        ("---\ndisable-model-invocation: 1\n---\n", True),
        ("disable-model-invocation: true\n", False),
        ("", False),
    ],
)
def test_a_command_closed_to_models_says_so(
    root: Path, home: Path, front: str, closed: bool
) -> None:
    file = put(root, ".claude/commands/deploy.md", front)
    assert resolve(root, "/deploy", home=home) == InstalledCommand("/deploy", file, closed=closed)


@pytest.mark.parametrize(
    ("folder", "manifest"),
    [
        ("repos/agreements", None),
        ("cache/market/agreements/1.2.0", None),
        ("cache/market/agreements/4f2a91c07d3e", "not json"),
        ("cache/market/whatever", '{"name": "agreements"}'),
    ],
)
def test_a_plugins_commands_carry_its_name(
    root: Path, home: Path, folder: str, manifest: str | None
) -> None:
    base = home / ".claude/plugins" / folder
    command = put(base, "commands/check.md")
    skill = put(base, "skills/create/SKILL.md")
    if manifest:
        put(base, ".claude-plugin/plugin.json", manifest)
    shelf = CommandIndex(root, home=home)
    assert shelf.resolve("/agreements:check") == InstalledCommand(
        "/agreements:check", command, closed=False
    )
    assert shelf.resolve("/agreements:create") == InstalledCommand(
        "/agreements:create", skill, closed=False
    )
    assert shelf.resolve("/agreements:other") is None
    assert shelf.resolve("/check") is None


SKILL = "---\nname: {name}\ndescription: [d\n{more}---\nDo it.\n"


@pytest.mark.parametrize("name", ["renamed", '"renamed"', "'renamed' # once", "renamed\r"])
def test_a_skill_answers_to_its_name_and_is_called_by_its_folder(
    root: Path, home: Path, name: str
) -> None:
    file = put(root, ".claude/skills/otherdir/SKILL.md", SKILL.format(name=name, more=""))
    for asked in ("/renamed", "/otherdir"):
        assert resolve(root, asked, home=home) == InstalledCommand("/otherdir", file, closed=False)


@pytest.mark.parametrize("path", [".claude/skills/x/SKILL.md", ".claude/commands/x.md"])
@pytest.mark.parametrize(
    ("line", "hidden"),
    [
        ("user-invocable: false", True),
        ("user-invocable: 'NO' # why", True),
        ("User-Invocable: false", False),
        ("user-invocable: ", False),
    ],
)
def test_a_command_that_people_cannot_type(
    root: Path, home: Path, path: str, line: str, hidden: bool
) -> None:
    put(root, path, f"---\n{line}\n---\nDo it.\n")
    found = resolve(root, "/x", home=home)
    assert found is not None
    assert (found.hidden, found.closed) == (hidden, False)


# ── other agents ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("layout", "path", "name"),
    [
        ("codex", ".agents/skills/speckit-plan/SKILL.md", "$speckit-plan"),
        ("codex", ".codex/skills/below/speckit.plan/SKILL.md", "$speckit.plan"),
        ("gemini", ".gemini/commands/speckit.plan.toml", "/speckit.plan"),
        ("opencode", ".opencode/command/speckit.plan.md", "/speckit.plan"),
        ("opencode", ".claude/skills/speckit-plan/SKILL.md", "/speckit-plan"),
        ("copilot", ".agents/skills/speckit-plan/SKILL.md", "/speckit-plan"),
        ("qwen", ".qwen/commands/speckit.plan.toml", "/speckit.plan"),
        ("qwen", ".agents/skills/speckit-plan/SKILL.md", "/speckit-plan"),
        ("kimi", ".kimi-code/skills/speckit-plan/SKILL.md", "/skill:speckit-plan"),
        ("vibe", ".vibe/skills/speckit-plan/SKILL.md", "/speckit-plan"),
    ],
)
@pytest.mark.parametrize("of_user", [False, True])
def test_each_agent_has_folders_and_a_spelling_of_its_own(
    root: Path, home: Path, layout: str, path: str, name: str, of_user: bool
) -> None:
    file = put(home if of_user else root, path)
    found = CommandIndex(root, home=home, layout=layout).resolve("/speckit.plan")
    assert found == InstalledCommand(name, file, closed=False)


@pytest.mark.parametrize(
    ("layout", "path"),
    [
        ("gemini", ".agents/skills/made/SKILL.md"),
        ("codex", ".claude/skills/made/SKILL.md"),
        ("copilot", ".claude/commands/below/made.md"),
        ("claude", ".agents/skills/made/SKILL.md"),
    ],
)
def test_what_an_agent_does_not_offer_as_a_command_is_none_of_its_commands(
    root: Path, home: Path, layout: str, path: str
) -> None:
    put(root, path)
    assert CommandIndex(root, home=home, layout=layout).resolve("/made") is None


def test_folders_below_group_the_commands_of_some_agents(root: Path, home: Path) -> None:
    put(root, ".gemini/commands/a/b.toml")
    put(root, ".opencode/commands/a/b.md")
    assert CommandIndex(root, home=home, layout="gemini").resolve("/a:b") is not None
    assert CommandIndex(root, home=home, layout="opencode").resolve("/a:b") is None


@pytest.mark.parametrize(("layout", "hidden"), [("codex", False), ("qwen", True), ("vibe", True)])
def test_some_agents_keep_a_skill_from_people_and_none_closes_it(
    root: Path, home: Path, layout: str, hidden: bool
) -> None:
    front = "user-invocable: false\ndisable-model-invocation: true\n"
    put(root, ".agents/skills/x/SKILL.md", SKILL.format(name="x", more=front))
    found = CommandIndex(root, home=home, layout=layout).resolve("/x")
    assert found is not None
    assert (found.hidden, found.closed) == (hidden, False)


def test_every_known_agent_has_a_layout() -> None:
    assert {CLAUDE, *(each.layout for each in PROFILES.values())} == set(LAYOUTS)


SPECIFY = Path(sys.prefix) / "spec-kit/bin/specify"


@pytest.mark.long
@pytest.mark.parametrize("layout", LAYOUTS)
def test_spec_kits_commands_are_found_where_it_puts_them(
    root: Path, home: Path, layout: str
) -> None:
    if not SPECIFY.exists():
        pytest.skip("spec-kit is missing: `make .venv/spec-kit`")
    options = ("--here", "--force", "--non-interactive", "--ignore-agent-tools", "--script", "sh")
    subprocess.run(
        [str(SPECIFY), "init", *options, "--integration", layout],
        cwd=root,
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=120,
    )
    index = CommandIndex(root, home=home, layout=layout)
    for name in ("specify", "plan", "tasks", "analyze", "implement"):
        assert index.resolve(f"/speckit.{name}") is not None
