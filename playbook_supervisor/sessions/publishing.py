"""When a session's folder goes into git: before a step that publishes, and at the end.

So the journal is *in* the pull request, and what is there does not stay `in_progress` for ever.
Whatever git refuses is told and nothing else: it fails no step and no session.
"""

from __future__ import annotations

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
    from playbook_supervisor.project.config import Config
    from playbook_supervisor.sessions.session_commits import Commit, SessionInGit
    from playbook_supervisor.sessions.session_store import SessionStore

_SETTLED = frozenset({Change.DONE, Change.FAILED, Change.SKIPPED})
_SUBJECT = 72  # characters of a commit's first line


def publishes(step: Step) -> bool:
    """Whether the step makes a pull request: what it publishes is to hold the journal."""
    return conditions.publishes(step.postconditions)


def published(
    store: SessionStore, outlook: Snapshot, config: Config, *, patience: float
) -> Snapshot:
    """The same outlook, once what its events call for is in git (config `commit_sessions`).

    `patience` is in seconds. What was done, or could not be, is among the notices.
    """
    occasion = _occasion(outlook, config)
    return _kept(store, outlook, config, occasion, patience) if occasion else outlook


def closed(store: SessionStore, outlook: Snapshot, config: Config, *, patience: float) -> Snapshot:
    """The same for a session that has ended, whatever was refused or cut off when it did."""
    owed = isinstance(outlook.directive, Finish) and config.commit_sessions != "never"
    return _kept(store, outlook, config, _end(outlook), patience) if owed else outlook


def _occasion(outlook: Snapshot, config: Config) -> str:
    """What the commit is made for, as its subject ends; nothing where none is due."""
    events, how = outlook.events, config.commit_sessions
    if not events or how == "never":
        return ""
    if isinstance(outlook.directive, Finish):
        return _end(outlook)
    playbook = outlook.state.playbook
    launched = [event.entry.step_id for event in events if event.change is Change.LAUNCHED]
    if going := [name for name in launched if publishes(playbook.step(name))]:
        return f" before {', '.join(going)}"
    settled = [event.entry.step_id for event in events if event.change in _SETTLED]
    return f" after {', '.join(dict.fromkeys(settled))}" if how == "step" and settled else ""


def _end(outlook: Snapshot) -> str:
    return f": {outlook.manifest.status}"


def _when(occasion: str) -> str:
    """As a person is told: `before pr`, `after plan, tasks`, `at its end`."""
    return "at its end" if occasion.startswith(":") else first_line(occasion.strip(), _SUBJECT)


def _kept(
    store: SessionStore, outlook: Snapshot, config: Config, occasion: str, patience: float
) -> Snapshot:
    from playbook_supervisor.sessions.session_commits import SessionInGit

    folder = SessionInGit(store.checkout, outlook.manifest.session_id, patience=patience)
    notices, what = [], "committed"
    try:
        if made := _commit(folder, outlook, config, occasion):
            notices.append(f"the session is committed {_when(occasion)}: {made.id[:7]}")
            _begin_there(store, outlook, made)
        what = "pushed"
        if config.push_sessions and _went_out(store, outlook) and (place := folder.push()):
            notices.append(f"its last commit is pushed to {place}")
    except (GitError, StorageError) as error:
        said = f"{error.message} [{error.code}]. {error.guidance}"
        notices.append(f"the session is not {what}: {said}")
    except Interrupted:
        said = "git was interrupted; resuming the session makes up for it"
        notices.append(f"the session is not {what}: {said}")
    return replace(outlook, notices=(*outlook.notices, *notices))


def _commit(
    folder: SessionInGit, outlook: Snapshot, config: Config, occasion: str
) -> Commit | None:
    """A session that failed or was aborted before anything of it was in git is no news there."""
    manifest = outlook.manifest
    in_vain = manifest.status in (SessionStatus.FAILED, SessionStatus.ABORTED)
    ran = first_line(f"{manifest.playbook} {manifest.feature}")
    return folder.commit(
        first_line(f"Record session {manifest.session_id}{occasion}", _SUBJECT),
        f"{ran}: {outlook.done}/{outlook.total} steps done",
        manifest.playbook,
        known=in_vain and config.commit_sessions == "publish",
    )


def _begin_there(store: SessionStore, outlook: Snapshot, made: Commit) -> None:
    """What was launched at the commit's parent begins at the commit: ours is no step's work."""
    with store.open(outlook.manifest.session_id) as opened:
        launches = opened.runtime.launches
        moved = {
            attempt: replace(launch, head=made.id)
            for attempt, launch in launches.items()
            if launch.head == made.parent
        }
        if moved:
            launches.update(moved)
            opened.save()


def _went_out(store: SessionStore, outlook: Snapshot) -> bool:
    """Whether a step that publishes has run, and none is about to."""
    names = {step.id for step in outlook.state.playbook.steps if publishes(step)}
    if not names:
        return False
    journal = store.journal(outlook.manifest.session_id).entries
    entries = [entry for entry in journal if entry.step_id in names]
    return all(entry.settled for entry in entries) and any(entry.ran for entry in entries)
