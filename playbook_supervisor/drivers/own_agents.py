"""Processes that are agents of ours, or were started by one.

Such a process does not decide for a person, under any driver. What counts is what the
kernel tells of the process and of its ancestors: the files that they have open, and the environment
that they were started with. An agent cannot change either of its leash, which is its ancestor even
if the agent leaves its session and its parent. What a runner starts beside the agents, such as a
git hook, may have been written by an agent, and does not decide either.

Only agents that work in the same repository count: one may test a project of its own elsewhere.
For what concerns several repositories, as a fleet does, the agents of all of them count.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.errors import StateError
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.process import ancestry
from playbook_supervisor.system.process.process_groups import MARK, RUNNER, worker_alive

_WORKER = "worker-"
_FILE = re.compile(rf".*/playbook/[0-9]{{8}}-[a-z0-9]+/({_WORKER}[^/]+|{RUNNER})")
_CURE = "Leave it to a person: in a terminal of their own, or at Claude Code's own prompt."


def require_none_above(here: Checkout, command: str) -> None:
    """StateError PB-STATE-HUMAN-ONLY if an agent of ours has started this process."""
    _refuse(command, above(here))


def require_none_anywhere(command: str) -> None:
    """StateError PB-STATE-HUMAN-ONLY if an agent of any repository has started this process."""
    _refuse(command, above_any())


def _refuse(command: str, reason: str) -> None:
    if reason:
        message = f"only a human may run `playbook {command}`, but {reason}"
        raise StateError("PB-STATE-HUMAN-ONLY", message, guidance=_CURE)


def above(here: Checkout, pid: int = 0) -> str:
    """A clause that names our agent that has started that process (by default, this one), or ""."""
    common = f"{os.path.realpath(here.common_dir)}/"
    for files, mark in _traces(pid):
        ours = [*files, os.path.realpath(mark)] if mark else files
        if found := _described(file for file in ours if file.startswith(common)):
            return f"{found} has started this process"
    return "" if ancestry.tells_files() else _by_record(here, pid)


def above_any(pid: int = 0) -> str:
    """As `above`, for any repository. Where files are not told, only our own environment counts."""
    for files, mark in _traces(pid):
        found = _described(file for file in (*files, mark) if _FILE.fullmatch(_path(file)))
        if found or mark:
            return f"{found or 'a program that is on our leash'} has started this process"
    return ""


def _traces(pid: int) -> Iterator[tuple[list[str], str]]:
    for each in (pid or ancestry.caller(), *(process.pid for process in ancestry.ancestors(pid))):
        files = list(ancestry.open_files(each))
        environment: Mapping[str, str] = os.environ
        if each == os.getpid():
            if pid in (0, each):  # it may drive a session itself
                files = [file for file in files if not file.endswith(f"/{RUNNER}")]
        else:
            environment = ancestry.first_environment(each)
        yield files, environment.get(MARK, "")


def _described(paths: Iterable[str]) -> str:
    runner = ""
    for path in paths:
        folder, _, name = _path(path).rpartition("/")
        session = folder.rpartition("/")[2]
        if name.startswith(_WORKER):
            return f"the agent of {name.removeprefix(_WORKER)} in session {session}"
        if name == RUNNER:
            runner = f"the runner of session {session}"
    return runner


def _path(file: str) -> str:
    return file.removesuffix(" (deleted)")


def _by_record(here: Checkout, pid: int) -> str:
    """As `above`, where the system does not tell a process's files: by the recorded numbers."""
    ancestors = {process.pid for process in ancestry.ancestors(pid)}
    for folder in ("playbook", "worktrees/*/playbook"):
        for file in here.common_dir.glob(f"{folder}/*/{_WORKER}*"):
            if _recorded(file) in ancestors and worker_alive(file):
                return f"{_described((str(file),))} has started this process"
    return ""


def _recorded(file: Path) -> int:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return int(json.loads(file.read_bytes())["pid"])
    return 0
