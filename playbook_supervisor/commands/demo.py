"""`playbook demo`: a run in a scratch repository, with the embedded agent and a gate at the end.

It needs no project, agent, forge or git identity of the user's, and touches none.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.commands.install import init
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.sessions.files.session_clock import Clock, system_clock
from playbook_supervisor.system.disk import templates
from playbook_supervisor.system.disk.files import (
    ensure_folder,
    read_bytes,
    reserve_folder,
    write_atomically,
)
from playbook_supervisor.system.git.git_process import ask, change

FEATURE = "001-greeting"

_SETTINGS = {
    "user.name": "Demo",
    "user.email": "demo@example.org",
    "commit.gpgSign": "false",
    "core.excludesFile": "/dev/null",
    "core.hooksPath": ".git/hooks",
}
"""Override the user's own settings, which may ask questions or refuse."""


@dataclass(frozen=True, slots=True)
class Demo:
    """A prepared run of `playbook` with `args` in `root`; `env` are variables that it needs."""

    root: Path
    agent: str
    env: Mapping[str, str]
    playbook: str
    args: tuple[str, ...]


def set_up() -> Demo:
    """Prepare a demo in a temporary folder, and this process's environment for it."""
    demo = prepare(Path(tempfile.mkdtemp(prefix="playbook-demo-")))
    os.environ.update(demo.env)
    os.environ.pop(locate.VARIABLE, None)
    return demo


def log(root: Path) -> tuple[str, ...]:
    """The repository's last commits, one line each."""
    lines = ask(root, "log", "--max-count=20", "--no-color", "--format=%h %s").splitlines()
    return tuple(map(printable, lines))


def prepare(folder: Path, *, clock: Clock = system_clock) -> Demo:
    """Create the repository `folder/project`, with playbooks installed and everything committed.

    ArgumentError PB-ARG-USAGE if it exists already; StorageError and GitError if the disk or git
    refuses.
    """
    shipped = templates.folder() / "demo"
    ensure_folder(folder)
    root = folder.resolve() / "project"
    if not reserve_folder(root):
        raise ArgumentError(
            "PB-ARG-USAGE",
            f"{root} already exists",
            guidance="Name an empty folder, or one that does not exist yet.",
        )
    _copy(shipped / "project", root)
    change(root, "init", "--quiet", "--template=", f"--initial-branch={FEATURE}")
    for name, value in _SETTINGS.items():
        change(root, "config", "--local", name, value)
    _commit(root, "Specify a greeting")
    init.apply(init.plan(root, choices=init.Choices(commands=True), shared=False), clock())
    _commit(root, "Install playbooks")
    path = os.environ.get("PATH", os.defpath)
    return Demo(
        root=root,
        agent=f"script:{shipped / 'script.yaml'}",
        env={"PATH": f"{shipped / 'bin'}{os.pathsep}{path}"},
        playbook="auto-feature",
        args=(FEATURE.partition("-")[0],),
    )


def _commit(root: Path, message: str) -> None:
    change(root, "add", "--all")
    change(root, "commit", "--quiet", f"--message={message}")


def _copy(source: Path, target: Path) -> None:
    for file in sorted(source.rglob("*")):
        if file.is_file():
            copy = target / file.relative_to(source)
            ensure_folder(copy.parent)
            write_atomically(copy, read_bytes(file), durable=False)
