"""`playbook start`: a session in a worktree of its own (kai FR33 to FR36, J4).

Everything is checked before anything is created, in an export of the commit. If a later step
fails, what was created is removed again.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from playbook_supervisor.agents import registry
from playbook_supervisor.commands import locate
from playbook_supervisor.commands.worktrees import start_point, worktree
from playbook_supervisor.commands.worktrees.git_export import exported
from playbook_supervisor.commands.worktrees.preflight import Preflight
from playbook_supervisor.commands.worktrees.start_point import HEADS, REMOTES, Base, Branch
from playbook_supervisor.commands.worktrees.worktree import WorktreePlan
from playbook_supervisor.errors import GitError, PlaybookError, StorageError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.project import config
from playbook_supervisor.records import Record
from playbook_supervisor.sessions import creation
from playbook_supervisor.sessions.creation import RunRequest
from playbook_supervisor.sessions.store import DiskStore
from playbook_supervisor.system import checkout, processes

CLIENT = "claude"


class StartRequest(Record):
    """What a person typed: a playbook with its arguments, and optionally base and branch.

    `client`: Claude Code is to drive the session, not the agent in the settings.
    """

    reference: str
    given: tuple[str, ...] = ()
    base: str = ""
    branch: str = ""
    client: bool = False


class StartResult(Record):
    """A pending session in its own worktree.

    `typed` is the slash command that begins it, empty if Claude Code lacks commands for it.
    `headless` is the command that runs it with the agent of the settings, which is `own_agent` if
    they name one. `notices` are sentences for the user.
    """

    session_id: str
    root: Path
    branch: Branch
    base: Base
    typed: str
    headless: str
    own_agent: bool
    notices: tuple[str, ...]


def start(
    reference: str,
    args: Sequence[str] = (),
    *,
    base: str = "",
    branch: str = "",
    client: bool = False,
    cwd: Path | None = None,
) -> StartResult:
    """Create a pending session in a new worktree, on a branch of its own.

    ArgumentError, CheckError or GitError if it cannot be created. Nothing remains after an error.
    """
    store = locate.store(cwd)
    here = store.checkout
    reference = _from_top_level(here.root, reference)
    request = StartRequest(reference, tuple(args), base, branch, client)
    with ExitStack() as cleanup:
        cleanup.enter_context(_exiting_on_signals())
        with worktree.locked_worktrees(here):
            notices = worktree.clean_up(here)
            start_point.require_clean(here.root)
            from_base = start_point.base(here.root, request.base)
            session_id = cleanup.enter_context(_reserved_id(store))
            run, on_branch, in_client = _check(store, request, from_base, session_id)
            path = start_point.path(here, config.load(here.root).worktrees, session_id)
            plan = _plan(session_id, path, on_branch, from_base)
            cleanup.enter_context(worktree.created(here, plan))
        words = _words(reference, run)
        notices += (*run.warnings, *_begin(store, plan, words, from_base))
    arguments = shlex.join(words)
    return StartResult(
        session_id,
        path,
        on_branch,
        from_base,
        typed=f"/playbook.run {arguments}" if in_client else "",
        headless=f"playbook run {arguments}",
        own_agent=not registry.is_default(run.config.agent),
        notices=notices,
    )


def _plan(session_id: str, path: Path, branch: Branch, base: Base) -> WorktreePlan:
    tracks = branch.new and base.ref.startswith(REMOTES)
    source = base.ref if tracks else branch.commit
    return WorktreePlan(session_id, str(path), branch.name, branch.new, branch.commit, source)


@contextmanager
def _reserved_id(store: DiskStore) -> Iterator[str]:
    session_id = store.reserve()
    try:
        yield session_id
    except BaseException:
        with suppress(OSError):
            (store.checkout.ids / session_id).rmdir()
        raise


def _exiting_on_signals() -> AbstractContextManager[None]:
    """Let SIGTERM and SIGHUP unwind the stack as Ctrl-C does, so that cleanup runs."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    return worktree.handling(end, signal.SIGTERM, signal.SIGHUP)


