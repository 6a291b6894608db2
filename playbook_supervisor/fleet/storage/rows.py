"""The contents of the fleet's database as records. Rows are read as untrusted data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.sessions.files.manifest import SESSION_ID

_LONGEST = 65_536  # characters
_CHOICE = rf"{'|'.join(Resolution)}|{Resolution.BACK} to [a-z0-9][a-z0-9-]*"
POOL = r"[a-z0-9][a-z0-9-]{0,31}\Z"
"""The form of a pool's name."""
SUSPECT = 2
"""The deaths in a row from which on a session is taken alone."""


class State(StrEnum):
    """The state of a session for the fleet."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"
    STUCK = "stuck"


ENDED = (State.COMPLETED, State.FAILED, State.ABORTED)
OPEN = tuple(state for state in State if state not in ENDED)


@dataclass(frozen=True, slots=True)
class Row:
    """A session as the fleet knows it.

    Times are milliseconds since the epoch by the database's clock, 0 for none. `changed_at` is that
    of the last change, `since` when it began to wait, or to run, as it does. `epoch` counts the
    leases; `released` is the epoch of the last one that its holder gave back, and `deaths` how many
    lapsed in a row, without a step that settled. A queued session with a `worker` is kept for it
    until `lease_until`. `gate` is the one that the session waits at, or whose answer is under way.
    `cancel` has the words of a cancellation, `needs` a version of this program, `error` a code,
    `after` another session. `due_at` is when a session that was put off may be taken again.
    `retry`: a person wants a failed session to go on.
    """

    id: str
    repository: str
    branch: str
    playbook: str
    feature: str
    pool: str
    state: State
    gate: str = ""
    choices: tuple[str, ...] = ()
    priority: int = 0
    epoch: int = 0
    worker: str = ""
    lease_until: int = 0
    cancel: str = ""
    cancel_by: str = ""
    needs: str = ""
    failures: int = 0
    error: str = ""
    said: str = ""
    after: str = ""
    submitted_by: str = ""
    created_at: int = 0
    changed_at: int = 0
    since: int = 0
    due_at: int = 0
    released: int = 0
    deaths: int = 0
    retry: bool = False


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session that was created and pushed, as `fleet submit` stores it."""

    id: str
    repository: str
    branch: str
    playbook: str
    feature: str
    pool: str = "default"
    priority: int = 0
    after: str = ""
    submitted_by: str = ""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of a worker to drive a session, with the row as it was when it was taken."""

    session: str
    epoch: int
    worker: str
    row: Row


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer to a gate. `at` is in ms by the database's clock, `via` as `answer` was told."""

    gate: str
    text: str
    by: str
    at: int
    role: str
    via: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most sessions of a pool at work: in all, of one repository, and started per time.

    `per_time` is a number of sessions and the seconds in which so many may start. None: any number.
    """

    in_all: int | None = None
    per_repository: int | None = None
    per_time: tuple[int, float] | None = None


_NUMBERS = [name for name, kind in Row.__annotations__.items() if kind in ("int", "bool")]
_TEXTS = [name for name, kind in Row.__annotations__.items() if kind == "str"]


def to_row(data: Mapping[Any, object]) -> Row:
    """The row. ValueError names a field that nothing of ours has written."""
    values = {str(name): value for name, value in data.items()}
    for name in _NUMBERS:
        if type(values[name]) is not int:
            raise ValueError(name)
    for name in _TEXTS:
        value = values[name]
        if not isinstance(value, str) or len(value) > _LONGEST or printable(value) != value:
            raise ValueError(name)
    if not SESSION_ID.match(str(values["id"])):
        raise ValueError("id")
    if values["after"] and not SESSION_ID.match(str(values["after"])):
        raise ValueError("after")
    if not re.match(POOL, str(values["pool"])):
        raise ValueError("pool")
    try:
        state = State(str(values["state"]))
    except ValueError:
        raise ValueError("state") from None
    read = {"state": state, "choices": _choices(values["choices"]), "retry": bool(values["retry"])}
    return Row(**values | read)  # type: ignore[arg-type]


def _choices(stored: object) -> tuple[str, ...]:
    try:
        choices = json.loads(str(stored))
    except (ValueError, RecursionError):
        raise ValueError("choices") from None
    if not isinstance(choices, list) or not all(
        isinstance(word, str) and re.fullmatch(_CHOICE, word) for word in choices
    ):
        raise ValueError("choices")
    return tuple(choices)
