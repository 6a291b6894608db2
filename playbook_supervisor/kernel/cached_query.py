"""Questions about a state or a playbook whose answers are kept with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from playbook_supervisor.kernel.model import Playbook
    from playbook_supervisor.kernel.state import State

    T = TypeVar("T")
    S = TypeVar("S", State, Playbook)


def cached_query(query: Callable[[S], T]) -> Callable[[S], T]:
    """A function of a state, or of a playbook, that is computed once for each of them, as
    `cached_property` would."""
    key = query.__qualname__

    @wraps(query)
    def cached(state: S) -> T:
        known = state.__dict__
        if key not in known:
            known[key] = query(state)
        result: T = known[key]
        return result

    return cached
