"""When a session's folder is committed to git: before a step that publishes, and at the end.

So the journal is part of the pull request, and what is committed does not stay `in_progress` for
ever. If git refuses, the person is told; no step and no session fails because of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from playbook_supervisor.errors import GitError, StorageError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Finish
from playbook_supervisor.kernel.model import Step, base_of
from playbook_supervisor.kernel.state import Change, Entry
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.project.conditions import conditions
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files.local_state import Launch
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.selection import top_of
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.system.process.cancellation import Interrupted

if TYPE_CHECKING:
    from playbook_supervisor.sessions.publication.session_commits import Commit, SessionInGit
    from playbook_supervisor.system.process.processes import Isolation

_SETTLED = frozenset({Change.DONE, Change.FAILED, Change.SKIPPED})
_SUBJECT = 72  # characters of a commit's first line


def publishes(step: Step) -> bool:
    """True if the step makes a pull request, which should contain the journal."""
    return step.namespace == "pr" or conditions.publishes(step.postconditions)


def published(snapshot: Snapshot, *, timeout: float) -> Snapshot:
    """Commit and push what the snapshot's events call for (setting `commit_sessions`); it has some.
    `timeout` is in seconds. What was done, or could not be, is among the notices."""
    occasion = _occasion(snapshot)
    return _publish(snapshot, occasion, timeout) if occasion else snapshot


def closed(snapshot: Snapshot, *, timeout: float) -> Snapshot:
    """As `published`, for a session that has ended: git may have refused when it did."""
    due = isinstance(snapshot.directive, Finish) and snapshot.config.commit_sessions != "never"
    if snapshot.store.standing(snapshot.session_id).instead:
        return snapshot  # it is committed on its own branch
    return _publish(snapshot, _at_the_end(snapshot), timeout) if due else snapshot


def at_gate(snapshot: Snapshot, *, timeout: float) -> Snapshot:
    """As `published`, for a session that waits at a gate and whose branch is shown to others."""
    due = snapshot.config.commit_sessions != "never"
    return _publish(snapshot, " at a gate", timeout) if due else snapshot


def _occasion(snapshot: Snapshot) -> str:
    events, how = snapshot.events, snapshot.config.commit_sessions
    if how == "never":
        return ""
    if isinstance(snapshot.directive, Finish) and not snapshot.manifest.parent:
        return _at_the_end(snapshot)
    playbook = snapshot.state.playbook
    launched = [event.entry.step_id for event in events if event.change is Change.LAUNCHED]
    # a step that may leave the branch, too, which then keeps its journal so far
    step = playbook.step
    wanting = [n for n in launched if publishes(step(n)) or step(n).namespace == "branch"]
    if wanting:
        return f" before {', '.join(wanting)}"
    settled = [event.entry.step_id for event in events if event.change in _SETTLED]
    return f" after {', '.join(dict.fromkeys(settled))}" if how == "step" and settled else ""


def _at_the_end(snapshot: Snapshot) -> str:
    return f": {snapshot.manifest.status}"


def _publish(snapshot: Snapshot, occasion: str, timeout: float) -> Snapshot:
    from playbook_supervisor.sessions.publication.session_commits import SessionInGit

    top, *children = _tree(snapshot)
    store = snapshot.store
    now = store.clock() if store.clock.ahead else None
    isolation = None
    if snapshot.config.isolation.mode != "none":
        from playbook_supervisor.project.settings.isolation import of_ours

        def isolation(argv: Sequence[str]) -> Isolation | None:
            return of_ours(snapshot.config, store.checkout.root, argv)

    folder = SessionInGit(
        store.checkout, top, timeout=timeout, children=children, now=now, isolation=isolation
    )
    launches, notices, what = snapshot.launches, [], "committed"
    try:
        if made := _commit(folder, snapshot, top, occasion):
            ended = isinstance(snapshot.directive, Finish)
            at_end = occasion.startswith(":")
            when = "at its end" if at_end else first_line(occasion.strip(), _SUBJECT)
            notices.append(f"the session is committed {when}: {made.id[:7]}")
            for each in children if ended else (top, *children):
                moved = _move_launches(store, each, made)
                launches = moved if each == snapshot.session_id else launches
        what = "pushed"
        pushes = snapshot.config.push_sessions and _has_published(snapshot, (top, *children))
        if pushes and (place := folder.push()):
            notices.append(f"its last commit is pushed to {place}")
    except (GitError, StorageError) as error:
        said = f"{error.message} [{error.code}]. {error.guidance}"
        notices.append(f"the session is not {what}: {said}")
    except Interrupted:
        said = "git was interrupted; resuming the session makes up for it"
        notices.append(f"the session is not {what}: {said}")
    return replace(snapshot, launches=launches, notices=(*snapshot.notices, *notices))


def _tree(snapshot: Snapshot) -> tuple[str, ...]:
    steps = snapshot.state.playbook.steps
    if not (snapshot.manifest.parent or any(step.has_child for step in steps)):
        return (snapshot.session_id,)
    return tuple(_with_children(snapshot.store, top_of(snapshot.store, snapshot.session_id)))


def _with_children(store: DiskStore, session_id: str) -> Iterator[str]:
    yield session_id
    kept = store.ids()
    for entry in store.journal(session_id).entries:
        if entry.session and entry.session not in kept and store.drives(entry.session):
            with store.open(entry.session):  # a branch that does not know it was switched to
                kept = store.ids()
        if entry.session in kept:
            yield from _with_children(store, entry.session)


def _commit(folder: SessionInGit, snapshot: Snapshot, top: str, occasion: str) -> Commit | None:
    """Commit the folders. A session that failed or was aborted before git knew it is left out."""
    manifest, done = snapshot.manifest, f"{snapshot.progress} done"
    if manifest.parent:
        done = f"{manifest.playbook} {done}"
        manifest = snapshot.store.manifest(top)
    in_vain = manifest.status in (SessionStatus.FAILED, SessionStatus.ABORTED)
    known = _only_leaves(snapshot) or (in_vain and snapshot.config.commit_sessions == "publish")
    ran = first_line(f"{manifest.playbook} {manifest.feature}")
    subject = first_line(f"Record session {top}{occasion}", _SUBJECT)
    return folder.commit(subject, f"{ran}: {done}", manifest.playbook, known=known)


def _only_leaves(snapshot: Snapshot) -> bool:
    """True if a `branch` step is launched and none that publishes: a folder that git does not know
    goes with it, and one that it knows would be in its way."""
    playbook = snapshot.state.playbook
    launched = [each.entry.step_id for each in snapshot.events if each.change is Change.LAUNCHED]
    steps = [playbook.step(name) for name in launched]
    leaves = any(step.namespace == "branch" for step in steps)
    return leaves and not any(map(publishes, steps))


def _move_launches(store: DiskStore, session_id: str, made: Commit) -> Mapping[str, Launch]:
    with store.open(session_id) as opened:
        launches = opened.runtime.launches
        behind = [name for name, launch in launches.items() if launch.head == made.parent]
        for name in behind:
            launches[name] = replace(launches[name], head=made.id)
        if behind:
            opened.save()
        return dict(launches)


def _has_published(snapshot: Snapshot, sessions: Sequence[str]) -> bool:
    entries: list[Entry] = []
    for session_id in sessions:
        playbook = snapshot.state.playbook
        if session_id != snapshot.session_id:
            with snapshot.store.open(session_id) as opened:
                playbook = opened.playbook
        if names := {step.id for step in playbook.steps if publishes(step)}:
            journal = snapshot.store.journal(session_id).entries
            entries += [entry for entry in journal if base_of(entry.step_id) in names]
    return all(entry.settled for entry in entries) and any(entry.ran for entry in entries)
