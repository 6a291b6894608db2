"""Which process is at the other end of a connection: real connections of real processes."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from playbook_supervisor.system.process import ancestry, peer_process
from playbook_supervisor.system.process.peer_process import Peer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it")

CONNECTS = """\
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as peer:
    print("connected", flush=True)
    input()
"""
HIDES = f"import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n{CONNECTS}"


LOOKS = """\
import os, socket, subprocess, sys
from playbook_supervisor.system.process import peer_process
for code in sys.argv[1:]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        argv = [sys.executable, "-c", code, "127.0.0.1", str(server.getsockname()[1])]
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, stdin=pipe, stdout=pipe) as process:
            accepted, other = server.accept()
            process.stdout.readline()
            peer = peer_process.find(other, accepted.getsockname())
            print(peer.local, peer.user == os.getuid(), len(peer.processes))
            process.communicate(b"\\n")
"""
"""Prints what is found of a process that connects, and of one that hides."""


@contextmanager
def listening(host: str = "127.0.0.1", *, both: bool = False) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = socket.create_server((host, 0), family=family, dualstack_ipv6=both)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with server:
        yield server


def find(accepted: socket.socket) -> Peer:
    found = peer_process.find(accepted.getpeername()[:2], accepted.getsockname()[:2])
    assert found is not None
    return found


def pids(peer: Peer) -> list[int]:
    return sorted(each.pid for each in peer.processes)


@contextmanager
def connected(server: socket.socket, code: str, host: str = "") -> Iterator[tuple[int, Peer]]:
    """Another process that connects: its number, and what is found."""
    address = server.getsockname()
    argv = [sys.executable, "-c", code, host or address[0], str(address[1])]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            accepted, _ = server.accept()
            with accepted:
                yield process.pid, find(accepted)
        finally:
            process.communicate(b"\n")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_another_process_is_found(host: str) -> None:
    with listening(host) as server, connected(server, CONNECTS) as (pid, peer):
        assert peer.local
        assert peer.user == os.getuid()
        assert peer.processes == (ancestry.process(pid),)


def test_ipv4_is_found_at_a_socket_of_both() -> None:
    """Its address is `::ffff:127.0.0.1` there."""
    with (
        listening("::", both=True) as server,
        connected(server, CONNECTS, "127.0.0.1") as (pid, peer),
    ):
        assert pids(peer) == [pid]


def test_this_process_is_found_and_not_its_own_end() -> None:
    with listening() as server, socket.create_connection(server.getsockname()):
        accepted, _ = server.accept()
        with accepted:
            assert pids(find(accepted)) == [os.getpid()]


def test_all_processes_that_have_the_socket_open_are_found() -> None:
    with listening() as server, socket.create_connection(server.getsockname()) as ours:
        accepted, _ = server.accept()
        ours.set_inheritable(True)
        with (
            accepted,
            subprocess.Popen(
                [sys.executable, "-c", "print('up', flush=True); input()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[ours.fileno()],
            ) as child,
        ):
            assert child.stdout is not None
            child.stdout.readline()
            assert pids(find(accepted)) == sorted([os.getpid(), child.pid])
            ours.close()
            assert pids(find(accepted)) == [child.pid], "it inherited the socket"
            child.communicate(b"\n")


def test_a_process_that_hides_is_not_found_but_its_user_is() -> None:
    argv = [sys.executable, "-c", LOOKS, CONNECTS, HIDES]
    done = subprocess.run(
        argv, preexec_fn=see_less, stdout=subprocess.PIPE, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["True", "True", "1", "True", "True", "0"]


def see_less() -> None:
    """Drop CAP_SYS_PTRACE, with which the superuser sees every process."""
    ctypes.CDLL(None).prctl(24, 19, 0, 0, 0)


def test_a_connection_that_the_other_end_has_closed_is_still_of_this_machine() -> None:
    """Its user is not known: the tables then say 0."""
    with listening() as server:
        other = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        with accepted:
            other.close()
            assert find(accepted) == Peer(True)


def test_a_connection_that_was_reset_is_still_of_this_machine() -> None:
    with listening() as server:
        other = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        with accepted:
            ends = other.getsockname(), server.getsockname()
            other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            other.close()
            assert peer_process.find(*ends) == Peer(True)
            assert peer_process.find(None, ends[1]) == Peer(True)


def test_an_address_of_this_machine_is_local_whether_connected_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for own in ("127.0.0.1", "127.9.9.9", "::ffff:127.0.0.1"):
        assert peer_process.find((own, 1), ("127.0.0.1", 2)) == Peer(True)
    for foreign in ("192.0.2.7", "::ffff:192.0.2.7", "2001:db8::7", "fe80::7%nowhere"):
        assert peer_process.find((foreign, 1), ("192.0.2.8", 2)) == Peer(False)
    monkeypatch.setattr(peer_process, "_lines", lambda table: [])
    with listening() as server, socket.create_connection(server.getsockname()) as other:
        assert peer_process.find(other.getsockname(), server.getsockname()) == Peer(True)


def test_nothing_is_known_without_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_process, "_PROC", tmp_path)
    assert peer_process.find(("127.0.0.1", 1), ("127.0.0.1", 2)) is None
