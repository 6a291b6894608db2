"""The program that tries, inside an isolation, what can be done there; `probing` is its other end.

The interpreter runs this file without our package and without `site`. Its argument is JSON: a name
for the files that it makes, and a list of trials, each a kind and a target. It prints one line, a
JSON list with the answer to each trial, and removes what it has made when its input ends.
"""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import sys
from typing import Any

_NAMES = 200  # of a folder, at most
_SECONDS = 3.0  # for a connection
_PROXY = r"https?://([^:/]+):(\d+)"


def started(pid: int | str) -> int:
    """When that process has started, in ticks since the machine has; 0 if it is not there."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return int(file.read().rpartition(")")[2].split()[19])
    except (OSError, IndexError):
        return 0


def connects(family: int, address: Any) -> bool:
    """Whether something accepts a connection there."""
    with socket.socket(family) as client:
        client.settimeout(_SECONDS)
        try:
            client.connect(address)
        except OSError:
            return False
        return True


def seen(path: str) -> dict[str, Any]:
    """What is at a path: its `id`, whether it is a `folder`, and its first `names`, or whether the
    file can be `read`. Empty if nothing is there."""
    try:
        found = os.stat(path)  # noqa: PTH116 - pathlib takes longer to import than all of this
    except OSError:
        return {}
    known: dict[str, Any] = {
        "id": [found.st_dev, found.st_ino],
        "folder": stat.S_ISDIR(found.st_mode),
    }
    try:
        if known["folder"]:
            known["names"] = sorted(os.listdir(path))[:_NAMES]  # noqa: PTH208
        else:
            known["read"] = stat.S_ISREG(found.st_mode) and _opens(path, os.O_RDONLY)
    except OSError:
        known["names"] = []
    return known


def _place(path: str, name: str) -> dict[str, Any]:
    """What is seen there, and whether it can be `written`: a folder by making a file in it."""
    known = seen(path)
    if known.get("folder"):
        known["written"] = _opens(f"{path}/{name}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    elif known:
        known["written"] = known["read"] and _opens(path, os.O_WRONLY)
    return known


def _opens(path: str, flags: int) -> bool:
    try:
        os.close(os.open(path, flags, 0o600))
    except OSError:
        return False
    return True


def _process(ticks: int) -> bool:
    try:
        return any(started(each) == ticks for each in os.listdir("/proc") if each.isdigit())  # noqa: PTH208
    except OSError:  # there is no /proc
        return False


def _powers() -> bool:
    """Whether it has some of root's powers, or a setuid program would give it some."""
    if sys.platform != "linux":
        return os.geteuid() == 0
    with open("/proc/self/status", encoding="utf-8") as file:  # noqa: PTH123
        lines = dict(line.split(":", 1) for line in file)
    return int(lines["CapEff"], 16) != 0 or lines["NoNewPrivs"].strip() != "1"


def _proxy() -> bool:
    found = re.match(_PROXY, os.environ.get("HTTPS_PROXY", ""))
    return found is not None and connects(socket.AF_INET, (found[1], int(found[2])))


def _tried(kind: str, target: Any, name: str) -> Any:
    match kind:
        case "place":
            return _place(target, name)
        case "socket":
            return connects(socket.AF_UNIX, target)
        case "port":
            return connects(socket.AF_INET, ("127.0.0.1", target))
        case "proxy":
            return _proxy()
        case "process":
            return _process(target)
        case _:
            return _powers()


def _main() -> None:
    name, trials = json.loads(sys.argv[1])
    answers = [_tried(kind, target, name) for kind, target in trials]
    sys.stdout.write(f"{json.dumps(answers)}\n")
    sys.stdout.flush()
    sys.stdin.read()
    for (kind, target), answer in zip(trials, answers, strict=True):
        if kind == "place" and answer.get("folder") and answer["written"]:
            os.unlink(f"{target}/{name}")  # noqa: PTH108


if __name__ == "__main__":
    _main()
