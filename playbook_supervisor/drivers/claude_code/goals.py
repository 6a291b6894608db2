"""Goals: a conversation does not end its turn before `proved: CHECK` holds.

A person sets one with `/playbook.goal CHECK`; it needs neither a playbook nor a session. It is kept
for the client's process in the user's state folder, with the settings and the tree of its
beginning, and the script looks for it there at Stop. The model is told what does not
hold yet a few times; then, and where the tests have changed, the person decides.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playbook_supervisor.drivers.claude_code.context import HookReply, goes_on
from playbook_supervisor.drivers.claude_code.marker import GOALS
from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.formats.sanitize import counted, first_line
from playbook_supervisor.kernel.directives import BY_A_PERSON, Answer
from playbook_supervisor.project.proofs.proved import Judgement, Options, judge
from playbook_supervisor.project.proofs.questions import question
from playbook_supervisor.project.settings import config
from playbook_supervisor.project.settings.checks import Checking, find_check
from playbook_supervisor.records import as_mapping, replace
from playbook_supervisor.sessions.steps.attempt_log import secret_values
from playbook_supervisor.system.disk import user_state
from playbook_supervisor.system.disk.files import ensure_folder, remove, write_atomically
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.git.checkout import Checkout, Pinned
from playbook_supervisor.system.git.tree import pinned_now, short, tree_id
from playbook_supervisor.system.process import ancestry

TRIES = 5
"""How often in a turn the model is told that the goal does not hold; the client allows eight."""

_OFF, _ACCEPT = "off", "accept"
_TYPED = "UserPromptExpansion"
_FOLDER = GOALS.partition("/")[2]
_MOST_LINES = 25
_ONLY_THE_USER = 0o600
_TELLS = (
    "The goal of this conversation: `proved: {check}`. When you end your turn, playbook runs the "
    "check itself and says what does not hold. The tests that are there now count: a change of one "
    "is shown to the person, who decides."
)
_NO_GOAL = "this conversation has no goal"
_SET_ONE = "Set one with `/playbook.goal CHECK`, a name under `checks` in .playbooks/config.yaml."


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal. `settings` and `pinned` are those of its beginning, `root` that of the checkout.

    `born` distinguishes the client from a later process with the same number. `tries` counts what
    the model was told in this turn. `asked` is the digest of the change of tests that a person was
    shown last, and `accepted` that of the one that they allowed.
    """

    check: str
    root: str
    born: str
    settings: str
    pinned: Pinned
    tries: int = 0
    asked: str = ""
    accepted: str = ""


# ── what a person types ─────────────────────────────────────────────────────────────────────


def typed(here: Checkout, words: Sequence[str], pid: int, *, interactive: bool) -> HookReply:
    """Set the goal of that client, show it, drop it, or accept the change of tests that it asked.

    StateError if there is nothing to drop or to accept, errors of `find_check`, `config.load` and
    `tree_id`.
    """
    word = words[0] if words else ""
    if word not in ("", _OFF, _ACCEPT):
        return _set(here, word, pid)
    goal = _read(pid)
    if goal is None:
        raise StateError("PB-STATE-NO-SESSION", _NO_GOAL, guidance=_SET_ONE)
    if word == _OFF:
        remove(_file(pid))
        return _told(f"The goal {_name(goal)} is dropped.")
    if not word:
        return _told(f"The goal is {_name(goal)}. `/playbook.goal off` drops it.")
    if not interactive:
        raise StateError("PB-STATE-HUMAN-ONLY", "only a person accepts a change of tests")
    if not goal.asked:
        raise StateError("PB-STATE-NO-GATE", "the goal has asked nothing")
    _keep(pid, replace(goal, accepted=goal.asked, asked="", tries=0))
    return _told("The change of tests is accepted; the goal is checked when this turn ends.")


def _set(here: Checkout, check: str, pid: int) -> HookReply:
    find_check(check, config.load(here.root))
    settings = config.text(here.root) or b""
    pinned = pinned_now(here.root)
    pinned = replace(pinned, tree=tree_id(here.root, pinned))
    client = ancestry.process(pid)
    born = client.born if client else ""
    goal = Goal(check, str(here.root), born, settings.decode("utf-8", "replace"), pinned)
    _keep(pid, goal)
    shown = f"Goal: {_name(goal)}, since tree {short(pinned.tree)}. `/playbook.goal off` drops it."
    return HookReply(_TYPED, note=_TELLS.format(check=check), shown=shown)


