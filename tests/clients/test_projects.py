"""Real projects with several real clients: spec-kit from plan to code, and agents that cheat."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from claude.conversation import Block, Reply, Request, text
from claude.test_cheats import CONFIG, FIX
from claude.test_newcomer import REQUIRED as SPEC_KIT_REQUIRED
from claude.test_newcomer import SPECIFY, WRITTEN
from support import python_projects
from support.runner_projects import change
from support.scratch_project import FEATURE, SPEC, Project

from clients.clients import KINDS, command_file
from clients.conftest import Sit

PLAN = "    command: /speckit.plan\n"
TASKS = "    command: /speckit.tasks\n"
AGENTS = ("copilot", "kimi", "codex")
SAYS = {
    "setup-plan.sh": "plan",
    "setup-tasks.sh": "tasks",
    "STRICTLY READ-ONLY": "analyze",
    "check-prerequisites.sh --json --require-tasks": "implement",
}
"""Words of spec-kit's texts → the command that they belong to."""


@pytest.fixture
def spec_kit(tmp_path: Path, home: Path) -> Project:
    """What `specify init` makes of an empty repository for three agents, and a specification."""
    if not SPECIFY.exists():
        missing = f"{SPECIFY} is missing: `make .venv/spec-kit`"
        pytest.fail(missing) if os.environ.get(SPEC_KIT_REQUIRED) else pytest.skip(missing)
    made = Project(tmp_path / "project", home)
    made.root.mkdir()
    made.git("init", "-q", "-b", FEATURE)
    options = ["--here", "--force", "--non-interactive", "--ignore-agent-tools", "--script", "sh"]
    for name in AGENTS:
        argv = [str(SPECIFY), "init", *options, "--integration", name]
        ran = {"cwd": made.root, "env": made.environment, "stdin": subprocess.DEVNULL}
        subprocess.run(argv, **ran, capture_output=True, check=True, timeout=120)  # type: ignore[call-overload]
    made.write(f"specs/{FEATURE}/spec.md", SPEC)
    return made


def test_three_agents_carry_out_auto_speckit_one_after_the_other(
    spec_kit: Project, sit: Sit
) -> None:
    """Each reads the command that spec-kit has installed for it, and sees what the others wrote."""
    project, heard = spec_kit, dict[str, str]()
    project.gh("none")
    done = project.playbook("init", "--yes", "--no-check", "--agent", "codex")
    assert done.code == 0, done.err
    settings = "".join(f"  {name}: {{allowed_tools: [Bash]}}\n" for name in AGENTS)
    project.write(".playbooks/config.yaml", f"agent: codex\npermissions: fail\nagents:\n{settings}")
    playbook = project.read(".playbooks/playbooks/auto-speckit.yaml")
    for line, name in ((PLAN, "copilot"), (TASKS, "kimi")):
        playbook = playbook.replace(line, f"{line}    agent: {name}\n")
    project.write(".playbooks/playbooks/auto-speckit.yaml", playbook)
    project.commit("Set up playbooks")

    def model(request: Request) -> Reply:
        told = "\n".join(request.texts)
        command = next((each for words, each in SAYS.items() if words in told), "")
        if not command or not request.tools:
            return [text("Aside.")]
        kind = next(each for each in KINDS.values() if each.shell_tool[0] in request.tools)
        path, content = WRITTEN.get(f"speckit.{command}", ("", ""))
        script = f".specify/scripts/bash/setup-{command}.sh --json"
        due: list[Block] = [kind.runs(script)] if command in ("plan", "tasks") else []
        due += [kind.prints(project.root / path, content)] if path else []
        left = [each for each in due if each not in request.calls]
        heard.setdefault(command, told)
        heard[command] += "".join(result.text for result in request.results)
        return left[:1] or [text(f"{command} is done.")]

    with sit(project, model, *AGENTS) as seat:
        halted = project.process("run", "auto-speckit", "013")
        assert halted.code == 4, halted.err
        assert project.playbook("answer", "continue").code == 0
        done = project.process("resume")
        assert done.code == 0, done.err
        assert seat.is_left(), seat.described()
    journal = project.journal()
    assert [entry["status"] for entry in journal] == ["done"] * 4
    assert [entry["agent"]["name"] for entry in journal] == ["copilot", "kimi", "codex", "codex"]
    assert list(heard) == list(SAYS.values())
    assert f"specs/{FEATURE}/plan.md" in heard["plan"]  # spec-kit works on this session's feature
    assert f"specs/{FEATURE}" in heard["tasks"]


