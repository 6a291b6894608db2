"""The branch that a session belongs to: whatever is done of it is done there, and nowhere else.

A session stays on its branch if the branch is renamed or rebased, and where no branch is checked
out but a commit that contains the session's. It follows a step of its own that switches branches.
Everything else that checks out another branch is a person's work, and the session waits for its
branch to come back (docs/decisions/0249).
"""

from __future__ import annotations

import re
import shlex
from contextlib import suppress

from playbook_supervisor.errors import CheckError, PlaybookError, StateError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel import machine
from playbook_supervisor.kernel.directives import Answered, Asked, Finish, Lost, Returned
from playbook_supervisor.kernel.model import SLASH
from playbook_supervisor.kernel.vocabulary import ENDED
from playbook_supervisor.project.references import interpolate, shown
from playbook_supervisor.records import Record, replace
from playbook_supervisor.sessions.manifest import Confirmation, Manifest
from playbook_supervisor.system import checkout
from playbook_supervisor.system.checkout import Checkout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.kernel.directives import Observation
    from playbook_supervisor.kernel.model import Step
    from playbook_supervisor.sessions.local_state import Launch, Runtime
    from playbook_supervisor.sessions.session import OpenSession
    from playbook_supervisor.sessions.store import DiskStore

CODE = "PB-STATE-BRANCH"
_SECOND = 1000  # ms: git logs whole seconds
_SWITCHES = re.compile(r"\bgit\b.*\b(?:switch|checkout)\b", re.DOTALL)


class Standing(Record):
    """Whether the session's branch is checked out.

    `branch` is its present name, empty for a session that has none. `instead` says what is checked
    out if it is not: `main is checked out`. `rebasing`: git is about to move the branch.
    """

    branch: str = ""
    instead: str = ""
    rebasing: bool = False


def standing(here: Checkout, known: Manifest, runtime: Runtime | None, began: int) -> Standing:
    """How the checkout, as it is now, stands to a session.

    `runtime` is None where nothing is recorded of the session: its files then came with the commit
    that is checked out. `began` is the session's beginning by the machine's clock, in ms.
    """
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
    if runtime is None or _contains_session(here, branch, runtime):
        return Standing(branch)
    return Standing(branch, "no branch is checked out")


def _was_renamed(here: Checkout, branch: str, began: int) -> bool:
    message = f"Branch: renamed refs/heads/{branch} to "
    log = checkout.branch_log(here)
    return any(said.startswith(message) and at + _SECOND > began for at, _, said in log)


def _contains_session(here: Checkout, branch: str, runtime: Runtime) -> bool:
    """Whether the commit that is checked out contains the branch, or without one the last."""
    last = runtime.head or (runtime.begun.head if runtime.begun else "")
    return _contains(here, checkout.tip(here, branch) or last)


def _contains(here: Checkout, commit: str) -> bool:
    """What cannot be told, as in a shallow clone, is no."""
    from playbook_supervisor.system.git_process import is_ancestor

    if not commit or not here.head or commit == here.head:
        return bool(commit) and commit == here.head
    try:
        return is_ancestor(here.root, commit, here.head)
    except PlaybookError:
        return False


# ── what may be done ────────────────────────────────────────────────────────────────────────


def admit(store: DiskStore, opened: OpenSession, seen: Observation | None = None) -> bool:
    """Whether what follows from an observation, or from none, may be judged and carried out.

    On another branch that is so only if a step of the session's own has switched to it; the session
    then follows. What else a worker brings back is recorded all the same, and nothing follows from
    it. StateError PB-STATE-BRANCH for everything that is not a worker's.
    """
    now = opened.standing
    if not now.instead:
        _bind(store, opened, seen)
        return True
    if isinstance(seen, Returned | Asked | Lost) and _follow(store, opened, seen):
        return True
    if isinstance(seen, Returned | Asked):
        return False
    from playbook_supervisor.sessions.snapshot import at_work

    due = machine.directive(opened.state)
    if isinstance(due, Finish) and seen is None:
        return False
    if at_work(due) and (seen is None or (now.rebasing and isinstance(seen, Answered))):
        return False
    raise refusal(store.checkout, opened.manifest, now)


def require(store: DiskStore, opened: OpenSession) -> None:
    """StateError PB-STATE-BRANCH on another branch, unless a step that runs may have switched."""
    from playbook_supervisor.sessions.snapshot import at_work

    here, run = checkout.refreshed(store.checkout), at_work(machine.directive(opened.state))
    steps = () if run is None else (member.step for member in run.members)
    if opened.standing.instead and not any(_names(opened, step, here) for step in steps):
        raise refusal(store.checkout, opened.manifest, opened.standing)


