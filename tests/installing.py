"""What the tests of `init` and `update` share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from project import Project

from playbook_supervisor.commands.install.changes import InstallPlan
from playbook_supervisor.system.files import digest

NOON = 1_771_502_400_000  # 2026-02-19T12:00:00Z


def said(planned: InstallPlan, path: str) -> tuple[str, str]:
    """What a plan does to a file, and why."""
    (found,) = [each for each in planned.actions if each.path == path]
    return found.verb, found.why


def state(project: Project) -> dict[str, tuple[int, int, str]]:
    """Every file outside git's own folder: inode, time and digest of the content."""
    found = {}
    for folder, folders, files in os.walk(project.root):
        if ".git" in folders:
            folders.remove(".git")
        for name in files:
            path = Path(folder) / name
            at = path.lstat()
            content = digest(path.read_bytes()) if path.is_file() else "no file"
            found[str(path.relative_to(project.root))] = (at.st_ino, at.st_mtime_ns, content)
    return found


DYING = """\
import os, pathlib, signal, sys

left = int(sys.argv[1])
fsync = os.fsync

def dying(descriptor):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(descriptor)

os.fsync = dying
"""


def doing(deed: str, *, at: int = 0) -> list[str]:
    """A command that runs these lines of Python and is killed at that fsync; 0 is none."""
    return [sys.executable, "-c", DYING + deed, str(at)]


def killed(deed: str, cwd: Path, *, at: int) -> bool:
    """Whether the command was killed at that fsync."""
    done = subprocess.run(doing(deed, at=at), cwd=cwd, check=False)
    assert done.returncode in (0, -signal.SIGKILL)
    return done.returncode != 0
