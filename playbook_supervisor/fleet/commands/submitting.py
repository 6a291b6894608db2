"""`fleet submit`: a session that any worker of the fleet may take.

Everything is checked in a clone of what the repository's remote has, as a worker will see it. The
session is pushed to a ref of its own first, and queued then; if that fails, the ref is removed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from playbook_supervisor.agents import registry
from playbook_supervisor.commands import locate
from playbook_supervisor.commands.driving import driving
from playbook_supervisor.commands.driving.driving import DriveOptions
from playbook_supervisor.drivers import own_agents
from playbook_supervisor.drivers.step_kinds import require_executable
from playbook_supervisor.errors import (
    ArgumentError,
    FleetError,
    GitError,
    PlaybookError,
    StateError,
)
from playbook_supervisor.fleet import worker_settings
from playbook_supervisor.fleet.commands import opening
from playbook_supervisor.fleet.engine.session_ref import Mirror, SessionClone, Tip
from playbook_supervisor.fleet.storage.rows import NewSession
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.vocabulary import Mode
from playbook_supervisor.sessions.files.manifest import reserve_id
from playbook_supervisor.sessions.files.session_clock import system_clock
from playbook_supervisor.sessions.store import creation
from playbook_supervisor.sessions.store.creation import RunRequest
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.git.git_process import ask, identity

if TYPE_CHECKING:
    from playbook_supervisor.fleet.storage.database import FleetDatabase

_PATIENCE, _PAUSE = 10.0, 1.0  # seconds, while the database is away


@dataclass(frozen=True, slots=True)
class Submission:
    """The wish of a person: a playbook with its arguments, and what may be added.

    `repository` is a URL, by default of the remote of the current checkout, `base` a branch of it,
    by default its default branch. `after` is a session that has to be completed first.
    """

    reference: str
    given: tuple[str, ...] = ()
    repository: str = ""
    base: str = ""
    branch: str = ""
    pool: str = "default"
    priority: int = 0
    after: str = ""
    drive: DriveOptions = field(default_factory=DriveOptions)


@dataclass(frozen=True, slots=True)
class Submitted:
    """A queued session. `base` is the branch it began from, `commit` that branch's commit."""

    session: NewSession
    base: str
    commit: str
    warnings: tuple[str, ...]


def submit(
    database: FleetDatabase, submission: Submission, *, cwd: Path | None = None
) -> Submitted:
    """Create the session in the repository, and queue it. Nothing remains after an error."""
    if submission.drive.mode is Mode.AUTONOMOUS:
        own_agents.require_none_anywhere("fleet submit --mode autonomous")
    here = cwd or locate.current_folder()
    worker_settings.pool_names((submission.pool,))
    mirror = opening.mirror(submission.repository or _own_remote(here))
    if submission.after and database.row(submission.after) is None:
        raise StateError("PB-STATE-NO-SESSION", f"the fleet has no session {submission.after}")
    session_id = _new_id(database)
    commit, base = mirror.base(submission.base)
    named = f"{mirror.url} {base}"
    with mirror.for_a_while(commit, f"session-{session_id}") as clone, _located(clone, named):
        store = DiskStore(checkout.find(clone.path))
        feature = creation.prepare(store, submission.reference, submission.given).feature
    branch, commit = _branch(database, mirror, submission, feature, session_id, commit)
    with mirror.for_a_while(commit, branch) as clone, _located(clone, named):
        request = _created(clone, submission, session_id, database.now())
        tip = clone.create(session_id)
    new = NewSession(
        id=session_id,
        repository=mirror.url,
        branch=branch,
        playbook=request.playbook.name,
        feature=request.feature,
        pool=submission.pool,
        priority=submission.priority,
        after=submission.after,
        submitted_by=identity(here),
    )
    try:
        _queue(database, mirror, tip, new)
    except GitError as error:
        if error.code != "PB-GIT-TAKEN" or submission.branch:
            raise
        return submit(database, submission, cwd=cwd)  # another one took the branch meanwhile
    return Submitted(new, base, commit, request.warnings)


