"""A project with a check of its own, `test`, and a playbook whose step must pass it."""

from __future__ import annotations

import sys
from pathlib import Path

from project import Project

from playbook_supervisor.project.checks import Proof
from playbook_supervisor.sessions import proofs
from playbook_supervisor.sessions.store import DiskStore
from playbook_supervisor.system import checkout

# The check fails if there is something in a file `broken`, hangs if there is one named `hangs`, and
# counts its runs outside the repository.
_CHECK = """\
import os, pathlib, subprocess, sys, time
runs = pathlib.Path({runs!r})
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
if pathlib.Path("hangs").exists():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    runs.with_name("processes").write_text(f"{{os.getpid()}} {{child.pid}}")
    time.sleep(600)
print("a banner")
broken = pathlib.Path("broken").exists() and pathlib.Path("broken").read_text() != ""
print("1 failed, 311 passed" if broken else "312 passed")
sys.exit(broken)
"""
PROVED = """\
name: proved
description: A step that must pass the project's tests
version: "1.1"
args: []
steps:
  - id: implement
    command: /speckit.implement
    autonomy: auto
    postconditions: [{command_succeeds: test}]
    error_policy: gate
    escalation_triggers: [postcondition_fail]
  - id: pr
    command: /feature.pr
    autonomy: gate_always
    preconditions: [{command_succeeds: test}]
    error_policy: gate
"""


class Checked:
    """The project; its files `broken` and `hangs` say what the check does."""

    def __init__(self, project: Project, beside: Path) -> None:
        self.project, self._beside = project, beside
        script = beside / "check.py"
        script.write_text(_CHECK.format(runs=str(beside / "runs")))
        self.argv = [sys.executable, str(script)]
        project.write(".playbooks/config.yaml", f"checks: {{test: {{run: {self.argv}}}}}\n")
        project.write(".playbooks/playbooks/proved.yaml", PROVED)
        project.commit("Check")

    @property
    def runs(self) -> int:
        """How often the check has run."""
        runs = self._beside / "runs"
        return len(runs.read_text()) if runs.exists() else 0

    @property
    def processes(self) -> list[int]:
        """The check that hangs, and the process that it has started; none before it has."""
        try:
            return list(map(int, (self._beside / "processes").read_text().split()))
        except FileNotFoundError:
            return []

    @property
    def store(self) -> DiskStore:
        return DiskStore(checkout.find(self.project.root))

    @property
    def kept(self) -> tuple[Proof, ...]:
        """What is proved in the only session."""
        runtime = self.store.journal(self.project.session.name).runtime
        return proofs.known(runtime) if runtime else ()
