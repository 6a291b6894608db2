"""The commands that only read: list, status, show, graph, probe, schema."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from playbook_supervisor.commands import locate, overview, proving
from playbook_supervisor.commands.overview import (
    SessionOverview,
    pinned_playbook,
    pinned_policy,
    settings_of,
)
from playbook_supervisor.commands.views import progress
from playbook_supervisor.commands.views.progress import Progress
from playbook_supervisor.errors import (
    ArgumentError,
    ConditionError,
    PlaybookError,
    StateError,
    StorageError,
)
from playbook_supervisor.formats.file_changes import Changes
from playbook_supervisor.formats.sanitize import counted, first_line, some, suggestion
from playbook_supervisor.kernel.directives import Answer, Probed
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.kernel.vocabulary import Condition, Trigger
from playbook_supervisor.project import commit_files
from playbook_supervisor.project.conditions import conditions, features
from playbook_supervisor.project.conditions.conditions import REPORT_TRIGGERS, Workspace
from playbook_supervisor.project.conditions.features import Feature
from playbook_supervisor.project.expressions.requirement import requirement
from playbook_supervisor.project.playbooks import library
from playbook_supervisor.project.playbooks.child_playbooks import Children
from playbook_supervisor.project.playbooks.playbook_file import PlaybookFile
from playbook_supervisor.project.playbooks.schema import read_playbook
from playbook_supervisor.project.playbooks.step_needs import pushes
from playbook_supervisor.project.policies.session_policy import Effect, Policy, effects, tightened
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files import pinned_inputs
from playbook_supervisor.sessions.files.journal import parse_journal
from playbook_supervisor.sessions.files.manifest import (
    SESSION_ID,
    Manifest,
    earliest_beginning,
    read_manifest,
)
from playbook_supervisor.sessions.store import session_changes
from playbook_supervisor.sessions.store.disk_store import SESSIONS, DiskStore
from playbook_supervisor.sessions.store.selection import open_here
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.system.disk.files import write_atomically
from playbook_supervisor.system.git import checkout, git_history, git_process
from playbook_supervisor.system.git.checkout import NOW
from playbook_supervisor.system.git.git_diff import changes_of
from playbook_supervisor.system.git.git_process import branches

_NAMED = 3  # files that are not committed

# ── playbooks ───────────────────────────────────────────────────────────────────────────────


def playbooks(*, cwd: Path | None = None) -> tuple[PlaybookFile, ...]:
    """The project's playbooks; those that cannot run have a problem."""
    return library.playbooks(checkout.find(cwd or locate.current_folder()).root)


def load_playbook(reference: str, *, cwd: Path | None = None) -> Playbook:
    """The playbook of that name or path. CheckError if it is not valid."""
    return library.find(checkout.find(cwd or locate.current_folder()).root, reference).playbook


# ── sessions ────────────────────────────────────────────────────────────────────────────────


def status(session: str = "", *, cwd: Path | None = None) -> tuple[SessionOverview, ...]:
    """The sessions of all worktrees, or the named one; those that wait for a human first."""
    store = locate.store(cwd)
    seen = overview.sessions(store)
    if session:
        session = locate.named(store, session)
        found = overview.in_tree(seen, session)
        if found is None:
            overview.find(store, session)  # says in its own words that there is none
        seen = () if found is None else (found,)
    return seen


def watch(session: str = "", *, cwd: Path | None = None) -> Iterator[tuple[Progress, ...]]:
    """As `status`, with each session's progress, read again for each item."""
    store = locate.store(cwd)
    watch = progress.Poller(store)
    session = session and locate.named(store, session)
    while True:
        seen = watch.poll()
        if session:
            seen = tuple(each for each in seen if overview.in_tree((each.seen,), session))
        if session and not seen:
            overview.find(store, session)  # says in its own words that there is none
        yield seen