def _told(message: str) -> HookReply:
    return HookReply(_TYPED, note=message, shown=message)


def _name(goal: Goal) -> str:
    return f"proved={goal.check}"


# ── the end of a turn ───────────────────────────────────────────────────────────────────────


def stop(pid: int, payload: Mapping[str, Any], environment: Mapping[str, str]) -> HookReply | None:
    """Let the turn end if the goal holds, or if a person is needed; None without a goal."""
    try:
        goal = _read(pid)
        if goal is None or _agents_at_work(payload):
            return None  # their end begins another turn
        found = _judged(goal)
    except PlaybookError as error:
        return _shown(f"The goal could not be checked, and stays: {error.message}")
    if not payload.get("stop_hook_active"):
        goal = replace(goal, tries=0)
    accepted = bool(found.asked) and found.asked == goal.accepted
    if found.answer is Answer.HELD or accepted:
        remove(_file(pid))
        by = f", {BY_A_PERSON}" if accepted else ""
        return _shown(f"Goal reached: {_name(goal)}: {found.evidence}{by}")
    if found.asked:
        _keep(pid, replace(goal, asked=found.asked))
        return _shown("\n".join(_question(goal, found)))
    goal = replace(goal, asked="", tries=goal.tries + 1)
    _keep(pid, goal)
    if goal.tries > TRIES:
        said = f"The goal {_name(goal)} is not reached after {TRIES} more tries"
        return _shown(f"{said}: {found.evidence}\nIt stays. `/playbook.goal off` drops it.")
    return HookReply(
        "Stop",
        decision="go on" if goes_on(environment) else "block",
        reason=f"The goal does not hold yet ({goal.tries} of {TRIES}).",
        note=f"Go on until it does; it is checked again when you stop.\n{found.evidence}",
    )


def _agents_at_work(payload: Mapping[str, Any]) -> bool:
    """True if agents work in the background; a shell there may be a server, which never ends."""
    tasks = payload.get("background_tasks")
    listed = tasks if isinstance(tasks, list) else []
    return any(isinstance(each, dict) and each.get("type") != "shell" for each in listed)


def _judged(goal: Goal) -> Judgement:
    settings, _ = config.examine(goal.settings.encode(), config.FILE)
    root = Path(goal.root)
    worker_file = checkout.find(root).runtime / f"worker-goal-{os.getpid()}"
    secrets = secret_values(os.environ)
    checking = Checking(by="goal", worker_file=worker_file, secrets=secrets)
    spec = find_check(goal.check, settings)
    return judge(spec, Options(), root, settings, checking, goal.pinned)


def _question(goal: Goal, found: Judgement) -> list[str]:
    lines = question(Path(goal.root), found.asked)
    cut = [f"… {counted(len(lines) - _MOST_LINES, 'more line')}"] * (len(lines) > _MOST_LINES)
    return [
        f"The goal {_name(goal)} needs your decision: tests have changed, or what they rest on.",
        *(f"  {line}" for line in (*lines[:_MOST_LINES], *cut)),
        found.evidence,
        "`/playbook.goal accept` allows this change; or say what is to be different.",
    ]


def _shown(message: str) -> HookReply:
    return HookReply("Stop", ring=first_line(message, 120), shown=message)


# ── files ───────────────────────────────────────────────────────────────────────────────────


def _file(pid: int) -> Path:
    return user_state.path(f"{_FOLDER}/{pid}")


def _read(pid: int) -> Goal | None:
    """The goal of that client; None without one. StateError if what is kept is damaged."""
    shape: Any = user_state.load(f"{_FOLDER}/{pid}")
    if shape is None:
        return None
    try:
        goal = Goal(**{**shape, "pinned": Pinned(**shape["pinned"])})
    except (TypeError, KeyError) as error:
        raise user_state.damaged(f"{_FOLDER}/{pid}", str(error)) from error
    return goal if ancestry.lives(pid, goal.born) else None


def _keep(pid: int, goal: Goal) -> None:
    folder = _file(pid).parent
    ensure_folder(folder)
    for other in folder.iterdir():
        number = other.name.partition(".")[0]
        if number.isdecimal() and ancestry.process(int(number)) is None:
            remove(other)
    data = json.dumps({**as_mapping(goal), "pinned": as_mapping(goal.pinned)}).encode()
    write_atomically(_file(pid), data, durable=False, permissions=_ONLY_THE_USER)
