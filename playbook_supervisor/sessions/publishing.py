"""When a session's folder is committed to git: before a step that publishes, and at the end.

So the journal is part of the pull request, and what is committed does not stay `in_progress` for
ever. If git refuses, the person is told; no step and no session fails because of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from playbook_supervisor.errors import GitError, StorageError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Finish
from playbook_supervisor.kernel.state import Change
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.project import conditions
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.snapshot import Snapshot
from playbook_supervisor.system.cancellation import Interrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.kernel.model import Step
    from playbook_supervisor.sessions.local_state import Launch
    from playbook_supervisor.sessions.session_commits import Commit, SessionInGit

_SETTLED = frozenset({Change.DONE, Change.FAILED, Change.SKIPPED})
_SUBJECT = 72  # characters of a commit's first line


def publishes(step: Step) -> bool:
    """Whether the step makes a pull request, which should contain the journal."""
    return step.namespace == "pr" or conditions.publishes(step.postconditions)


def published(snapshot: Snapshot, *, timeout: float) -> Snapshot:
    """Commit and push what the snapshot's events call for (setting `commit_sessions`); it has some.

    `timeout` is in seconds. What was done, or could not be, is among the notices.
    """
    occasion = _occasion(snapshot)
    return _publish(snapshot, occasion, timeout) if occasion else snapshot


def closed(snapshot: Snapshot, *, timeout: float) -> Snapshot:
    """As `published`, for a session that has ended: git may have refused when it did."""
    due = isinstance(snapshot.directive, Finish) and snapshot.config.commit_sessions != "never"
    return _publish(snapshot, _at_the_end(snapshot), timeout) if due else snapshot


def _occasion(snapshot: Snapshot) -> str:
    """The end of the commit's subject, which says what it is made for; empty where none is due."""
    events, how = snapshot.events, snapshot.config.commit_sessions
    if how == "never":
        return ""
    if isinstance(snapshot.directive, Finish):
        return _at_the_end(snapshot)
    playbook = snapshot.state.playbook
    launched = [event.entry.step_id for event in events if event.change is Change.LAUNCHED]
    if publishing := [name for name in launched if publishes(playbook.step(name))]:
        return f" before {', '.join(publishing)}"
    settled = [event.entry.step_id for event in events if event.change in _SETTLED]
    return f" after {', '.join(dict.fromkeys(settled))}" if how == "step" and settled else ""


def _at_the_end(snapshot: Snapshot) -> str:
    return f": {snapshot.manifest.status}"


def _when(occasion: str) -> str:
    """For a person: `before pr`, `after plan, tasks`, `at its end`."""
    return "at its end" if occasion.startswith(":") else first_line(occasion.strip(), _SUBJECT)


def _publish(snapshot: Snapshot, occasion: str, timeout: float) -> Snapshot:
    from playbook_supervisor.sessions.session_commits import SessionInGit

    folder = SessionInGit(snapshot.store.checkout, snapshot.session_id, timeout=timeout)
    launches, notices, what = snapshot.launches, [], "committed"
    try:
        if made := _commit(folder, snapshot, occasion):
            notices.append(f"the session is committed {_when(occasion)}: {made.id[:7]}")
            launches = _move_launches(snapshot, made)
        what = "pushed"
        if snapshot.config.push_sessions and _has_published(snapshot) and (place := folder.push()):
            notices.append(f"its last commit is pushed to {place}")
    except (GitError, StorageError) as error:
        said = f"{error.message} [{error.code}]. {error.guidance}"
        notices.append(f"the session is not {what}: {said}")
    except Interrupted:
        said = "git was interrupted; resuming the session makes up for it"
        notices.append(f"the session is not {what}: {said}")
    return replace(snapshot, launches=launches, notices=(*snapshot.notices, *notices))


def _commit(folder: SessionInGit, snapshot: Snapshot, occasion: str) -> Commit | None:
    """Commit the folder. A session that failed or was aborted before git knew it is left out."""
    manifest = snapshot.manifest
    in_vain = manifest.status in (SessionStatus.FAILED, SessionStatus.ABORTED)
    ran = first_line(f"{manifest.playbook} {manifest.feature}")
    return folder.commit(
        first_line(f"Record session {manifest.session_id}{occasion}", _SUBJECT),
        f"{ran}: {snapshot.progress} done",
        manifest.playbook,
        known=in_vain and snapshot.config.commit_sessions == "publish",
    )


def _move_launches(snapshot: Snapshot, made: Commit) -> Mapping[str, Launch]:
    """Let what was launched at the commit's parent begin at the commit, which is no step's work."""
    if all(launch.head != made.parent for launch in snapshot.launches.values()):
        return snapshot.launches
    with snapshot.store.open(snapshot.session_id) as opened:
        launches = opened.runtime.launches
        for attempt, launch in launches.items():
            if launch.head == made.parent:
                launches[attempt] = replace(launch, head=made.id)
        opened.save()
        return dict(launches)


def _has_published(snapshot: Snapshot) -> bool:
    """Whether a step that publishes has run, and none is about to."""
    names = {step.id for step in snapshot.state.playbook.steps if publishes(step)}
    if not names:
        return False
    journal = snapshot.store.journal(snapshot.session_id).entries
    entries = [entry for entry in journal if entry.step_id in names]
    return all(entry.settled for entry in entries) and any(entry.ran for entry in entries)