def move(store: DiskStore, opened: OpenSession, by: str) -> None:
    """Let the session belong to the branch that is checked out, as a person has said.

    session.yaml records it among what was `confirmed`. StateError PB-STATE-BRANCH if there is none.
    """
    here = checkout.refreshed(store.checkout)
    if not opened.standing.instead:
        return
    if not here.branch:
        raise refusal(store.checkout, opened.manifest, opened.standing)
    former = first_line(opened.manifest.branch)
    what = f"branch {first_line(here.branch)} instead of {former}"
    opened.confirm(Confirmation(store.clock(), by, what))
    _move(store, opened, here)


def follow_child(store: DiskStore, opened: OpenSession, branch: str) -> None:
    """Let the session go to the branch that a step of its child has switched to."""
    here = checkout.refreshed(store.checkout)
    if opened.standing.instead and branch == here.branch:
        _move(store, opened, here)


def _move(store: DiskStore, opened: OpenSession, here: Checkout) -> None:
    """Written before the files come into the work tree: where a crash leaves them, they belong."""
    opened.restate(replace(opened.manifest, branch=here.branch))
    opened.write(launching=False)
    store.settle(opened)
    opened.stands(Standing(here.branch), here.head)
    opened.copy()
    bring_children(store, opened)


def bring_children(store: DiskStore, opened: OpenSession) -> None:
    """Take the files of ended children along: the journal names them on this branch, too."""
    for name in filter(store.drives, store.found()):
        with suppress(StateError):  # one that cannot be read stays away, and the audit says so
            known = store.manifest(name)
            if known.parent_session == opened.manifest.session_id and known.status in ENDED:
                with store.open(name) as child:
                    store.settle(child)
                    bring_children(store, child)


def _bind(store: DiskStore, opened: OpenSession, seen: Observation | None) -> None:
    """A session that began on no branch gets the one that a `branch` step has switched to."""
    if opened.manifest.branch or not isinstance(seen, Returned):
        return
    if opened.playbook.step(seen.id.partition("#")[0]).namespace == "branch":
        here = checkout.refreshed(store.checkout)
        opened.stands(Standing(here.branch), here.head)


def _follow(store: DiskStore, opened: OpenSession, seen: Returned | Asked | Lost) -> bool:
    """Whether the step has switched the branch, to all appearances; the session then follows.

    A worker that was lost may have ended long before a person switched: only its name counts.
    """
    here, launch = checkout.refreshed(store.checkout), opened.runtime.launches.get(seen.id)
    if launch is None or not here.branch:
        return False
    step, entry = opened.playbook.step(seen.id.partition("#")[0]), opened.entry(seen.id)
    follows = _names(opened, step, here)
    if not follows and not isinstance(seen, Lost):
        follows = _created_since(launch, here, launch.at - store.clock.ahead)
    if not follows and entry.session and store.drives(entry.session):
        follows = store.manifest(entry.session).branch == here.branch
    if follows:
        _move(store, opened, here)
    return follows


def _names(opened: OpenSession, step: Step, here: Checkout) -> bool:
    """Whether the step itself says that it switches to the branch that is checked out."""
    values, given = opened.playbook.values(opened.manifest.args, step), step.args
    with suppress(CheckError):  # it is no arg of this playbook's
        given = interpolate(step.args, values)
    text = f"{shown(step.command, values)} {given} {step.options}"
    says = step.namespace in ("branch", SLASH) or _SWITCHES.search(text) is not None
    name = rf"(?<![\w./-]){re.escape(here.branch)}(?![\w./-])"
    return bool(here.branch) and says and re.search(name, text) is not None


def _created_since(launch: Launch, here: Checkout, launched: int) -> bool:
    """Whether the branch that is checked out was made after a launch, from what was there then.

    `launched` is the launch's time by the machine's clock, in ms.
    """
    at, before, _ = next(checkout.branch_log(here), (0, "", ""))
    new = at + _SECOND > launched and not before.strip("0") and bool(before)
    return new and (not launch.head or _contains(here, launch.head))


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
    return StateError(
        CODE,
        f"session {known.session_id} is on branch {name}, and {now.instead} here",
        where=str(here.root),
        guidance=ways[0].upper() + ways[1:] if ways[0] != "`" else ways,
    )
