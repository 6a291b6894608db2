"""Whom a driver talks to: the person who answers gates, and whoever watches what happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from playbook_supervisor.kernel.directives import Attempt
from playbook_supervisor.kernel.state import Event
from playbook_supervisor.records import Record
from playbook_supervisor.sessions.snapshot import Snapshot


class PromptAnswer(Record):
    """What a person said at a gate: a text, or None at the end of the file.

    `overtaken` when there was no need to go on asking: something else has happened meanwhile.
    """

    text: str | None = None
    overtaken: bool = False


class Prompter(Protocol):
    """Whoever can be asked: a terminal."""

    def ask(
        self, outlook: Snapshot, context: tuple[str, ...], overtaken: Callable[[], bool]
    ) -> PromptAnswer:
        """Put the gate and wait, asking `overtaken` now and then whether to stop waiting."""
        ...

    def not_understood(self, outlook: Snapshot, question: str) -> None:
        """Say that it was no answer; `question` is what to ask back, or empty."""
        ...


class Observer(Protocol):
    """Whoever shows what happens. Nothing that it does may raise."""

    def happened(self, event: Event, outlook: Snapshot) -> None:
        """A fact has been journaled."""
        ...

    def said(self, attempt: Attempt, line: str) -> None:
        """A worker said something; harmless for a terminal."""
        ...

    def waits(self, outlook: Snapshot) -> None:
        """A gate is open."""
        ...

    def ended(self, outlook: Snapshot) -> None:
        """The drive is over: the session has ended, waits for nobody here, or goes on later."""
        ...

    def notice(self, text: str) -> None:
        """A sentence for the person."""
        ...


class NullObserver:
    """A watcher that shows nothing."""

    def happened(self, event: Event, outlook: Snapshot) -> None:
        """Nothing is shown."""

    def said(self, attempt: Attempt, line: str) -> None:
        """Nothing is shown."""

    def waits(self, outlook: Snapshot) -> None:
        """Nothing is shown."""

    def ended(self, outlook: Snapshot) -> None:
        """Nothing is shown."""

    def notice(self, text: str) -> None:
        """Nothing is shown."""


class CompositeObserver(Record):
    """Watchers of the same drive, told everything one after the other."""

    each: tuple[Observer, ...]

    def happened(self, event: Event, outlook: Snapshot) -> None:
        for watcher in self.each:
            watcher.happened(event, outlook)

    def said(self, attempt: Attempt, line: str) -> None:
        for watcher in self.each:
            watcher.said(attempt, line)

    def waits(self, outlook: Snapshot) -> None:
        for watcher in self.each:
            watcher.waits(outlook)

    def ended(self, outlook: Snapshot) -> None:
        for watcher in self.each:
            watcher.ended(outlook)

    def notice(self, text: str) -> None:
        for watcher in self.each:
            watcher.notice(text)
