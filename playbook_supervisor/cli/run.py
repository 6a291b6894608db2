"""`run` and `resume`: drive a session, show it, and say how it ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from playbook_supervisor.cli import streams
from playbook_supervisor.cli.render import json_shapes, text
from playbook_supervisor.cli.render.log import Level
from playbook_supervisor.cli.render.prompt import Prompt
from playbook_supervisor.cli.watchers import draws, watching
from playbook_supervisor.commands import driving, locate, protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.drivers.headless import DriveResult
    from playbook_supervisor.drivers.observers import Observer, Prompter

DriveOptions = driving.DriveOptions


def run(
    reference: str,
    args: Sequence[str],
    *,
    start: str,
    drive: DriveOptions,
    json: bool,
    level: Level,
) -> int:
    """Begin a playbook and drive it to its end or to a gate (kai FR20)."""
    return _driven(
        lambda watcher, person: driving.run(
            reference, args, start=start, drive=drive, watcher=watcher, person=person
        ),
        json=json,
        level=level,
    )


def plan(
    reference: str, args: Sequence[str], *, start: str, drive: DriveOptions, json: bool
) -> int:
    """Show what a run would do, and do none of it; 0 where it could begin."""
    from playbook_supervisor.cli.render import plan
    from playbook_supervisor.commands import dry_run

    planned = dry_run.plan(reference, args, start=start, drive=drive)
    if json:
        streams.put_json(plan.as_json(planned))
        return planned.exit_code
    for line in plan.lines(planned, colour=streams.shows_colour(), width=streams.width()):
        streams.put(line)
    streams.tell(plan.verdict(planned))
    return planned.exit_code


def resume(session: str, *, retry: bool, drive: DriveOptions, json: bool, level: Level) -> int:
    """Go on where a session stands (kai FR15)."""
    return _driven(
        lambda watcher, person: driving.resume(
            session, retry=retry, drive=drive, watcher=watcher, person=person
        ),
        json=json,
        level=level,
    )


def _driven(
    drive: Callable[[Observer, Prompter | None], DriveResult], *, json: bool, level: Level
) -> int:
    person = Prompt() if streams.at_a_terminal() else None
    with watching(level, protocol.entries) as watcher:
        ending = drive(watcher, person)
    outlook, entries = ending.snapshot, protocol.entries(ending.snapshot)
    context = ending.context or protocol.context(outlook)
    name = locate.name_from_here(outlook)
    if json:
        streams.put_json(
            json_shapes.ending(outlook, ending.why, ending.exit_code, entries, context)
        )
    if ending.why == "waiting":
        for line in text.context(context) if person is None else ():  # a person has seen it
            streams.tell(f"  {line}")
        streams.tell(text.how_to_answer(outlook, name))
    elif level >= Level.INFO or ending.why == "failed":
        streams.tell(text.summary(outlook, entries, ending.why))
        for line in () if draws(level) or level < Level.INFO else text.steps(entries):
            streams.tell(line)
        for line in text.cures(entries, name) if ending.why == "failed" else ():
            streams.tell(line)
        if then := text.afterwards(ending.why, name):
            streams.tell(then)
    return ending.exit_code
