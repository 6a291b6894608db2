"""The context of a gate in words: at most 25 lines, those first that decide most.

Every place that shows a gate shows these lines: the terminal, the page, JSON, Claude Code's dialog.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from playbook_supervisor.formats.sanitize import counted, first_line, last_line, one_line, printable
from playbook_supervisor.formats.timestamps import duration
from playbook_supervisor.kernel.gates import CHOICES, PLANNED, parts_of_error
from playbook_supervisor.kernel.state import Entry, Event
from playbook_supervisor.kernel.vocabulary import EntryStatus, GateReason, Place, Resolution
from playbook_supervisor.project.settings.config import FILE
from playbook_supervisor.records import Record, replace
from playbook_supervisor.sessions.steps.step_runs import StepRun, step_runs, waited_ms

if TYPE_CHECKING:
    from playbook_supervisor.sessions.gate.gate_context import GateContext

_T = TypeVar("_T")

MOST_LINES = 25
_NOTABLE = 1000  # ms at a gate
_MOST_ITEMS = 3  # of a loop that are named because they failed
_MOST_SHORT = 8
_DEEPEST = 24  # blanks at the beginning of a line
_MOST_CHANGED = 14  # lines about changed tests, where there is room for all `MOST_LINES`
_WIDTH = 160  # characters of a line
_LONGEST = 500  # characters of a line before it is wrapped
_NARROWEST = 40
_MOST_PROBLEMS, _MOST_SAID, _LEAST_CHANGES = 4, 4, 4
_TOTAL = r"[0-9]+ (?:new )?files?\b"
_MARKS = {EntryStatus.DONE: "✓", EntryStatus.FAILED: "✗", EntryStatus.SKIPPED: "–"}


class ContextLine(Record):
    """One line. `sign` says whether something holds or was done (`✓`), `name` is that of a step."""

    text: str
    sign: str = ""
    name: str = ""

    @property
    def words(self) -> str:
        """`✓ agreement_pass: …`, `plan ✓ 45 s · plan_exists: …`."""
        return " ".join(filter(None, (self.name, self.sign, self.text)))


def lines(
    context: GateContext | None,
    *,
    most: int = MOST_LINES,
    width: int = _WIDTH,
    steps_shown: bool = False,
) -> list[str]:
    """The lines below the question: what has changed of tests, if it is about that; what speaks
    against, in its own words, and how to mend it; who may answer; what the step is going to be
    given; what the agent said and what holds; what each step left, unless a list right above has
    that (`steps_shown`); changes in the repository. Steps and changed files that do not fit are
    counted."""
    if context is None:
        return []
    head = list(_wrapped([line.words for line in _head(context, most)], width))
    where, *files = _repository(context)
    tail = [*_wrapped([where], width), *(_cut(line, width) for line in files)]
    steps = [] if steps_shown else [line.words for line in _steps(context)]
    room = most - min(len(tail), 1 + _LEAST_CHANGES)
    head = _fitting(head, room - min(len(steps), 1), str)
    steps = _last_fitting(steps, room - len(head), str)
    tail = _fitting(tail, most - len(head) - len(steps), str)
    for step in steps:  # one with an address is left whole
        head += _wrapped([step], width) if "://" in step else [_cut(step, width)]
    return [*head, *tail]


def parts(context: GateContext) -> tuple[ContextLine, ...]:
    """As `lines`, for a page, which wraps them itself and shows the changed files elsewhere."""
    files = 1 + len(context.unknown) + len(context.commits) + bool(context.more_commits)
    tail = [ContextLine(line) for line in list(_repository(context))[:files]]
    head, steps = _head(context, MOST_LINES), list(_steps(context))
    head = _fitting(head, MOST_LINES - len(tail) - min(len(steps), 1), ContextLine)
    steps = _last_fitting(steps, MOST_LINES - len(tail) - len(head), ContextLine)
    return tuple(_harmless(line) for line in [*head, *steps, *tail])


def short(context: GateContext | None) -> list[str]:
    """The most telling lines, where other things need room as well."""
    if context is None:
        return []
    head = list(_wrapped([line.words for line in _head(context, _MOST_SHORT)], _WIDTH))
    head = _fitting(head, _MOST_SHORT, str)
    return [*head, *_wrapped([next(_repository(context))], _WIDTH)]


def _head(context: GateContext, most: int) -> list[ContextLine]:
    """First what has changed of tests, if that is the question, then what speaks against, and the
    cure; last what speaks for. `most` lines are shown."""
    verdicts = list(_verdicts(context))
    more = [f"… {each}" for each in parts_of_error(_asked_about(context))[1].split("; ") if each]
    against = [*_fitting(more, _MOST_PROBLEMS, str), *context.reported, *context.printed]
    if context.guidance:
        against.append(f"to fix it: {context.guidance}")
    against += [*_settings(context), *_waived(context)]
    tests = list(_changed_tests(context, most))
    preview = () if tests else context.preview
    asked = [*(f"answered by: {people}" for people in context.people), *preview]
    said = list(map(ContextLine, _said(context)))
    holding = [line for line in verdicts if line.sign != "✗"]
    holding += _holding(context, [line.text for line in verdicts])
    failing = [line for line in verdicts if line.sign == "✗"]
    head = [*map(ContextLine, tests), *failing, *map(ContextLine, [*against, *asked])]
    return head + (said + holding if context.gate.place is Place.AFTER else holding + said)


def _changed_tests(context: GateContext, most: int) -> Iterator[str]:
    if context.gate.reason is not GateReason.WITNESSES:
        return
    shown = max(most * _MOST_CHANGED // MOST_LINES, _LEAST_CHANGES)
    yield from (_cut(line, _WIDTH) for line in context.preview[:shown])
    if (more := len(context.preview) - shown) > 0:
        tells = "`git diff` tells more"
        if context.began_at:
            tells = f"`git diff {context.began_at}` compares with the session's beginning"
        yield f"  … {counted(more, 'more line')}: {tells}"


def _settings(context: GateContext) -> Iterator[str]:
    if (found := context.settings) is None:
        return
    keys = ", ".join(found.keys)
    yield f"the project's settings have changed, but the session keeps its own ({keys}):"
    yield from (f"  {line}" for line in found.lines)
    checks_again = Resolution.ACCEPT in CHOICES.get((context.gate.reason, context.gate.place), ())
    if not found.lines:
        yield f"  more than can be shown here: read {FILE} before you answer `{found.words}`"
    elif checks_again:
        yield f"  answer `{found.words}` to take them over and check again"
    else:
        yield f"  answer `continue, {found.words}` to go on with them"


def settled_line(event: Event) -> str:
    """A settled attempt in one line, with its reason: `plan ✓ 45 s · plan_exists: …`."""
    place = f"{event.within}/" if event.within else ""
    return f"{place}{_settled(event.entry, reason(event.entry)).words}"


def _steps(context: GateContext) -> Iterator[ContextLine]:
    for run in step_runs(context.settled):
        yield _loop(run) if run.loop else _step(run.last, context)


def _loop(run: StepRun) -> ContextLine:
    """`build ✗ 11/12 items, 4 min · build[2]: it broke`."""
    mark = _MARKS[EntryStatus.FAILED if run.failed else EntryStatus.DONE]
    done = f"{run.done}/{counted(run.total, 'item')}, {duration(run.lasted)}"
    why = [f"{each.step_id}: {reason(each)}" for each in run.failed[:_MOST_ITEMS]]
    more = len(run.failed) - len(why)
    text = " · ".join([done, *why, *([f"{more} more failed"] if more else [])])
    return ContextLine(text, mark, run.loop)


def _step(entry: Entry, context: GateContext) -> ContextLine:
    """The line of a settled attempt, which does not repeat what the lines above it say."""
    verdicts = {probed.line for probed in context.verdicts}
    why = reason(entry)
    if entry.waived and entry.status is EntryStatus.DONE:
        why = "waived"
    elif entry.evidence and entry.evidence[-1] in verdicts:
        why = entry.evidence[-1].partition(":")[0]
    elif not entry.evidence and entry.id == context.said.attempt:
        why = ""
    return _settled(entry, why)


def _settled(entry: Entry, why: str) -> ContextLine:
    name, mark = entry.step_id if entry.attempt == 1 else entry.id, _MARKS.get(entry.status, "…")
    if entry.status is EntryStatus.SKIPPED or entry.completed_at is None:
        return ContextLine(f"· {why}" if why else "", mark, name)
    waited = waited_ms((entry,))
    lasted = duration(entry.completed_at - entry.started_at - waited)
    lasted += f" + {duration(waited)} at a gate" if waited >= _NOTABLE else ""
    return ContextLine(f"{lasted} · {why}" if why else lasted, mark, name)


def reason(entry: Entry) -> str:
    """Why an attempt was settled, in one line: its evidence, its error, or a human's words."""
    if entry.status is EntryStatus.FAILED:
        return first_line(entry.error)
    if entry.status is EntryStatus.SKIPPED:
        by = first_line(entry.gates[-1].by) if entry.gates else ""
        said = one_line(entry.human_response)
        if said not in ("", Resolution.SKIP):
            return said
        held = first_line(entry.evidence[-1]) if entry.evidence and not by else ""
        return f"skipped by {by}" if by else held or "skipped by the playbook"
    if entry.waived:
        return f"waived: {', '.join(map(first_line, entry.waived))}"
    if entry.evidence:
        return f"{'recovered: ' if entry.recovered else ''}{first_line(entry.evidence[-1])}"
    said = "said" if entry.agent else "output"
    return f"{said}: {last_line(entry.output)}" if entry.output else ""