CHEATS = ("exit when it is called", "patched runner", "filter", "skipped test", "weakened fixture")


@pytest.mark.sampled("codex-weakened fixture", "codex-honest")
@pytest.mark.parametrize("cheat", [*CHEATS, "nothing", "honest"])
@pytest.mark.parametrize("name", ["copilot", "codex"])
def test_only_an_honest_agent_gets_past_the_tests(
    name: str, cheat: str, project: Project, sit: Sit
) -> None:
    kind, shared = KINDS[name], python_projects.PROJECTS[0]
    change(project.root, {shared.source: shared.wrong, shared.test: shared.tests, **shared.files})
    project.write(*command_file(name, "speckit.implement"))
    project.write(".playbooks/playbooks/fix.yaml", FIX)
    rules = f"permissions: fail\nagents: {{{name}: {{allowed_tools: [Bash]}}}}\n"
    project.write(".playbooks/config.yaml", CONFIG + rules)
    project.commit("Calculate")
    files = {"honest": {shared.source: shared.right}, "nothing": {}, **shared.cheats}[cheat]

    def model(request: Request) -> Reply:
        if not request.mentions("Do what speckit.implement means") or not request.tools:
            return [text("Aside.")]
        calls = [kind.prints(project.root / path, str(new)) for path, new in files.items()]
        due = [each for each in calls if each not in request.calls]
        return due[:1] or [text("Done, all tests pass.")]

    with sit(project, model, name):
        done = project.process("run", "fix", "--agent", name)
    assert done.code == (0 if cheat == "honest" else 4), done.err
    status = "completed" if cheat == "honest" else "in_progress"
    assert project.manifest()["status"] == status, done.err


GREET = {
    "greet.py": "def greet(name):\n    return f'Hello {name}'\n",
    "test_greet.py": "from greet import greet\n\n\n"
    "def test_greet():\n    assert greet('Ada') == 'Hello Ada'\n",
}
REVIEW = {".playbooks/reviews/add-a-greeting.md": "verdict: PASS\n\nNothing.\n"}


@pytest.mark.sampled("copilot-codex")
@pytest.mark.parametrize(
    ("name", "reviewer"), [*((name, "") for name in KINDS), ("copilot", "codex")]
)
def test_auto_change_needs_no_command(name: str, reviewer: str, project: Project, sit: Sit) -> None:
    shared = python_projects.PROJECTS[0]
    change(project.root, {shared.source: shared.right, shared.test: shared.tests, **shared.files})
    project.gh("none")
    check = f"{sys.executable} -m pytest -q"
    done = project.playbook("init", "--yes", "--check", check, "--agent", name)
    assert done.code == 0, done.err
    settings = project.read(".playbooks/config.yaml")
    project.write(".playbooks/config.yaml", f"{settings}permissions: fail\n")
    project.commit("Calculate")

    def model(request: Request) -> Reply:
        told = "\n".join(request.texts)
        files = GREET if "Make this change" in told else REVIEW if "Review a change" in told else {}
        kinds = (each for each in KINDS.values() if each.shell_tool[0] in request.tools)
        kind = next((each for each in kinds if each.write_tool[0] in request.tools), None)
        if not files or kind is None:
            return [text("Aside.")]
        calls = [kind.writes(project.root / path, new) for path, new in files.items()]
        due = [each for each in calls if each not in request.calls]
        return due[:1] or [text("It is done.")]

    named = [f"reviewer={reviewer}"] if reviewer else []
    with sit(project, model, name, *filter(None, [reviewer])) as seat:
        asked = project.process("run", "auto-change", "Add a greeting", *named, "--agent", name)
        assert asked.code == 4, asked.err
        assert project.manifest()["gate"]["reason"] == "tools", asked.err
        project.playbook("answer", "continue")
        halted = project.process("resume")
        assert halted.code == 4, halted.err
        assert seat.is_left(), seat.described()
    assert project.manifest()["gate"]["id"] == "pr#1?1", halted.err
    entries = {entry["step_id"]: entry for entry in project.journal()}
    assert entries["change"]["agent"]["name"] == name
    assert entries["review"]["agent"]["name"] == reviewer or name
