"""Order: steps and the items of loops have their turns, and attempts and rounds are counted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from playbook_supervisor.audit.context import AuditContext, found
from playbook_supervisor.audit.lenient_playbook import LoosePlaybook
from playbook_supervisor.audit.lenient_session import LooseEntry
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.formats.sanitize import counted, first_line
from playbook_supervisor.formats.timestamps import to_time
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import item_number
from playbook_supervisor.kernel.state import INTERRUPTED, UNTIL
from playbook_supervisor.kernel.vocabulary import EntryStatus, Place, Resolution, SessionStatus

_NO_RETRY = frozenset({INTERRUPTED, UNTIL})
"""Codes of attempts that another may follow whatever the error policy says."""


def check(context: AuditContext) -> Iterator[Problem]:
    """Steps, attempts and items that are out of order, and rounds that may not have been."""
    for attempts in _by_step(context.journal.entries).values():
        yield from _counted(context, attempts)
    passes = list(_passes(context))
    for number, entries in enumerate(passes):
        yield from _attempts(context, entries)
        later = {entry.step for each in passes[number + 1 :] for entry in each}
        yield from _loops(context, entries, later)
    if context.journal.ours:
        yield from _by_start(context)
    if context.outline is not None:
        yield from _phases(context, context.outline, passes)
        for entries in passes:
            yield from _overlaps(context, context.outline, entries)
        yield from _sent_back(context, context.outline)


def _passes(context: AuditContext) -> Iterator[list[LooseEntry]]:
    entries: list[LooseEntry] = []
    target: int | None = None
    for entry in context.journal.entries:
        phase = context.phase(entry)
        if target is not None and phase is not None and phase <= target:
            yield entries
            entries, target = [], None
        entries.append(entry)
        if entry.back_to and context.outline is not None:
            named = context.outline.phase_of.get(entry.back_to)
            target = named if target is None or named is None else min(target, named)
    yield entries


def _sent_back(context: AuditContext, outline: LoosePlaybook) -> Iterator[Problem]:
    """An attempt sends back to an earlier step, by a person's answer or by its `on_fail`."""
    times: dict[str, int] = {}
    for entry in (each for each in context.journal.entries if each.back_to):
        step, here = context.step(entry), context.phase(entry)
        times[entry.step] = times.get(entry.step, 0) + 1
        target = first_line(entry.back_to, 60)
        if here is not None and outline.phase_of.get(entry.back_to, here) >= here:
            message = f"{entry.name} sent back to {target}, which is no earlier step"
            yield found("AUD-BACK", message, entry, "back_to")
        elif entry.resolution is not Resolution.BACK and (
            step.back_to != entry.back_to or times[entry.step] > step.times
        ):
            message = f"{entry.name} sent back to {target} by itself, which its playbook does not "
            message += f"say, or {counted(step.times, 'time')} at most"
            yield found("AUD-BACK", message, entry, "back_to")


# ── the attempts at one step ────────────────────────────────────────────────────────────────


def _by_step(entries: Sequence[LooseEntry]) -> dict[str, list[LooseEntry]]:
    steps: dict[str, list[LooseEntry]] = {}
    for entry in entries:
        if entry.step_id:
            steps.setdefault(entry.step_id, []).append(entry)
    return steps


def _attempts(context: AuditContext, entries: Sequence[LooseEntry]) -> Iterator[Problem]:
    for attempts in _by_step(entries).values():
        yield from _retried(context, attempts)
        for previous, entry in pairwise(attempts):
            if entry.number <= previous.number:
                continue
            if previous.status in (EntryStatus.DONE, EntryStatus.SKIPPED):
                message = f"{entry.name} began although {previous.name} was {previous.status}"
                yield found("AUD-AGAIN", message, entry, "step_id")
            yield from _overlap(context, entry, previous)


def _counted(context: AuditContext, attempts: list[LooseEntry]) -> Iterator[Problem]:
    """Attempts are numbered 1, 2, 3 and so on; only our journals number them."""
    if not context.journal.ours:
        return
    seen: set[int] = set()
    latest = 0
    for entry in attempts:
        if entry.number in seen:
            message = f"there are two entries with the id {entry.name}"
            yield found("AUD-TWICE", message, entry, "step_id")
        elif entry.number != latest + 1:
            message = f"{entry.name} follows attempt {latest}"
            yield found("AUD-ATTEMPT", message, entry, "attempt")
        seen.add(entry.number)
        latest = max(latest, entry.number)


def _retried(context: AuditContext, attempts: list[LooseEntry]) -> Iterator[Problem]:
    policy, foreign = context.step(attempts[0]).policy, not context.journal.ours
    # journals of other tools do not say who restarted a stopped session
    if policy is None or (foreign and policy != ErrorPolicy.RETRY_ONCE):
        return
    automatic = 0
    for previous, entry in pairwise(attempts):
        asked = previous.resolution is Resolution.RETRY or previous.error_code in _NO_RETRY
        if foreign:
            asked = asked or bool(previous.human_response or entry.human_response)
        if asked or previous.status is not EntryStatus.FAILED:
            continue
        automatic += 1
        handling = policy.handling(previous.error_code)
        if automatic > handling.retries:
            message = f"{entry.name}: `{handling.word}` does not allow this attempt"
            yield found("AUD-RETRY", message, entry, "step_id")
            return


