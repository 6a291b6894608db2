"""What the judge sees from outside of the isolation."""

from __future__ import annotations

import ctypes
import os
import pty
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Print = dict[Path, tuple[int, ...]]

LOWER = Path("/srv/lower")
"""The disk as it was, below the layers."""

ADD_KEY, KEYCTL = (248, 250) if os.uname().machine == "x86_64" else (217, 219)
SET_TIMEOUT, USER_KEYRING, SECONDS = 15, -4, 300
"""System calls for keys in the kernel, which belong to the user, not to a namespace."""

_VICTIM = """\
import os, signal, sys, time
secret = os.environ['SECRET']
kept = os.memfd_create('kept')
os.write(kept, secret.encode())
os.chdir(sys.argv[1])
hit = lambda number, frame: os.write(1, b'signal %d\\n' % number)
for number in range(1, 32):
    if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD):
        signal.signal(number, hit)
os.write(1, b'ready %d\\n' % kept)
nowhere = os.open(os.devnull, os.O_WRONLY)
while True:
    os.write(nowhere, secret.encode())
    time.sleep(0.1)
"""


class Guard:
    """Folders and files that nothing may change. Of `layers`, which keep what has changed in the
    folders of the machine, only that is looked at."""

    def __init__(
        self, roots: Iterable[Path], spared: Iterable[Path], layers: Mapping[Path, Path]
    ) -> None:
        self.roots, self.spared, self.layers = (*roots, *layers), {*spared}, layers
        self.known = self.look()
        self.contents = {
            path: path.read_bytes()
            for path in self.known
            if path.is_file() and not path.is_symlink()
        }

    def look(self) -> Print:
        found: Print = {}
        for root in self.roots:
            self._walk(root, found)
        return found

    def _walk(self, path: Path, found: Print) -> None:
        try:
            stat = path.lstat()
        except OSError:
            return
        if path in self.spared:
            return
        found[path] = (stat.st_ino, stat.st_mode, stat.st_uid)
        if path.is_dir() and not path.is_symlink():
            for each in path.iterdir():
                self._walk(each, found)
        else:
            found[path] += (stat.st_gid, stat.st_size, stat.st_mtime_ns)

    def changes(self) -> list[Path]:
        """The paths that have changed since the last look."""
        now = self.look()
        both = now.keys() | self.known.keys()
        return sorted(path for path in both if now.get(path) != self.known.get(path))

    def restore(self) -> None:
        """Put back what has changed."""
        self._rename_back()
        for path in self.changes():
            if path in self.contents:
                self._rewrite(path)
            elif path not in self.known:
                self._forget(path)
        self.known = self.look()

    def _rename_back(self) -> None:
        """What was only moved, back to where it was."""
        now = self.look()
        moved = {now[path][0]: path for path in sorted(now.keys() - self.known, reverse=True)}
        for path in sorted(self.known.keys() - now):
            where = moved.get(self.known[path][0])
            if where and os.path.lexists(where) and not os.path.lexists(path):
                where.rename(path)

    def _rewrite(self, path: Path) -> None:
        place = self._place(path)
        remove(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(self.contents[path])
        place.chmod(self.known[path][1] & 0o7777)

    def _forget(self, path: Path) -> None:
        """Remove it; in a layer, put back what lies below it."""
        place = self._place(path)
        below = LOWER / place.relative_to("/")
        if place == path or not os.path.lexists(below):
            remove(place)
        elif below.is_file():
            shutil.copy2(below, place)

    def _place(self, path: Path) -> Path:
        for layer, place in self.layers.items():
            if path.is_relative_to(layer):
                return place / path.relative_to(layer)
        return path


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


class Listeners:
    """Sockets at which nothing may arrive. Those without a slash have no path: `@NAME`."""

    def __init__(self, names: Iterable[str]) -> None:
        self.heard: list[str] = []
        for name in names:
            self.listen(name)

    def listen(self, name: str) -> None:
        if not name.startswith("@"):
            Path(name).unlink(missing_ok=True)
        kind = socket.SOCK_DGRAM if name.endswith("-datagrams") else socket.SOCK_STREAM
        listener = socket.socket(socket.AF_UNIX, kind)
        if not name.startswith("@"):
            Path(name).parent.mkdir(parents=True, exist_ok=True)
        listener.bind(name.replace("@", "\0", 1))
        if not name.startswith("@"):
            Path(name).chmod(0o666)  # whoever reaches it may use it
        if kind == socket.SOCK_STREAM:
            listener.listen()
        threading.Thread(target=self._hear, args=(name, listener), daemon=True).start()

    def _hear(self, name: str, listener: socket.socket) -> None:
        while True:
            if listener.type == socket.SOCK_STREAM:
                listener.accept()[0].close()
            else:
                listener.recv(100)
            self.heard.append(name)


class Victim:
    """A process of the same user: its secret, and what happens to it."""

    def __init__(self, secret: str, folder: Path, who: dict[str, Any]) -> None:
        self.secret, self.folder, self.who = secret, folder, who
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _VICTIM, os.fspath(self.folder)],
            env={**os.environ, "SECRET": self.secret},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
            **self.who,
        )
        assert self.process.stdout is not None
        self.kept = self.process.stdout.readline().decode().split()[1]
        os.set_blocking(self.process.stdout.fileno(), False)
        self.usual = self._traits()

    def _traits(self) -> dict[str, object]:
        status = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in status)
        return {
            "priority": os.getpriority(os.PRIO_PROCESS, self.process.pid),
            "limits": Path(f"/proc/{self.process.pid}/limits").read_text(),
            "oom": Path(f"/proc/{self.process.pid}/oom_score_adj").read_text(),
            "processors": os.sched_getaffinity(self.process.pid),
            "environment": self.secret in Path(f"/proc/{self.process.pid}/environ").read_text(),
            "tracer": fields["TracerPid"].strip(),
            "stopped": fields["State"].strip()[0] in "Tt",
        }

    def harm(self) -> list[str]:
        assert self.process.stdout is not None
        if self.process.poll() is not None:
            return ["the victim ended"]
        signals = (self.process.stdout.read() or b"").decode().split("\n")[:-1]
        now = self._traits()
        return [*signals, *(name for name in now if now[name] != self.usual[name])]

    def restore(self) -> None:
        self.process.kill()
        self.process.wait()
        self.start()


