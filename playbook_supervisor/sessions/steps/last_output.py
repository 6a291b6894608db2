"""The last output of a session, for programs that run playbooks: `output.json`, kept locally.

The journal keeps only the last words of an output, and `outputs/` only what a later step reads.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.errors import StorageError
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.system.disk.files import read_bytes, write_atomically

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from playbook_supervisor.kernel.model import Step

_FILE = "output.json"
_LARGEST = 64_000_000  # bytes of the file


def keep(private: Path, step: Step, outcome: Outcome) -> None:
    """Keep the output of an attempt at the step: its data if it promised JSON, else its lines.

    A list of data is kept as its items. A child session keeps its own. No step needs this file, so
    a full disk is no error.
    """
    if not outcome.output or step.has_child:
        return
    if outcome.ok and outcome.data is not None:
        values = outcome.data if isinstance(outcome.data, list) else [outcome.data]
    else:
        values = outcome.output.rstrip("\n").split("\n")
    with suppress(StorageError):
        text = json.dumps(values, ensure_ascii=False).encode("utf-8", "backslashreplace")
        write_atomically(private / _FILE, text, durable=False)


def read(privates: Iterable[Path]) -> list[Any]:
    """The latest output that is kept in one of these local folders; empty if there is none."""
    files = [private / _FILE for private in privates]
    found = [file for file in files if file.is_file()]
    if not found:
        return []
    latest = max(found, key=lambda file: file.stat().st_mtime_ns)
    with suppress(StorageError, FileNotFoundError, ValueError, RecursionError):
        kept = json.loads(read_bytes(latest, limit=_LARGEST))
        return kept if isinstance(kept, list) else []
    return []
