"""The number in every file of ours, and the way from each old one to today's.

Numbers only grow. A file that carries an old one is migrated in memory, step by step, by what
stands here and is never taken out; one of the future is refused, for nobody can know what it says.
A file without a number is of the first. (A playbook has its author's `version` instead.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from playbook_supervisor.errors import StateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from playbook_supervisor.formats.located import Document

    Data: TypeAlias = Mapping[str, Any]

NEWEST: dict[str, int] = {
    "install.yaml": 1,
    "config.yaml": 1,
    "_index.yaml": 1,
    "session.yaml": 1,
    "journal.yaml": 1,
    "policy.yaml": 1,
    "runtime": 1,
}
"""The number that is written today, by kind of file."""

MIGRATIONS: dict[tuple[str, int], Callable[[Data], Data]] = {}
"""Kind and number → its data as of the next number."""


def current(
    kind: str, number: int, data: Data, source: str, document: Document | None = None
) -> Data:
    """The data of a file of that kind and number, migrated to the newest number.

    StateError PB-STATE-NEWER if the number is newer than ours, at `schema` in the `document`.
    """
    refuse_newer(kind, number, source, document)
    for step in range(number, NEWEST[kind]):
        data = MIGRATIONS[kind, step](data)
    return data


def refuse_newer(kind: str, number: int, source: str, document: Document | None = None) -> None:
    """Raise PB-STATE-NEWER as `current` does, for a generated file that needs no migration."""
    if number > NEWEST[kind]:
        raise StateError(
            "PB-STATE-NEWER",
            f"{kind} was made by a newer playbook (its number is {number}, this one reads "
            f"{NEWEST[kind]}): upgrade this one",
            where=source,
            position=document.position(("schema",)) if document else None,
        )
