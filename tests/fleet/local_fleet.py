"""A fleet in the process of a test: its database, a remote, and workers without a queue."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.in_process import Result
from support.scratch_project import Project, remote

from playbook_supervisor.commands.driving.driving import DriveOptions
from playbook_supervisor.fleet.commands.submitting import Submission, submit
from playbook_supervisor.fleet.engine.advance import LocalWorker, advance
from playbook_supervisor.fleet.engine.lease import Term
from playbook_supervisor.fleet.engine.session_ref import Mirror
from playbook_supervisor.fleet.storage.address import of_file
from playbook_supervisor.fleet.storage.database import FleetDatabase
from playbook_supervisor.fleet.storage.rows import Row
from playbook_supervisor.fleet.worker_settings import WorkerSettings
from playbook_supervisor.records import replace
from playbook_supervisor.system.process.leash_process import now

THREE = """\
name: three
description: Three steps, a gate before the second
version: "1.1"
args: []
defaults: {autonomy: auto, error_policy: stop}
steps:
  - {id: plan, command: /speckit.plan}
  - {id: tasks, command: /speckit.tasks, autonomy: gate_always}
  - {id: implement, command: /speckit.implement}
"""
FREE = THREE.replace("name: three", "name: free").replace(", autonomy: gate_always", "")
WORKS = """
steps:
  plan: {say: planned, write: {plan.md: "# Plan\\n"}}
  tasks: {say: listed, write: {tasks.md: "# Tasks\\n"}}
  implement: {say: made, write: {made.py: "1\\n"}}
"""
ADA = "Ada <ada@example.org>"


@dataclass
class Fleet:
    """`told` is what the worker has told the person who watches it, with the session's id."""

    project: Project
    origin: Project
    database: FleetDatabase
    folder: Path
    settings: WorkerSettings = field(default_factory=lambda: WorkerSettings(transports=("file",)))
    term: Term = field(default_factory=Term)
    told: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)

    def submit(
        self,
        playbook: str = "three",
        script: str = WORKS,
        *args: str,
        agent: str = "",
        project: Project | None = None,
    ) -> str:
        """Queue a session whose agent carries out the script, or is another one; its id."""
        drive = DriveOptions(agent=agent or self.project.script(script))
        submission = Submission(playbook, args, drive=drive)
        return submit(self.database, submission, cwd=(project or self.project).root).session.id

    def worker(self, name: str) -> LocalWorker:
        """What a worker of that name has."""
        own = self.folder / name
        own.mkdir(parents=True, exist_ok=True)
        return LocalWorker(
            name,
            self.database,
            self.settings,
            self.term,
            own,
            self.folder / "mirrors",
            self.stopping,
            lambda _, sentence: self.told.append(sentence),
            lambda _, line: self.logged.append(line),
        )

    def advance(self, session: str, worker: str = "one") -> Row:
        """Let a worker take the session's job; the row afterwards."""
        self._advance(session, worker)
        return self.row(session)

    def _advance(self, session: str, worker: str) -> None:
        asked = now()
        lease = self.database.take(session, worker, self.term.seconds)
        assert lease, f"it is {self.row(session).state}"
        advance(self.worker(worker), lease, asked)

    @contextmanager
    def advancing(self, session: str, worker: str = "one") -> Iterator[None]:
        thread = threading.Thread(target=self._advance, args=(session, worker))
        thread.start()
        try:
            yield
        finally:
            thread.join(60)
            assert not thread.is_alive()

    def die_with(self, session: str, times: int) -> None:
        """Let as many workers take the session as its leases then lapse without an end."""
        for number in range(times):
            lease = self.database.take(session, f"dead-{number}", 0.05)
            assert lease
            time.sleep(0.1)

    def row(self, session: str) -> Row:
        row = self.database.row(session)
        assert row
        return row

    def answer(self, session: str, text: str, by: str = ADA) -> None:
        self.database.answer(session, self.row(session).gate, text, by)

    def mirror(self) -> Mirror:
        return Mirror(self.folder / "other.git", f"file://{self.origin.root}", ("file",))

    def kept(self, session: str, path: str) -> str:
        return self.origin.git("show", f"refs/playbook/sessions/{session}:{path}")

    def journal(self, session: str) -> str:
        return self.kept(session, f".playbooks/sessions/{session}/journal.yaml")

    def subjects(self, session: str) -> list[str]:
        """What each commit of the session's chain is, the oldest first."""
        listed = self.origin.git(
            "log", "--first-parent", "--reverse", "--format=%s", f"refs/playbook/sessions/{session}"
        )
        kinds = [line.partition(" ")[0] for line in listed.splitlines()]
        return [kind for kind in kinds if kind in ("Claim", "Snapshot")]

    def audit(self) -> Result:
        mirror = self.folder / "audited.git"
        subprocess.run(
            ["git", "clone", "-q", "--mirror", str(self.origin.root), str(mirror)], check=True
        )
        return self.project.playbook("audit", "--all", cwd=mirror)

    def settle(self, **changes: object) -> None:
        self.settings = replace(self.settings, **changes)  # type: ignore[arg-type]


@pytest.fixture
def fleet(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """A repository with a remote, a database, and a worker's settings that allow it."""
    project.write(".playbooks/playbooks/three.yaml", THREE)
    project.commit("Add a playbook")
    origin = remote(project)
    origin.git("symbolic-ref", "HEAD", f"refs/heads/{project.git('branch', '--show-current')}")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    settings = tmp_path / "config/playbook/worker.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text("transports: [file]\n")
    os.environ.pop("PLAYBOOK_FLEET", None)
    address = of_file(tmp_path / "state/playbook/fleet/fleet.sqlite")
    FleetDatabase.migrate(address)
    with FleetDatabase.open(address) as database:
        yield Fleet(project, origin, database, tmp_path / "workers")
