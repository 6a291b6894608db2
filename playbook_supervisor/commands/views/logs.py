"""The command `logs`: all that the agent of an attempt said."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from playbook_supervisor.commands import locate, overview
from playbook_supervisor.commands.views import queries
from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.drivers.claude_code import binding
from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.formats.sanitize import first_line, printable, suggestion
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.sessions.steps.attempt_log import log_path, logged_attempts
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.system.disk import log_file
from playbook_supervisor.system.disk.files import written_at

_INTERVAL = 0.2  # seconds between two readings of a growing log
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class AttemptLog:
    """The log of one attempt; in a child session, `within` is what that works for: `release#1`."""

    store: DiskStore
    session_id: str
    attempt_id: str
    within: str = ""

    @property
    def id(self) -> str:
        """`plan#1`, `release#1/plan#1` in a child session."""
        return f"{self.within}/{self.attempt_id}" if self.within else self.attempt_id

    def lines(self) -> Iterator[str]:
        """Its lines so far, safe for a terminal."""
        for line in log_file.whole(self._path).splitlines():
            yield printable(line)

    def follow(self) -> Iterator[str]:
        """Its lines as they are written, until the attempt has ended."""
        for line in log_file.followed(self._path, self._over(), _wait):
            yield printable(line)

    @property
    def _path(self) -> Path:
        return log_path(self.store.runtime(self.session_id), self.attempt_id)

    def _over(self) -> Callable[[], bool]:
        journal = self.store.folder(self.session_id) / "journal.yaml"
        seen, returned = -1, False

        def over() -> bool:
            nonlocal seen, returned
            if not _driven(self.store, self.session_id):
                return True
            written = written_at(journal)
            if written != seen:
                seen, returned = written, self._returned()
            return returned

        return over

    def _returned(self) -> bool:
        try:
            entries = self.store.journal(self.session_id).entries
        except PlaybookError:  # `status` reports it
            return True
        entry = next((each for each in entries if each.id == self.attempt_id), None)
        return entry is not None and (entry.settled or entry.has_returned)


def find(
    step: str = "", *, session: str = "", follow: bool = False, cwd: Path | None = None
) -> AttemptLog:
    """The log of that attempt (`plan#1`), of the step's last one (`plan`), or the latest of all.

    An attempt of a child session is named by its path: `release#1/plan#1`. With `follow`, a running
    session's first log is waited for. StateError PB-STATE-NO-LOG.
    """
    here = locate.store(cwd)
    session_id = queries.selected_session(here, session)
    store = overview.find(here, session_id)
    *path, step = step.split("/")
    within = []
    for each in path:
        worked_for = _attempt(store, session_id, each)
        within.append(worked_for.id)
        session_id = worked_for.session
    while True:
        attempts = logged_attempts(store.runtime(session_id))
        named = [each for each in attempts if not step or step in (each, each.rpartition("#")[0])]
        if named:
            latest = named[-1] if not step else max(named, key=_number)
            return AttemptLog(store, session_id, latest, "/".join(within))
        if not follow or attempts or not _driven(store, session_id):
            raise _no_log(session_id, step, attempts)
        _wait()


def _attempt(store: DiskStore, session_id: str, named: str) -> Entry:
    entries = [each for each in store.journal(session_id).entries if each.session]
    found = [each for each in entries if named in (each.id, each.step_id)]
    if not found:
        raise _no_log(session_id, named, tuple(f"{each.id}/…" for each in entries))
    return found[-1]


def _number(attempt_id: str) -> int:
    number = attempt_id.rpartition("#")[2]
    return int(number) if number.isdecimal() else 0


def _driven(store: DiskStore, session_id: str) -> bool:
    private = store.runtime(session_id)
    return driver_lock.living(private) is not None or binding.living(private) is not None


def _no_log(session_id: str, step: str, attempts: tuple[str, ...]) -> StateError:
    shown = first_line(step, 60)
    what = f"of {shown}{suggestion(step, attempts)}" if step else "yet"
    logged = ", ".join(attempts[-_MOST_NAMED:])
    return StateError(
        "PB-STATE-NO-LOG",
        f"session {session_id} has no log {what}",
        guidance=f"There are logs of {logged}." if attempts else "",
    )


def _wait() -> None:
    time.sleep(_INTERVAL)