@contextmanager
def _located(clone: SessionClone, repository: str) -> Iterator[None]:
    """Let errors name files of the repository, `URL BRANCH:FILE`, and not of a clone that goes."""
    roots = dict.fromkeys((str(clone.path), os.path.realpath(clone.path)))

    def renamed(text: str) -> str:
        for root in roots:
            text = text.replace(f"{root}/", "").replace(root, repository)
        return text

    try:
        yield
    except PlaybookError as error:
        source = error.source
        error.reword(renamed)
        within = source.startswith(tuple(f"{root}/" for root in roots))
        if within or (source[:1] not in ("", "/") and (clone.path / source).exists()):
            error.source = f"{repository}:{error.source}"
        raise


def _own_remote(here: Path) -> str:
    """The URL of the remote of this checkout: `origin`, or its only one."""
    root = checkout.find(here).root
    remotes = ask(root, "remote").split()
    name = "origin" if "origin" in remotes or not remotes else remotes[0]
    if name not in remotes or (name != "origin" and len(remotes) > 1):
        raise ArgumentError(
            "PB-ARG-INVALID",
            "this checkout has no remote from which workers could clone it",
            where=str(root),
            guidance="Add one, `git remote add origin URL`, or name a repository: --repo URL.",
        )
    return ask(root, "config", "--get", f"remote.{name}.url").strip()


def _new_id(database: FleetDatabase) -> str:
    with TemporaryDirectory(prefix="playbook-ids-") as reserved:
        return reserve_id(
            Path(reserved), system_clock(), lambda each: database.row(each) is not None
        )


def _branch(
    database: FleetDatabase,
    mirror: Mirror,
    submission: Submission,
    feature: str,
    session_id: str,
    commit: str,
) -> tuple[str, str]:
    """The session's branch and the commit that it begins at: an existing branch's tip, or the base.

    By default it is the feature's own, unless another open session of the fleet has it.
    """
    rows = database.rows(open_only=True)
    taken = {row.branch: row.id for row in rows if row.repository == mirror.url}
    wanted = submission.branch or feature
    if submission.branch in taken:
        raise GitError(
            "PB-GIT-TAKEN", f"session {taken[wanted]} works on the branch {first_line(wanted)}"
        )
    if not wanted or wanted in taken:
        wanted = f"{feature.replace('/', '-') or 'session'}-{session_id}"
    try:
        commit, _ = mirror.base(wanted)
    except GitError as error:
        if error.code != "PB-GIT-BASE":  # there is no such branch yet
            raise
    return wanted, commit


def _created(clone: SessionClone, submission: Submission, session_id: str, now: int) -> RunRequest:
    """Create the session in its clone, pending, as `start` does in a worktree.

    `now` is the time of the database, which all machines of the fleet follow.
    """
    store = DiskStore(checkout.find(clone.path))
    store.clock.follow(now)
    root = store.checkout.root
    request = creation.prepare(store, submission.reference, submission.given)
    require_executable(request, root)
    if registry.is_default(submission.drive.agent or request.config.agent):
        request.require_commands(root)
    creation.point_speckit(root, request)
    driver = driving.driver_of(submission.drive, root)
    creation.begin(store, request, reserved=session_id, driver=driver)
    return request


def _queue(database: FleetDatabase, mirror: Mirror, tip: Tip, new: NewSession) -> None:
    """Queue it, or remove its ref. It is tried again while the database is away: a connection may
    break after the commit, and then a row without a ref would be left.
    """
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return database.submit(new)
        except BaseException as error:
            away = isinstance(error, FleetError) and error.code == "PB-FLEET-DATABASE"
            if not away or time.monotonic() > until:
                with suppress(PlaybookError):
                    mirror.drop(tip)
                raise
        time.sleep(_PAUSE)
