"""Sentences for people: what happened, what is asked, how long it took.

Plain text for logs, pipes and the model; everything that others wrote is made harmless on its way.
"""

from __future__ import annotations

from collections.abc import Sequence

from playbook_supervisor.errors import CODES, guidance, with_session
from playbook_supervisor.formats.sanitize import first_line, printable
from playbook_supervisor.formats.timestamps import to_time
from playbook_supervisor.kernel.directives import Ask, Finish
from playbook_supervisor.kernel.state import Change, Entry, Event, last_entries
from playbook_supervisor.kernel.vocabulary import Decision, EntryStatus, GateReason, Resolution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.sessions.snapshot import Snapshot

_LINE = 400
_LONGEST = 2_000  # characters that are to be pasted somewhere, and so never cut
_NOTABLE = 100  # ms
_CONTEXT = 20  # lines; what is longer is not read at a gate
_CENT = 0.01  # USD
_MANY = 1_000  # tokens


def stamp(ms: int) -> str:
    """`2026-02-19T10:20:26Z`."""
    return f"{to_time(ms)[:19]}Z"


def seconds(ms: int) -> str:
    """`725.8s`, for logs."""
    return f"{ms / 1000:.1f}s"


def lasting(ms: int) -> str:
    """`0.4 s`, `45 s`, `12 min 6 s`, `3 h 20 min`, `2 d 4 h`: for people, two units at most."""
    if ms < 9_950:
        return f"{ms / 1000:.1f} s"
    whole = round(ms / 1000)
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    parts: list[str] = []
    for name, size in units:
        count, whole = divmod(whole, size)
        if count or parts:
            parts.append(f"{count} {name}" if count else "")
    return " ".join(part for part in parts[:2] if part)


def listed(words: Sequence[str]) -> str:
    """`continue, skip or abort`."""
    return f"{', '.join(words[:-1])} or {words[-1]}"


# ── what happens ────────────────────────────────────────────────────────────────────────────


def happened(event: Event, outlook: Snapshot, now: int) -> str:
    """A line of the log, two where an answer settled it; empty for what another line says already.

    `now`, in ms since the epoch, is for what the journal keeps no time of. Source: cat NFR-4.1.
    """
    entry = event.entry
    match event.change:
        case Change.LAUNCHED:
            command = outlook.state.playbook.step(entry.step_id).command
            return f"{stamp(entry.launched_at or entry.started_at)} {entry.id} start {command}"
        case Change.ANSWERED:
            return _answered(entry)
        case Change.TAKEN_UP:
            return f"{stamp(now)} {entry.id} taken up again"
        case Change.DONE | Change.FAILED | Change.SKIPPED:
            line = f"{stamp(entry.latest)} {_settled(entry)}"
            return f"{_answered(entry)}\n{line}" if _by_answer(entry) else line
        case _:
            return ""


def _answered(entry: Entry) -> str:
    gate = entry.gates[-1]
    by = f" by {first_line(gate.by)}" if gate.by else ""
    return f"{stamp(entry.latest)} {entry.id} answered {gate.resolution}{by}"


def _by_answer(entry: Entry) -> bool:
    """Whether it was an answer that settled the attempt, and not the work that followed one."""
    return bool(entry.gates) and entry.gates[-1].answered_at == entry.completed_at


def _settled(entry: Entry) -> str:
    words = [entry.id, entry.status.value]
    if entry.status is EntryStatus.SKIPPED:
        words += [] if entry.decision is Decision.SKIPPED else [entry.decision]
        said = entry.human_response
    else:
        words += [seconds((entry.completed_at or entry.latest) - entry.started_at), entry.decision]
        told = entry.status is EntryStatus.FAILED and not _by_answer(entry)  # else the gate said it
        said = entry.error if told else ""
    reason = first_line(said, _LINE)
    return " ".join(words) + (f": {reason}" if reason else "")


