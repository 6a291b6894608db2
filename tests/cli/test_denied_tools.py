"""Settings of the client that keep a playbook from working are found before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture
from support.bound_session import Conversation
from support.hook_calls import Hooked
from support.scratch_project import Project

from playbook_supervisor.commands import doctor
from playbook_supervisor.drivers.claude_code import permissions
from playbook_supervisor.errors import CheckError

RUN = "/playbook.run auto-validate 013"
LOCAL = ".claude/settings.local.json"
PASSES = ["Bash(rm *)", "Skill(speckit.plan)", "Agent(Explore)", "Read(./secrets/**)", "WebFetch"]
PASSES += ["Edit(/.playbooks/sessions/**)", "Bash(playbook abort *)", "", "("]
SHELL_PROMPT = """\
name: shell-prompt
description: A prompt that may use a shell
version: "1.1"
args: []
steps:
  - id: ask
    command: prompt
    with: {text: Say hello.}
    tools: [Read, "Bash(echo *)"]
    autonomy: auto
    error_policy: stop
"""


def deny(*rules: str, **more: object) -> str:
    return json.dumps({"permissions": {"deny": list(rules)}, **more})


@pytest.mark.parametrize("rule", ["Task(*)", "Agent(general-purpose)", "Skill(/qa.*)", "Bash"])
def test_a_run_is_refused_with_the_rule_and_its_file(project: Project, rule: str) -> None:
    project.write(LOCAL, deny("Bash(rm *)", rule))
    with pytest.raises(CheckError) as refused:
        Hooked(project).types(RUN)
    assert refused.value.code == "PB-CHECK-DENIED"
    assert f"`{rule}` in {project.root / LOCAL}" in refused.value.message
    assert "step qa-plan" in refused.value.message
    assert project.sessions == []


def test_what_carries_out_a_step_of_ours_needs_the_command_that_waits(project: Project) -> None:
    own = SHELL_PROMPT.replace("command: prompt", "command: cli true")
    own = own.replace("    with: {text: Say hello.}\n", "").replace(
        '    tools: [Read, "Bash(echo *)"]\n', ""
    )
    project.write(".playbooks/playbooks/own.yaml", own.replace("shell-prompt", "own"))
    project.write(LOCAL, deny("Agent", "Skill"))
    Hooked(project).types("/playbook.run own")
    for rule in ("Bash(playbook *)", "Bash(playbook next:*)", "Bash(playbook next --wait)"):
        project.write(LOCAL, deny(rule))
        with pytest.raises(CheckError, match="deny what step"):
            Hooked(project).types("/playbook.run own")


@pytest.mark.parametrize("scope", ["user", "managed, a part"])
def test_every_scope_of_settings_counts(
    project: Project, tmp_path: Path, mocker: MockerFixture, scope: str
) -> None:
    managed = tmp_path / "etc"
    mocker.patch.object(permissions, "_MANAGED", (managed,))
    file = {
        "user": project.home / ".claude/settings.json",
        "managed, a part": managed / "managed-settings.d/10-rules.json",
    }[scope]
    settings: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    settings.setdefault("permissions", {}).setdefault("deny", []).append("Agent")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(settings))
    with pytest.raises(CheckError, match="settings deny") as refused:
        Hooked(project).types(RUN)
    assert str(file) in refused.value.message
    (found,) = [each for each in doctor.examine(project.root) if each.name == "denied"]
    assert (found.state, str(file) in found.found) == ("wrong", True)
    assert "needs it" in found.found


def test_doctor_finds_hooks_that_only_an_organisation_may_install(
    project: Project, tmp_path: Path, mocker: MockerFixture
) -> None:
    assert project.playbook("init", "--yes").code == 0
    mocker.patch.object(permissions, "_MANAGED", (tmp_path,))
    (tmp_path / "managed-settings.json").write_text('{"allowManagedHooksOnly": true}')
    (found,) = [each for each in doctor.examine(project.root) if each.name == "hooks"]
    assert found.state == "wrong"
    assert f"`allowManagedHooksOnly` in {tmp_path / 'managed-settings.json'}" in found.cure


def test_without_hooks_begin_says_which_setting_turned_them_off(project: Project) -> None:
    """The client then runs no hook, and the model only has the command."""
    project.write(LOCAL, '{"disableAllHooks": true}')
    with Conversation(project) as conversation:
        refused = conversation.runs("begin", "auto-validate", "013")
    assert refused.code == 3
    assert "PB-STATE-NO-HOOKS" in refused.err
    assert f"`disableAllHooks` in {project.root / LOCAL}" in refused.err


def test_check_warns_of_the_projects_own_settings(project: Project) -> None:
    project.write(LOCAL, deny("Skill(qa.run)"))
    checked = project.playbook("check", "auto-validate")
    assert checked.code == 0
    (line,) = [each for each in checked.out.splitlines() if "PB-CHECK-DENIED" in each]
    assert "`Skill(qa.run)`" in line
    assert project.playbook("check", "--strict", "auto-validate").code == 1
    project.write(LOCAL, "{")
    assert "PB-CHECK-DENIED" not in project.playbook("check", "auto-validate").out


def test_headless_only_a_steps_own_tools_matter(project: Project) -> None:
    """An agent gets its command as its prompt: rules about Agent and Skill do not concern it."""
    project.write(".playbooks/playbooks/shell-prompt.yaml", SHELL_PROMPT)
    project.write(LOCAL, deny("Agent", "Skill", "Bash"))
    refused = project.playbook("run", "shell-prompt", "--agent", "claude")
    assert (refused.code, "PB-CHECK-DENIED" in refused.err) == (1, True)
    assert "step ask" in refused.err
    assert project.sessions == []
    project.write(LOCAL, deny("Agent", "Skill", "WebFetch"))
    passed = project.playbook("run", "shell-prompt", "--agent", "claude", "--dry-run")
    assert "PB-CHECK-DENIED" not in passed.err


def test_rules_about_other_things_do_not_matter(project: Project) -> None:
    project.write(LOCAL, deny(*PASSES))
    Hooked(project).types(RUN)
    assert len(project.sessions) == 1
