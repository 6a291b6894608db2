"""The transition table: where a step stands, what may be observed, where it may stand afterwards.

What is not in the table is refused and changes nothing. `docs/state-machine.md` is generated from
it, and the walk over all small playbooks proves that it is complete and that no row is idle.
What cannot be in a table (what a group's members mean to each other) stands in `phases.py`.
"""

from __future__ import annotations

from enum import StrEnum

from playbook_supervisor.kernel.directives import (
    Answered,
    Begun,
    Cancellation,
    Cancelled,
    Checked,
    Lost,
    Observation,
    Returned,
)
from playbook_supervisor.kernel.state import Position


class Move(StrEnum):
    """An observation as one step sees it."""

    BEGUN = "begun from a later step"
    CHECKED_BEFORE = "checked before"
    CHECKED_AFTER = "checked after"
    RETURNED = "returned"
    FINISHED = "lost, but finished"
    BROKEN_OFF = "lost, unfinished"
    CONTINUE = "answered continue"
    RETRY = "answered retry"
    ACCEPT = "answered accept"
    SKIP = "answered skip"
    ABORT = "aborted"
    INTERRUPT = "interrupted"
    TAKEN_UP = "taken up again"


P, M = Position, Move

TABLE: dict[tuple[Position, Move], tuple[Position, ...]] = {
    # nothing has been started, or another attempt is to follow
    (P.DUE, M.BEGUN): (P.SKIPPED,),
    (P.DUE, M.CHECKED_BEFORE): (P.DUE, P.SKIPPED, P.GATED, P.RUNNING, P.FAILED),
    (P.DUE, M.ABORT): (P.SKIPPED, P.DUE),
    # a gate before the step
    (P.GATED, M.CONTINUE): (P.CLEARED,),
    (P.GATED, M.ACCEPT): (P.CLEARED,),
    (P.GATED, M.SKIP): (P.SKIPPED,),
    (P.GATED, M.ABORT): (P.SKIPPED,),
    (P.CLEARED, M.CHECKED_BEFORE): (P.CLEARED, P.GATED, P.RUNNING, P.FAILED),
    (P.CLEARED, M.ABORT): (P.SKIPPED,),
    # the work
    (P.RUNNING, M.RETURNED): (P.RETURNED,),
    (P.RUNNING, M.FINISHED): (P.RETURNED,),
    (P.RUNNING, M.BROKEN_OFF): (P.DUE,),
    (P.RUNNING, M.INTERRUPT): (P.DUE,),
    (P.RUNNING, M.ABORT): (P.FAILED,),
    # the judgement
    (P.RETURNED, M.CHECKED_AFTER): (P.DONE, P.HELD, P.DUE, P.FAILED),
    (P.RETURNED, M.ABORT): (P.FAILED,),
    # a gate after the step
    (P.HELD, M.CONTINUE): (P.RETURNED,),
    (P.HELD, M.RETRY): (P.DUE,),
    (P.HELD, M.ACCEPT): (P.DONE,),
    (P.HELD, M.ABORT): (P.FAILED,),
    # the end, and the way back from it
    (P.FAILED, M.TAKEN_UP): (P.DUE,),
}
"""(position, move) → the positions that may follow, for one step."""


def move(observation: Observation) -> Move:
    """The row's second key for an observation (for `Begun`, as the skipped steps see it)."""
    match observation:
        case Begun():
            return Move.BEGUN
        case Checked(id=check):
            return Move.CHECKED_BEFORE if check.startswith("before:") else Move.CHECKED_AFTER
        case Returned():
            return Move.RETURNED
        case Lost(finished=finished):
            return Move.FINISHED if finished else Move.BROKEN_OFF
        case Answered(resolution=resolution):
            return ANSWERS[resolution.value]
        case Cancelled(how=how):
            return Move.ABORT if how is Cancellation.ABORT else Move.INTERRUPT
        case _:
            return Move.TAKEN_UP


ANSWERS = {
    "continue": Move.CONTINUE,
    "retry": Move.RETRY,
    "accept": Move.ACCEPT,
    "skip": Move.SKIP,
    "abort": Move.ABORT,
}
