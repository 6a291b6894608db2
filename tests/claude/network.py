"""A private loopback for the client, where this machine permits one.

A short-lived process makes a network namespace, listens inside it and hands both back as open
files: the model answers from this process, and a program that `enter`s can reach only that.
Elsewhere the client is given the usual loopback, and `private` says so.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from typing import Self

PORT = 8765
"""The model's port in a private network, where no other process can have taken it."""

MAKER = f"""
import fcntl, os, socket, struct
sets_flags, up = 0x8914, 0x1
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, sets_flags, struct.pack("16sh22x", b"lo", up))
listener = socket.socket()
listener.bind(("127.0.0.1", {PORT}))
listener.listen(64)
namespace = os.open("/proc/self/ns/net", os.O_RDONLY)
with socket.socket(fileno=0) as parent:
    socket.send_fds(parent, [b"made"], [listener.fileno(), namespace])
"""


class Network:
    """`listener` is open inside; `enter` goes before the argv of a program to run inside."""

    listener: socket.socket
    private: bool
    enter: tuple[str, ...]

    def __init__(self) -> None:
        made = _namespace()
        self.private = made is not None
        if made:
            self.listener, self._namespace = made
            path = f"/proc/{os.getpid()}/fd/{self._namespace}"
            self.enter = ("nsenter", f"--net={path}", "--")
        else:
            self.listener, self.enter = socket.create_server(("127.0.0.1", 0), backlog=64), ()

    @property
    def url(self) -> str:
        host, port = self.listener.getsockname()[:2]
        return f"http://{host}:{port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.close()
        if self.private:
            os.close(self._namespace)


def _namespace() -> tuple[socket.socket, int] | None:
    if not (shutil.which("unshare") and shutil.which("nsenter")):
        return None
    ours, theirs = socket.socketpair()
    with ours, theirs:
        made = subprocess.run(
            ["unshare", "--net", "--", sys.executable, "-I", "-S", "-c", MAKER],
            stdin=theirs.fileno(),
            stderr=subprocess.DEVNULL,  # "not permitted": then without
            check=False,
            timeout=30,
        )
        if made.returncode:
            return None
        _, (listener, namespace), _, _ = socket.recv_fds(ours, 16, 2)
    return socket.socket(fileno=listener), namespace