def closed(entry: Entry) -> str:
    """A settled attempt in one line, with what it rests on: `plan ✓ 45 s · plan_exists: …`."""
    mark = {EntryStatus.DONE: "✓", EntryStatus.FAILED: "✗", EntryStatus.SKIPPED: "–"}
    name = entry.step_id if entry.attempt == 1 else entry.id
    words = [name, mark.get(entry.status, "…")]
    if entry.status is not EntryStatus.SKIPPED and entry.completed_at is not None:
        words.append(lasting(entry.completed_at - entry.started_at))
    reason = why(entry)
    return " · ".join([" ".join(words), *([reason] if reason else [])])


def why(entry: Entry) -> str:
    """What a settled attempt rests on, in one line: evidence, error, or a human's words."""
    if entry.status is EntryStatus.FAILED:
        return first_line(entry.error)
    if entry.status is EntryStatus.SKIPPED:
        return first_line(entry.human_response) or "skipped by the playbook"
    return first_line(entry.evidence[-1] if entry.evidence else entry.output)


# ── gates ───────────────────────────────────────────────────────────────────────────────────


def waiting(outlook: Snapshot, now: int) -> str:
    """The one unmistakable line of a gate, for a log."""
    return f"{stamp(now)} {_asked(outlook).member.id} WAITS FOR A HUMAN: {question(outlook)}"


def gate_title(outlook: Snapshot) -> str:
    """`pr#1 waits for you`."""
    return f"{_asked(outlook).member.id} waits for you"


def gate_id(outlook: Snapshot) -> str:
    """`pr#1?1`."""
    return _asked(outlook).id


def question(outlook: Snapshot) -> str:
    """The question of the gate, on one line."""
    return first_line(outlook.question, _LINE)


def first_choice(outlook: Snapshot) -> str:
    """What a person would usually say."""
    return _asked(outlook).choices[0].value


def choices_of(outlook: Snapshot) -> str:
    """`continue, skip or abort`."""
    return listed(_asked(outlook).choices)


def prompt(outlook: Snapshot) -> str:
    """`continue (Enter), skip or abort > `: the choices, and what an empty line means."""
    asked = _asked(outlook)
    words = [choice.value for choice in asked.choices]
    if asked.reason is GateReason.GATE_ALWAYS:
        words[words.index(Resolution.CONTINUE)] += " (Enter)"
    return f"{listed(words)} > "


def _asked(outlook: Snapshot) -> Ask:
    assert isinstance(outlook.directive, Ask)  # noqa: S101 - nobody waits at anything else
    return outlook.directive


def context(lines: Sequence[str]) -> list[str]:
    """What helps to answer, a bounded number of harmless lines."""
    return [printable(line)[:_LINE] for line in lines[:_CONTEXT]]


def how_to_answer(outlook: Snapshot, session: str = "") -> str:
    """The commands to type where nobody could be asked."""
    first, *others = _asked(outlook).choices
    named = f" {session}" if session else ""
    others_listed = listed(others)
    return (
        f"answer: playbook answer{named} {first} (or {others_listed}), then playbook resume{named}"
    )


# ── the end ─────────────────────────────────────────────────────────────────────────────────


def summary(outlook: Snapshot, entries: Sequence[Entry], why: str) -> str:
    """Steps, duration, waiting time at gates, cost and tokens where they are known (kai FR24)."""
    manifest = outlook.manifest
    parts = [f"{outlook.done}/{outlook.total} steps"]
    if entries:
        parts.append(lasting(max(entry.latest for entry in entries) - manifest.started_at))
    waited = waited_ms(entries)
    if waited >= _NOTABLE:
        parts.append(f"{lasting(waited)} of it at gates")
    parts += [spent for spent in (cost(entries), tokens(entries)) if spent]
    feature = f" on {manifest.feature}" if manifest.feature else ""
    return f"{manifest.session_id} {manifest.playbook}{feature}: {why}, {', '.join(parts)}"


