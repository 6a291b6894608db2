"""A PostgreSQL server of the tests' own: in a scratch folder, on a port of its own, on loopback.

It can be stopped hard, paused, and given back an older copy of a database. Should the tests be
killed, a second process ends the server and removes the folder.
"""

from __future__ import annotations

import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
USER = "playbook"
PASSWORD = "dummy"
PORTS = range(20_000, 32_000)  # below those that the system gives to clients
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "dynamic_shared_memory_type": "mmap",  # in its folder, so that a killed server leaves none
    "jit": "off",
    "timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
}
QUICK = {"fsync": "off", "full_page_writes": "off"}
"""What only a loss of power would show."""
_START = 60.0  # seconds on a busy machine


class Server:
    """A running server, until its `with` ends.

    Its superuser is `playbook`. Every connection needs a password, even from this machine. `log` is
    what it writes.
    """

    def __init__(self, programs: Path, *, fsync: bool = False, **settings: str) -> None:
        self._programs = programs
        self._settings = (SETTINGS if fsync else SETTINGS | QUICK) | settings
        self._account = account()
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        self.port = 0

    def __enter__(self) -> Server:
        self.folder = Path(tempfile.mkdtemp(prefix="playbook-postgres-", dir=_reachable()))
        if self._account:
            os.chown(self.folder, self._account["user"], self._account["group"])
        self._data = self.folder / "data"
        self.log = self.folder / "log"
        command = [sys.executable, "-S", str(Path(__file__)), str(self.folder)]
        self._guardian = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        try:
            self._initialize()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(hard=True)
        self._guardian.communicate(timeout=_START)

    # ── connections ─────────────────────────────────────────────────────────────────────────

    def url(
        self, database: str, *, user: str = USER, password: str = PASSWORD, port: int = 0
    ) -> str:
        """The address of a database. `port` is that of a proxy before it; "" is no password."""
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@{HOST}:{port or self.port}/{database}"

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Carry out a statement in a transaction of its own; return the rows."""
        import psycopg

        url = self.url(database)
        with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def create(self) -> str:
        self._databases += 1
        name = f"fleet{self._databases}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    def create_role(self, name: str, rights: str = "SUPERUSER") -> None:
        self.execute(f"DROP ROLE IF EXISTS {name}")
        self.execute(f"CREATE ROLE {name} LOGIN {rights} PASSWORD '{PASSWORD}'")

    # ── copies ──────────────────────────────────────────────────────────────────────────────

    def dump(self, database: str) -> bytes:
        """A copy of the database, for `restore`."""
        return self._client("pg_dump", "--format=custom", self.url(database))

    def restore(self, database: str, copy: bytes) -> None:
        """Replace the database by that copy, at once. Its clients are cut off."""
        restored = self.create()
        self._client("pg_restore", "--exit-on-error", f"--dbname={self.url(restored)}", input=copy)
        self.execute(f"DROP DATABASE {database} WITH (FORCE)")
        self.execute(f"ALTER DATABASE {restored} RENAME TO {database}")

    # ── faults ──────────────────────────────────────────────────────────────────────────────

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server, at the port that it had, and wait until it takes connections."""
        assert not self.runs(), "it is running"
        until = time.monotonic() + _START
        while True:
            port = self.port or _free_port()
            self._launch(port)
            while self.runs() and time.monotonic() < until:
                if self._takes_connections(port):
                    self.port = port
                    return
                time.sleep(0.02)
            self.stop(hard=True)
            assert time.monotonic() < until, self.log.read_text()

    def stop(self, *, hard: bool = False) -> None:
        if self._process is None:
            return
        if hard:
            end(self._process.pid)
        else:
            self._process.send_signal(signal.SIGINT)
        self._process.wait(_START)
        self._process = None

    def restart(self, *, hard: bool = True) -> None:
        self.stop(hard=hard)
        self.start()

    def pause(self) -> None:
        """Freeze the server: connections stay, and are even made, but no bytes come."""
        assert self._process
        freeze(self._process.pid)

    def thaw(self) -> None:
        assert self._process
        for pid in (*children(self._process.pid), self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.pause()
        try:
            yield
        finally:
            self.thaw()

    def processes(self) -> list[int]:
        assert self._process
        return [self._process.pid, *children(self._process.pid)]

    def heal(self) -> None:
        """Undo `pause` and `stop`, whichever there was."""
        if self.runs():
            self.thaw()
        else:
            self.stop(hard=True)
            self.start()

    # ────────────────────────────────────────────────────────────────────────────────────────

    def _initialize(self) -> None:
        secret = self.folder / "password"
        secret.write_text(f"{PASSWORD}\n")
        if self._account:
            os.chown(secret, self._account["user"], self._account["group"])
        options = [
            f"--pgdata={self._data}",
            f"--username={USER}",
            f"--pwfile={secret}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            "--no-instructions",
        ]
        done = subprocess.run(
            [self._programs / "initdb", *options],
            cwd=self.folder,
            env=_environment(),
            capture_output=True,
            text=True,
            check=False,
            **self._account,
        )
        assert done.returncode == 0, done.stderr

    def _launch(self, port: int) -> None:
        given = self._settings | {"port": str(port)}
        options = [part for name, value in given.items() for part in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *options],
                cwd=self.folder,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._account,
            )

    def _takes_connections(self, port: int) -> bool:
        import psycopg

        url = self.url("postgres", port=port)
        with suppress(psycopg.OperationalError), psycopg.connect(url, connect_timeout=10):
            return True
        return False

    def _client(self, program: str, *args: str, input: bytes = b"") -> bytes:  # noqa: A002
        done = subprocess.run(
            [self._programs / program, *args],
            env=_environment(),
            input=input,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout


def programs() -> Path | None:
    debian = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    found = sorted(debian, key=lambda path: float(path.parts[-3]))
    if found:
        return found[-1].parent
    program = shutil.which("initdb")
    return Path(program).resolve().parent if program else None


def children(pid: int) -> list[int]:
    """The processes that this one has started and that live."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    )
    pairs = (line.split() for line in listed.stdout.splitlines())
    return [int(child) for child, parent in pairs if int(parent) == pid]


def freeze(pid: int) -> list[int]:
    """Stop a server and then its processes; return these. A stopped one starts no others."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    found = children(pid)
    for child in found:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGSTOP)
    return found


