"""The guide to the fleet holds on PostgreSQL, too; `tests/test_docs.py` plays the rest of it."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from urllib.parse import urlsplit

import psycopg
import pytest
from support.bubblewrap import needs_bubblewrap
from support.document_examples import REPOSITORY, Stage, blocks, prompts
from support.scratch_project import Project

GUIDE = (REPOSITORY / "docs/fleet.md").read_text("utf-8")


def shown(kind: str) -> str:
    """The only block of that kind in the guide."""
    (text,) = (block.text for block in blocks(GUIDE) if block.kind == kind)
    return text


@pytest.fixture
def stage(project: Project) -> Stage:
    """A repository that had nothing, after the guide's first commands."""
    stage = Stage(project, fresh=True)
    for block in blocks(GUIDE):
        if block.file:
            project.write(block.file, block.text)
        if block.language == "console":
            for command, _ in prompts(block.text):
                stage.type(command)
            break
    return stage


@pytest.mark.long
@needs_bubblewrap
@pytest.mark.measured
def test_the_commands_of_the_guide_work_on_a_server(stage: Stage, database: str) -> None:
    project, commands = stage.project, shown("postgres")
    origin = project.root.with_name("widgets.git")
    settings = project.home / ".config/playbook/worker.yaml"
    settings.write_text(f"transports: [file]\nrepositories: ['file://{origin}']\n")
    given = "postgresql://playbook@db.example.org/fleet"
    assert given in commands
    done = subprocess.run(
        ["/bin/sh", "-e", "-c", commands.replace(given, f"'{database}'")],
        cwd=project.root,
        env=project.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "ready: postgresql://" in done.stdout
    assert "WAITS FOR A HUMAN at publish#1?1" in done.stdout
    assert "waits at gate publish#1?1" in done.stderr
    assert "Traceback" not in done.stderr
    answered_by_another_role(project, database)


def answered_by_another_role(project: Project, database: str) -> None:
    """Ada may answer once she has the rights that the guide names, and her role is kept."""
    with psycopg.connect(database, autocommit=True) as connection:
        ada = "CREATE ROLE ada LOGIN PASSWORD 'dummy' IN ROLE fleet_user"
        for statement in (*shown("grants").split(";\n"), ada):
            with suppress(psycopg.errors.DuplicateObject):  # of a former try at this server
                connection.execute(statement.encode())
    server = urlsplit(database)
    address = server._replace(netloc=f"ada:dummy@{server.hostname}:{server.port}").geturl()
    env = {"PLAYBOOK_FLEET": address}
    (session,) = json.loads(project.playbook("fleet", "status", "--json", env=env).out)["sessions"]
    done = project.playbook("answer", session["session"], "continue", env=env)
    assert done.code == 0, done.err
    done = project.process("fleet", "worker", "--drain", env=env)
    assert "completed" in done.err
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT role FROM fleet.answer").fetchall() == [("ada",)]
