"""The branch that a session belongs to: whatever is done of it is done there, and nowhere else.

A session stays on its branch if the branch is renamed or rebased, and where no branch is checked
out but a commit that contains the session's. Else it waits for its branch to come back, unless it
may follow (`branch_admission`, docs/decisions/0249).
"""

from __future__ import annotations

import shlex

from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.records import Record
from playbook_supervisor.sessions.files.local_state import Runtime
from playbook_supervisor.sessions.files.manifest import Manifest
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.git.checkout import Checkout

CODE = "PB-STATE-BRANCH"
SECOND = 1000  # ms: git logs whole seconds


class Standing(Record):
    """True if the session's branch is checked out. `branch` is its present name, empty for none,
    `instead` what is there if not: `main is checked out`. `rebasing`: git is about to move it."""

    branch: str = ""
    instead: str = ""
    rebasing: bool = False


def standing(here: Checkout, known: Manifest, runtime: Runtime | None, began: int) -> Standing:
    """The relation of the checkout, as it is now, to a session. `runtime` is None where nothing is
    recorded of the session: its files then came with the commit that is checked out. `began` is the
    session's beginning by the machine's clock, in ms."""
    branch = known.branch
    if branch in ("", here.branch):
        return Standing(branch)
    if here.branch:
        if not checkout.tip(here, branch) and _was_renamed(here, branch, began):
            return Standing(here.branch)
        return Standing(branch, f"{first_line(here.branch)} is checked out")
    if rebased := checkout.rebased(here):
        ours = rebased == branch
        said = "it" if ours else first_line(rebased)
        return Standing(branch, f"{said} is being rebased", rebasing=ours)
    if runtime is None:
        return Standing(branch)
    last = runtime.head or (runtime.begun.head if runtime.begun else "")
    if contains(here, checkout.tip(here, branch) or last):
        return Standing(branch)
    return Standing(branch, "no branch is checked out")


def _was_renamed(here: Checkout, branch: str, began: int) -> bool:
    message = f"Branch: renamed refs/heads/{branch} to "
    log = checkout.branch_log(here)
    return any(said.startswith(message) and at + SECOND > began for at, _, said in log)


def contains(here: Checkout, commit: str) -> bool:
    """True if the commit that is checked out contains this one; no if git cannot tell."""
    from playbook_supervisor.system.git.git_process import is_ancestor

    if not commit or not here.head or commit == here.head:
        return bool(commit) and commit == here.head
    try:
        return is_ancestor(here.root, commit, here.head)
    except PlaybookError:
        return False


def refusal(here: Checkout, known: Manifest, now: Standing) -> StateError:
    """The error of what would be done on another branch, with the ways to go on."""
    name = first_line(now.branch)
    if now.rebasing:
        ways = "Finish the rebase first: `git rebase --continue`, or `--abort`."
    elif place := next((o.root for o in checkout.others(here) if o.branch == now.branch), None):
        ways = (
            f"{name} is checked out in {first_line(str(place), 300)}: switch that worktree to "
            f"another branch, then `git switch {shlex.quote(name)}` here"
        )
    else:
        ways = f"`git switch {shlex.quote(name)}`, and try again"
    if not now.rebasing:
        move = f"playbook resume {known.session_id} --on-this-branch"
        ways = f"{ways}; to go on here instead, a person says `{move}`."
    said = f"session {known.session_id} is on branch {name}, and {now.instead} here"
    return StateError(CODE, said, where=str(here.root), guidance=ways[0].upper() + ways[1:])
