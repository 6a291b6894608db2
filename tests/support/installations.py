"""What the tests of `init` and `update` share."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from playbook_supervisor.commands.install.changes import InstallPlan
from playbook_supervisor.system.disk.files import digest
from support import crash_points
from support.scratch_project import Project

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


def forked(deed: Callable[[], object], cwd: Path, *, at: int = 0) -> int:
    """The id of a process that does this in that folder, killed at that fsync; 0 is none."""

    def there() -> None:
        os.chdir(cwd)
        deed()

    return crash_points.forked(there, at, _die_at_fsync)


def killed(deed: Callable[[], object], cwd: Path, *, at: int) -> bool:
    """Whether a process that does this was killed at that fsync."""
    code = crash_points.ended(forked(deed, cwd, at=at))
    assert code in (0, -signal.SIGKILL)
    return code != 0


def _die_at_fsync(at: int) -> None:
    syncs = 0

    def dying(fd: object) -> None:
        nonlocal syncs
        syncs += 1
        if syncs == at:
            os.kill(os.getpid(), signal.SIGKILL)

    os.fsync = dying  # what a killed process has written stands without it
