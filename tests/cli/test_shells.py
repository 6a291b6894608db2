"""Tab completion in real shells."""

from __future__ import annotations

import os
import shutil
import sys

import pytest
from support.scratch_project import Project

from cli.terminal import Terminal

REQUIRED = "PLAYBOOK_REQUIRE_SHELLS"
"""Set if no shell may be skipped."""
READY = "ready> "
ARGV = {
    "bash": ("bash", "--norc", "--noprofile", "-i"),
    "zsh": ("zsh", "-f", "-i"),
    "fish": ("fish", "--no-config", "--interactive"),
}
BEGIN = {
    "bash": 'PS1=rea"dy> "; eval "$(playbook completion bash)"',
    "zsh": 'PS1=rea"dy> "; autoload -Uz compinit; compinit -D; eval "$(playbook completion zsh)"',
    "fish": 'function fish_prompt; echo -n rea"dy> "; end; playbook completion fish | source',
}
TO_THE_BEGINNING, TO_THE_END, TAB = "\x01", "\x05", "\t"


class Shell(Terminal):
    """A shell in the project that has read the completion script."""

    program = ()

    def __enter__(self) -> Shell:
        return self

    def __init__(self, name: str, project: Project) -> None:
        tools = project.root.with_name("tools")
        tools.mkdir()
        program = tools / "playbook"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m playbook_supervisor "$@"\n')
        program.chmod(0o755)
        project.env["PATH"] = f"{tools}{os.pathsep}{os.environ['PATH']}"
        super().__init__(project, *ARGV[name], HISTFILE="", TERM="dumb")
        self.type(f"{BEGIN[name]}\n")
        self.until(READY)

    def completed(self, words: str) -> list[str]:
        """The words of the command line after Tab."""
        self.type(f"{words}{TAB}{TO_THE_BEGINNING}printf '<%s>\\n' {TO_THE_END} end\n")
        printed = self.until("\n<end>\n").rpartition("<playbook>\n")[2]
        self.until(READY)
        return [line[1:-1] for line in printed.partition("<end>")[0].splitlines()]


def test_the_default_is_the_user_s_shell(project: Project) -> None:
    asked = project.playbook("completion", env={"SHELL": "/usr/bin/fish"})
    assert "complete --no-files --command playbook" in asked.out
    unknown = project.playbook("completion", env={"SHELL": "/bin/sh"})
    assert (unknown.code, unknown.out) == (1, "")
    assert "do: Name it: `playbook completion bash`, or zsh or fish." in unknown.err
    assert project.playbook("completion", "tcsh").code == 1


@pytest.mark.parametrize("name", ARGV)
def test_tab_completes_commands_flags_playbooks_sessions_and_steps(
    name: str, project: Project
) -> None:
    if not shutil.which(name):
        missing = f"{name} is not installed here"
        pytest.fail(missing) if os.environ.get(REQUIRED) else pytest.skip(missing)
    project.playbook("begin", "auto-validate", "013")
    session = project.session.name
    with Shell(name, project) as shell:
        assert shell.completed("playbook stat") == ["status"]
        assert shell.completed("playbook run auto-v") == ["run", "auto-validate"]
        assert shell.completed(f"playbook show {session[:6]}") == ["show", session]
        assert shell.completed("playbook run auto-validate fea") == [
            *("run", "auto-validate", "feature=")
        ]
        steps = ["run", "auto-validate", "--from", "qa-plan"]
        assert shell.completed("playbook run auto-validate --from qa-p") == steps
        assert shell.completed("playbook probe --feat") == ["probe", "--feature"]
        project.write(".playbooks/playbooks/auto-validate.yaml", "name: [auto-validate\n")
        project.write(".playbooks/config.yaml", "\0")
        project.write(f".playbooks/sessions/{session}/session.yaml", "- no session\n")
        assert shell.completed("playbook run auto-v") == ["run", "auto-v"]
        (project.root / ".git/HEAD").unlink()
        assert shell.completed(f"playbook show {session[:6]}") == ["show", session[:6]]
        assert "Traceback" not in shell.shown
        assert "error:" not in shell.shown
