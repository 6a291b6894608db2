"""The kernel's own judgement: can these entries follow from each other?

Only what the program itself has written, with the playbook that it ran, can be replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel import machine
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.state import Entry, State
from playbook_supervisor.records import Record

_MOST = 1_000


class Replay(Record):
    """The state after all entries, or why the entry with the index `diverging` cannot follow.

    Neither: unknown.
    """

    state: State | None = None
    diverging: int = -1
    why: str = ""


def replay(entries: Sequence[Entry], playbook: Playbook) -> Replay:
    """What the kernel makes of the entries; of very many attempts at one step nothing.

    Each is compared with all before it.
    """
    attempts = Counter(entry.step_id for entry in entries)
    if max(attempts.values(), default=0) > _MOST:
        return Replay()
    state, why = _tried(playbook, entries)
    if not why:
        return Replay(state)
    low, high = 0, len(entries)  # so many can be replayed, and so many cannot
    while high - low > 1:
        middle = (low + high) // 2
        _, said = _tried(playbook, entries[:middle])
        low, high, why = (low, middle, said) if said else (middle, high, why)
    return Replay(None, low, why)


def _tried(playbook: Playbook, entries: Sequence[Entry]) -> tuple[State | None, str]:
    try:
        return machine.replay(playbook, entries), ""
    except StateError as error:
        return None, error.message
