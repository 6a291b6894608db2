"""The main job in a scratch repository: a specified feature, the embedded agent, a gate at the end.

Nothing of the user's is touched or needed: neither a project nor an agent, a forge or an identity.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from playbook_supervisor.commands.install import installer
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.records import Record
from playbook_supervisor.sessions.store import Clock, system_clock
from playbook_supervisor.system import templates
from playbook_supervisor.system.files import (
    ensure_folder,
    read_bytes,
    reserve_folder,
    write_atomically,
)
from playbook_supervisor.system.git_process import change

FEATURE = "001-greeting"

_SETTINGS = {
    "user.name": "Demo",
    "user.email": "demo@example.org",
    "commit.gpgSign": "false",
    "core.excludesFile": "/dev/null",
    "core.hooksPath": ".git/hooks",
}
"""So that no setting of the user's own asks a question or refuses."""


class Demo(Record):
    """What is to be run: `playbook` with `args` in the repository `root`, driven by `agent` (as
    `--agent` takes it). `env` are variables that the run and its processes need."""

    root: Path
    agent: str
    env: Mapping[str, str]
    playbook: str
    args: tuple[str, ...]


def prepare(folder: Path, *, clock: Clock = system_clock) -> Demo:
    """Make the scratch repository `folder/project`, committed and with playbooks installed.

    ArgumentError PB-ARG-USAGE if something of that name is there; StorageError and GitError where
    the disk or git refuse.
    """
    shipped = templates.folder() / "demo"
    ensure_folder(folder)
    root = folder.resolve() / "project"
    if not reserve_folder(root):
        raise ArgumentError(
            "PB-ARG-USAGE",
            f"{root} is there already",
            guidance="Name a folder that is empty, or that does not exist yet.",
        )
    _copy(shipped / "project", root)
    _initialise(root)
    _commit(root, "Specify a greeting")
    installer.apply(installer.plan(root), clock())
    _commit(root, "Install playbooks")
    path = os.environ.get("PATH", os.defpath)
    return Demo(
        root=root,
        agent=f"script:{shipped / 'script.yaml'}",
        env={"PATH": f"{shipped / 'bin'}{os.pathsep}{path}"},
        playbook="auto-feature",
        args=(FEATURE.partition("-")[0],),
    )


def _initialise(root: Path) -> None:
    change(root, "init", "--quiet", "--template=", f"--initial-branch={FEATURE}")
    for name, value in _SETTINGS.items():
        change(root, "config", "--local", name, value)


def _commit(root: Path, message: str) -> None:
    change(root, "add", "--all")
    change(root, "commit", "--quiet", f"--message={message}")


def _copy(source: Path, target: Path) -> None:
    for file in sorted(source.rglob("*")):
        if file.is_file():
            copy = target / file.relative_to(source)
            ensure_folder(copy.parent)
            write_atomically(copy, read_bytes(file), durable=False)
