"""The server that other tests disturb ends with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from support.controlled_time import eventually

from fleet.postgres import Server

RUNS = """
import sys
from pathlib import Path
from fleet.postgres import Server, programs
with Server(programs()) as server:
    print(server.port, server.folder, flush=True)
    sys.stdin.read()
"""


def test_a_server_does_not_outlive_tests_that_are_killed(server: Server) -> None:
    tests = str(Path(__file__).parent.parent)
    process = subprocess.Popen(
        [sys.executable, "-c", RUNS],
        env=os.environ | {"PYTHONPATH": tests},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    with process:
        port, folder = process.stdout.readline().split()
        process.send_signal(signal.SIGKILL)
    assert eventually(lambda: not Path(folder).exists())
    url = server.url("postgres", port=int(port))
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(url, connect_timeout=5)
