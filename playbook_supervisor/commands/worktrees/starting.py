"""`playbook start`: a session with a worktree of its own (kai FR33 to FR36, J4).

Everything that can be wrong is said before anything is made: the commit is looked into as if it
were checked out already. Whatever fails after that leaves nothing behind.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from playbook_supervisor.commands.worktrees import start_point, worktree
from playbook_supervisor.commands.worktrees.git_export import laid_out
from playbook_supervisor.commands.worktrees.preflight import Preflight
from playbook_supervisor.commands.worktrees.start_point import Base, Branch
from playbook_supervisor.commands.worktrees.worktree import WorktreePlan
from playbook_supervisor.errors import GitError, PlaybookError, StateError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.project import config, features
from playbook_supervisor.records import Record
from playbook_supervisor.sessions import creation
from playbook_supervisor.sessions.creation import RunRequest
from playbook_supervisor.sessions.store import DiskStore
from playbook_supervisor.system import checkout

_HEADS = "refs/heads/"
_REMOTES = "refs/remotes/"


class StartRequest(Record):
    """What a person typed: a playbook with its arguments, and perhaps from where and on what."""

    reference: str
    given: tuple[str, ...] = ()
    base: str = ""
    branch: str = ""


class StartResult(Record):
    """A session that waits in its own worktree.

    `typed` is what begins it inside Claude Code, `notices` are sentences for the person.
    """

    session_id: str
    root: Path
    branch: Branch
    base: Base
    typed: str
    notices: tuple[str, ...]


def start(store: DiskStore, wish: StartRequest) -> StartResult:
    """Make the session, `pending`, in a new worktree on a branch of its own.

    Raises what keeps it from being made, before anything is: ArgumentError, CheckError, GitError.
    What fails later is raised when all that was made is gone again.
    """
    here = store.checkout
    with ExitStack() as undoing:
        undoing.enter_context(_unwinding())
        with worktree.alone(here):
            notices = worktree.tidied(here)
            start_point.require_clean(here.root)
            at = start_point.base(here.root, wish.base)
            session_id = undoing.enter_context(_reserved(store))
            wanted, branch = _looked_up(store, wish, at, session_id)
            path = start_point.place(here, config.load(here.root).worktrees, session_id)
            plan = _plan(session_id, path, branch, at)
            undoing.enter_context(worktree.made(here, plan))
        typed = _typed(_from_the_top(here.root, wish.reference), wanted)
        notices += (*wanted.warnings, *_begun(store, plan, typed, at))
    return StartResult(session_id, path, branch, at, typed, notices)


def _plan(session_id: str, path: Path, branch: Branch, at: Base) -> WorktreePlan:
    tracks = branch.new and at.ref.startswith(_REMOTES)
    source = at.ref if tracks else branch.commit
    return WorktreePlan(session_id, str(path), branch.name, branch.new, branch.commit, source)


@contextmanager
def _reserved(store: DiskStore) -> Iterator[str]:
    """An id, given back if nothing comes of it."""
    session_id = store.reserve()
    try:
        yield session_id
    except BaseException:
        with suppress(OSError):
            (store.checkout.ids / session_id).rmdir()
        raise


@contextmanager
def _unwinding() -> Iterator[None]:
    """SIGTERM and a closed terminal end us as Ctrl-C does: what was made is taken back."""
    import signal
    import threading

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


# ── before anything is made ─────────────────────────────────────────────────────────────────


def _looked_up(
    store: DiskStore, wish: StartRequest, at: Base, session_id: str
) -> tuple[RunRequest, Branch]:
    """What is going to begin, and on which branch.

    The feature decides about the branch; where that is there already, it is at the branch's own
    tip that everything has to stand.
    """
    root = store.checkout.root
    reference = _from_the_top(root, wish.reference)
    also = [reference] if _is_path(reference) else []
    known = start_point.heads(root)
    tip = _tip(wish.branch, known[wish.branch]) if wish.branch in known else at
    with laid_out(root, tip.commit, also) as tree:
        prospect = Preflight(store, tree, tip, own=tip is not at)
        first = prospect.intention(reference, wish.given, wish.branch or store.checkout.branch)
        branch = start_point.branch(root, first.feature, session_id, at, wish.branch)
        if branch.new or branch.commit == tip.commit:
            wanted = prospect.intention(reference, wish.given, branch.name)
            prospect.judge(wanted, branch.name)
            return wanted, branch
    with laid_out(root, branch.commit, also) as tree:
        prospect = Preflight(store, tree, _tip(branch.name, branch.commit), own=True)
        wanted = prospect.intention(reference, wish.given, branch.name)
        prospect.judge(wanted, branch.name)
    return wanted, branch


def _tip(name: str, commit: str) -> Base:
    return Base(commit, f"{_HEADS}{name}", name)


def _from_the_top(root: Path, reference: str) -> str:
    """A path to a playbook, which is typed as seen from the current folder, seen from the top."""
    file = Path.cwd() / reference
    if _is_path(reference) and os.path.lexists(file):
        return os.path.relpath(file, root)
    return reference


def _is_path(reference: str) -> bool:
    return "/" in reference or "." in reference


def _typed(reference: str, wanted: RunRequest) -> str:
    """What begins exactly this session in the client: features are resolved, the rest is quoted."""
    words, by_place = ["/playbook.run", reference], True
    for name, value in wanted.args.items():
        by_place = by_place and value != "" and value.partition("=")[0] not in wanted.args
        if value:
            words.append(value if by_place else f"{name}={value}")
    return " ".join([words[0], *map(shlex.quote, words[1:])])


# ── in the new worktree ─────────────────────────────────────────────────────────────────────


def _begun(store: DiskStore, plan: WorktreePlan, typed: str, at: Base) -> tuple[str, ...]:
    """Begin the session there, as what is typed will; what to know of the worktree."""
    there = DiskStore(checkout.find(Path(plan.path)), clock=store.clock)
    root = there.checkout.root
    wanted = _as_checked_out(there, *shlex.split(typed)[1:])
    worktree.remember(there.runtime(plan.session_id), at)
    try:
        features.point_speckit(root, wanted.feature, config.load(root))
    except StateError:
        if any(step.command.startswith(features.SPECKIT) for step in wanted.playbook.steps):
            raise
    creation.begin(there, wanted, reserved=plan.session_id)
    if (root / ".gitmodules").is_file():
        return ("submodules are not checked out there: `git submodule update --init`",)
    return ()


def _as_checked_out(there: DiskStore, reference: str, *given: str) -> RunRequest:
    """The same as git has really put it there: of a sparse checkout, say, that is not all."""
    try:
        return creation.intend(there, reference, given, commands_elsewhere=True)
    except PlaybookError as error:
        raise GitError(
            "PB-GIT-FAILED",
            f"git checks out too little into a new worktree: {first_line(error.message, 300)}",
            guidance="In a sparse checkout, `git sparse-checkout add .playbooks .claude` mends it.",
        ) from error
