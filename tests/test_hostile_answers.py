"""What the system or a program answers is no error of ours, and takes bounded time and space."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.scratch_project import Project
from test_git_programs import PLAYBOOK

COMMANDS = (
    ("run", "p"),
    ("status",),
    ("probe", "git_clean"),
    ("run", "p", "--dry-run"),
    ("answer", "continue"),
    ("resume",),
    ("start", "p", "--branch", "014-x"),
    ("finish",),
    ("abort",),
    ("begin", "p"),
    ("next",),
    ("abort", "--clean"),
)
RUBBISH = {
    "bytes": "head -c 2000 /dev/urandom",
    "text": "echo 'lorem ipsum : foo'; echo bar baz",
    "nothing": ":",
    "separators": r"printf '\0\0\0a b\0'",
    "failure": "echo oops >&2; exit 128",
    "endless": 'exec yes "git says $*"',
}


def on_path(project: Project, name: str, script: str) -> None:
    """Put a program of that name before all others."""
    folder = project.root.parent / "first"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    project.env["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture
def prepared(project: Project) -> Project:
    project.write(".playbooks/playbooks/p.yaml", yaml.safe_dump(PLAYBOOK))
    project.commit("Begin")
    return project


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    [
        "endless",
        *(
            pytest.param(each, marks=pytest.mark.thorough)
            for each in ("bytes", "text", "nothing", "separators", "failure")
        ),
    ],
)
def test_a_git_that_prints_rubbish_is_named(prepared: Project, kind: str) -> None:
    on_path(prepared, "git", RUBBISH[kind])
    for command in COMMANDS:
        done = prepared.process(*command)
        said = done.out + done.err
        assert "PB-BUG" not in said, (command, said)
        assert "Traceback" not in said, (command, said)
        assert done.code in range(5), (command, said)


@pytest.mark.parametrize("kind", ["text", "nothing", "separators"])
def test_what_is_no_answer_of_git_is_not_taken_for_one(prepared: Project, kind: str) -> None:
    on_path(prepared, "git", RUBBISH[kind])
    done = prepared.playbook("probe", "git_clean")
    assert done.code == 2
    assert "could not be checked: git's answer cannot be understood" in done.out


@pytest.mark.long
@pytest.mark.parametrize("script", ["yes '[{' | head -c 30000000", "exec yes '[{'"])
def test_a_gh_that_prints_without_end_is_bounded(
    prepared: Project, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playbook_supervisor.system.git.github.DEADLINE", 2.0)
    monkeypatch.setattr("playbook_supervisor.executors.forge.DEADLINE", 2.0)
    on_path(prepared, "gh", script)
    prepared.git("remote", "add", "origin", str(prepared.root.parent / "nowhere.git"))
    done = prepared.playbook("probe", "pr_created")
    assert "pr_created  cannot tell" in done.out
    step = {"id": "s", "command": "issue", "with": {"title": "t"}}
    prepared.write(".playbooks/playbooks/p.yaml", yaml.safe_dump({**PLAYBOOK, "steps": [step]}))
    assert prepared.playbook("run", "p").code == 2
    assert prepared.journal()[-1]["error_code"] == "PB-STEP-FORGE"


@pytest.mark.long
def test_where_no_file_may_grow_each_command_says_so(prepared: Project) -> None:
    """`ulimit -f 0`: not even a temporary folder is usable."""
    for command in (*COMMANDS, ("init", "--yes"), ("index",), ("demo",), ("doctor",)):
        done = subprocess.run(
            [sys.executable, "-m", "playbook_supervisor", *command],
            cwd=prepared.root,
            env=prepared.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
        )
        said = done.stdout + done.stderr
        assert done.returncode in range(5), (command, said)
        assert "PB-BUG" not in said, (command, said)


def test_a_clock_in_the_year_2500_is_a_clock(prepared: Project) -> None:
    """And so is the machine's own, for the session that has begun there."""
    site = prepared.root.parent / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import time\n"
        "ahead, real, exact = 474 * 31_556_952, time.time, time.time_ns\n"
        "time.time = lambda: real() + ahead\n"
        "time.time_ns = lambda: exact() + ahead * 10**9\n"
    )
    later = {"PYTHONPATH": f"{site}{os.pathsep}{Path(__file__).parent.parent}"}
    assert prepared.process("run", "p", env=later).code == 4
    for command in (("status",), ("show",), ("audit",), ("metrics",), ("answer", "continue")):
        done = prepared.process(*command, env=later)
        assert done.code == 0, (command, done.err)
    assert prepared.journal()[0]["started_at"].startswith("25")
    assert prepared.process("resume").code == 0
    assert "2500" in prepared.git("log", "-1", "--format=%ad")
    shutil.rmtree(site)
