"""Projects whose agent is not Claude Code: which commands are looked for, installed and missed."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest
from support.scratch_project import COMMANDS, FEATURE, Project

from playbook_supervisor.commands.install import shipped
from playbook_supervisor.project.install_record import read_installation

SPECKIT = [name for name in COMMANDS if name.startswith("speckit.")]
SKILL = "---\nname: {}\ndescription: Do it.\n---\nDo it.\n"
QA = ".agents/skills/qa-run/SKILL.md"


@pytest.fixture
def machine(project: Project, tmp_path: Path) -> Path:
    """The folder with all programs of this machine; no agent is among them."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("cat", "git", "sh"):
        (folder / name).symlink_to(str(shutil.which(name)))
    project.env["PATH"] = str(folder)
    return folder


@pytest.fixture
def newcomer(project: Project, machine: Path) -> Project:
    """A project that has nothing but spec-kit's commands, installed for Codex."""
    shutil.rmtree(project.root / ".claude")
    shutil.rmtree(project.root / ".playbooks")
    for name in SPECKIT:
        skill = name.replace(".", "-")
        project.write(f".agents/skills/{skill}/SKILL.md", SKILL.format(skill))
    project.commit("Install spec-kit for Codex")
    return project


def stand_in(machine: Path, name: str, says: str = "1.2.3") -> None:
    (machine / name).write_text(f"#!/bin/sh\necho {says}\n")
    (machine / name).chmod(0o755)


def settle(project: Project, agent: str) -> None:
    project.write(".playbooks/config.yaml", f"agent: {agent}\n")


class TestInit:
    def test_fits_the_playbooks_to_the_commands_of_the_agent_that_it_is_given(
        self, newcomer: Project
    ) -> None:
        done = newcomer.playbook("init", "--yes", "--agent", "codex")
        assert done.code == 0, done.err
        assert "next: playbook run auto-speckit 013 --agent codex" in done.err
        assert "inside Claude Code" not in done.err
        assert "`playbook init --commands --agent codex` installs them" in done.err

    def test_takes_the_agent_of_the_settings(self, newcomer: Project) -> None:
        settle(newcomer, "codex")
        done = newcomer.playbook("init", "--yes", "--commands")
        assert "next: playbook run auto-feature 013\n" in done.err
        assert QA in read_installation(newcomer.root).files

    def test_takes_the_only_agent_of_the_machine_also_the_second_time(
        self, newcomer: Project, machine: Path
    ) -> None:
        stand_in(machine, "codex")
        for _ in range(2):
            done = newcomer.playbook("init", "--yes", "--commands")
            assert "next: playbook run auto-feature 013 --agent codex" in done.err
            assert (newcomer.root / QA).exists()

    @pytest.mark.parametrize("others", [["codex", "claude"], []])
    def test_else_looks_for_claude_codes(
        self, newcomer: Project, machine: Path, others: list[str]
    ) -> None:
        for name in others:
            stand_in(machine, name)
        done = newcomer.playbook("init", "--yes", "--commands")
        assert "`specify init --here --integration claude`" in done.err
        assert not (newcomer.root / QA).exists()

    def test_looks_for_claude_codes_in_a_project_that_uses_it(
        self, newcomer: Project, machine: Path
    ) -> None:
        stand_in(machine, "codex")
        newcomer.write(".claude/agents/mine.md", "Mine.\n")
        assert "integration claude" in newcomer.playbook("init", "--yes").err

    def test_refuses_an_agent_whose_folders_it_does_not_know(self, newcomer: Project) -> None:
        done = newcomer.playbook("init", "--yes", "--agent", "exec:mine")
        assert (done.code, "PB-ARG-AGENT" in done.err) == (1, True)
        assert "Known are claude, codex, copilot" in done.err

    def test_refuses_another_agent_than_that_of_the_settings(self, newcomer: Project) -> None:
        settle(newcomer, "codex")
        done = newcomer.playbook("init", "--yes", "--agent", "gemini")
        assert "--agent gemini: the settings name codex" in done.err

    def test_writes_each_form_so_that_it_is_read_and_has_the_arguments(
        self, newcomer: Project
    ) -> None:
        newcomer.playbook("init", "--yes", "--agent", "codex", "--commands")
        skill = newcomer.read(QA)
        assert skill.startswith("---\nname: qa-run\ndescription: Carry out")
        assert skill.endswith("what follows the name of this command in the message: $ARGUMENTS\n")
        for name in SPECKIT:
            newcomer.write(f".gemini/commands/{name}.toml", "prompt = 'Do it. {{args}}'\n")
        newcomer.playbook("init", "--yes", "--agent", "gemini", "--commands")
        command = tomllib.loads(newcomer.read(".gemini/commands/qa.run.toml"))
        ours = shipped.files()[".claude/commands/qa.run.md"].decode().split("---\n", 2)[2]
        assert command["prompt"] == ours.replace("$ARGUMENTS", "{{args}}")
        assert command["description"] in shipped.files()[".claude/commands/qa.run.md"].decode()

    def test_writes_files_that_update_keeps_like_others(self, newcomer: Project) -> None:
        newcomer.playbook("init", "--yes", "--agent", "codex", "--commands")
        assert newcomer.playbook("update", "--check").code == 0
        edited = newcomer.read(QA) + "Our way.\n"
        newcomer.write(QA, edited)
        assert newcomer.playbook("update").code == 0
        assert newcomer.read(QA) == edited
        (newcomer.root / QA).unlink()
        assert newcomer.playbook("init", "--yes", "--agent", "codex").code == 0
        assert not (newcomer.root / QA).exists()
        assert newcomer.playbook("init", "--yes", "--restore", QA).code == 0


