"""Waits until the tests have ended, in whatever way; then ends a site's processes and disks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path


class Guardian:
    """Nothing that has its home below `folder` outlives the `with`, or the process of the tests."""

    def __init__(self, folder: Path) -> None:
        self._command = [sys.executable, "-S", str(Path(__file__)), str(folder)]

    def __enter__(self) -> Guardian:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, start_new_session=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=120)


def processes(folder: Path) -> list[int]:
    """The living processes whose home is `folder`, or below it."""
    homes = (f"HOME={folder}\0".encode(), f"HOME={folder}/".encode())
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            given = b"\0" + (process / "environ").read_bytes()
            state = (process / "stat").read_bytes().rpartition(b")")[2].split()[0]
            if state != b"Z" and any(b"\0" + home in given for home in homes):
                found.append(int(process.name))
    return found


def _end(folder: Path) -> None:
    while found := processes(folder):
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        time.sleep(0.05)
    for line in Path("/proc/mounts").read_text().splitlines():
        if (place := line.split()[1]).startswith(f"{folder}/"):
            subprocess.run(["umount", "--lazy", place], check=False)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    _end(Path(sys.argv[1]))
