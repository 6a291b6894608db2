"""What journals say of time, cost and trouble, over one session or many (kai, Growth: run metrics).

Only what is written counts: what nobody wrote down is unknown, and never 0. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from playbook_supervisor.audit.lenient_playbook import LoosePlaybook
from playbook_supervisor.audit.lenient_session import LooseEntry, LooseJournal, LooseSession
from playbook_supervisor.kernel.state import INTERRUPTED, NEVER_RAN
from playbook_supervisor.kernel.vocabulary import Decision, EntryStatus, Mode, Resolution, Trigger
from playbook_supervisor.records import Record

_NOT_WORK = NEVER_RAN | {INTERRUPTED}
_LARGEST = 10**12
"""No duration (ms), no sum and no number of tokens of a session is larger: who says so errs."""
UNNAMED = "unnamed"
ENDS = ("completed", "failed", "aborted", "open", "unknown")
"""How a session can stand: the first three have ended."""


class Source(Record):
    """The files of one session, as far as they can be read."""

    journal: LooseJournal | None
    session: LooseSession | None
    outline: LoosePlaybook | None


# ── figures ─────────────────────────────────────────────────────────────────────────────────


class DurationStats(Record):
    """Lengths of time, ms. `p90`: nine of ten take no longer (nearest rank)."""

    number: int
    median: int
    p90: int
    total: int


class Known(Record):
    """A sum over those attempts of which it is known: so many `of` all."""

    total: float
    known: int
    of: int


class Figures(Record):
    """Attempts with one thing in common: its `name`, and for a step its playbook and command.

    `tries` are those that ran: none that was skipped, or has not been launched yet. `again`
    counts the attempts after the first. Unknown is None.
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


class WaitTimes(Record):
    """Gates of one reason, and how long people took. Those that approved themselves are left out.

    `open` ones still wait.
    """

    reason: str
    opened: int
    open: int
    waited: DurationStats | None


class Metrics(Record):
    """All of it. `ends`: how many sessions ended so, are `open`, or cannot be read (`unknown`).

    `escalations` by trigger, an unnamed one as such. `retries`: attempts that were made because
    the policy asked for them (`automatic`), a person did (`asked`), or the one before was
    interrupted; what other tools wrote does not say which (`unknown`).
    """

    ends: Mapping[str, int]
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
        """Completed ones of those that ended; None where none has."""
        ended = sum(self.ends[end] for end in ENDS[:3])
        return self.ends["completed"] / ended if ended else None


class _Attempt(Record):
    """One attempt with its session's words."""

    told: LooseEntry
    playbook: str
    command: str
    model: str
    ours: bool


def measure(sources: Iterable[Source]) -> Metrics:
    """The figures of these sessions together."""
    sources = tuple(sources)
    attempts = [attempt for source in sources for attempt in _attempts(source)]
    return Metrics(
        ends=dict.fromkeys(ENDS, 0) | Counter(map(_end, sources)),
        lasted=_spread(map(_session_lasted, sources)),
        steps=_grouped(attempts, lambda each: (each.playbook, each.told.step_id, each.command)),
        commands=_grouped(attempts, lambda each: ("", each.command, "")),
        models=_grouped(attempts, lambda each: ("", each.model, "")),
        gates=_gates(attempts),
        escalations=Counter(_escalations(attempts)),
        retries=Counter(kind for source in sources for kind in _retries(source)),
    )


def _attempts(source: Source) -> Iterator[_Attempt]:
    if source.journal is None:
        return
    playbook = source.session.playbook if source.session is not None else ""
    steps = source.outline.by_id if source.outline is not None else {}
    for entry in source.journal.entries:
        command = steps[entry.step_id].command if entry.step_id in steps else ""
        model = str(entry.agent.get("model", ""))
        yield _Attempt(entry, playbook, command, model, source.journal.ours)


# ── sessions ────────────────────────────────────────────────────────────────────────────────


def _end(source: Source) -> str:
    if source.journal is None or source.session is None or source.session.status is None:
        return "unknown"
    return source.session.status.value if source.session.ended else "open"


def _session_lasted(source: Source) -> int | None:
    session = source.session
    if session is None or session.started_at is None or session.completed_at is None:
        return None
    return _plausible(session.completed_at - session.started_at)


# ── attempts ────────────────────────────────────────────────────────────────────────────────


def _grouped(
    attempts: Sequence[_Attempt], key: Callable[[_Attempt], tuple[str, str, str]]
) -> tuple[Figures, ...]:
    """By playbook, name and command, in the order in which they are first met; no name: nowhere."""
    groups: dict[tuple[str, str, str], list[_Attempt]] = {}
    for attempt in attempts:
        groups.setdefault(key(attempt), []).append(attempt)
    return tuple(_figures(name, each) for name, each in groups.items() if name[1])


