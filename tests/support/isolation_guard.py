"""Keeps tests away from the real home and from the network.

An audit hook sees every file that this process opens or changes, every host name that it looks up
and every connection that it makes. A forbidden one fails the test, even if the code under test
swallows the exception. Processes that a test starts get a scratch home, a stand-in for every
program that would talk to a forge or a model, and a proxy that leads nowhere.
"""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

KEPT = (
    "CI",
    "CLAUDE_KILLS",
    "COVERAGE_",
    "CRASH_KILLS",
    "FLEET_",
    "HYPOTHESIS_",
    "PATH",
    "PLAYBOOK_CLIENTS",
    "PLAYBOOK_REQUIRE_",
    "PYTEST_",
    "PYTHONDONTWRITEBYTECODE",
    "TESTS_REAL_HOME",
    "TESTS_RUN",
    "TMPDIR",
)
"""The beginnings of the names of inherited variables. None of them holds a credential."""

SHUNNED = ("claude", "codex", "gemini", "copilot", "opencode", "gh", "glab")
"""Programs that act in a developer's name."""

NOWHERE = "http://127.0.0.1:9"


class Guard:
    """Refuses what is forbidden and remembers it until `forgive`."""

    def __init__(self, homes: tuple[str, ...], allowed: tuple[str, ...]) -> None:
        self.homes = homes
        self.allowed = allowed
        self.offences: list[str] = []
        self._checks: Mapping[str, Callable[..., None]] = {
            "open": self._path,
            "os.chmod": self._path,
            "os.link": self._paths,
            "os.listdir": self._path,
            "os.mkdir": self._path,
            "os.remove": self._path,
            "os.rename": self._paths,
            "os.rmdir": self._path,
            "os.scandir": self._path,
            "os.symlink": self._paths,
            "os.truncate": self._path,
            "os.utime": self._path,
            "socket.connect": self._connection,
            "socket.getaddrinfo": self._host,
            "socket.gethostbyname": self._host,
            "socket.sendto": self._connection,
        }

    def __call__(self, event: str, args: tuple[object, ...]) -> None:
        if check := self._checks.get(event):
            check(*args)

    def forgive(self) -> list[str]:
        offences, self.offences = self.offences, []
        return offences

    def _path(self, path: object, *_: object) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return  # a file descriptor: its path was checked when it was opened
        full = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - follows no link, opens nothing
        if _within(full, self.homes) and not _within(full, self.allowed):
            self._forbid(f"touches the real home: {full}")

    def _paths(self, source: object, target: object, *_: object) -> None:
        self._path(source)
        self._path(target)

    def _connection(self, _socket: object, address: object, *_: object) -> None:
        if isinstance(address, tuple):  # a Unix socket's address is a string
            self._host(address[0])

    def _host(self, host: object, *_: object) -> None:
        name = host.decode() if isinstance(host, bytes) else host
        if isinstance(name, str) and not _loopback(name):
            self._forbid(f"reaches beyond this machine: {name}")

    def _forbid(self, offence: str) -> None:
        self.offences.append(offence)
        pytest.fail(f"A test {offence}")


def install(rootpath: Path, *places: Path) -> Guard:
    """Install the guard for the rest of the process. `places` are allowed even inside the home.

    A place that contains a home does not open it, such as a temporary folder in which it lies.
    """
    real = dict.fromkeys((os.environ["TESTS_REAL_HOME"], _home_of_account()))
    homes = tuple(f"{home.rstrip('/')}/" for home in real if home.strip("/"))
    allowed = {
        rootpath,
        *places,
        *map(Path, (sys.prefix, sys.base_prefix, *filter(None, sys.path))),
    }
    spellings = (str(each) for path in allowed for each in (path, path.resolve()))
    guard = Guard(homes, tuple(f"{each}/" for each in spellings if _within(each, homes)))
    sys.addaudithook(guard)
    return guard


def clean_environment(scratch: Path) -> dict[str, str]:
    """The environment of every test: the developer's PATH and a few variables of the tests."""
    environment = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
    shunned = scratch / "shunned"
    shunned.mkdir()
    for name in SHUNNED:
        program = shunned / name
        program.write_text(f"#!/bin/sh\necho 'tests do not run the real {name}' >&2\nexit 97\n")
        program.chmod(0o755)
    git = scratch / "gitconfig"
    git.write_text(
        "[user]\n\tname = Ada Example\n\temail = ada@example.org\n"
        "[init]\n\tdefaultBranch = main\n\ttemplateDir =\n"
        "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[commit]\n\tgpgSign = false\n"
    )
    return environment | {
        "GIT_CONFIG_GLOBAL": str(git),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "HOME": str(scratch),
        "LC_ALL": "C.UTF-8",
        "PATH": f"{shunned}{os.pathsep}{environment['PATH']}",
        "TERM": "dumb",
        "TZ": "XST-5:45",  # local time is never UTC, so that mixing them up is seen
        "http_proxy": NOWHERE,
        "https_proxy": NOWHERE,
        "no_proxy": "127.0.0.1,localhost,::1",
    }


def _within(path: str, folders: tuple[str, ...]) -> bool:
    return f"{path}/".startswith(folders)


def _loopback(host: str) -> bool:
    if host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _home_of_account() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # an account without an entry, as in some containers
        return ""