@dataclass(frozen=True, slots=True)
class SessionView:
    """One session with its whole journal.

    `playbook` is as its author wrote it, None if none is pinned; `policy` is what holds beyond it.
    `problem` says why the session cannot be read completely. `children` are its child sessions by
    their ids.
    """

    seen: SessionOverview
    entries: tuple[Entry, ...]
    playbook: Playbook | None
    policy: Policy
    problem: StateError | None = None
    children: Mapping[str, SessionView] = field(default_factory=dict)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The changes that the policies made."""
        return effects(self.playbook, self.policy) if self.playbook else ()

    @property
    def tightened(self) -> Playbook | None:
        """The playbook as the session runs it."""
        return tightened(self.playbook, self.policy) if self.playbook else None


def show(session: str = "", *, cwd: Path | None = None) -> SessionView:
    """One session's timeline, even if another tool wrote it or it has diverged.

    If no worktree has the named session, it is shown as the branch has it that committed it last.
    """
    store = locate.store(cwd)
    try:
        session_id = selected_session(store, session)
    except StateError as error:
        found = _committed(store, session) if error.code == "PB-STATE-NO-SESSION" else None
        if found is None:
            raise
        return found
    (seen,) = status(session_id, cwd=cwd)
    return view_of(seen)


def view_of(seen: SessionOverview) -> SessionView:
    """The session with its journal and all sessions below it, as far as they can be read."""
    store, session_id = seen.store, seen.session_id
    entries: tuple[Entry, ...] = ()
    readable = seen.code in ("", "PB-STATE-BRANCH")
    problem = None if readable else StateError(seen.code, seen.problem, where=session_id)
    try:
        entries = store.journal(session_id).entries
    except PlaybookError as error:
        said = f"{error.message} ({error.where})"
        problem = problem or StateError(error.code, said, where=session_id)
    return SessionView(
        seen,
        entries,
        pinned_playbook(store, session_id, seen.manifest),
        pinned_policy(store, session_id),
        problem,
        {each.session_id: view_of(each) for each in seen.children},
    )


def _committed(store: DiskStore, session_id: str) -> SessionView | None:
    if not SESSION_ID.match(session_id):
        return None
    since = earliest_beginning(session_id)

    def last(name: str) -> tuple[bytes, str]:
        path = f":(top,literal){SESSIONS}/{session_id}/{name}"
        found = git_history.on_branches(store.checkout.root, path, since)
        return next(found, ("", b""))[1], name

    try:
        manifest = read_manifest(*last("session.yaml"))
        entries = parse_journal(*last("journal.yaml")).entries
        playbook = read_playbook(*last("playbook.yaml"))
    except PlaybookError:
        return None
    return SessionView(SessionOverview(store, session_id, manifest), entries, playbook, Policy())


def keep(file: Path, text: str) -> None:
    """Write what was shown to a file, completely or not at all.

    StorageError PB-IO-WRITE, also for a device, a pipe or a link: only a regular file is replaced.
    """
    if os.path.lexists(file) and (file.is_symlink() or not file.is_file()):
        raise StorageError(
            "PB-IO-WRITE",
            f"cannot write {file}: it is not a regular file",
            guidance="Name another file; `-` is stdout.",
        )
    write_atomically(file, text.encode(), durable=False)


def selected_session(store: DiskStore, named: str) -> str:
    """The named session, in any worktree; else the one of this worktree."""
    if named := locate.named(store, named):
        store = overview.find(store, named)
    else:
        named = locate.choose(store, "")
    locate.restore(store, named)
    return named


def changes_since_beginning(store: DiskStore, session_id: str) -> Changes:
    """The changes in its work tree since the session began; not exact if they are not known."""
    root = store.checkout.root
    with suppress(PlaybookError):
        begun = session_changes.beginning(store, session_id)
        base = session_changes.base_of(root, begun)
        return changes_of(root, base, begun.pinned if begun else NOW)
    return Changes(exact=False)


# ── diagrams ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Diagram:
    """A playbook and those that it can reach; with a session also its journal and session.yaml."""

    playbook: Playbook
    children: Mapping[str, Playbook]
    entries: tuple[Entry, ...] = ()
    manifest: Manifest | None = None


def graph(reference: str = "", *, session: str = "", cwd: Path | None = None) -> Diagram:
    """The playbook of that name or path, or the one that a session runs under its policies.

    A session that has pinned none, such as kai's, is drawn by the project's playbook of its name.
    ArgumentError PB-ARG-USAGE if neither is named, or if the session runs another playbook;
    StateError if the session cannot be read, PB-STATE-NO-PLAYBOOK if it has none.
    """
    if not session:
        if not reference:
            raise ArgumentError(
                "PB-ARG-USAGE",
                "neither a playbook nor a session is named",
                guidance="For example: playbook graph auto-feature; `playbook list` names all.",
            )
        named = load_playbook(reference, cwd=cwd)
        root = checkout.find(cwd or locate.current_folder()).root
        return Diagram(named, Children(root).reachable(named))
    shown = show(session, cwd=cwd)
    if shown.problem:
        raise shown.problem
    manifest = shown.seen.manifest
    playbook = shown.tightened
    if manifest and playbook is None:
        store = shown.seen.store
        folder = store.folder(shown.seen.session_id)
        found = pinned_inputs.substitute(store.checkout.root, folder, manifest)
        playbook = found.playbook if found else None
    if manifest is None or playbook is None:
        raise StateError(
            "PB-STATE-NO-PLAYBOOK", "the session has no readable playbook.yaml", where=session
        )
    name = playbook.name
    if reference and reference != name:
        other = load_playbook(reference, cwd=cwd).name
        if other != name:
            raise ArgumentError(
                "PB-ARG-USAGE",
                f"session {session} runs {name}, not {other}",
                guidance=f"Use: playbook graph --session {session}",
            )
    children = pinned_inputs.pinned_children(shown.seen.store.folder(shown.seen.session_id))
    return Diagram(playbook, children, shown.entries, manifest)


# ── conditions ──────────────────────────────────────────────────────────────────────────────


def probe(
    names: Sequence[str],
    *,
    feature: str = "",
    session: str = "",
    cwd: Path | None = None,
    on_check: Callable[[str], None] = lambda _: None,
) -> tuple[tuple[Probed, ...], str]:
    """The answers of conditions and triggers now, and a warning if the feature is not known.

    A trigger holds if it would fire. What a condition compares with the launch is compared with the
    last launch of the session. `on_check` is given the name of each check that is run.
    """
    names = _canonical(names)
    store = locate.store(cwd)
    root, branch = store.checkout.root, store.checkout.branch
    session_id = ""
    if not feature:
        session_id = locate.named(store, session) or next(iter(open_here(store)), "")
    settings = settings_of(store, session_id)
    meant = _feature(store, feature, session_id, settings)
    asked = [name for name in names if name not in REPORT_TRIGGERS]
    world = Workspace(root, meant.name, branch, settings)
    if checks := conditions.checks(asked):
        checking = proving.by_hand(checks, store, session_id, settings, on_check)
        world = replace(world, checking=checking)
    runtime = store.journal(session_id).runtime if session_id else None
    launches = runtime.launches.values() if runtime and conditions.need_tree(asked) else ()
    last = max(launches, key=lambda launch: launch.at, default=None)
    tree, head = (last.tree, last.head) if last else ("", None)
    world = replace(world, pinned=runtime.pinned if runtime else world.pinned)
    probed = tuple(
        conditions.probe(name, world, tree=tree, head=head)
        if name in asked
        else _trigger(name, world)
        for name in names
    )
    return probed, meant.warning


def _trigger(name: str, world: Workspace) -> Probed:
    found = conditions.finding(Trigger(name), world)
    if found is None:
        return Probed(name, Answer.NOT_HELD, "no report says so")
    return Probed(name, Answer.HELD, found[0])


def _canonical(names: Sequence[str]) -> list[str]:
    known, canonical = words(), []
    for name in names:
        word = name.partition("=")[0]
        if word not in known:
            raise ArgumentError(
                "PB-COND-UNKNOWN",
                f"{first_line(name, 60)!r} cannot be probed{suggestion(word, known)}",
                guidance=f"There are {', '.join(known)}. `--feature` names the feature.",
            )
        if name in REPORT_TRIGGERS:
            canonical.append(name)
            continue
        try:
            required = requirement(name)
        except ConditionError as error:
            raise ArgumentError(error.code, error.message) from error
        if required.flaw:
            raise ArgumentError("PB-COND-UNKNOWN", f"{word}: {required.flaw}")
        canonical.append(required.name)
    return canonical


def words() -> list[str]:
    """The words that can be probed: all conditions, and the triggers that read reports."""
    return [*Condition, *REPORT_TRIGGERS]


def _feature(store: DiskStore, given: str, session_id: str, settings: Config) -> Feature:
    root = store.checkout.root
    if given:
        return features.resolve(root, given, settings, lambda: branches(root))
    feature = store.manifest(session_id).feature if session_id else ""
    current = features.current(root, store.checkout.branch, settings)
    return Feature(feature) if feature else current


# ── the end of a session ────────────────────────────────────────────────────────────────────────


def left_to_do(snapshot: Snapshot) -> Iterator[str]:
    """What a completed session has left to a person: files to commit, and commits to push."""
    store, session_id = snapshot.store, snapshot.session_id
    root = store.checkout.root
    with suppress(PlaybookError):  # what git does not tell is no reason to fail at the end
        before = session_changes.before(store, session_id)
        if files := commit_files.taken(root, ("**",), "", before).files:
            named = some(files, _NAMED, 60)
            yield f"not committed: {counted(len(files), 'file')} of this session: {named}"
    if any(map(pushes, snapshot.state.playbook.steps)):
        with suppress(PlaybookError):
            ahead = int(git_process.ask(root, "rev-list", "--count", "@{upstream}..HEAD"))
            if ahead:
                yield f"not pushed: {counted(ahead, 'commit')}; `git push` does it"
