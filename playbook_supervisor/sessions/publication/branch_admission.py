"""The changes of a session that each branch admits, and when a session follows to another one.

A session follows a step of its own that switches branches, and a person who says so.
"""

from __future__ import annotations

import re
from contextlib import suppress

from playbook_supervisor.errors import CheckError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel import machine
from playbook_supervisor.kernel.directives import (
    Answered,
    Asked,
    Finish,
    Lost,
    Observation,
    Returned,
)
from playbook_supervisor.kernel.model import SLASH, Step
from playbook_supervisor.project.expressions.references import interpolate, shown
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files.local_state import Launch
from playbook_supervisor.sessions.files.manifest import Confirmation
from playbook_supervisor.sessions.files.session_branch import SECOND, Standing, contains, refusal
from playbook_supervisor.sessions.steps.open_session import OpenSession
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.snapshot import at_work
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.git.checkout import Checkout

_SWITCHES = re.compile(r"\bgit\b.*\b(?:switch|checkout)\b", re.DOTALL)


def admit(store: DiskStore, opened: OpenSession, seen: Observation | None = None) -> bool:
    """True if what follows from an observation, or from none, may be judged and carried out. On
    another branch that is so only if a step of the session's own has switched to it; the session
    then follows. What else a worker brings back is recorded all the same, and nothing follows from
    it. StateError PB-STATE-BRANCH for everything that is not a worker's."""
    now = opened.standing
    if not now.instead:
        _bind(store, opened, seen)
        return True
    if isinstance(seen, Returned | Asked | Lost) and _follow(store, opened, seen):
        return True
    if isinstance(seen, Returned | Asked):
        return False
    due = machine.directive(opened.state)
    if isinstance(due, Finish) and seen is None:
        return False
    if at_work(due) and (seen is None or (now.rebasing and isinstance(seen, Answered))):
        return False
    raise refusal(store.checkout, opened.manifest, now)


def require(store: DiskStore, opened: OpenSession) -> None:
    """StateError PB-STATE-BRANCH on another branch, unless a step that runs may have switched."""
    here, run = checkout.refreshed(store.checkout), at_work(machine.directive(opened.state))
    steps = () if run is None else (member.step for member in run.members)
    if opened.standing.instead and not any(_names(opened, step, here) for step in steps):
        raise refusal(store.checkout, opened.manifest, opened.standing)


def move(store: DiskStore, opened: OpenSession, by: str) -> None:
    """Let the session belong to the branch that is checked out, as a person has said. session.yaml
    records it among what was `confirmed`. StateError PB-STATE-BRANCH if there is none."""
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
    store.bring_children(opened)


def _bind(store: DiskStore, opened: OpenSession, seen: Observation | None) -> None:
    """A session that began on no branch gets the one that a `branch` step has switched to."""
    if opened.manifest.branch or not isinstance(seen, Returned):
        return
    if opened.playbook.step(seen.id.partition("#")[0]).namespace == "branch":
        here = checkout.refreshed(store.checkout)
        opened.stands(Standing(here.branch), here.head)


def _follow(store: DiskStore, opened: OpenSession, seen: Returned | Asked | Lost) -> bool:
    """True if the step has switched the branch, to all appearances; the session then follows. A
    worker that was lost may have ended long before a person switched: only its name counts."""
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
    """True if the step itself says that it switches to the branch that is checked out."""
    values, given = opened.playbook.values(opened.manifest.args, step), step.args
    with suppress(CheckError):  # it is no arg of this playbook's
        given = interpolate(step.args, values)
    text = f"{shown(step.command, values)} {given} {step.options}"
    says = step.namespace in ("branch", SLASH) or _SWITCHES.search(text) is not None
    name = rf"(?<![\w./-]){re.escape(here.branch)}(?![\w./-])"
    return bool(here.branch) and says and re.search(name, text) is not None


def _created_since(launch: Launch, here: Checkout, launched: int) -> bool:
    """True if the branch that is checked out was made after a launch, from what was there then.
    `launched` is the launch's time by the machine's clock, in ms."""
    at, before, _ = next(checkout.branch_log(here), (0, "", ""))
    new = at + SECOND > launched and not before.strip("0") and bool(before)
    return new and (not launch.head or contains(here, launch.head))
