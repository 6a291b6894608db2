"""The steps of a run as a table of lines, for its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from playbook_supervisor.cli.render import text
from playbook_supervisor.formats.sanitize import counted, first_line
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.kernel.vocabulary import EntryStatus
from playbook_supervisor.sessions.step_runs import StepRun, step_runs

_MOST_NAMED = 5  # items of a loop


def steps(attempts: Mapping[str, Entry]) -> list[str]:
    """A line for each attempt: status, duration, waiting time, cost, waivers (cat NFR-4.3).

    A loop has one line, and so have all rounds of an `until`. The attempts of a child session are
    indented; those of an item are left out if it is done. Empty for a single attempt, which the
    summary covers.
    """
    if len(attempts) < 2:
        return []
    return [f"  {line}" for line in text.table([*_step_rows(attempts, "")])]


def _step_rows(attempts: Mapping[str, Entry], within: str) -> Iterator[tuple[str, ...]]:
    own = (entry for id_, entry in attempts.items() if id_.rpartition("/")[0] == within)
    indent = "  " * (within.count("/") + 1 if within else 0)
    for run in step_runs(own):
        name, *rest = _loop(run) if run.loop else _step(run)
        yield f"{indent}{name}", *rest
        for entry in run.entries:
            if entry.session and not (run.loop and entry.status is EntryStatus.DONE):
                yield from _step_rows(attempts, f"{within}/{entry.id}".lstrip("/"))


def _loop(run: StepRun) -> tuple[str, ...]:
    failed = [first_line(each.item, 40) or each.id for each in run.failed]
    status = "in_progress" if run.current else "failed" if failed else "done"
    spent = [f"{run.done}/{counted(run.total, 'item')}", _spent(run.entries)]
    spent += [f"failed: {', '.join(failed[:_MOST_NAMED])}"] if failed else []
    return run.loop, status, text.duration(run.lasted), ", ".join(filter(None, spent))


def _step(run: StepRun) -> tuple[str, ...]:
    entry, elapsed = run.last, ""
    if entry.completed_at is not None and entry.status is not EntryStatus.SKIPPED:
        elapsed = text.duration(entry.completed_at - run.entries[0].started_at)
    rounds = f"{len(run.entries)} rounds" if len(run.entries) > 1 else ""
    waived = f"waived {', '.join(map(first_line, entry.waived))}" if entry.waived else ""
    spent = ", ".join(part for part in (rounds, _spent(run.entries), waived) if part)
    return entry.id, entry.status.value, elapsed, spent


def _spent(entries: Sequence[Entry]) -> str:
    """The time at gates and the cost."""
    waited = text.waited_ms(entries)
    at_gates = f"{text.duration(waited)} of it at a gate" if waited >= text.NOTABLE else ""
    return ", ".join(part for part in (at_gates, text.cost(entries)) if part)
