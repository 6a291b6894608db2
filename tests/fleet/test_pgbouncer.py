"""A worker whose way to PostgreSQL leads through PgBouncer."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from support.controlled_time import eventually

from fleet.machines import GATE, Site, in_time
from fleet.postgres import HOST, PASSWORD, USER, Server, account

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
PATIENCE = 120.0

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.skipif(PROGRAM is None, reason="PgBouncer is not installed"),
]


@contextmanager
def bouncer(server: Server, mode: str) -> Iterator[int]:
    """PgBouncer before the server, with that mode of its pools; its port."""
    folder = server.folder / f"pgbouncer-{mode}"
    folder.mkdir()
    with closing(socket.socket()) as tried:
        tried.bind((HOST, 0))
        port = tried.getsockname()[1]
    (folder / "users").write_text(f'"{USER}" "{PASSWORD}"\n')
    (folder / "ini").write_text(
        f"[databases]\n* = host={HOST} port={server.port}\n"
        f"[pgbouncer]\nlisten_addr = {HOST}\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = scram-sha-256\nauth_file = {folder}/users\npool_mode = {mode}\n"
        "ignore_startup_parameters = extra_float_digits,options\n"
    )
    (folder / "log").touch()
    given = account()
    if given:
        for path in (folder, *folder.iterdir()):
            os.chown(path, given["user"], given["group"])
    assert PROGRAM
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [PROGRAM, "-q", str(folder / "ini")], stdout=log, stderr=log, cwd=folder, **given
        )
    try:
        assert eventually(lambda: answers(server, port)), (folder / "log").read_text()
        yield port
    finally:
        process.kill()
        process.wait()


def answers(server: Server, port: int) -> bool:
    with suppress(psycopg.OperationalError):
        psycopg.connect(server.url("postgres", port=port), connect_timeout=5).close()
        return True
    return False


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_a_session_completes(mode: str, postgres: Server, tmp_path: Path) -> None:
    with bouncer(postgres, mode) as port, Site(tmp_path / "site", postgres) as site:
        desk, worker = site.machine("desk"), site.machine("m1", work=1)
        assert desk.playbook("fleet", "migrate").code == 0
        worker.address = postgres.url(site.database, port=port)
        submitted = worker.submit(site.remote("r1"))
        assert submitted.code == 0, submitted.err
        session = submitted.out.strip()
        worker.start()
        assert in_time(lambda: f"{session} waits at gate" in worker.said(), PATIENCE), worker.said()
        answered = worker.playbook("answer", session, "--gate", GATE, "continue")
        assert answered.code == 0, answered.err
        assert in_time(lambda: f"{session} completed" in worker.said(), PATIENCE), worker.said()
        assert "PB-FLEET-DATABASE" not in worker.said()
