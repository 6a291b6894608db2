"""How `begin`, `next` and `report` say what is outstanding: prose, then one line for a model."""

from __future__ import annotations

from playbook_supervisor.cli import streams
from playbook_supervisor.cli.render import json_shapes, text
from playbook_supervisor.kernel.directives import Ask, Check, Run
from playbook_supervisor.kernel.state import Change

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from playbook_supervisor.commands.protocol import DirectiveDetails
    from playbook_supervisor.sessions.snapshot import Snapshot

_SETTLED = frozenset({Change.DONE, Change.FAILED, Change.SKIPPED})
_CONTEXT = 12  # lines: a client cuts what is longer than 10,000 characters


def hand_out(outlook: Snapshot, enclosure: DirectiveDetails, *, json: bool) -> int:
    """Print the directive; the exit code says that it was printed."""
    streams.tell_notices(outlook.notices)
    if json:
        streams.put_json(_shape(outlook, enclosure))
        return 0
    for line in told(outlook, enclosure):
        streams.put(line)
    return 0


def told(outlook: Snapshot, enclosure: DirectiveDetails) -> list[str]:
    """What a model reads: prose, and as the last line the directive, without long text."""
    shape = _shape(outlook, enclosure)
    return [
        *_prose(outlook, text.context(enclosure.context)[:_CONTEXT], enclosure.given),
        f"playbook-directive: {json_shapes.in_one_line(shape)}",
    ]


def _shape(outlook: Snapshot, enclosure: DirectiveDetails) -> dict[str, Any]:
    return json_shapes.directive(outlook, enclosure.handouts, enclosure.context, enclosure.given)


def seen(outlook: Snapshot) -> list[str]:
    """What a person sees: one line of evidence for each step that has gone by, and notices."""
    gone_by = [text.closed(event.entry) for event in outlook.events if event.change in _SETTLED]
    return [*gone_by, *outlook.notices]


def _prose(outlook: Snapshot, context: list[str], given: frozenset[str] | None) -> list[str]:
    manifest = outlook.manifest
    lines = [text.closed(event.entry) for event in outlook.events if event.change in _SETTLED]
    feature = f" · {manifest.feature}" if manifest.feature else ""
    lines.append(
        f"Session {manifest.session_id} · {manifest.playbook}{feature}"
        f" · {outlook.done}/{outlook.total} steps done"
    )
    due = outlook.directive
    if isinstance(due, Run):
        lines += _to_run([member.id for member in due.members], given, repeated=outlook.repeated)
    elif isinstance(due, Ask):
        lines += [text.question(outlook), *(f"  {line}" for line in context)]
        lines.append(f"A human answers: {text.choices_of(outlook)}.")
    elif isinstance(due, Check):
        lines.append(
            f"Wait with `{json_shapes.WAIT}`: {', '.join(member.id for member in due.members)}"
        )
    else:
        lines.append(f"The session is {outlook.manifest.status}.")
    return lines


def _to_run(due: list[str], given: frozenset[str] | None, *, repeated: bool) -> list[str]:
    if given is None:
        given = frozenset(due if repeated else ())
    left = [id_ for id_ in due if id_ not in given]
    lines = [f"Still at work: {', '.join(id_ for id_ in due if id_ in given)}"]
    return [*lines[: len(due) - len(left)], *([f"To run now: {', '.join(left)}"] if left else [])]
