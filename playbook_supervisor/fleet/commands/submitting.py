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

from playbook_supervisor.agents import registry
from playbook_supervisor.commands import locate
from playbook_supervisor.commands.driving import driving
from playbook_supervisor.commands.driving.driving import DriveOptions
from playbook_supervisor.drivers import own_agents
from playbook_supervisor.drivers.run_agents import require_known
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
from playbook_supervisor.fleet.engine.session_ref import (
    Mirror,
    SessionClone,
    Tip,
    excerpt,
    require_branch,
)
from playbook_supervisor.fleet.storage.database import FleetDatabase
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
    with excerpt(mirror) as source:
        base, branch = source.base(submission.base)
        beginning = _Beginning(database, source, submission, session_id)
        commit, tip, request = beginning.made(base, branch)
        new = NewSession(
            id=session_id,
            repository=mirror.url,
            branch=tip.branch,
            playbook=request.playbook.name,
            feature=request.feature,
            pool=submission.pool,
            priority=submission.priority,
            after=submission.after,
            submitted_by=identity(here),
        )
        try:
            _queue(database, source, tip, new)
        except GitError as error:
            if error.code != "PB-GIT-TAKEN" or submission.branch:
                raise
            return submit(database, submission, cwd=cwd)  # another one took the branch meanwhile
    return Submitted(new, branch, commit, request.warnings)


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


class _Beginning:
    """The session in the repository: its first snapshot, and its request."""

    def __init__(
        self, database: FleetDatabase, mirror: Mirror, submission: Submission, session_id: str
    ) -> None:
        self._database, self._mirror = database, mirror
        self._submission, self._session = submission, session_id

    def made(self, base: str, named: str) -> tuple[str, Tip, RunRequest]:
        """The commit that the session begins at, its first snapshot, and what is to be run.

        It begins at the commit `base` of the branch `named`, or where its own branch is already.
        """
        repository, undecided = f"{self._mirror.url} {named}", f"session-{self._session}"
        with (
            self._mirror.for_a_while(base, undecided) as clone,
            _located(clone, repository),
        ):
            branch = self._branch(self._prepared(clone).feature)
            commit = self._mirror.existing(branch) or base
            clone.fill(commit, branch, commit)
            request = self._created(clone)
            return commit, clone.create(self._session), request

    def _branch(self, feature: str) -> str:
        """By default the feature's own, unless another open session of the fleet has it."""
        rows = self._database.rows(open_only=True)
        taken = {row.branch: row.id for row in rows if row.repository == self._mirror.url}
        wanted = self._submission.branch or feature
        if self._submission.branch in taken:
            raise GitError(
                "PB-GIT-TAKEN", f"session {taken[wanted]} works on the branch {first_line(wanted)}"
            )
        if not wanted or wanted in taken:
            wanted = f"{feature.replace('/', '-') or 'session'}-{self._session}"
        require_branch(wanted)
        return wanted

    def _prepared(self, clone: SessionClone) -> RunRequest:
        store = DiskStore(checkout.find(clone.path))
        wanted = self._submission
        return creation.prepare(store, wanted.reference, wanted.given, fresh=True)

    def _created(self, clone: SessionClone) -> RunRequest:
        store = DiskStore(checkout.find(clone.path))
        store.clock.follow(self._database.now())  # which all machines of the fleet follow
        root, drive = store.checkout.root, self._submission.drive
        request = self._prepared(clone)
        require_executable(request, root)
        require_known(request, drive.agent)
        if registry.is_default(drive.agent or request.config.agent):
            request.require_commands(root)
        creation.point_speckit(root, request)
        driver = driving.driver_of(drive, root)
        creation.begin(store, request, reserved=self._session, driver=driver)
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
