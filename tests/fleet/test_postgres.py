"""The server and the proxy that other tests disturb do what those tests rely on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from support.controlled_time import eventually

from fleet.postgres import Server
from fleet.proxy import Proxy, Way

RUNS = """
import sys
from pathlib import Path
from fleet.postgres import Server, programs
with Server(programs()) as server:
    print(server.port, server.folder, flush=True)
    sys.stdin.read()
"""


def test_a_database_is_empty_and_its_own(postgres: Server) -> None:
    first, second = postgres.create(), postgres.create()
    postgres.execute("CREATE TABLE note (word text)", first)
    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
    assert postgres.execute(tables, first) == [(1,)]
    assert postgres.execute(tables, second) == [(0,)]


def test_a_wrong_password_is_refused(postgres: Server) -> None:
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(postgres.url("postgres", password="other"))


def test_what_was_committed_survives_a_hard_restart(postgres: Server) -> None:
    name = postgres.create()
    postgres.execute("CREATE TABLE note AS SELECT 7 AS number", name)
    with psycopg.connect(postgres.url(name)) as connection:
        postgres.stop(hard=True)
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(postgres.url(name), connect_timeout=5)
        postgres.start()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert postgres.execute("SELECT number FROM note", name) == [(7,)]


def test_a_paused_server_answers_after_the_thaw(postgres: Server) -> None:
    name = postgres.create()
    asking = [sys.executable, "-c", "import psycopg, sys; psycopg.connect(sys.argv[1])"]
    with postgres.paused():
        process = subprocess.Popen([*asking, postgres.url(name)])
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
    assert process.wait(30) == 0


def test_an_older_copy_takes_the_place_of_the_database(postgres: Server) -> None:
    name = postgres.create()
    postgres.execute("CREATE TABLE note AS SELECT 1 AS number", name)
    yesterday = postgres.dump(name)
    postgres.execute("UPDATE note SET number = 2", name)
    with psycopg.connect(postgres.url(name)):  # even while someone is connected
        postgres.restore(name, yesterday)
    assert postgres.execute("SELECT number FROM note", name) == [(1,)]


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


class TestTheProxy:
    @pytest.fixture
    def proxy(self, postgres: Server) -> Iterator[Proxy]:
        with Proxy(postgres.port) as proxy:
            yield proxy

    def test_passes_a_conversation_on(self, postgres: Server, proxy: Proxy) -> None:
        with psycopg.connect(postgres.url("postgres", port=proxy.port)) as connection:
            found = connection.execute("SELECT repeat('x', 1000000)").fetchone()
        assert found == ("x" * 1_000_000,)

    @pytest.mark.parametrize("way", ["up", "down"])
    def test_holds_the_bytes_of_one_way_and_passes_them_on_later(
        self, postgres: Server, proxy: Proxy, way: Way
    ) -> None:
        asking = threading.Thread(target=lambda: found.append(connection.execute("SELECT 1")))
        found: list[object] = []
        with psycopg.connect(postgres.url("postgres", port=proxy.port)) as connection:
            proxy.hold(way)
            asking.start()
            asking.join(0.5)
            assert not found
            proxy.heal()
            asking.join(20)
            assert found

    def test_accepts_while_it_passes_nothing(self, postgres: Server, proxy: Proxy) -> None:
        proxy.hold()
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=0.5) as client:
            client.sendall(b"hello")
            with pytest.raises(TimeoutError):
                client.recv(1)

    def test_resets_connections_that_have_lost_bytes(self, postgres: Server, proxy: Proxy) -> None:
        with psycopg.connect(postgres.url("postgres", port=proxy.port)) as connection:
            proxy.drop("down")
            threading.Timer(0.5, proxy.heal).start()
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
        with psycopg.connect(postgres.url("postgres", port=proxy.port)) as connection:
            connection.execute("SELECT 1")
