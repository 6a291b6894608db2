"""Time, cost, gates and retries of one session or of many, with those of their child sessions.

Only recorded values count: what is not recorded is unknown, not 0. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from playbook_supervisor.audit.lenient_session import LooseEntry
from playbook_supervisor.audit.session_record import SessionRecord
from playbook_supervisor.kernel.model import item_number
from playbook_supervisor.kernel.state import INTERRUPTED, NEVER_RAN, UNTIL
from playbook_supervisor.kernel.vocabulary import Decision, EntryStatus, Mode, Resolution, Trigger

UNNAMED = "unnamed"
ENDS = ("completed", "failed", "aborted", "open", "unknown")
"""The states of a session; the first three are ended ones."""
_NOT_WORK = NEVER_RAN | {INTERRUPTED}
_LARGEST = 10**12
"""No duration in ms, no cost and no number of tokens is larger; such a value is an error."""


# ── figures ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class DurationStats:
    """Durations in ms; `p90` is the 90th percentile (nearest rank)."""

    number: int
    median: int
    p90: int
    total: int


@dataclass(frozen=True, slots=True)
class Known:
    """A sum over the attempts that record the value: `known` of `of`."""

    total: float
    known: int
    of: int


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a loop in one session: its number from 1, what it is, and how it ended.

    `worked` is how long all attempts at it worked, in ms; None if that is not known.
    """

    session: str
    number: int
    item: str
    status: str
    attempts: int
    worked: int | None


@dataclass(frozen=True, slots=True)
class Figures:
    """The attempts of one step, command or model, called `name`. None is unknown.

    `tries` are the attempts that were launched, `again` those after the first. A round that another
    follows, since its `until` did not hold, is no failure. A loop is one step with its `items`. A
    step also has its playbook and command.
    """

    name: str
    attempts: int
    tries: int
    done: int
    failed: int
    skipped: int
    again: int
    lasted: DurationStats | None
    cost_usd: Known | None
    input_tokens: Known | None
    output_tokens: Known | None
    playbook: str = ""
    command: str = ""
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class WaitTimes:
    """The gates with one reason, and how long people took to answer them.

    Gates that the autonomous mode answered do not count. `open` ones still wait.
    """

    reason: str
    opened: int
    open: int
    waited: DurationStats | None


@dataclass(frozen=True, slots=True)
class Metrics:
    """All figures.

    `ends` counts the sessions by state; of the completed ones, `with_failures` those in which a
    step failed and the run went on, and `with_waivers` those in which something was waived.
    `escalations` counts the gates by trigger. `retries` counts them by cause:
    the error policy (`automatic`), a person (`asked`), an interruption, another `round` of an
    `until`, or `unknown` in journals of other tools. A child session counts with its parent: its
    steps and gates are counted, but it is no session of its own, and `commands` leave out the
    attempts whose work it does.
    """

    ends: Mapping[str, int]
    with_failures: int
    with_waivers: int
    lasted: DurationStats | None
    steps: tuple[Figures, ...]
    commands: tuple[Figures, ...]
    models: tuple[Figures, ...]
    gates: tuple[WaitTimes, ...]
    escalations: Mapping[str, int]
    retries: Mapping[str, int]

    @property
    def sessions(self) -> int:
        return sum(self.ends.values())

    @property
    def success_rate(self) -> float | None:
        """The share of ended sessions that were completed; None if none has ended."""
        ended = sum(self.ends[end] for end in ENDS[:3])
        return self.ends["completed"] / ended if ended else None


def measure(records: Iterable[SessionRecord]) -> Metrics:
    """The figures of these sessions together."""
    records = tuple(records)
    families = [each for record in records for each in _family(record)]
    attempts = [attempt for each in families for attempt in _attempts_of(each)]
    completed = [each.journal for each in records if each.journal and _end(each) == "completed"]
    return Metrics(
        ends=dict.fromkeys(ENDS, 0) | Counter(map(_end, records)),
        with_failures=sum(
            any(entry.status is EntryStatus.FAILED for entry in each.last.values())
            for each in completed
        ),
        with_waivers=sum(any(entry.waived for entry in each.entries) for each in completed),
        lasted=_stats(map(_session_duration, records)),
        steps=_grouped(attempts, lambda each: (each.playbook, each.entry.step, each.command)),
        commands=_grouped(
            [each for each in attempts if not each.entry.session],
            lambda each: ("", each.command, ""),
        ),
        models=_grouped(attempts, lambda each: ("", each.model, "")),
        gates=_gates(attempts),
        escalations=Counter(_escalations(attempts)),
        retries=Counter(kind for each in families for kind in _retries(each)),
    )


