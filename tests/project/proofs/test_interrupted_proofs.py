"""`proved` where it is killed in a run, and where several checks of a repository are asked."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.scratch_project import Project

CONFIG = """\
checks:
  test: {{run: [{python}, check.py], room: clean, witnesses: [tests/**]}}
"""
# It kills its supervisor in the run that a file beside the repository names.
CHECK = """\
import os, pathlib, signal, sys
beside = pathlib.Path({beside!r})
with open(beside / "runs", "a") as runs:
    runs.write("x")
if len((beside / "runs").read_text()) == int((beside / "kill").read_text()):
    os.kill(int((beside / "supervisor").read_text()), signal.SIGKILL)
told = pathlib.Path("tests/expected").read_text()
sys.exit(pathlib.Path("code").read_text() != told)
"""
NOW, BEGINNING, EARLIER = 1, 2, 3
"""The runs of a check where code and tests have changed."""


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    (tmp_path / "beside").mkdir()
    return tmp_path / "beside"


@pytest.fixture
def changed(project: Project, beside: Path) -> Project:
    """A project whose code and tests have changed since the last commit."""
    project.write(".playbooks/config.yaml", CONFIG.format(python=sys.executable))
    project.write("check.py", CHECK.format(beside=str(beside)))
    project.write("code", "1")
    project.write("tests/expected", "1")
    project.commit("Begin")
    project.write("code", "2")
    project.write("tests/expected", "2")
    return project


def probed(project: Project, beside: Path, kill: int = 0) -> subprocess.CompletedProcess[str]:
    (beside / "kill").write_text(str(kill))
    (beside / "runs").write_text("")
    program = Path(sys.executable).with_name("playbook")
    with subprocess.Popen(
        [program, "probe", "proved=test"],
        cwd=project.root,
        env={**project.environment, "XDG_CACHE_HOME": str(beside / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        (beside / "supervisor").write_text(str(process.pid))
        out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess([], process.returncode, out, err)


def without_times(evidence: str) -> str:
    return " ".join(word for word in evidence.split() if not word.replace(".", "").isdecimal())


@pytest.mark.long
@pytest.mark.parametrize(
    "kill", [pytest.param(NOW, marks=pytest.mark.thorough), BEGINNING, EARLIER]
)
def test_a_kill_in_any_run_changes_nothing_but_the_time(
    changed: Project, beside: Path, kill: int
) -> None:
    killed = probed(changed, beside, kill)
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "")
    after = probed(changed, beside)
    assert after.returncode == 2, after.stderr
    assert "tests/expected: changed" in after.stdout
    for kept in (changed.root / ".git/playbook/runs").iterdir():
        kept.unlink()
    again = probed(changed, beside)
    assert without_times(again.stdout) == without_times(after.stdout)


@pytest.mark.long
def test_two_checks_of_a_repository_have_rooms_and_questions_of_their_own(
    project: Project, tmp_path: Path
) -> None:
    project.env["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    pytest_ = f'{sys.executable}, "-m", pytest, "-q", "-p", "no:cacheprovider"'
    alone = '{PYTEST_DISABLE_PLUGIN_AUTOLOAD: "1"}'
    project.write(
        ".playbooks/config.yaml",
        f"checks:\n  one: {{run: [{pytest_}, one], room: clean, env: {alone}}}\n"
        f"  two: {{run: [{pytest_}, two], room: clean, env: {alone}}}\n",
    )
    for name in ("one", "two"):
        project.write(f"{name}/code_{name}.py", "VALUE = 1\n")
        project.write(
            f"{name}/test_{name}.py",
            f"from code_{name} import VALUE\n\n\ndef test_{name}():\n    assert VALUE == 1\n",
        )
    project.commit("Begin")
    project.write("one/code_one.py", "VALUE = 2\n")
    project.write("one/test_one.py", "def test_one():\n    pass\n")
    project.write("two/code_two.py", "VALUE = 3 - 2\n")
    one, two = (project.playbook("probe", f"proved={name}") for name in ("one", "two"))
    assert "one.test_one::test_one: changed" in one.out
    assert (one.code, two.code) == (2, 0), (one.out, two.out)
    assert "a test that must fail did; 1 test of the beginning agrees" in two.out
