"""Driving a session at this terminal: choose how to show it, ask at gates, print how it ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from playbook_supervisor.cli import output
from playbook_supervisor.cli.render import json_shapes, step_table, text
from playbook_supervisor.cli.render.log import Level, Log
from playbook_supervisor.cli.render.prompt import Prompt
from playbook_supervisor.commands import envelope, locate, protocol
from playbook_supervisor.drivers.drive_result import DriveResult
from playbook_supervisor.drivers.observers import CompositeObserver, Observer, Prompter
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.sessions import gate_text
from playbook_supervisor.sessions.attempt_log import last_lines
from playbook_supervisor.sessions.gate_context import gate_context
from playbook_supervisor.sessions.snapshot import Snapshot

_LAST_LINES = 15


def drive_and_show(
    drive: Callable[[Observer, Prompter | None], DriveResult],
    level: Level,
    *,
    json: bool,
    asks: bool = True,
) -> int:
    """Call `drive`, show its progress on stderr and its result; return the exit code.

    With `asks`, gates are asked at a terminal.
    """
    prompter = Prompt(shows_list(level)) if asks and output.is_interactive() else None
    with observing(level, protocol.entries) as observer:
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
            output.inform(*step_table.steps(attempts))
        if result.why == "failed":
            own = [entry for id_, entry in attempts.items() if "/" not in id_]
            output.inform(
                *_last_lines(snapshot, attempts), *text.cures(own, snapshot.state.playbook, name)
            )
        if command := text.next_command(result.why, name):
            output.inform(command)
    return result.exit_code


def _last_lines(
    snapshot: Snapshot, attempts: Mapping[str, Entry], within: str = ""
) -> Iterator[str]:
    """The end of what the agents of the failed steps said, also of those of child sessions."""
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
def observing(level: Level, earlier: Callable[[Snapshot], Sequence[Entry]]) -> Iterator[Observer]:
    """An observer that shows a live list on a terminal, and otherwise a log.

    `earlier` returns the attempts that were journaled before.
    """
    from playbook_supervisor.cli.render.bell import Bell

    if not shows_list(level):
        log = Log(level, colour=_forces_colour())
        yield CompositeObserver(log, Bell()) if output.can_redraw(sys.stderr) else log
        return
    from playbook_supervisor.cli.render.terminal import Terminal

    terminal = Terminal(level, earlier)
    try:
        yield CompositeObserver(terminal, Bell())
    finally:
        terminal.close()


def shows_list(level: Level) -> bool:
    """Whether progress is a live list, which keeps every step on the screen."""
    return output.can_redraw(sys.stderr) and level >= Level.INFO


def _forces_colour() -> bool:
    """A log has colours only on request."""
    return bool(os.environ.get("FORCE_COLOR")) and not os.environ.get("NO_COLOR")
