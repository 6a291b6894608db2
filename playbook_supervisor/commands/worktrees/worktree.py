"""The worktree of a session: made wholly or not at all, under a lock that all starts share.

`git worktree add` races with itself. What is made is recorded first, so that whoever comes after a
killed process takes back what it left, or says what remains; work of a person is never removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from playbook_supervisor.commands.worktrees import start_point
from playbook_supervisor.errors import GitError, PlaybookError
from playbook_supervisor.records import Record, as_mapping, replace
from playbook_supervisor.sessions.store import SESSIONS
from playbook_supervisor.system import git, git_process
from playbook_supervisor.system.checkout import Checkout
from playbook_supervisor.system.files import (
    ensure_folder,
    locked,
    read_bytes,
    remove,
    write_atomically,
)
from playbook_supervisor.system.process_groups import worker_alive

_PATIENCE = 600.0
"""Seconds for those who came before: a checkout may be large, and a hook may take its time."""
_BASE = "base.json"


class WorktreePlan(Record):
    """What is to be made: paths, the branch, whether that is new, and the commit at its tip.

    `source` is what a new branch is made from: a remote's branch is then what it tracks.
    """

    session_id: str
    path: str
    branch: str
    new: bool
    commit: str
    source: str


# ── making ──────────────────────────────────────────────────────────────────────────────────


def alone(here: Checkout) -> AbstractContextManager[None]:
    """Hold the worktrees of this repository alone. StateError PB-STATE-BUSY after ten minutes."""
    folder = here.common_dir / "playbook"
    ensure_folder(folder)
    return locked(folder / "worktrees.lock", timeout=_PATIENCE)


@contextmanager
def made(here: Checkout, plan: WorktreePlan) -> Iterator[None]:
    """The worktree is there; it is taken back, with branch and id, if what follows fails.

    Entered by whoever holds the worktrees `alone`, and left by whoever does not. GitError
    PB-GIT-FAILED, also where a hook of git refuses.
    """
    record = _records(here) / f"{plan.session_id}.json"
    ensure_folder(record.parent)
    lock = record.with_suffix(".lock")
    try:
        with locked(lock):
            try:
                write_atomically(record, json.dumps(as_mapping(plan)).encode())
                if plan.new:
                    try:
                        git_process.change(here.root, "branch", "--", plan.branch, plan.source)
                    except GitError:
                        plan = replace(plan, new=False)  # it is somebody else's
                        raise
                git_process.change(
                    here.root, "worktree", "add", "--quiet", "--", plan.path, plan.branch
                )
            except BaseException:
                _undo(here, plan, record)
                raise
            try:
                yield
            except BaseException:
                with undisturbed(), alone(here):
                    _undo(here, plan, record)
                raise
            remove(record)
    finally:
        lock.unlink(missing_ok=True)


# ── taking back ─────────────────────────────────────────────────────────────────────────────


def _undo(here: Checkout, plan: WorktreePlan, record: Path) -> None:
    """Take it back; where that fails, the record stays for whoever comes next."""
    with undisturbed(), suppress(PlaybookError):
        take_back(here, plan)
        remove(record)


def take_back(here: Checkout, plan: WorktreePlan) -> None:
    """Nothing of the plan remains. A branch that has grown since then is kept."""
    path = Path(plan.path)
    remove(path)
    with suppress(PlaybookError):  # it was not made yet
        git_process.change(here.root, "worktree", "remove", "--force", "--force", "--", plan.path)
    if plan.new and start_point.heads(here.root).get(plan.branch) == plan.commit:
        git_process.change(here.root, "branch", "-D", "--quiet", "--", plan.branch)
    with suppress(OSError):
        (here.ids / plan.session_id).rmdir()


@contextmanager
def undisturbed() -> Iterator[None]:
    """Nothing interrupts what puts things right; a second Ctrl-C does not, either."""
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    former = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


# ── what a killed process left ──────────────────────────────────────────────────────────────


def tidied(here: Checkout) -> tuple[str, ...]:
    """Clear away what killed starts have left; sentences for the person. Entered `alone`."""
    records = sorted(_records(here).glob("*.json"))
    said = [_tidied(here, record) for record in records if not _being_made(record)]
    return tuple(filter(None, said))


def _records(here: Checkout) -> Path:
    return here.common_dir / "playbook" / "starting"


def _being_made(record: Path) -> bool:
    return worker_alive(record.with_suffix(".lock"))


def _tidied(here: Checkout, record: Path) -> str:
    try:
        plan = WorktreePlan(**json.loads(read_bytes(record)))
    except (FileNotFoundError, ValueError, TypeError):
        remove(record)
        return ""
    if _begun(plan):
        said = f"session {plan.session_id} had been made before its start was killed; it waits in "
        said += plan.path
    elif _worked_in(plan):
        said = f"a start that was killed left {plan.path} on branch {plan.branch}, with changes; "
        said += "`git worktree remove` removes it"
    else:
        take_back(here, plan)
        said = f"what the killed start of session {plan.session_id} left is cleared away"
    remove(record)
    record.with_suffix(".lock").unlink(missing_ok=True)
    return said


def _begun(plan: WorktreePlan) -> bool:
    return (Path(plan.path) / SESSIONS / plan.session_id / "session.yaml").is_file()


def _worked_in(plan: WorktreePlan) -> bool:
    """Whether somebody may have done something there: git had ended, and finds a difference."""
    if not (Path(plan.path) / ".git").is_file():
        return False
    try:
        with git.repository(Path(plan.path)) as repo:
            if not Path(repo.index.path).exists():
                return False  # git was killed in the middle of checking out
            head = repo.git.rev_parse("HEAD")
        return head != plan.commit or bool(start_point.changes(Path(plan.path)))
    except PlaybookError:
        return True


# ── one that somebody has removed ───────────────────────────────────────────────────────────


def bring_back(lost: Checkout) -> None:
    """Make the folder again, with what git's index of it holds: what was committed and staged.

    GitError PB-GIT-TAKEN where something else stands there by now, PB-GIT-FAILED.
    """
    root = lost.root
    with alone(lost):
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            said = f"something else stands where the worktree was: {root}"
            cure = "Move it away, then repeat."
            raise GitError("PB-GIT-TAKEN", said, where=str(root), guidance=cure)
        ensure_folder(root)
        try:
            write_atomically(root / ".git", f"gitdir: {lost.git_dir}\n".encode())
            git_process.change(root, "checkout-index", "--all", "--quiet")
        except BaseException:
            remove(root)
            raise


# ── what is known of it later ───────────────────────────────────────────────────────────────


def remember(private: Path, at: start_point.Base) -> None:
    """Keep from where a session's worktree was started, with its runtime state."""
    ensure_folder(private)
    write_atomically(private / _BASE, json.dumps(as_mapping(at)).encode())


def started_from(private: Path) -> start_point.Base | None:
    """From where it was; None where that is not known."""
    try:
        return start_point.Base(**json.loads(read_bytes(private / _BASE)))
    except (FileNotFoundError, ValueError, TypeError):
        return None