def _end(record: SessionRecord) -> str:
    if record.journal is None or record.session is None or record.session.status is None:
        return "unknown"
    return record.session.status.value if record.session.ended else "open"


def _session_duration(record: SessionRecord) -> int | None:
    session = record.session
    if session is None or session.started_at is None or session.completed_at is None:
        return None
    return _plausible(session.completed_at - session.started_at)


# ── attempts ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One entry. `session` is the name of its session's folder.

    `pauses` are the times at the gates of its child session, in ms since the epoch.
    """

    entry: LooseEntry
    playbook: str
    command: str
    model: str
    ours: bool
    session: str
    pauses: Sequence[tuple[int, int]] = ()


def _family(record: SessionRecord) -> Iterator[SessionRecord]:
    yield record
    for child in record.tree.children:
        yield from _family(child)


def _attempts_of(record: SessionRecord) -> Iterator[_Attempt]:
    if record.journal is None:
        return
    playbook = record.session.playbook if record.session is not None else ""
    outline = record.playbook()
    steps = outline.by_id if outline is not None else {}
    for entry in record.journal.entries:
        command = steps[entry.step].command if entry.step in steps else ""
        model = str(entry.agent.get("model", ""))
        ours, child = record.journal.ours, record.tree.child(entry.session)
        pauses = tuple(_pauses(child)) if child is not None else ()
        yield _Attempt(entry, playbook, command, model, ours, record.files.name, pauses)


def _pauses(child: SessionRecord) -> Iterator[tuple[int, int]]:
    for each in _family(child):
        for entry in each.journal.entries if each.journal is not None else ():
            for gate in entry.gates:
                if gate.opened_at is not None and gate.answered_at is not None:
                    yield gate.opened_at, gate.answered_at


def _was_tried(attempt: _Attempt) -> bool:
    """True if it was launched; other tools do not record when. A cached result needs no launch."""
    entry = attempt.entry
    if entry.cached_from:
        return False
    if attempt.ours and entry.status is EntryStatus.IN_PROGRESS:
        return entry.launched_at is not None
    return entry.status is not EntryStatus.SKIPPED


def _worked(attempt: _Attempt) -> int | None:
    """The time for which a settled attempt worked, without waiting for people.

    Its times count, and the stated duration only if they are missing. The work of an interrupted
    attempt is unknown: a crash may be noticed days later.
    """
    entry = attempt.entry
    if entry.error_code in _NOT_WORK or entry.cached_from:
        return None
    begun, ended = _work(entry)
    if begun is not None and ended is not None:
        own = [(each.opened_at, each.answered_at) for each in entry.gates]
        known = [(start, end) for start, end in own if start is not None and end is not None]
        return _plausible(ended - begun - _waited((*known, *attempt.pauses), begun, ended))
    return None if entry.seconds is None else _plausible(entry.seconds * 1000)


def _work(entry: LooseEntry) -> tuple[int | None, int | None]:
    """The begin and end of the work. An answer may be given days before it is used."""
    if not entry.gates:
        return entry.started_at, entry.completed_at
    begun = entry.started_at if entry.launched_at is None else entry.launched_at
    ended = entry.completed_at if entry.returned_at is None else entry.returned_at
    return begun, ended


def _waited(pauses: Iterable[tuple[int, int]], begun: int, ended: int) -> int:
    """The part of that time at a gate; gates of parallel steps may be open at once."""
    waited = 0
    for opened, answered in sorted(pauses):
        waited += max(min(answered, ended) - max(opened, begun), 0)
        begun = max(begun, answered)
    return waited


def _plausible(ms: float) -> int | None:
    return round(ms) if 0 <= ms <= _LARGEST else None


def _grouped(
    attempts: Sequence[_Attempt], key: Callable[[_Attempt], tuple[str, str, str]]
) -> tuple[Figures, ...]:
    groups: dict[tuple[str, str, str], list[_Attempt]] = {}
    for attempt in attempts:
        groups.setdefault(key(attempt), []).append(attempt)
    return tuple(_figures(name, each) for name, each in groups.items() if name[1])


def _figures(names: tuple[str, str, str], attempts: Sequence[_Attempt]) -> Figures:
    playbook, name, command = names
    entries = [attempt.entry for attempt in attempts]
    statuses = Counter(entry.status for entry in entries)
    ran = [each for each in attempts if each.entry.status is not EntryStatus.SKIPPED]
    used = [each.entry for each in ran]
    return Figures(
        name=name,
        attempts=len(entries),
        tries=sum(map(_was_tried, attempts)),
        done=statuses[EntryStatus.DONE],
        failed=statuses[EntryStatus.FAILED] - sum(entry.error_code == UNTIL for entry in entries),
        skipped=statuses[EntryStatus.SKIPPED],
        again=sum(entry.number > 1 for entry in entries),
        lasted=_stats(map(_worked, ran)),
        cost_usd=_known(used, "cost_usd"),
        input_tokens=_known(used, "input_tokens"),
        output_tokens=_known(used, "output_tokens"),
        playbook=playbook,
        command=command,
        items=tuple(_items(attempts)) if playbook else (),
    )


def _items(attempts: Sequence[_Attempt]) -> Iterator[Item]:
    items: dict[tuple[str, int], list[_Attempt]] = {}
    for attempt in attempts:
        if number := item_number(attempt.entry.step_id):
            items.setdefault((attempt.session, number), []).append(attempt)
    for (session, number), tried in items.items():
        known = [ms for ms in map(_worked, tried) if ms is not None]
        last = tried[-1].entry
        status = last.status.value if last.status is not None else "unknown"
        total = sum(known) if known else None
        yield Item(session, number, last.item, status, len(tried), total)


def _known(entries: Sequence[LooseEntry], key: str) -> Known | None:
    values = [
        value
        for entry in entries
        if isinstance(value := entry.agent.get(key), int | float) and 0 <= value <= _LARGEST
    ]
    return Known(sum(values), len(values), len(entries)) if values else None


def _retries(record: SessionRecord) -> Iterator[str]:
    if record.journal is None:
        return
    last: dict[str, LooseEntry] = {}
    for entry in record.journal.entries:
        before = last.get(entry.step_id)
        last[entry.step_id] = entry
        if before is None:
            continue
        if before.resolution is Resolution.RETRY:
            yield "asked"
        elif before.error_code == UNTIL:
            yield "round"
        elif before.error_code == INTERRUPTED:
            yield "interrupted"
        else:
            yield "automatic" if record.journal.ours else "unknown"


# ── people ──────────────────────────────────────────────────────────────────────────────────


def _gates(attempts: Sequence[_Attempt]) -> tuple[WaitTimes, ...]:
    reasons: dict[str, list[int | None]] = {}
    waiting: Counter[str] = Counter()
    for attempt in attempts:
        for gate in attempt.entry.gates:
            if gate.reason is None or gate.by == Mode.AUTONOMOUS:
                continue
            known = gate.opened_at is not None and gate.answered_at is not None
            waited = (gate.answered_at or 0) - (gate.opened_at or 0)
            reasons.setdefault(gate.reason, []).append(_plausible(waited) if known else None)
            waiting[gate.reason] += not gate.answered and not attempt.entry.settled
    return tuple(
        WaitTimes(reason, len(waits), waiting[reason], _stats(waits))
        for reason, waits in reasons.items()
    )


def _escalations(attempts: Iterable[_Attempt]) -> Iterator[str]:
    triggers = {trigger.value for trigger in Trigger}
    for attempt in attempts:
        entry = attempt.entry
        if entry.gates:
            yield from (gate.reason.value for gate in entry.gates if gate.reason in triggers)
        elif entry.decision is Decision.ESCALATED:
            yield entry.trigger.value if entry.trigger is not None else UNNAMED


def _stats(lengths: Iterable[int | None]) -> DurationStats | None:
    known = sorted(length for length in lengths if length is not None)
    if not known:
        return None
    number = len(known)
    median = (known[(number - 1) // 2] + known[number // 2]) // 2
    return DurationStats(number, median, known[-(-number * 9 // 10) - 1], sum(known))