# ── one step after another ──────────────────────────────────────────────────────────────────


def _by_start(context: AuditContext) -> Iterator[Problem]:
    latest: LooseEntry | None = None
    for entry in context.journal.entries:
        if entry.started_at is None:
            continue
        if latest is not None and entry.started_at < (latest.started_at or 0):
            message = f"{entry.name} began before {latest.name}, which precedes it"
            yield found("AUD-ORDER", message, entry, "started_at")
        else:
            latest = entry


def _phases(
    context: AuditContext, outline: LoosePlaybook, passes: Sequence[Sequence[LooseEntry]]
) -> Iterator[Problem]:
    first = 0
    for entries in passes:
        waiting = {step: phase for step, phase in outline.phase_of.items() if phase >= first}
        yield from _unsettled(context, waiting, entries)
        targets = (outline.phase_of.get(entry.back_to, 0) for entry in entries if entry.back_to)
        first = min(targets, default=0)


def _unsettled(
    context: AuditContext, waiting: dict[str, int], entries: Sequence[LooseEntry]
) -> Iterator[Problem]:
    loops: dict[str, tuple[int, set[str]]] = {}
    for entry in entries:
        phase = context.phase(entry)
        if phase is None:
            if context.files.pinned and entry.step_id:
                message = f"{entry.name} belongs to no step of the playbook"
                yield found("AUD-STEP", message, entry, "step_id")
            continue
        while (step_id := next(iter(waiting), "")) and waiting[step_id] < phase:
            del waiting[step_id]
            message = f"{entry.name} began before {first_line(step_id, 60)} was settled"
            yield found("AUD-PHASE", message, entry, "step_id")
        if entry.status is None or settled(context, entry):
            number, over = loops.setdefault(entry.step, (entry.items, set()))
            over.add(entry.step_id)
            if entry.step_id == entry.step or len(over) >= number or _ends_loop(entry):
                waiting.pop(entry.step, None)


def settled(context: AuditContext, entry: LooseEntry) -> bool:
    """True if the run may continue after the entry, perhaps because a failure was waived."""
    if entry.status is not EntryStatus.FAILED or entry.resolution is Resolution.ABORT:
        return entry.passed
    return bool(entry.waived) or context.step(entry).tolerates(entry.error_code)


def _overlaps(
    context: AuditContext, outline: LoosePlaybook, entries: Sequence[LooseEntry]
) -> Iterator[Problem]:
    last: dict[int, LooseEntry] = {}
    for entry in entries:
        phase = context.phase(entry)
        if phase is not None and _end(entry) > _end(last.get(phase)):
            last[phase] = entry
    before: dict[int | None, LooseEntry | None] = {}
    latest: LooseEntry | None = None
    for phase in range(len(outline.steps)):
        before[phase] = latest
        if _end(last.get(phase)) > _end(latest):
            latest = last[phase]
    for entry in entries:
        previous = before.get(context.phase(entry))
        if previous is not None:
            yield from _overlap(context, entry, previous)


def _end(entry: LooseEntry | None) -> int:
    return entry.completed_at or 0 if entry is not None else 0


def _overlap(context: AuditContext, entry: LooseEntry, previous: LooseEntry) -> Iterator[Problem]:
    start, end = entry.started_at, previous.completed_at
    backwards = end is not None and end < (previous.started_at or end)
    if start is not None and end is not None and not backwards and start < end - context.tolerance:
        message = f"{entry.name} began at {to_time(start)}, before {previous.name} ended"
        yield found("AUD-OVERLAP", message, entry, "started_at")


# ── items and rounds ────────────────────────────────────────────────────────────────────────


def _loops(
    context: AuditContext, entries: Sequence[LooseEntry], later: Collection[str]
) -> Iterator[Problem]:
    """`later` are the steps that ran again after these entries: their loops need not be whole."""
    loops: dict[str, list[LooseEntry]] = {}
    rounds: dict[str, list[LooseEntry]] = {}
    for entry in entries:
        if entry.items or item_number(entry.step_id):
            loops.setdefault(entry.step, []).append(entry)
        if entry.error_code == UNTIL:
            rounds.setdefault(entry.step_id, []).append(entry)
    for loop, items in loops.items():
        yield from _items(context, items, whole=loop not in later)
    for failed in rounds.values():
        yield from _rounds(context, failed)


def _items(
    context: AuditContext, entries: Sequence[LooseEntry], *, whole: bool
) -> Iterator[Problem]:
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
    if whole and ended and latest < number and not any(map(_ends_loop, entries)):
        message = f"the session is completed, but {entries[-1].name} is the last of {number} items"
        yield found("AUD-ITEMS", message, entries[-1], "step_id")


def _ends_loop(entry: LooseEntry) -> bool:
    """True if a person skipped the rest of the loop, at the gate before it."""
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
