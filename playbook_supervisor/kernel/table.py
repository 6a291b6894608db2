"""The transition table: the legal moves at each position, the rule for each, and what may follow.

`machine.decide` does nothing else: a move without a row is refused and changes nothing, and a rule
that leads to a position outside its row is a bug. `docs/state-machine.md` is generated from it.
How the members of a parallel group affect each other cannot be in a table: see `phases.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from playbook_supervisor.kernel import gates, recovery, steps
from playbook_supervisor.kernel.model import Step
from playbook_supervisor.kernel.state import Event, Position, State
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.records import Record

# The move determines which class of observation the rule is given.
Rule = Callable[[State, Step, Any, int], Event]


class Move(StrEnum):
    """An observation from the point of view of one step."""

    BEGUN_LATER = "begun from a later step"
    CHECKED_BEFORE = "checked before"
    CHECKED_AFTER = "checked after"
    UNDONE = "undone"
    ASKED = "asked a person"
    RETURNED = "returned"
    FINISHED = "lost, but finished"
    BROKEN_OFF = "lost, unfinished"
    CONTINUE = "answered continue"
    RETRY = "answered retry"
    ACCEPT = "answered accept"
    SKIP = "answered skip"
    BACK = "answered back"
    ABORT = "answered abort"
    ALLOW = "answered allow"
    ALWAYS = "answered always"
    DENY = "answered deny"
    ANSWER = "answered in words"
    ABORTED = "aborted"
    """The session was aborted, and not at a gate of this step."""
    INTERRUPTED = "interrupted"
    TAKEN_UP = "retried"


ANSWERED = {resolution: Move[resolution.name] for resolution in Resolution}
"""The move of the step whose gate was answered."""


class Transition(Record):
    """One row: the rule that decides, and the positions to which it may lead."""

    rule: Rule
    then: tuple[Position, ...]


P, M, To = Position, Move, Transition

TABLE: dict[tuple[Position, Move], Transition] = {
    # no attempt has begun, or another one follows
    (P.DUE, M.BEGUN_LATER): To(steps.skip_earlier, (P.SKIPPED,)),
    (P.DUE, M.CHECKED_BEFORE): To(
        steps.before_run,
        (P.DUE, P.SKIPPED, P.GATED, P.RUNNING, P.RETURNED, P.TOLERATED, P.FAILED),
    ),
    (P.DUE, M.ABORTED): To(recovery.abort_before, (P.SKIPPED,)),
    # a gate before the step
    (P.GATED, M.CONTINUE): To(gates.answer, (P.CLEARED,)),
    (P.GATED, M.ACCEPT): To(gates.answer, (P.CLEARED,)),
    (P.GATED, M.SKIP): To(gates.answer, (P.SKIPPED,)),
    (P.GATED, M.BACK): To(gates.answer, (P.SENT_BACK,)),
    (P.GATED, M.ABORT): To(gates.answer, (P.SKIPPED,)),
    (P.GATED, M.ABORTED): To(recovery.abort, (P.SKIPPED,)),
    (P.CLEARED, M.CHECKED_BEFORE): To(
        steps.before_run,
        (P.CLEARED, P.GATED, P.RUNNING, P.RETURNED, P.TOLERATED, P.FAILED),
    ),
    (P.CLEARED, M.ABORTED): To(recovery.abort, (P.SKIPPED,)),
    # the run
    (P.RUNNING, M.ASKED): To(gates.open_during, (P.ASKING,)),
    (P.RUNNING, M.RETURNED): To(steps.record_return, (P.RETURNED,)),
    (P.RUNNING, M.FINISHED): To(recovery.count_as_returned, (P.RETURNED,)),
    (P.RUNNING, M.BROKEN_OFF): To(recovery.break_off, (P.DUE,)),
    (P.RUNNING, M.INTERRUPTED): To(recovery.break_off, (P.DUE,)),
    (P.RUNNING, M.ABORTED): To(recovery.abort, (P.FAILED,)),
    # a gate during the run
    (P.ASKING, M.ALLOW): To(gates.answer, (P.RUNNING,)),
    (P.ASKING, M.ALWAYS): To(gates.answer, (P.RUNNING,)),
    (P.ASKING, M.DENY): To(gates.answer, (P.RUNNING,)),
    (P.ASKING, M.ANSWER): To(gates.answer, (P.RUNNING,)),
    (P.ASKING, M.ABORT): To(gates.answer, (P.FAILED,)),
    (P.ASKING, M.ABORTED): To(recovery.abort, (P.FAILED,)),
    # the judgement
    (P.RETURNED, M.CHECKED_AFTER): To(
        steps.after_run, (P.DONE, P.HELD, P.DUE, P.TOLERATED, P.UNDOING, P.SENT_BACK, P.FAILED)
    ),
    (P.RETURNED, M.ABORTED): To(recovery.abort, (P.FAILED,)),
    # a gate after the step
    (P.HELD, M.CONTINUE): To(gates.answer, (P.RETURNED,)),
    (P.HELD, M.RETRY): To(gates.answer, (P.DUE,)),
    (P.HELD, M.ACCEPT): To(gates.answer, (P.DONE, P.RETURNED)),
    (P.HELD, M.BACK): To(gates.answer, (P.SENT_BACK,)),
    (P.HELD, M.ABORT): To(gates.answer, (P.FAILED,)),
    (P.HELD, M.ABORTED): To(recovery.abort, (P.FAILED,)),
    # what a failed attempt has changed is undone
    (P.UNDOING, M.UNDONE): To(steps.undone, (P.TOLERATED, P.FAILED)),
    (P.UNDOING, M.ABORTED): To(recovery.abort_failed, (P.FAILED,)),
    # a failed session is resumed
    (P.FAILED, M.TAKEN_UP): To(recovery.take_up, (P.DUE,)),
}
"""(position, move) → the rule and the positions that may follow, for one step."""
