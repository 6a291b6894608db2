"""Finds out by trials what a program can write, see and reach in an isolation."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from playbook_supervisor.errors import StorageError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.system.isolation import probe_inside
from playbook_supervisor.system.process.processes import Isolation, Worker

Kind = Literal["place", "scratch", "socket", "abstract", "network", "process", "powers"]

GONE = "not there"
"""Found where there is nothing outside, either."""
PLACES = (GONE, "hidden", "separate", "read-only", "writable")
"""What is found of a place, the least first. `separate`: what is written there stays inside."""
_SECONDS = 60.0  # for all trials


@dataclass(frozen=True, slots=True)
class Trial:
    """Something to try, and what is expected of it. A `place` is to be kept; in a `scratch` place
    a program may write, but nothing of it is seen outside. `places` are those, or sockets."""

    what: str
    expected: str
    kind: Kind = "place"
    places: tuple[Path, ...] = ()


def findings(isolation: Isolation, root: Path, trials: Sequence[Trial]) -> list[str]:
    """What is found of each trial: of places and sockets one of `PLACES`, or `reached`, the most of
    them; `reached` or `not reached`, `seen` or `not seen`, `some` or `none`; of the network what
    the settings call it.

    StorageError PB-IO-PROGRAM if the program that tries cannot run; other errors as `Worker`.
    """
    name = f".playbook-probe-{secrets.token_hex(8)}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as other:
        if sys.platform == "linux":  # elsewhere each socket has a path
            other.bind(f"\0{name}")
            other.listen()
        asked = [_questions(trial, name, server.getsockname()[1]) for trial in trials]
        with _answers(isolation, root, name, [each for few in asked for each in few]) as answers:
            told = iter(answers)
            return [
                _found(trial, [(path, next(told)) for _, path in few], name)
                for trial, few in zip(trials, asked, strict=True)
            ]


def _questions(trial: Trial, name: str, port: int) -> list[tuple[str, object]]:
    match trial.kind:
        case "place" | "scratch":
            return [("place", str(path)) for path in trial.places]
        case "socket":
            return [("socket", str(path)) for path in trial.places]
        case "abstract":
            return [("socket", f"\0{name}")]
        case "network":
            return [("port", port), ("proxy", None)]
        case "process":
            return [("process", probe_inside.started(os.getpid()))]
        case kind:
            return [(kind, None)]


@contextmanager
def _answers(
    isolation: Isolation, root: Path, name: str, asked: Sequence[tuple[str, object]]
) -> Iterator[list[Any]]:
    """The answers, while what was made for them is still there."""
    program = Path(probe_inside.__file__)
    argv = [sys.executable, "-I", "-S", str(program), json.dumps([name, asked])]
    reading, writing = os.pipe()
    with tempfile.TemporaryDirectory(prefix="playbook-doctor-") as scratch:
        try:
            worker = Worker(
                argv,
                cwd=root,
                stdin=reading,
                worker_file=Path(scratch) / "worker",
                wall=_SECONDS,
                isolation=isolation,
            )
            lines = worker.lines()
            try:
                yield json.loads(next(lines))
            except (StopIteration, ValueError):
                said = first_line(worker.stderr, 300) or "it said nothing"
                raise StorageError("PB-IO-PROGRAM", f"the probe does not run: {said}") from None
            finally:
                os.close(writing)
                for _ in lines:
                    pass
        finally:
            os.close(reading)


def _found(trial: Trial, told: Sequence[tuple[object, Any]], name: str) -> str:
    answers = [bool(answer) for _, answer in told]
    match trial.kind:
        case "place" | "scratch":
            words = [_of_place(trial.kind, Path(str(path)), each, name) for path, each in told]
            return max(words, key=PLACES.index, default=GONE)
        case "socket":
            if any(answers):
                return "reached"
            there = any(probe_inside.connects(socket.AF_UNIX, path) for path, _ in told)
            return "hidden" if there else GONE
        case "abstract":
            return "reached" if answers[0] else "not reached"
        case "network":
            return "as_is" if answers[0] else "proxy" if answers[1] else "none"
        case "process":
            return "seen" if answers[0] else "not seen"
        case "powers":
            return "some" if answers[0] else "none"


def _of_place(kind: str, path: Path, inside: dict[str, Any], name: str) -> str:
    outside = probe_inside.seen(str(path))
    same = bool(inside) and inside["id"] == outside.get("id")
    if inside.get("written") and ((path / name).exists() if inside["folder"] else same):
        return "writable"
    if kind == "scratch" and inside.get("written"):
        return "separate"
    if not outside:
        return GONE
    if same or inside.get("read") or {*inside.get("names", ())} & {*outside.get("names", ())}:
        return "read-only"
    return "hidden"
