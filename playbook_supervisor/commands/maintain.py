"""What keeps a project in order: init, update, doctor, index, repair."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from playbook_supervisor.commands import locate
from playbook_supervisor.errors import CheckError, StateError
from playbook_supervisor.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.commands.demo import Demo
    from playbook_supervisor.commands.doctor import Diagnosis
    from playbook_supervisor.commands.install.installer import InstallPlan
    from playbook_supervisor.commands.install.updater import UpdatePlan
    from playbook_supervisor.commands.repair import Difference
    from playbook_supervisor.sessions.store import DiskStore


def plan(*, no_hooks: bool | None = None, cwd: Path | None = None) -> InstallPlan:
    """What `init` would do here, file by file. Writes nothing; refuses what cannot be.

    `no_hooks` leaves the client's settings alone; None is what was said here last.
    """
    from playbook_supervisor.commands.install import installer
    from playbook_supervisor.drivers.claude_code import settings

    return installer.plan(
        cwd or locate.current_folder(), {settings.FILE: settings.merged}, no_hooks=no_hooks
    )


def install(plan: InstallPlan) -> None:
    """Do it (kai FR42, NFR11). Nothing foreign is overwritten."""
    from playbook_supervisor.commands.install import installer

    installer.apply(plan, _now())


def update_plan(*, cwd: Path | None = None) -> UpdatePlan:
    """What is out of date here, file by file. Writes nothing; refuses what cannot be.

    Where install.yaml is lost nobody knows whether hooks were wanted: those that are there are
    kept up to date, and none are brought to a project that has none.
    """
    from playbook_supervisor.commands.install import updater
    from playbook_supervisor.commands.install.file_actions import content
    from playbook_supervisor.drivers.claude_code import settings
    from playbook_supervisor.project.install_record import read_installation
    from playbook_supervisor.system import checkout

    root = checkout.find(cwd or locate.current_folder()).root
    no_hooks = None
    if not read_installation(root).version:
        no_hooks = not settings.holds_ours(content(root, settings.FILE))
    return updater.plan(root, {settings.FILE: settings.merged}, no_hooks=no_hooks)


def update(planned: UpdatePlan) -> None:
    """Do it. What a person edited, deleted or made is not touched."""
    from playbook_supervisor.commands.install import updater

    updater.apply(planned, _now())


def findings(*, cwd: Path | None = None) -> Iterator[Diagnosis]:
    """What works here and what does not, each with its cure, tried one after the other."""
    from playbook_supervisor.commands import doctor

    return doctor.examine(cwd or locate.current_folder(), home=Path.home())


def index(*, cwd: Path | None = None, check: bool = False) -> bool:
    """Bring the index up to date; whether it was not. With `check` it is only an error."""
    from playbook_supervisor.project import library
    from playbook_supervisor.system import checkout

    root = checkout.find(cwd or locate.current_folder()).root
    if not check:
        return library.write_index(root, _now())
    stale = library.index_is_stale(root)
    if stale:
        raise CheckError("PB-CHECK-STALE", stale, where=library.INDEX)
    return False


class RepairReport(Record):
    """A session, and what differed in it before anything was mended.

    `root` is the worktree that was brought back for it, None where it was there.
    """

    session_id: str
    differences: tuple[Difference, ...]
    root: Path | None = None


def repair(
    session: str = "", *, take: bool = False, restore: bool = False, cwd: Path | None = None
) -> RepairReport:
    """What something else changed; with `take` or `restore` it is mended (one of them at most).

    `restore` also brings back the session's worktree, where somebody has removed it by hand.
    """
    from playbook_supervisor.commands import repair
    from playbook_supervisor.commands.worktrees import worktree

    store, session_id = locate.meant(session, cwd)
    locate.a_human(store, session_id, "repair")
    lost = not (store.checkout.root / ".git").exists()
    if lost and restore:
        worktree.bring_back(store.checkout)
    store.require_worktree(session_id)
    locate.undriven(store, session_id)
    store.folder(session_id)
    found = repair.differences(store, session_id)
    if not found:
        _readable(store, session_id)
    if take:
        repair.take(store, session_id)
    elif restore:
        repair.restore(store, session_id)
    return RepairReport(session_id, found, store.checkout.root if lost else None)


def _readable(store: DiskStore, session_id: str) -> None:
    """StateError where nothing differs only because no copy is kept to compare with."""
    try:
        store.manifest(session_id)
    except StateError as error:
        if error.code == "PB-STATE-NEWER":
            raise
        raise StateError(
            error.code,
            error.message,
            where=error.where,
            guidance="No copy is kept here: mend the file by hand, or take it from git.",
        ) from error


def demonstration() -> Demo:
    """A scratch repository in which the main job can be run; this process is set up for it."""
    import os
    import tempfile

    from playbook_supervisor.commands import demo

    made = demo.prepare(Path(tempfile.mkdtemp(prefix="playbook-demo-")))
    os.environ.update(made.env)
    os.environ.pop(locate.VARIABLE, None)
    return made


def log(root: Path) -> tuple[str, ...]:
    """The last commits, one line each."""
    from playbook_supervisor.formats.sanitize import printable
    from playbook_supervisor.system.git_process import ask

    lines = ask(root, "log", "--max-count=20", "--no-color", "--format=%h %s").splitlines()
    return tuple(map(printable, lines))


def _now() -> int:
    return time.time_ns() // 1_000_000
