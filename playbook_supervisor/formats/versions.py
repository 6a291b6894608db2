"""The format version of each of our files, and the migrations to the newest.

Versions only grow. A file of an old version is migrated in memory, step by step; migrations are
never removed. A version newer than this program is refused. A file without a number has version 1.
(A playbook has its author's `version` instead.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from playbook_supervisor.errors import StateError
from playbook_supervisor.formats.located import Document

Data: TypeAlias = Mapping[str, Any]

NEWEST: dict[str, int] = {
    "install.yaml": 1,
    "config.yaml": 1,
    "_index.yaml": 1,
    "session.yaml": 1,
    "journal.yaml": 1,
    "policy.yaml": 1,
    "records.yaml": 1,
    "outputs": 1,
    "runtime": 1,
}
"""The version that we write, by kind of file."""

PROTOCOL = 1
"""The version of the JSON that commands print for clients and programs."""

MIGRATIONS: dict[tuple[str, int], Callable[[Data], Data]] = {}
"""Kind and version → the function that migrates to the next version."""


def current(
    kind: str, number: int, data: Data, source: str, document: Document | None = None
) -> Data:
    """The data, migrated to the newest version. StateError PB-STATE-NEWER, at `schema`."""
    refuse_newer(kind, number, source, document)
    for step in range(number, NEWEST[kind]):
        data = MIGRATIONS[kind, step](data)
    return data


def refuse_newer(kind: str, number: int, source: str, document: Document | None = None) -> None:
    """Raise PB-STATE-NEWER as `current` does, for a generated file that needs no migration."""
    if number > NEWEST[kind]:
        reads = f"its format is {number}, this one reads {NEWEST[kind]}"
        said = f"{kind} was made by a newer playbook ({reads}): upgrade this one"
        at = document.position(("schema",)) if document else None
        raise StateError("PB-STATE-NEWER", said, where=source, position=at)


def is_newer(version: str, than: str) -> bool:
    """True if a version of this program, `1.10.0`, is newer; one without numbers is the oldest."""
    return _numbers(version) > _numbers(than)


def _numbers(version: str) -> tuple[int, ...]:
    """The release in a version, without trailing zeros: 1.10.0rc1 → (1, 10)."""
    release = re.match(r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,9}", version)
    numbers = [int(number) for number in release[0].split(".")] if release else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
