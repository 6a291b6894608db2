"""The guide to the fleet holds on PostgreSQL, too; `tests/test_docs.py` plays the rest of it."""

from __future__ import annotations

import subprocess

import pytest
from documents import REPOSITORY, Stage, blocks
from project import Project, remote


@pytest.mark.measured
def test_the_commands_of_the_guide_work_on_a_server(project: Project, database: str) -> None:
    guide = (REPOSITORY / "docs/fleet.md").read_text("utf-8")
    (commands,) = (block.text for block in blocks(guide) if block.kind == "postgres")
    stage = Stage(project, quick=True)
    origin = remote(project)
    origin.git("symbolic-ref", "HEAD", f"refs/heads/{project.git('branch', '--show-current')}")
    settings = project.home / ".config/playbook/worker.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"transports: [file]\nrepositories: ['file://{origin.root}']\n")
    given = "postgresql://playbook@db.example.org/fleet"
    assert given in commands
    done = subprocess.run(
        ["/bin/sh", "-e", "-c", commands.replace(given, f"'{database}'")],
        cwd=project.root,
        env=stage.project.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "ready: postgresql://" in done.stdout
    assert "WAITS FOR A HUMAN at pr#1?1" in done.stdout
    assert "waits at gate pr#1?1" in done.stderr
    assert "Traceback" not in done.stderr
