"""Loops: every item has its turn, in order; and no step has more rounds than it may."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from playbook_supervisor.audit.context import AuditContext, found
from playbook_supervisor.audit.lenient_session import LooseEntry
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.formats.sanitize import counted
from playbook_supervisor.kernel.model import item_number
from playbook_supervisor.kernel.state import UNTIL
from playbook_supervisor.kernel.vocabulary import EntryStatus, Place, Resolution, SessionStatus


def check(context: AuditContext) -> Iterator[Problem]:
    """Items that are out of order or missing, and rounds that may not have been."""
    loops: dict[str, list[LooseEntry]] = {}
    rounds: dict[str, list[LooseEntry]] = {}
    for entry in context.journal.entries:
        if entry.items or item_number(entry.step_id):
            loops.setdefault(entry.step, []).append(entry)
        if entry.error_code == UNTIL:
            rounds.setdefault(entry.step_id, []).append(entry)
    for items in loops.values():
        yield from _items(context, items)
    for failed in rounds.values():
        yield from _rounds(context, failed)


def _items(context: AuditContext, entries: Sequence[LooseEntry]) -> Iterator[Problem]:
    """The first contradiction among the items of one loop."""
    number, latest = entries[0].items, 0
    for entry in entries:
        item = item_number(entry.step_id)
        why = ""
        if "items" in entry.unclear:
            return
        if entry.items != number:
            why = (
                f"{entry.name} says that there are {entry.items} items, {entries[0].name} {number}"
            )
        elif not 0 < item <= number:
            why = f"{entry.name} is none of {counted(number, 'item')}"
        elif item > latest + 1:
            why = f"{entry.name} began before item {latest + 1}"
        if why:
            yield found("AUD-ITEMS", why, entry, "items" if entry.items != number else "step_id")
            return
        latest = max(latest, item)
    ended = context.session is not None and context.session.status is SessionStatus.COMPLETED
    if ended and latest < number and not any(map(ends_loop, entries)):
        message = f"the session is completed, but {entries[-1].name} is the last of {number} items"
        yield found("AUD-ITEMS", message, entries[-1], "step_id")


def ends_loop(entry: LooseEntry) -> bool:
    """Whether a person skipped the rest of the loop, at the gate before it."""
    return entry.status is EntryStatus.SKIPPED and any(
        gate.place is Place.BEFORE and gate.resolution is Resolution.SKIP for gate in entry.gates
    )


def _rounds(context: AuditContext, failed: Sequence[LooseEntry]) -> Iterator[Problem]:
    """A round that failed is followed by another, so the last one never has this error."""
    step = context.step(failed[0])
    if not step.id or step.rounds is None:
        return
    asked = sum(entry.resolution is Resolution.RETRY for entry in failed)
    if len(failed) - asked >= max(step.rounds, 1) * (asked + 1):
        may = f"at most {counted(step.rounds, 'round')}" if step.rounds else "no `until`"
        message = f"{failed[-1].name} is followed by another round, but its step has {may}"
        yield found("AUD-ROUNDS", message, failed[-1], "error_code")