# ── before anything is created ──────────────────────────────────────────────────────────────


def _check(
    store: DiskStore, request: StartRequest, base: Base, session_id: str
) -> tuple[RunRequest, Branch, bool]:
    """What will run, on which branch, and whether Claude Code has the commands for it.

    The feature determines the branch. If that branch exists, everything is checked at its tip
    instead of at the base.
    """
    root, reference = store.checkout.root, request.reference
    extra = [reference] if _is_path(reference) else []
    heads = start_point.heads(root)
    tip = _tip(request.branch, heads[request.branch]) if request.branch in heads else base
    with exported(root, tip.commit, extra) as tree:
        preflight = Preflight(store, tree, tip, own_tip=tip is not base, client=request.client)
        first = preflight.request(reference, request.given, request.branch or store.checkout.branch)
        branch = start_point.branch(root, first.feature, session_id, base, request.branch)
        if branch.new or branch.commit == tip.commit:
            run = preflight.request(reference, request.given, branch.name)
            preflight.require(run, branch.name)
            return run, branch, preflight.runs_in_client(run)
    with exported(root, branch.commit, extra) as tree:
        tip = _tip(branch.name, branch.commit)
        preflight = Preflight(store, tree, tip, own_tip=True, client=request.client)
        run = preflight.request(reference, request.given, branch.name)
        preflight.require(run, branch.name)
        return run, branch, preflight.runs_in_client(run)


def _tip(name: str, commit: str) -> Base:
    return Base(commit, f"{HEADS}{name}", name)


def _from_top_level(root: Path, reference: str) -> str:
    """A path to a playbook, typed relative to the current folder, relative to the top level."""
    file = Path.cwd() / reference
    if _is_path(reference) and os.path.lexists(file):
        return os.path.relpath(file, root)
    return reference


def _is_path(reference: str) -> bool:
    return "/" in reference or "." in reference


def _words(reference: str, run: RunRequest) -> list[str]:
    """The arguments that name exactly this session: features are resolved."""
    words, positional = [reference], True
    for name, value in run.args.items():
        positional = positional and value != "" and value.partition("=")[0] not in run.args
        if value:
            words.append(value if positional else f"{name}={value}")
    return words


# ── in the new worktree ─────────────────────────────────────────────────────────────────────


def _begin(
    store: DiskStore, plan: WorktreePlan, words: Sequence[str], base: Base
) -> tuple[str, ...]:
    """Begin the session there as the printed command will; notices about the worktree."""
    there = DiskStore(checkout.find(Path(plan.path)), clock=store.clock)
    root = there.checkout.root
    run = _request_there(there, *words)
    start_point.save(there.runtime(plan.session_id), base)
    creation.point_speckit(root, run)
    creation.begin(there, run, reserved=plan.session_id)
    if (root / ".gitmodules").is_file():
        return ("submodules are not checked out there: `git submodule update --init`",)
    return ()


def _request_there(there: DiskStore, reference: str, *given: str) -> RunRequest:
    """The request, read from what git checked out; a sparse checkout lacks some files."""
    try:
        return creation.prepare(there, reference, given)
    except PlaybookError as error:
        raise GitError(
            "PB-GIT-FAILED",
            f"git checks out too little into a new worktree: {first_line(error.message, 300)}",
            guidance="In a sparse checkout, run `git sparse-checkout add .playbooks .claude`.",
        ) from error


# ── the client ──────────────────────────────────────────────────────────────────────────────


def require_client() -> None:
    """StorageError PB-IO-PROGRAM if Claude Code is not on PATH."""
    if shutil.which(CLIENT) is None:
        raise StorageError(
            "PB-IO-PROGRAM",
            f"`{CLIENT}` is not on PATH, so --exec cannot open it",
            guidance="Install Claude Code, or omit --exec.",
        )


def open_client(started: StartResult) -> None:
    """Replace this process with Claude Code in the new worktree, which begins the session."""
    processes.replace_process([CLIENT, started.typed], cwd=started.root)