def _figures(names: tuple[str, str, str], attempts: Sequence[_Attempt]) -> Figures:
    playbook, name, command = names
    told = [attempt.told for attempt in attempts]
    statuses = Counter(entry.status for entry in told)
    ran = [entry for entry in told if entry.status is not EntryStatus.SKIPPED]
    return Figures(
        name=name,
        attempts=len(told),
        tries=sum(map(_tried, attempts)),
        done=statuses[EntryStatus.DONE],
        failed=statuses[EntryStatus.FAILED],
        skipped=statuses[EntryStatus.SKIPPED],
        again=sum(entry.number > 1 for entry in told),
        lasted=_spread(_worked(entry) for entry in ran),
        cost_usd=_known(ran, "cost_usd"),
        input_tokens=_known(ran, "input_tokens"),
        output_tokens=_known(ran, "output_tokens"),
        playbook=playbook,
        command=command,
    )


def _tried(attempt: _Attempt) -> bool:
    """Other tools do not say when they launched what runs."""
    entry = attempt.told
    if attempt.ours and entry.status is EntryStatus.IN_PROGRESS:
        return entry.launched_at is not None
    return entry.status is not EntryStatus.SKIPPED


def _worked(entry: LooseEntry) -> int | None:
    """How long a settled attempt took, without the time in which it waited for people.

    Its times count, and a stated duration only where they are missing. How long one worked that
    was broken off, perhaps by a crash that was seen days later, nobody knows.
    """
    if entry.error_code in _NOT_WORK:
        return None
    begun, ended = _work(entry)
    if begun is not None and ended is not None:
        return _plausible(ended - begun - sum(_waits(entry, begun, ended)))
    return None if entry.seconds is None else _plausible(entry.seconds * 1000)


def _work(entry: LooseEntry) -> tuple[int | None, int | None]:
    """From when to when it was worked at. An answer may lie there for days before it is used."""
    if not entry.gates:
        return entry.started_at, entry.completed_at
    begun = entry.started_at if entry.launched_at is None else entry.launched_at
    ended = entry.completed_at if entry.returned_at is None else entry.returned_at
    return begun, ended


def _waits(entry: LooseEntry, begun: int, ended: int) -> Iterator[int]:
    for gate in entry.gates:
        if gate.opened_at is not None and gate.answered_at is not None:
            yield max(min(gate.answered_at, ended) - max(gate.opened_at, begun), 0)


def _known(entries: Sequence[LooseEntry], key: str) -> Known | None:
    values = [
        value
        for entry in entries
        if isinstance(value := entry.agent.get(key), int | float) and 0 <= value <= _LARGEST
    ]
    return Known(sum(values), len(values), len(entries)) if values else None


def _retries(source: Source) -> Iterator[str]:
    if source.journal is None:
        return
    former: dict[str, LooseEntry] = {}
    for entry in source.journal.entries:
        before = former.get(entry.step_id)
        former[entry.step_id] = entry
        if before is None:
            continue
        if before.resolution is Resolution.RETRY:
            yield "asked"
        elif before.error_code == INTERRUPTED:
            yield "interrupted"
        else:
            yield "automatic" if source.journal.ours else "unknown"


# ── people ──────────────────────────────────────────────────────────────────────────────────


def _gates(attempts: Sequence[_Attempt]) -> tuple[WaitTimes, ...]:
    """By reason, in the order in which they are first met."""
    reasons: dict[str, list[int | None]] = {}
    waiting: Counter[str] = Counter()
    for attempt in attempts:
        for gate in attempt.told.gates:
            if gate.reason is None or gate.by == Mode.AUTONOMOUS:
                continue
            known = gate.opened_at is not None and gate.answered_at is not None
            waited = (gate.answered_at or 0) - (gate.opened_at or 0)
            reasons.setdefault(gate.reason, []).append(_plausible(waited) if known else None)
            waiting[gate.reason] += not gate.answered and not attempt.told.settled
    return tuple(
        WaitTimes(reason, len(waits), waiting[reason], _spread(waits))
        for reason, waits in reasons.items()
    )


def _escalations(attempts: Iterable[_Attempt]) -> Iterator[str]:
    """Each gate that a trigger opened; where no gates were kept, each entry that was escalated."""
    triggers = {trigger.value for trigger in Trigger}
    for attempt in attempts:
        entry = attempt.told
        if entry.gates:
            yield from (gate.reason.value for gate in entry.gates if gate.reason in triggers)
        elif entry.decision is Decision.ESCALATED:
            yield entry.trigger.value if entry.trigger is not None else UNNAMED


# ── arithmetic ──────────────────────────────────────────────────────────────────────────────


def _plausible(ms: float) -> int | None:
    return round(ms) if 0 <= ms <= _LARGEST else None


def _spread(lengths: Iterable[int | None]) -> DurationStats | None:
    known = sorted(length for length in lengths if length is not None)
    if not known:
        return None
    number = len(known)
    median = (known[(number - 1) // 2] + known[number // 2]) // 2
    return DurationStats(number, median, known[-(-number * 9 // 10) - 1], sum(known))
