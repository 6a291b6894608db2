"""The context of a gate in words: at most 25 lines, those first that decide most.

Every place that shows a gate shows these lines: the terminal, the page, JSON, Claude Code's dialog.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from playbook_supervisor.formats.sanitize import counted, first_line, last_line
from playbook_supervisor.formats.timestamps import duration
from playbook_supervisor.kernel.gates import LONGEST_ERROR
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.kernel.vocabulary import EntryStatus, Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.sessions.gate_context import GateContext, Waiver

MOST_LINES = 25
_MOST_SHORT = 8
_WIDTH = 160  # characters of a line
_MOST_ERROR_LINES, _MOST_SAID, _LEAST_CHANGES = 3, 4, 4
_TOTAL = r"\s*[0-9]+ files? changed"
_MARKS = {EntryStatus.DONE: "✓", EntryStatus.FAILED: "✗", EntryStatus.SKIPPED: "–"}


def lines(context: GateContext | None) -> list[str]:
    """What to show below the question; empty where no gate is open.

    First who may answer and what went wrong, then what was waived and the verdicts, what the agent
    said, what each step left, and the changes in the repository. If there is more than fits, steps
    and changed files are left out and counted.
    """
    if context is None:
        return []
    head = _head(context)
    tail = list(_repository(context))
    steps = [settled_line(entry) for entry in context.settled]
    room = MOST_LINES - min(len(tail), 1 + _LEAST_CHANGES)
    head = _fitting(head, room - min(len(steps), 1))
    steps = _last_fitting(steps, room - len(head))
    tail = _fitting(tail, MOST_LINES - len(head) - len(steps))
    return [_cut(line) for line in [*head, *steps, *tail]]


def short(context: GateContext | None) -> list[str]:
    """The most telling lines, for a dialog in which the choices need room as well."""
    if context is None:
        return []
    repository = next(_repository(context))
    return [_cut(line) for line in [*_fitting(_head(context), _MOST_SHORT), repository]]


def _head(context: GateContext) -> list[str]:
    head = [f"answered by: {people}" for people in context.people]
    head += _rest_of_error(context.entry.error)
    if context.guidance:
        head.append(f"to fix it: {context.guidance}")
    said, judged = list(_said(context)), list(_judged(context))
    after = context.gate.place is Place.AFTER
    return head + ([*said, *judged] if after else [*judged, *said])


def settled_line(entry: Entry) -> str:
    """A settled attempt in one line, with its reason: `plan ✓ 45 s · plan_exists: …`."""
    name = entry.step_id if entry.attempt == 1 else entry.id
    words = [name, _MARKS.get(entry.status, "…")]
    if entry.status is not EntryStatus.SKIPPED and entry.completed_at is not None:
        words.append(duration(entry.completed_at - entry.started_at))
    why = reason(entry)
    return " · ".join([" ".join(words), *([why] if why else [])])


def reason(entry: Entry) -> str:
    """Why an attempt was settled, in one line: its evidence, its error, or a human's words."""
    if entry.status is EntryStatus.FAILED:
        return first_line(entry.error)
    if entry.status is EntryStatus.SKIPPED:
        return first_line(entry.human_response) or "skipped by the playbook"
    if entry.waived and not entry.evidence:
        return f"waived: {', '.join(map(first_line, entry.waived))}"
    if entry.evidence:
        return first_line(entry.evidence[-1])
    return f"said: {last_line(entry.output)}" if entry.output else ""


def _rest_of_error(error: str) -> list[str]:
    """What the question has left out of a long error."""
    rest = " ".join(error.split())[LONGEST_ERROR - 1 :]
    pieces = [rest[at : at + _WIDTH - 2] for at in range(0, len(rest), _WIDTH - 2)]
    return [f"… {piece}" for piece in pieces[:_MOST_ERROR_LINES]]


def _said(context: GateContext) -> Iterator[str]:
    said = context.said.text.splitlines()
    if len(said) == 1:
        yield f"{context.said.attempt} said last: {said[0]}"
    elif said:
        yield f"{context.said.attempt} said last:"
        yield from (f"  {line}" for line in said[-_MOST_SAID:])


def _judged(context: GateContext) -> Iterator[str]:
    """What was waived, the verdicts as they are now, and what else holds for this step."""
    for waiver in context.waivers:
        yield f"waived at {waiver.attempt}: {_waived(waiver)}"
    shown = set()
    for probed in context.verdicts:
        shown.add(f"{probed.name}: {probed.evidence}")
        yield f"{'✓' if probed.held else '✗'} {probed.name}: {probed.evidence}"
    yield from (f"✓ {line}" for line in context.entry.evidence if line not in shown)


def _waived(waiver: Waiver) -> str:
    names = ", ".join(waiver.names)
    by = f" by {waiver.by}" if waiver.by else ""
    return f"{names}{by}{f' ({waiver.text})' if waiver.text else ''}"


def _repository(context: GateContext) -> Iterator[str]:
    where = f"branch {context.branch}" if context.branch else "no branch"
    number = len(context.commits) + context.more_commits
    total = [line.strip() for line in context.changes if re.match(_TOTAL, line)]
    facts = [where, counted(number, "commit") if number else "no commits", *total]
    if not context.changes:
        facts.append("no changes")
    yield f"{', '.join(facts)} since the session began"
    yield from (f"  {commit}" for commit in context.commits)
    if context.more_commits:
        yield f"  … and {context.more_commits} more"
    yield from (f"  {line.strip()}" for line in context.changes if line.strip() not in total)


def _cut(line: str) -> str:
    """The line, harmless and not too long; an indented one stays so."""
    shown = first_line(line, _WIDTH)
    return f"  {shown}" if line.startswith("  ") else shown


def _fitting(lines: Sequence[str], most: int) -> list[str]:
    if len(lines) <= most:
        return list(lines)
    return [*lines[: most - 1], f"  … {counted(len(lines) - most + 1, 'more line')}"]


def _last_fitting(steps: Sequence[str], most: int) -> list[str]:
    if len(steps) <= most:
        return list(steps)
    left_out = len(steps) - most + 1
    return [f"… {counted(left_out, 'earlier step')}", *steps[left_out:]]