class Terminal:
    """A terminal of the user: nothing may be typed into it or shown on it."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        os.set_blocking(self.master, False)
        self.name = os.ttyname(self.slave)

    def shown(self) -> bool:
        try:
            return bool(os.read(self.master, 1000))
        except BlockingIOError:
            return False


class Shared:
    """Memory, semaphores and a key that belong to no folder."""

    KEY = 0x504C4159
    SIZE = 64

    def __init__(self, secret: str) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.shmat.restype = ctypes.c_void_p
        self.secret = secret.encode()
        memory = self.libc.shmget(self.KEY, self.SIZE, 0o1666)
        self.place = self.libc.shmat(memory, None, 0)
        assert self.place not in (None, ctypes.c_void_p(-1).value), "no shared memory"
        self.restore()
        self.name = f"playbook-{secret[:8]}"
        key = self.libc.syscall(
            ADD_KEY, b"user", self.name.encode(), self.secret, len(self.secret), USER_KEYRING
        )
        self.libc.syscall(KEYCTL, SET_TIMEOUT, key, SECONDS)

    def harm(self) -> list[str]:
        found = []
        if ctypes.string_at(self.place, len(self.secret)) != self.secret:
            found.append("shared memory was changed")
        if self.libc.semget(self.KEY, 1, 0) < 0:
            found.append("a semaphore is gone")
        return found

    def restore(self) -> None:
        ctypes.memmove(self.place, self.secret, len(self.secret))
        self.libc.semget(self.KEY, 1, 0o1666)