def cost(entries: Sequence[Entry]) -> str:
    """`1.32 USD`: what the agents said that it cost; empty where none said so."""
    known = _counted(entries, "cost_usd")
    if not known:
        return ""
    usd = sum(known)
    return f"{usd:.4f} USD" if 0 < usd < _CENT else f"{usd:.2f} USD"


def tokens(entries: Sequence[Entry]) -> str:
    """`48.2k tokens in, 3.1k out`, as far as the agents said so."""
    read, written = _counted(entries, "input_tokens"), _counted(entries, "output_tokens")
    if not read and not written:
        return ""
    return f"{_thousands(sum(read))} tokens in, {_thousands(sum(written))} out"


def _counted(entries: Sequence[Entry], key: str) -> list[float]:
    said = [entry.agent.get(key) for entry in entries]
    return [number for number in said if isinstance(number, int | float)]


def _thousands(number: float) -> str:
    return f"{number:.0f}" if number < _MANY else f"{number / 1000:.1f}k"


def steps(entries: Sequence[Entry]) -> list[str]:
    """A line for each attempt: how it ended, how long it took, how long a gate stood open, what
    it cost; nothing for a single one, of which the summary says all (cat NFR-4.3)."""
    if len(entries) < 2:
        return []
    return [f"  {line}" for line in table([_step(entry) for entry in entries])]


def _step(entry: Entry) -> tuple[str, ...]:
    lasted = waited = ""
    if entry.completed_at is not None and entry.status is not EntryStatus.SKIPPED:
        lasted = lasting(entry.completed_at - entry.started_at)
    if (ms := waited_ms((entry,))) >= _NOTABLE:
        waited = f"{lasting(ms)} of it at a gate"
    spent = ", ".join(part for part in (waited, cost((entry,))) if part)
    return entry.id, entry.status.value, lasted, spent


_AFTERWARDS = {
    "failed": "mend it, then: playbook resume {session} --retry",
    "interrupted": "go on: playbook resume {session}",
    "paused": "go on: playbook resume {session}",
}


def afterwards(why: str, session: str = "") -> str:
    """What to type when a drive has ended like this; empty where nothing is left to do."""
    return with_session(_AFTERWARDS.get(why, ""), session)


def cures(entries: Sequence[Entry], session: str = "") -> list[str]:
    """How to mend what failed and was not tried again, a line for each such step."""
    last = last_entries(entries).values()
    return [
        f"{entry.id}: {first_line(_guidance(entry, session), _LONGEST)}"
        for entry in last
        if entry.status is EntryStatus.FAILED and entry.error_guidance
    ]


def _guidance(entry: Entry, session: str) -> str:
    general = entry.error_guidance == CODES.get(entry.error_code)
    return guidance(entry.error_code, session) if general else entry.error_guidance


def waited_ms(entries: Sequence[Entry], now: int | None = None) -> int:
    """How long gates stood open before a person answered, ms; autonomous ones do not count.

    With `now` also one that still waits, until then.
    """
    return sum(
        max(closed - gate.opened_at, 0)
        for entry in entries
        for gate in entry.gates
        if gate.by != "autonomous"
        and (closed := gate.answered_at if entry.settled or gate.answered_at else now) is not None
    )


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns that stand under each other; the last one is as long as it likes."""
    if not rows:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return [
        "  ".join(
            [*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]
        ).rstrip()
        for row in rows
    ]


def what_next(outlook: Snapshot, session: str = "", *, driven: bool = False) -> str:
    """What a session does next, and what to type for it where no runner is there to do it."""
    done = f"{outlook.done}/{outlook.total} steps done"
    match outlook.directive:
        case Ask():
            return f"it waits for a human: {question(outlook)}\n{how_to_answer(outlook, session)}"
        case Finish(status=status):
            return f"the session is {status}: {done}\n{afterwards(status.value, session)}".rstrip()
        case _ if driven:
            return f"the runner goes on by itself ({done})"
        case _:
            return with_session(f"next: playbook resume {{session}} ({done})", session)
