"""A project with a check of its own, `test`, and a playbook whose step must pass it."""

from __future__ import annotations

import sys
from pathlib import Path

from playbook_supervisor.project.settings.checks import Proof
from playbook_supervisor.sessions.engine import proofs
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.process.ancestry import process
from support.scratch_project import Project

# The check fails if there is something in a file `broken`. It counts its runs and hangs as long as
# it is held, both outside the repository.
_CHECK = """\
import os, pathlib, subprocess, sys, time
beside = pathlib.Path({beside!r})
with open(beside / "runs", "a") as runs:
    runs.write("x")
if (beside / "held").exists():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (beside / "processes").write_text(f"{{os.getpid()}} {{child.pid}}")
    while (beside / "held").exists():
        time.sleep(0.05)
    child.kill()
print("a banner", os.environ.get("FAKED", ""))
broken = pathlib.Path("broken")
red = broken.exists() and broken.read_text() != ""
print("1 failed, 311 passed" if red else "312 passed")
sys.exit(red)
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
    """The project; something in its file `broken` lets the check fail."""

    def __init__(self, project: Project, beside: Path) -> None:
        self.project, self._beside = project, beside
        script = beside / "check.py"
        script.write_text(_CHECK.format(beside=str(beside)))
        self.argv = [sys.executable, str(script)]
        project.write(".playbooks/config.yaml", f"checks: {{test: {{run: {self.argv}}}}}\n")
        project.write(".playbooks/playbooks/proved.yaml", PROVED)
        project.commit("Check")

    def hold(self) -> None:
        """Let the check hang, with a process that it has started, until it is released."""
        (self._beside / "held").touch()

    def release(self) -> None:
        (self._beside / "held").unlink()

    @property
    def runs(self) -> int:
        runs = self._beside / "runs"
        return len(runs.read_text()) if runs.exists() else 0

    @property
    def begun(self) -> Path:
        """A file that is there once a check is held."""
        return self._beside / "processes"

    @property
    def processes(self) -> list[int]:
        """The check that was held last, and the process that it had started; none before."""
        try:
            return list(map(int, self.begun.read_text().split()))
        except FileNotFoundError:
            return []

    @property
    def gone(self) -> bool:
        return all(process(pid) is None for pid in self.processes)

    @property
    def store(self) -> DiskStore:
        return DiskStore(checkout.find(self.project.root))

    @property
    def kept(self) -> tuple[Proof, ...]:
        runtime = self.store.journal(self.project.session.name).runtime
        return proofs.known(runtime) if runtime else ()
