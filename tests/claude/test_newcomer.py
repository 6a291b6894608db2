"""A newcomer: a real spec-kit project, `playbook init`, and the first run in the real client."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import document_examples
from support.scratch_project import FEATURE, SPEC, Project

from claude.client import Client
from claude.conversation import Block, Reply, Request, call, text
from claude.runner import Headless, command_of
from claude.scripts import FILES

SPECIFY = Path(sys.prefix) / "spec-kit/bin/specify"
REQUIRED = "PLAYBOOK_REQUIRE_SPEC_KIT"
SCRIPTS = {"speckit-plan": "setup-plan.sh", "speckit-tasks": "setup-tasks.sh"}
"""The script of spec-kit that each command tells the model to run first."""

README = Path(__file__).parents[2] / "README.md"
SETTINGS = next(
    block.text
    for block in document_examples.blocks(README.read_text("utf-8"))
    if block.file == ".playbooks/config.yaml"
)
"""The permissions that the README tells newcomers to grant."""
CREATES = """\
#!/bin/sh
# A forge that has a pull request as soon as one was created.
case "$2" in
  create) echo open >"$(dirname "$0")/gh.says"; echo https://forge.example/pull/7 ;;
  *) case "$(cat "$(dirname "$0")/gh.says")" in
       open) echo '[{"number":7,"url":"https://forge.example/pull/7","state":"OPEN"}]' ;;
       *) echo '[]' ;;
     esac ;;
esac
"""


@pytest.fixture(scope="module")
def specified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `specify init` makes of an empty repository, without a network, and a specification."""
    if not SPECIFY.exists():
        missing = f"{SPECIFY} is missing, and there is no network: `make .venv/spec-kit`"
        pytest.fail(missing) if os.environ.get(REQUIRED) else pytest.skip(missing)
    folder = tmp_path_factory.mktemp("specified")
    made = Project(folder / "project", folder)
    made.root.mkdir()
    made.git("init", "-q", "-b", FEATURE)
    options = ["--here", "--force", "--non-interactive", "--ignore-agent-tools", "--script", "sh"]
    subprocess.run(
        [str(SPECIFY), "init", *options, "--integration", "claude"],
        cwd=made.root,
        env=made.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=120,
    )
    made.write(f"specs/{FEATURE}/spec.md", SPEC)
    made.commit("Specify with spec-kit")
    return made.root


@pytest.fixture
def project(specified: Path, tmp_path: Path, home: Path) -> Project:
    made = Project.copied(specified, tmp_path / "project", home=home)
    made.gh("none")
    stand_in = Path(made.env["PATH"].partition(os.pathsep)[0]) / "gh"
    stand_in.write_text(CREATES)
    return made


WRITTEN = FILES | {
    "speckit.tasks": (f"specs/{FEATURE}/tasks.md", "- [x] T1\n"),
    "speckit.implement": ("made.txt", "made\n"),
}
"""What each command writes: auto-feature asks whether tasks are done and something has changed."""


def working(command: str, request: Request) -> Reply:
    """What a model does for one command: what its text says, and nothing else."""
    made = request.calls
    script = f".specify/scripts/bash/{SCRIPTS.get(command, '')} --json"
    path, content = WRITTEN.get(command.replace("speckit-", "speckit."), ("", ""))
    due: list[Block] = []
    if command in SCRIPTS:
        due = [call("Bash", command=script, description="Set up")]
    if command == "speckit-plan":  # the script has put the template there
        due.append(call("Read", file_path=path))
    if path:
        due.append(call("Write", file_path=path, content=content))
    if command == "feature.pr":
        create = "gh pr create --title Playbooks --body 'Tested by 1 scenario'"
        due = [call("Bash", command=create, description="Open it")]
    left = [each for each in due if each not in made]
    return left[:1] or [text(f"{command} is done.")]


def headless_model(request: Request) -> Reply:
    return working(command_of(request), request)


def initialised(project: Project, *options: str) -> str:
    done = project.playbook("init", "--yes", *options)
    assert done.code == 0, done.err
    project.write(".playbooks/config.yaml", SETTINGS)
    project.commit("Set up playbooks")
    return done.err


def told(client: Client) -> str:
    """Everything that the model was told."""
    return "\n".join(words for request in client.model.requests for words in request.texts)


def test_init_names_what_spec_kit_alone_can_do(project: Project) -> None:
    said = initialised(project)
    assert said.splitlines()[1:] == [
        "next: playbook run auto-speckit 013",
        "or, inside Claude Code: /playbook.run auto-speckit 013",
        "auto-change left out: no file names a command that runs the tests; "
        '`playbook init --check "PROGRAM ARGUMENT"` adds the check',
        "auto-feature, auto-hotfix, auto-intake and auto-validate lack /agreement.create, "
        "/agreement.check, /qa.plan, /qa.run and /feature.pr; `playbook init --commands` "
        "installs them",
    ]
    plan = project.playbook("run", "auto-speckit", "013", "--dry-run")
    assert plan.code == 0, plan.err
    assert "/speckit-plan" in plan.out


def test_auto_feature_goes_to_its_pull_request_headless(
    headless: Headless, project: Project
) -> None:
    """kai S-U1: spec-kit's skills and our five commands are natively expanded, and leave what is
    checked."""
    assert "next: playbook run auto-feature 013" in initialised(project, "--commands")
    client = headless(headless_model)
    halted = project.playbook("run", "auto-feature", "013")
    assert halted.code == 4, halted.err
    assert "7/8 steps done" in halted.err
    assert project.playbook("answer", "continue").code == 0
    done = project.playbook("resume")
    assert done.code == 0, done.err
    assert [entry["status"] for entry in project.journal()] == ["done"] * 8
    assert "pull request #7 is open" in str(project.journal()[-1]["evidence"])
    expanded = told(client)
    assert "Fill Technical Context" in expanded  # spec-kit's own text
    for last in (
        "how many interfaces and invariants there are, and what is open.",
        "the verdict and its main reason.",
        "how many scenarios there are, and what they do not cover.",
        "the verdict and how many scenarios passed.",
        "End with the address of the pull request.",
    ):
        assert f"{last}\n\nArgument: 013" in expanded
    results = [result for request in client.model.requests for result in request.results]
    setup = next(result.text for result in results if result.tool == "Bash")
    assert f"specs/{FEATURE}/plan.md" in setup  # spec-kit works on this session's feature


def test_a_skill_and_an_old_command_of_one_name_are_one_command(project: Project) -> None:
    """An upgrade of spec-kit leaves its old files behind."""
    project.write(".claude/commands/speckit.plan.md", "Of last year.\n")
    assert "next: playbook run auto-feature 013" in initialised(project, "--commands")
    plan = project.playbook("run", "auto-feature", "013", "--dry-run")
    assert "/speckit-plan" in plan.out