class TestWhatIsMissing:
    def test_a_run_is_refused_before_anything_is_created(
        self, newcomer: Project, machine: Path
    ) -> None:
        newcomer.playbook("init", "--yes", "--agent", "codex")
        stand_in(machine, "opencode")
        (newcomer.root / ".agents/skills/speckit-plan/SKILL.md").unlink()
        done = newcomer.playbook("run", "auto-speckit", FEATURE, "--agent", "opencode")
        assert done.code == 1
        assert "auto-speckit needs commands that are not installed for opencode: " in done.err
        assert "/speckit.plan" in done.err
        assert ".opencode/commands, " in done.err
        assert newcomer.sessions == []
        planned = newcomer.playbook(
            "run", "auto-speckit", FEATURE, "--agent", "opencode", "--dry-run"
        )
        assert "not installed for opencode: /speckit.plan" in planned.out + planned.err
        assert ".agents/skills/speckit-tasks/SKILL.md" in planned.out

    def test_check_looks_where_the_settings_agent_does(self, newcomer: Project) -> None:
        newcomer.playbook("init", "--yes", "--agent", "codex")
        claude = newcomer.playbook("check").out
        assert "not found where claude reads commands: .claude/skills, .claude/commands" in claude
        settle(newcomer, "codex")
        assert "PB-CHECK-COMMAND" not in newcomer.playbook("check").out
        (newcomer.root / ".agents/skills/speckit-plan/SKILL.md").unlink()
        codex = newcomer.playbook("check").out
        assert "`/speckit.plan` was not found where codex reads commands: .agents/skills" in codex


class TestDoctor:
    def line(self, project: Project, name: str) -> str:
        lines = project.playbook("doctor").out.splitlines()
        return next((each for each in lines if f"  {name}: " in each), "")

    def test_names_the_agents_that_are_here_and_the_one_that_a_run_takes(
        self, newcomer: Project, machine: Path
    ) -> None:
        newcomer.playbook("init", "--yes", "--agent", "codex")
        for name in ("opencode", "copilot"):
            stand_in(machine, name)
        settle(newcomer, "opencode")
        assert self.line(newcomer, "agents") == (
            "ok  agents: `playbook run` takes opencode (1.2.3) if no other is named; "
            "known ones that are here: opencode, copilot"
        )
        assert self.line(newcomer, "claude") == ""

    def test_names_the_agents_of_the_settings_with_their_versions(
        self, newcomer: Project, machine: Path
    ) -> None:
        newcomer.playbook("init", "--yes", "--agent", "codex")
        for name in ("claude", "qwen"):
            stand_in(machine, name)
        text = "agents: {qwen: {mode: default}, gone: {acp: [gone]}, me: {exec: [cat]}}\n"
        newcomer.write(".playbooks/config.yaml", text)
        found = self.line(newcomer, "agents")
        assert "`playbook run` takes claude if no other is named" in found
        assert "in the settings: qwen (1.2.3), me; known ones that are here: claude, qwen" in found
        assert found.endswith("; me asks no one: a call that needs a permission is not put to you")

    def test_says_that_the_agent_of_the_settings_cannot_be_used(self, newcomer: Project) -> None:
        newcomer.playbook("init", "--yes", "--agent", "codex")
        settle(newcomer, "opencode")
        done = newcomer.playbook("doctor")
        assert "WRONG  agents: the agent opencode cannot be used: opencode is not on" in done.out
        assert done.code == 3

    def test_names_the_commands_that_the_agent_lacks(
        self, newcomer: Project, machine: Path
    ) -> None:
        newcomer.playbook("init", "--yes", "--agent", "codex")
        stand_in(machine, "kimi")
        settle(newcomer, "kimi")
        assert self.line(newcomer, "slash commands") == ""
        (newcomer.root / ".agents/skills/speckit-plan/SKILL.md").unlink()
        found = self.line(newcomer, "slash commands")
        assert "/speckit.plan (for auto-speckit): not found where kimi reads commands" in found

    def test_looks_for_the_commands_of_a_steps_own_agent_in_its_folders(
        self, newcomer: Project
    ) -> None:
        newcomer.playbook("init", "--yes", "--agent", "codex")
        text = newcomer.read(".playbooks/playbooks/auto-speckit.yaml")
        text = text.replace("command: /speckit.plan\n", "command: /speckit.plan\n    agent: kimi\n")
        newcomer.write(".playbooks/playbooks/auto-speckit.yaml", text)
        settle(newcomer, "qwen")
        assert "PB-CHECK-COMMAND" not in newcomer.playbook("check").out
        (newcomer.root / ".agents/skills/speckit-plan/SKILL.md").unlink()
        found = newcomer.playbook("check").out
        assert "`/speckit.plan` was not found where kimi reads commands: .kimi-code/" in found
        assert "/speckit.plan (for auto-speckit): not found where kimi" in self.line(
            newcomer, "slash commands"
        )


def test_a_run_says_which_agent_it_has_found(project: Project, machine: Path) -> None:
    stand_in(machine, "kimi")
    for name in SPECKIT:
        skill = name.replace(".", "-")
        project.write(f".agents/skills/{skill}/SKILL.md", SKILL.format(skill))
    done = project.playbook("run", "auto-speckit", "013")
    assert "note: no agent was named: this run takes kimi, which was found here" in done.err
    named = project.playbook("run", "auto-speckit", "013", "--agent", "kimi")
    assert "no agent was named" not in named.err