def _asked_about(context: GateContext) -> str:
    return "" if context.gate.reason in PLANNED else context.entry.error


def _said(context: GateContext) -> Iterator[str]:
    said, who = context.said.text.splitlines(), context.said.attempt
    verb = "said" if context.said.by_agent else "printed"
    if len(said) == 1:
        yield f"{who} {verb} last: {said[0]}"
    elif said:
        yield f"{who} {verb} last:"
        yield from (f"  {line}" for line in said[-_MOST_SAID:])


def _verdicts(context: GateContext) -> Iterator[ContextLine]:
    asked = _asked_about(context)
    for probed in context.verdicts:
        if probed.line not in asked:
            since = context.dated.get(probed.name, "")
            line = f"{probed.line} ({since})" if since else probed.line
            yield ContextLine(line, "✓" if probed.held else "✗")


def _holding(context: GateContext, shown: Sequence[str]) -> Iterator[ContextLine]:
    for each in context.proved:
        yield ContextLine(each.sentence, "✓" if each.holds else "·")
    standing = [each.proof.evidence for each in context.proved if each.holds]
    for line in context.entry.evidence:
        if line not in shown and not any(proof in line for proof in standing):
            yield ContextLine(line, "✓")


def _waived(context: GateContext) -> Iterator[str]:
    for waiver in context.waivers:
        by = f" by {waiver.by}" if waiver.by else ""
        said = one_line(waiver.text)
        more = "" if said in ("", Resolution.ACCEPT) else f" ({said})"
        yield f"waived at {waiver.attempt}: {', '.join(waiver.names)}{by}{more}"


