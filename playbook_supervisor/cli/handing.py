"""How `begin`, `next` and `report` say what is outstanding: prose, then one line for a model."""

from __future__ import annotations

from playbook_supervisor.api import protocol
from playbook_supervisor.cli import streams
from playbook_supervisor.kernel.directives import Ask, Check, Run
from playbook_supervisor.kernel.state import Change
from playbook_supervisor.render import shapes, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Final

    from playbook_supervisor.outlook import Outlook

_SETTLED: Final = frozenset({Change.DONE, Change.FAILED, Change.SKIPPED})
_CONTEXT: Final = 12  # lines: a client cuts what is longer than 10,000 characters


def hand_out(outlook: Outlook, *, json: bool) -> int:
    """Print the directive; the exit code says that it was printed."""
    streams.tell_notices(outlook.notices)
    if json:
        context = protocol.context(outlook)
        streams.put_json(shapes.directive(outlook, protocol.handouts(outlook), context))
        return 0
    for line in told(outlook):
        streams.put(line)
    return 0


def told(outlook: Outlook, *, cwd: Path | None = None) -> list[str]:
    """What a model reads: prose, and as the last line the directive, without long text."""
    asked = isinstance(outlook.directive, Ask)
    context = protocol.context(outlook, cwd=cwd) if asked else ()
    shape = shapes.directive(outlook, protocol.handouts(outlook, cwd=cwd), context)
    return [
        *_prose(outlook, text.context(context)[:_CONTEXT]),
        f"playbook-directive: {shapes.in_one_line(shape)}",
    ]


def seen(outlook: Outlook) -> list[str]:
    """What a person sees: one line of evidence for each step that has gone by."""
    return [text.closed(event.entry) for event in outlook.events if event.change in _SETTLED]


def _prose(outlook: Outlook, context: list[str]) -> list[str]:
    manifest = outlook.manifest
    lines = [text.closed(event.entry) for event in outlook.events if event.change in _SETTLED]
    feature = f" · {manifest.feature}" if manifest.feature else ""
    lines.append(
        f"Session {manifest.session_id} · {manifest.playbook}{feature}"
        f" · {outlook.done}/{outlook.total} steps done"
    )
    due = outlook.directive
    if isinstance(due, Run):
        again = "Still at work" if outlook.repeated else "To run now"
        lines.append(f"{again}: {', '.join(member.id for member in due.members)}")
    elif isinstance(due, Ask):
        lines += [text.question(outlook), *(f"  {line}" for line in context)]
        lines.append(f"A human answers: {text.choices_of(outlook)}.")
    elif isinstance(due, Check):
        lines.append(f"Wait with `{shapes.WAIT}`: {', '.join(member.id for member in due.members)}")
    else:
        lines.append(f"The session is {outlook.manifest.status}.")
    return lines
