"""Driving a session at this terminal: choose how to show it, ask at gates, print how it ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from playbook_supervisor.cli import output
from playbook_supervisor.cli.options import Level
from playbook_supervisor.cli.render import json_shapes, text
from playbook_supervisor.cli.render.log import Log, write
from playbook_supervisor.cli.render.prompt import Prompt
from playbook_supervisor.commands import locate
from playbook_supervisor.commands.api import envelope
from playbook_supervisor.commands.driving import protocol
from playbook_supervisor.commands.views.queries import left_to_do
from playbook_supervisor.drivers import notifications
from playbook_supervisor.drivers.observers import CompositeObserver, DriveResult, Observer, Prompter
from playbook_supervisor.formats.sanitize import counted, first_line, printable
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.kernel.vocabulary import EntryStatus
from playbook_supervisor.sessions.gate import gate_text
from playbook_supervisor.sessions.gate.gate_context import gate_context
from playbook_supervisor.sessions.steps.attempt_log import last_lines
from playbook_supervisor.sessions.steps.step_runs import StepRun, step_runs, waited_ms
from playbook_supervisor.sessions.store.snapshot import Snapshot

_LAST_LINES = 15
_MOST_NAMED = 5  # items of a loop


def drive_and_show(
    drive: Callable[[Observer, Prompter | None], DriveResult],
    level: Level,
    *,
    json: bool,
    asks: bool = True,
) -> int:
    """Call `drive`, show how it goes and ends, with `asks` ask at gates; return the exit code."""
    prompter = Prompt(shows_list(level)) if asks and output.is_interactive() else None
    with observing(level) as observer:
        result = drive(observer, prompter)
    snapshot, attempts = result.snapshot, protocol.tree_entries(result.snapshot)
    context = result.context
    addresses = text.pull_requests(attempts.values())
    name = locate.required_id(snapshot)
    if json:
        if context is None and result.why != "interrupted":  # git may be what was hanging
            context = gate_context(snapshot)
        made = envelope.envelope(result, context)
        output.write_json(json_shapes.result(result, made, attempts, context))
    if result.why == "waiting":
        if prompter is None:  # otherwise the user has seen it
            output.inform(*(f"  {line}" for line in gate_text.lines(context)))
        output.inform(*addresses, text.how_to_answer(snapshot, name))
    elif level >= Level.INFO or result.why == "failed":
        output.inform(text.summary(snapshot, [*attempts.values()], result.why), *addresses)
        if level >= Level.INFO and not shows_list(level):
            output.inform(*steps_table(attempts))
        if result.why == "failed":
            own = [entry for id_, entry in attempts.items() if "/" not in id_]
            output.inform(
                *_last_lines(snapshot, attempts), *text.cures(own, snapshot.state.playbook, name)
            )
        if result.why == "completed":
            output.inform(*map(printable, left_to_do(snapshot)))
        if command := text.next_command(result.why, name):
            output.inform(command)
    return result.exit_code


def _last_lines(
    snapshot: Snapshot, attempts: Mapping[str, Entry], within: str = ""
) -> Iterator[str]:
    entries = [entry for id_, entry in attempts.items() if id_.rpartition("/")[0] == within]
    session_id = attempts[within].session if within else snapshot.session_id
    private = snapshot.store.runtime(session_id)
    for entry in text.fatal(entries, None if within else snapshot.state.playbook):
        path = f"{within}/{entry.id}".lstrip("/")
        if lines := last_lines(private, entry.id, _LAST_LINES):
            yield f"{path} ended with (playbook logs {path} shows all):"
        yield from (f"  {line}" for line in lines)
        yield from _last_lines(snapshot, attempts, path) if entry.session else ()


@contextmanager
def observing(level: Level) -> Iterator[Observer]:
    """An observer that shows a live list on a terminal, and otherwise a log."""
    if not shows_list(level):
        colour = bool(os.environ.get("FORCE_COLOR")) and not os.environ.get("NO_COLOR")
        log = Log(level, colour=colour)  # only on request
        yield CompositeObserver(log, _Bell()) if output.can_redraw(sys.stderr) else log
        return
    from playbook_supervisor.cli.render.terminal import Terminal  # rich is heavy

    terminal = Terminal(level)
    try:
        yield CompositeObserver(terminal, _Bell())
    finally:
        terminal.close()


class _Bell(Observer):
    """Rings the terminal of stderr at gates and at the end, once for each."""

    def __init__(self) -> None:
        self._rung = ""

    def on_gate(self, snapshot: Snapshot) -> None:
        notice = notifications.notice_for(snapshot)
        if notice is not None and notice.about != self._rung:
            self._rung = notice.about
            write(output.bell(notice.text))

    on_end = on_gate


def shows_list(level: Level) -> bool:
    """True if progress is a live list, which keeps every step on the screen."""
    return output.can_redraw(sys.stderr) and level >= Level.INFO


# ── the steps of a run as a table ────────────────────────────────────────────────────────────


def steps_table(attempts: Mapping[str, Entry]) -> list[str]:
    """A line for each attempt: status, duration, waiting time, cost, waivers.

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
    waited = waited_ms(entries)
    at_gates = f"{text.duration(waited)} of it at a gate" if waited >= text.NOTABLE else ""
    return ", ".join(part for part in (at_gates, text.cost(entries)) if part)