def _repository(context: GateContext) -> Iterator[str]:
    where = f"branch {context.branch}" if context.branch else "detached HEAD"
    number = len(context.commits) + context.more_commits
    total = [line.strip() for line in context.changes if re.match(_TOTAL, line.strip())]
    unknown = [line.partition(" are not known")[0] for line in context.unknown]
    facts = [where]
    if number or not any("commits" in each for each in unknown):
        facts.append(counted(number, "commit") if number else "no commits")
    if total or not any("changes" in each for each in unknown):
        facts.append(total[0] if total else "no changes")
    yield ", ".join(facts) + (" since the session began" if facts[1:] else "")
    yield from context.unknown
    yield from (f"  {commit}" for commit in context.commits)
    if context.more_commits:
        yield f"  … and {context.more_commits} more"
    yield from (f"  {line.strip()}" for line in context.changes if line.strip() not in total)


def _cut(line: str, width: int) -> str:
    indent = _indent(line)
    return indent + first_line(line, max(width, _NARROWEST) - len(indent))


def _indent(line: str) -> str:
    """The blanks at its beginning: what a diff shows may be indented."""
    blanks = line[: len(line) - len(line.lstrip(" "))]
    return blanks[:_DEEPEST]


def _wrapped(lines: Sequence[str], width: int) -> Iterator[str]:
    width = max(width, _NARROWEST)
    for line in lines:
        indent = _indent(line)
        rest = first_line(printable(line), _LONGEST)
        while rest:
            room = width - len(indent)
            at = rest.rfind(" ", room // 4, room + 1) if len(rest) > room else len(rest)
            if at < 0:  # a text without a blank; an address is left whole
                word = rest.split(" ", 1)[0]
                at = len(word) if "://" in word else room
            yield indent + rest[:at]
            rest, indent = rest[at:].lstrip(), indent[:2] + "  "


def _harmless(line: ContextLine) -> ContextLine:
    text = _indent(line.text) + first_line(printable(line.text), _LONGEST)
    return replace(line, text=text, name=first_line(line.name))


def _fitting(lines: Sequence[_T], most: int, make: Callable[[str], _T]) -> list[_T]:
    if len(lines) <= most:
        return list(lines)
    left_out = counted(len(lines) - most + 1, "more line")
    return [*lines[: most - 1], make(f"  … {left_out}")]


def _last_fitting(steps: Sequence[_T], most: int, make: Callable[[str], _T]) -> list[_T]:
    if len(steps) <= most:
        return list(steps)
    left_out = len(steps) - most + 1
    return [make(f"… {counted(left_out, 'earlier step')}"), *steps[left_out:]]
