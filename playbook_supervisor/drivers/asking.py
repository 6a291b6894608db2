"""How the headless runner puts a gate to a person: at its terminal, or to those who are elsewhere.

An agent may ask in the middle of its step. Its worker then waits for the reply, and the others of
its group go on. Without an answer here it is put off: the worker ends, and the gate stays open.
"""

from __future__ import annotations

import time
from contextlib import suppress

from playbook_supervisor.agents.protocol import Request
from playbook_supervisor.drivers import gate_answer
from playbook_supervisor.drivers.answered import reply_of
from playbook_supervisor.drivers.observers import Observer, Prompter
from playbook_supervisor.drivers.workers import WorkerPool
from playbook_supervisor.errors import ArgumentError, CheckError, PolicyError, StateError
from playbook_supervisor.kernel.answers import ParsedAnswer, read_answer
from playbook_supervisor.kernel.directives import Ask, Attempt
from playbook_supervisor.kernel.gates import PASSED_ALONE, PLANNED
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.kernel.vocabulary import GateReason, Mode, Place, Resolution
from playbook_supervisor.records import Record, field
from playbook_supervisor.sessions.gate_context import GateContext, gate_context
from playbook_supervisor.sessions.principal import AUTONOMOUS, Principal
from playbook_supervisor.sessions.snapshot import Snapshot
from playbook_supervisor.sessions.supervisor import Supervisor

LOOK = 0.25
"""Seconds between two looks at a journal that others write."""


class Asking(Record, frozen=False):
    """The gates of one drive. `patience`: seconds to wait for an answer from elsewhere.

    `by` is the person who answers at the terminal.
    """

    supervisor: Supervisor
    observer: Observer
    workers: WorkerPool
    prompter: Prompter | None = None
    mode: Mode = Mode.MANUAL
    patience: float = 0.0
    by: Principal = Principal("")
    context: GateContext | None = None
    """What was shown at the gate that waits; None if a person has seen it in the prompt."""
    _shown: str = ""
    _until: float = 0.0
    _waiting: dict[str, Attempt] = field(default_factory=dict)

    # ── requests of agents ──────────────────────────────────────────────────────────────────

    def journal(self, attempt: Attempt, request: Request) -> Snapshot:
        """Open the gate for a request of the attempt's agent; its worker waits."""
        try:
            reason = GateReason(request.kind)
            snapshot = self.supervisor.asked(attempt.id, reason, request.shape)
        except StateError as error:
            if error.code != "PB-STATE-REFUSED":
                raise
            self.workers.reply(attempt.id, None)  # the session was ended from elsewhere
            return self.supervisor.advance()
        self._waiting[attempt.id] = attempt
        return snapshot

    def deliver(self, snapshot: Snapshot) -> None:
        """Give the workers that wait the answers that are in the journal."""
        for attempt in tuple(self._waiting.values()):
            entry: Entry | None = None
            with suppress(KeyError):  # its child session has ended
                entry = snapshot.entry(attempt)
            if entry is not None and entry.gate is not None:
                continue
            del self._waiting[attempt.id]
            answered = entry is not None and not entry.settled  # else the session was ended
            reply = reply_of(entry.gates[-1]) if entry is not None and answered else None
            self.workers.reply(attempt.id, reply)

    def put_off(self) -> None:
        """End the workers that wait: the answers come later."""
        for attempt_id in self._waiting:
            self.workers.reply(attempt_id, None)
        self._waiting.clear()

    # ── people ──────────────────────────────────────────────────────────────────────────────

    def ask(self, snapshot: Snapshot, gate: Ask) -> Snapshot | None:
        """What follows from the answer, or from something else that happened meanwhile.

        None if there is no answer here.
        """
        passable = gate.reason in PASSED_ALONE and not snapshot.answered_by
        if self.mode is Mode.AUTONOMOUS and passable:
            resolution = Resolution.CONTINUE
            return self._answer(gate, ParsedAnswer(resolution), resolution.value, AUTONOMOUS)
        if self._shown != gate.id or self.prompter is not None:
            self.supervisor.copy()
            self.context = gate_context(snapshot)
            self.observer.on_gate(snapshot)
            self._shown, self._until = gate.id, time.monotonic() + self.patience
        if self.prompter is not None:
            return self._prompt(snapshot, gate, self.prompter)
        return self._wait(snapshot) if gate.place is Place.DURING else None

    def _wait(self, snapshot: Snapshot) -> Snapshot | None:
        """Wait for an answer from elsewhere, as long as a worker does and there is patience."""
        while self._waiting and (left := self._until - time.monotonic()) > 0:
            if self.workers.has_news(self.observer.on_output, min(left, LOOK)):
                return snapshot.without_events()
            if self.supervisor.changed():
                return self.supervisor.advance()
        return None

    def _prompt(self, snapshot: Snapshot, gate: Ask, prompter: Prompter) -> Snapshot | None:
        """Ask until the gate is answered, here or elsewhere; end of input is not an answer."""
        while True:
            typed = prompter.ask(snapshot, self.context, self._overtaken)
            if typed.overtaken:
                news = self.workers.has_news(self.observer.on_output)
                return snapshot.without_events() if news else self.supervisor.advance()
            if typed.text is None:
                self.prompter = self.context = None
                return None
            text = typed.text
            if not text.strip() and gate.reason in PLANNED:
                text = Resolution.CONTINUE.value  # as in Catalyst, Enter continues
            reply = read_answer(text, gate.choices)
            question = reply.question
            if reply.resolution is not None:
                try:
                    return self._answer(gate, reply, text, self.by)
                except (PolicyError, CheckError, ArgumentError, StateError) as refused:
                    if isinstance(refused, StateError) and refused.code != "PB-STATE-CHANGED":
                        raise
                    question = f"{refused.message}; the gate stays open."
                    if reply.settings is not None:  # now they are shown
                        self.context = gate_context(snapshot)
                        question = f"{question} {refused.guidance}"
                    self.supervisor.look()  # so that `changed` does not report the refusal
            prompter.not_understood(snapshot, question)

    def _answer(self, gate: Ask, reply: ParsedAnswer, text: str, by: Principal) -> Snapshot:
        """Record the answer and continue; another terminal may have answered a moment earlier."""
        seen = self.context.settings if self.context is not None else None
        shown = seen.digest if seen is not None and seen.lines else ""
        try:
            before = gate_answer.record(self.supervisor, gate, reply, text, by, shown=shown)
        except StateError as error:
            if error.code != "PB-STATE-REFUSED":
                raise
            self.observer.on_notice(f"too late: {gate.id} was answered elsewhere")
            return self.supervisor.advance()
        return self.supervisor.advance().after(before)

    def _overtaken(self) -> bool:
        return self.workers.has_news(self.observer.on_output) or self.supervisor.changed()
