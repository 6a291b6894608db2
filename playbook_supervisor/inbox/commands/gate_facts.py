"""All that a person needs at a gate, and the digest by which an answer says what the person saw."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256

from playbook_supervisor.commands.views.queries import SessionView, changes_since_beginning, view_of
from playbook_supervisor.formats.file_changes import Changes
from playbook_supervisor.inbox.commands.repository import Row
from playbook_supervisor.kernel import gates
from playbook_supervisor.kernel.directives import as_typed
from playbook_supervisor.kernel.state import Gate
from playbook_supervisor.kernel.vocabulary import GateReason, Place, Resolution
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files.manifest import Waiting
from playbook_supervisor.sessions.gate import gate_text
from playbook_supervisor.sessions.gate.gate_context import GateContext
from playbook_supervisor.sessions.gate.gate_text import ContextLine
from playbook_supervisor.sessions.steps.attempt_log import last_lines

LOG_LINES = 40


@dataclass(frozen=True, slots=True)
class ExactCall:
    """The arguments of a tool's call, by name. `whole`: a gate keeps only so much of a long one."""

    arguments: Mapping[str, str]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class GateFacts:
    """One open gate. `gate` is what waits, `record` the gate in the journal.

    `lines` say what decides most (`gate_text`), `log` the last lines of the attempt `log_of`,
    `changes` what has changed in the work tree since the session began. `busy`: other attempts
    run, so that the work tree may change at any moment. `state` is a digest of all that decides,
    `settings` the answer that takes over the project's settings, if they differ and are shown.
    """

    view: SessionView
    gate: Waiting
    record: Gate
    choices: tuple[Resolution, ...]
    words: tuple[str, ...]
    lines: tuple[ContextLine, ...]
    changes: Changes
    log_of: str = ""
    log: tuple[str, ...] = ()
    busy: bool = False
    state: str = ""
    settings: str = ""

    @property
    def questions(self) -> tuple[Mapping[str, object], ...]:
        asked = self.record.request.get("questions")
        return tuple(asked) if isinstance(asked, list | tuple) else ()

    @property
    def call(self) -> ExactCall | None:
        if self.record.reason is not GateReason.PERMISSION:
            return None
        return _call(str(self.record.request.get("input", "")))


def facts_of(row: Row) -> GateFacts | None:
    """The facts of the session's open gate; None if none is open, or it cannot be read."""
    seen = row.seen
    gate, context = seen.gate, seen.gate_context()
    if gate is None or context is None:
        return None
    if context.gate.place is Place.DURING:  # what the agent asks for is shown as it is
        context = replace(context, preview=())
    lines = gate_text.parts(context)
    asked, back = context.gate, context.back
    choices = gates.offered(asked.reason, asked.place, asked.request, back=back)
    changes = changes_since_beginning(seen.store, seen.session_id)
    busy = bool(row.progress.at_work)
    log_of = context.entry.id if context.entry.ran else context.said.attempt
    private = seen.gate_at.store.runtime(seen.gate_at.session_id)
    return GateFacts(
        view_of(seen),
        gate,
        context.gate,
        choices,
        as_typed(choices, back),
        lines,
        changes,
        log_of,
        last_lines(private, log_of, LOG_LINES) if log_of else (),
        busy,
        _digest(gate, context, lines, choices, None if busy else changes),
        context.settings.words if context.settings and context.settings.lines else "",
    )


def gate_of(view: SessionView, gate_id: str) -> Gate | None:
    """The gate of that id, open or answered; `go#1/pr#1?1` is one of a child session."""
    attempt, below, rest = gate_id.partition("/")
    for entry in view.entries:
        if below and entry.id == attempt and entry.session in view.children:
            return gate_of(view.children[entry.session], rest)
        for gate in entry.gates:
            if gate.id == gate_id:
                return gate
    return None


def _call(given: str) -> ExactCall:
    """The arguments in their JSON text. One that was cut is closed again, where that can be."""
    for closing in ("", '"}', "}"):
        with suppress(ValueError, RecursionError):
            arguments = json.loads(given.removesuffix("…") + closing if closing else given)
            if isinstance(arguments, dict):
                shown = {
                    name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                    for name, value in arguments.items()
                }
                return ExactCall(shown, whole=not closing)
    return ExactCall({"arguments": given}, whole=not given.endswith("…"))


def _digest(
    gate: Waiting,
    context: GateContext,
    lines: tuple[ContextLine, ...],
    choices: tuple[Resolution, ...],
    changes: Changes | None,
) -> str:
    """While others run, the lines and the work tree change by themselves, and do not count, nor do
    changes that could not be counted in time.
    """
    asked = [gate.id, gate.opened_at, gate.question, choices, context.gate.request, context.people]
    seen = [repr(lines), repr(changes)] if changes is not None and changes.exact else []
    text = json.dumps([asked, seen], default=str, sort_keys=True)
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
