"""Whether the kernel can replay the entries, which only this program's own journals allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel import machine
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.state import Entry, State
from playbook_supervisor.records import Record

_MAX_ATTEMPTS = 1_000


class Replay(Record):
    """The state after all entries; or why the entry with the index `diverging` cannot follow.

    Neither if it was not replayed.
    """

    state: State | None = None
    diverging: int = -1
    why: str = ""


def replay(entries: Sequence[Entry], playbook: Playbook) -> Replay:
    """Replay the entries, unless a step has so many attempts that it would take too long."""
    attempts = Counter(entry.step_id for entry in entries)
    if max(attempts.values(), default=0) > _MAX_ATTEMPTS:
        return Replay()
    state, why = _replay(playbook, entries)
    if not why:
        return Replay(state)
    low, high = 0, len(entries)  # how many can be replayed, and how many cannot
    while high - low > 1:
        middle = (low + high) // 2
        _, error = _replay(playbook, entries[:middle])
        low, high, why = (low, middle, error) if error else (middle, high, why)
    return Replay(None, low, why)


def _replay(playbook: Playbook, entries: Sequence[Entry]) -> tuple[State | None, str]:
    try:
        return machine.replay(playbook, entries), ""
    except StateError as error:
        return None, error.message
