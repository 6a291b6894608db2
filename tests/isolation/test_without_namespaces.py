"""A system that forbids namespaces of users: `required` says so and stops, `auto` says so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from support.bubblewrap import needs_bubblewrap
from support.scratch_project import Project

pytestmark = needs_bubblewrap

FORBIDDING = "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --inh-caps=-all"
FORBIDDING += ' --ambient-caps=-all -- "$@"'
Run = Callable[[str], subprocess.CompletedProcess[str]]
ONE = """\
name: one
description: One step
version: "1.0"
args: []
steps:
  - {id: only, command: /qa.run, autonomy: auto, error_policy: stop}
"""
AGENT = "exec:sh -c 'echo done; echo made > made.txt'"


@pytest.fixture
def run(project: Project) -> Run:
    """Runs one step as an ordinary user whom the system refuses namespaces."""
    user = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--keep-caps")
    argv = [*user, "sh", "-c", FORBIDDING, "sh"]
    if subprocess.run([*argv, "true"]).returncode != 0:
        pytest.skip("no namespace of users can be made to forbid others")
    project.write(".playbooks/playbooks/one.yaml", ONE)
    project.commit("Add")
    playbook = [sys.executable, "-m", "playbook_supervisor", "run", "one", "--agent", AGENT]

    def ran(mode: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*argv, *playbook, "--isolation", mode],
            cwd=project.root,
            env=project.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            start_new_session=True,
        )

    return ran


def test_required_refuses_and_says_why(run: Run, project: Project) -> None:
    done = run("required")
    assert done.returncode == 3
    assert "isolation is required, but bubblewrap does not work here" in done.stderr
    assert "PB-POLICY-ISOLATION" in done.stderr
    assert "do: The system forbids user namespaces." in done.stderr
    assert project.sessions == []
    assert not (project.root / "made.txt").exists()


def test_auto_says_that_nothing_isolates_and_goes_on(run: Run, project: Project) -> None:
    done = run("auto")
    assert done.returncode == 0, done.stderr
    assert "agents run without isolation: bubblewrap does not work here" in done.stderr
    assert project.read("made.txt") == "made\n"
    assert "isolation: bwrap" not in (project.sessions[0] / "journal.yaml").read_text()
