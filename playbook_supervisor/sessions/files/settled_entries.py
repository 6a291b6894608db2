"""The entries of settled phases as lines of JSON in the git directory, which are read quickly.

The runtime state has a digest that is chained over them, so lines that something else wrote, or
that a full disk or a power cut left out, are not believed: the journal is parsed instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from playbook_supervisor.errors import StorageError
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.records import Record
from playbook_supervisor.sessions.files.journal import parse_journal
from playbook_supervisor.sessions.files.local_state import JOURNAL, Launch, Runtime
from playbook_supervisor.sessions.files.serialize import entry_from_json, entry_to_json
from playbook_supervisor.system.disk.files import digest, read_bytes

_NAME = "settled.jsonl"


class History(Record):
    """All entries of a session, and what was known when it began, here or elsewhere.

    `begun` is None if nothing records it. `runtime` is what this worktree knows, if it knows any.
    """

    entries: tuple[Entry, ...]
    begun: Launch | None
    runtime: Runtime | None = None


def chain(former: str, settled: Iterable[Entry]) -> str:
    """Continue the digest over the data of settled entries."""
    return _chained(former, map(_line, settled))


def keep(private: Path, runtime: Runtime, settled: Iterable[Entry]) -> None:
    """Add entries that have been settled to the lines and to the digest in the runtime state.

    Lines behind those that the runtime state counts do not matter: it may never be saved.
    """
    from playbook_supervisor.system.disk.log_file import put

    lines = [_line(entry) for entry in settled]
    data = b"".join(line + b"\n" for line in lines)
    put(private / _NAME, data, runtime.settled)
    runtime.settled += len(data)
    runtime.chain = _chained(runtime.chain, lines)


def entries(data: bytes, source: str, private: Path, runtime: Runtime | None) -> tuple[Entry, ...]:
    """The entries of this journal, without parsing it if it is as the runtime state knows it.

    StateError as `parse_journal`.
    """
    if runtime is not None and runtime.latest(JOURNAL, digest(data)):
        settled = _read(private, runtime)
        if settled is not None:
            return (*settled, *map(entry_from_json, runtime.state["entries"]))
    return parse_journal(data, source).entries


def _read(private: Path, runtime: Runtime) -> tuple[Entry, ...] | None:
    try:
        lines = read_bytes(private / _NAME)[: runtime.settled].splitlines()
    except (FileNotFoundError, StorageError):
        lines = []
    if _chained("", lines) != runtime.chain:
        return None
    return tuple(entry_from_json(json.loads(line)) for line in lines)


def _line(entry: Entry) -> bytes:
    return json.dumps(entry_to_json(entry), sort_keys=True, separators=(",", ":")).encode()


def _chained(former: str, lines: Iterable[bytes]) -> str:
    for line in lines:
        former = digest(b"%b\n%b" % (former.encode(), line))
    return former
