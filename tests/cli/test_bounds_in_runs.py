"""Programs behind others beside a `deny`: `check`, `--dry-run` and `run` say the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.scratch_project import Project

from playbook_supervisor.project.settings.bounds import STARTS_NOTHING

EXECUTORS = Path(__file__).parent.parent.parent / "docs/executors.md"


def playbook(project: Project, command: str, **more: Any) -> None:
    step = {"id": "s", "command": command, **more}
    defaults = {"autonomy": "auto", "error_policy": "stop"}
    about = {"name": "p", "description": "d", "version": "1.2", "args": [], "defaults": defaults}
    project.write(".playbooks/playbooks/p.yaml", yaml.safe_dump({**about, "steps": [step]}))
    project.write(".playbooks/config.yaml", "deny: {cli: [touch, sh]}\ncommit_sessions: never\n")


@pytest.mark.parametrize(
    "launcher",
    [
        "prlimit",
        "start-stop-daemon --start --exec /usr/bin/touch --",
        "find . -maxdepth 0 -exec",
    ],
)
def test_what_a_launcher_would_start_is_refused_beforehand(project: Project, launcher: str) -> None:
    playbook(project, f"cli {launcher} touch PWN")
    said = [
        project.playbook(*asked) for asked in (("check",), ("run", "p", "--dry-run"), ("run", "p"))
    ]
    name = launcher.split()[0]
    for each in said:
        assert each.code != 0
        assert "PB-POLICY-DENIED" in each.out + each.err
        assert f"allow: {{cli: [{name}]}}" in each.out + each.err
    assert not (project.root / "PWN").exists()


@pytest.mark.parametrize("variables", [{"PATH": "bin:/usr/bin:/bin"}, {"LD_PRELOAD": "bin/cat"}])
def test_variables_that_change_what_a_known_program_is_are_refused(
    project: Project, variables: dict[str, str]
) -> None:
    script = project.write("bin/cat", "#!/bin/sh\ntouch PWN\n")
    script.chmod(0o755)
    playbook(project, "cli cat README.md", **{"with": {"env": variables}})
    for asked in (("check",), ("run", "p")):
        said = project.playbook(*asked)
        assert said.code != 0
        assert "PB-POLICY-DENIED" in said.out + said.err
    assert not (project.root / "PWN").exists()
    playbook(project, "cli cat README.md", **{"with": {"env": {"WORD": "x"}}})
    assert project.playbook("run", "p").code == 0


def test_a_shell_on_the_path_of_a_step_is_a_shell(project: Project) -> None:
    (project.root / "bin").mkdir()
    (project.root / "bin/list").symlink_to("/bin/sh")
    playbook(project, "cli list -c 'echo > PWN'", **{"with": {"env": {"PATH": "bin:/bin"}}})
    project.write(".playbooks/config.yaml", "commit_sessions: never\n")
    done = project.playbook("run", "p")
    assert "PB-POLICY-DENIED" in done.err
    assert not (project.root / "PWN").exists()


def test_steps_that_use_git_themselves_go_on_beside_a_deny(project: Project) -> None:
    project.write("new.txt", "new\n")
    options = {"message": "sh: new", "paths": ["*.txt"], "push": False, "pull": False}
    playbook(project, "commit", **{"with": options, "also": "uncommitted"})
    assert project.playbook("check").code == 0
    assert project.playbook("run", "p").code == 0
    assert project.git("log", "-1", "--format=%s") == "sh: new"


def test_the_guide_lists_the_programs_that_start_nothing() -> None:
    (listed,) = re.findall(r"`(arch [^`]+)`", EXECUTORS.read_text("utf-8"))
    assert listed.split() == re.findall(r"[a-z0-9]{2,}", STARTS_NOTHING)