def end(pid: int) -> None:
    """Kill a server with its processes, and wait until these are gone."""
    found = freeze(pid)
    for each in (pid, *found):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    for child in found:
        while _lives(child):
            time.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False)
    return not state.stdout.startswith(b"Z") and bool(state.stdout)


def account() -> dict[str, Any]:
    """The account that runs the server, as `subprocess` takes it: PostgreSQL refuses root."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise AssertionError("there is no account that can run PostgreSQL")


def _reachable() -> str:
    """A folder for scratch files that every account can reach."""
    place = Path(tempfile.gettempdir()).resolve()
    reachable = all(folder.stat().st_mode & 0o001 for folder in (place, *place.parents))
    return str(place) if reachable else "/tmp"


def _environment() -> dict[str, str]:
    """Nothing of a person's: a password file, a port, a service of that name."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def _free_port() -> int:
    while True:
        port = random.choice(PORTS)  # noqa: S311 - a port, not a secret
        with socket.socket() as tried, suppress(OSError):
            tried.bind((HOST, port))
            return port


def _watch(folder: Path) -> None:
    """Wait until the tests have ended, in whatever way; then end the server and clean up."""
    sys.stdin.buffer.read()
    with suppress(OSError, ValueError):
        end(int((folder / "data" / "postmaster.pid").read_text().split()[0]))
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _watch(Path(sys.argv[1]))
