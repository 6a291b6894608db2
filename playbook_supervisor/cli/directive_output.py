"""The output of `begin`, `next` and `report`: quoted lines, then one line with the directive."""

from __future__ import annotations

from typing import Any

from playbook_supervisor.cli import output
from playbook_supervisor.cli.render import json_shapes, text
from playbook_supervisor.drivers.claude_code.allowlist import calls
from playbook_supervisor.drivers.claude_code.context import DirectiveDetails
from playbook_supervisor.formats.directive_line import defused, directive_line, quoted
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Ask, Check, Run
from playbook_supervisor.kernel.state import Change
from playbook_supervisor.sessions.gate import gate_text
from playbook_supervisor.sessions.store.snapshot import Snapshot, for_agents, for_us

_WAIT_FOR_AGENTS = "Wait for the agents."
_SETTLED = frozenset({Change.DONE, Change.FAILED, Change.SKIPPED})


def print_directive(snapshot: Snapshot, details: DirectiveDetails, *, json: bool) -> int:
    """Print the directive; the exit code says that it was printed."""
    output.show_notices(snapshot.notices)
    if json:
        output.write_json(_directive_json(snapshot, details))
    else:
        output.write(*lines_for_model(snapshot, details), quotes=False)
    return 0


def lines_for_model(snapshot: Snapshot, details: DirectiveDetails) -> list[str]:
    """Quoted lines, and as the last line the directive without long text."""
    context = gate_text.lines(details.context)
    directive = json_shapes.in_one_line(_directive_json(snapshot, details))
    prose = quoted(_prose(snapshot, context, details.given), details.mark)
    return [*prose, directive_line(details.mark, directive)]


def lines_at_stop(snapshot: Snapshot, details: DirectiveDetails) -> list[str]:
    """The directive in words: people see all that the model is told when its turn would end."""
    return [defused(_in_words(snapshot, details), details.mark)]


def _in_words(snapshot: Snapshot, details: DirectiveDetails) -> str:
    directive = snapshot.directive
    match directive:
        case Run() | Check():
            ids = [attempt.id for attempt in for_agents(snapshot)]
            if due := [id_ for id_ in ids if id_ not in (details.given or ())]:
                return f"Expected now: {calls(due)}."
            own = ", ".join(attempt.id for attempt in for_us(snapshot))
            return f"Expected now: `{json_shapes.WAIT}`, for {own}." if own else _WAIT_FOR_AGENTS
        case Ask():
            return f"The gate {directive.id} is open: ask its question with AskUserQuestion."
        case _:
            return f"The session is {snapshot.manifest.ending}."


def lines_for_user(snapshot: Snapshot, details: DirectiveDetails) -> list[str]:
    """A line for each step that was settled, what helps at a gate that has opened, the notices."""
    opened = any(event.change is Change.GATE_OPENED for event in snapshot.events)
    context = gate_text.lines(details.context) if opened else []
    asked = [text.question(snapshot), *(f"  {line}" for line in context)] if context else []
    return [*_settled(snapshot), *asked, *snapshot.notices]


def _directive_json(snapshot: Snapshot, details: DirectiveDetails) -> dict[str, Any]:
    return json_shapes.directive(snapshot, details.work_items, details.context, details.given)


def _settled(snapshot: Snapshot) -> list[str]:
    return [gate_text.settled_line(event) for event in snapshot.events if event.change in _SETTLED]


def _prose(snapshot: Snapshot, context: list[str], given: frozenset[str] | None) -> list[str]:
    manifest = snapshot.manifest
    subject = f" · {first_line(manifest.subject)}" if manifest.subject else ""
    lines = [
        *_settled(snapshot),
        f"Session {manifest.session_id} · {manifest.playbook}{subject} · {snapshot.progress} done",
    ]
    directive = snapshot.directive
    if isinstance(directive, Run | Check):
        ids = [attempt.id for attempt in for_agents(snapshot)]
        lines += _attempts(ids, given, repeated=snapshot.repeated)
        if own := ", ".join(attempt.id for attempt in for_us(snapshot)):
            lines.append(f"Wait with `{json_shapes.WAIT}`: {own}")
    elif isinstance(directive, Ask):
        lines += [text.question(snapshot), *(f"  {line}" for line in context)]
        lines.append(f"A human answers: {text.choices_of(snapshot)}.")
    else:
        lines.append(f"The session is {snapshot.manifest.ending}.")
    return lines


def _attempts(ids: list[str], given: frozenset[str] | None, *, repeated: bool) -> list[str]:
    if given is None:
        given = frozenset(ids if repeated else ())
    running = [id_ for id_ in ids if id_ in given]
    due = [id_ for id_ in ids if id_ not in given]
    return [
        *([f"Still running: {', '.join(running)}"] if running else []),
        *([f"To run now: {', '.join(due)}"] if due else []),
    ]
