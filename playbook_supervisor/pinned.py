"""The playbook that a session began with: a session runs what it started with.

Comments and layout of the pinned file may change; what it says may not.
"""

from __future__ import annotations

import json
from pathlib import Path

from playbook_supervisor import wire
from playbook_supervisor.errors import CheckError
from playbook_supervisor.files import digest, read_bytes, write_atomically
from playbook_supervisor.integrity import read_file, shown, tampered
from playbook_supervisor.model import Playbook
from playbook_supervisor.runtime import Runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_CHANGED: Final = "the pinned playbook was changed by something else"


def playbook(folder: Path, private: Path, runtime: Runtime) -> Playbook:
    """The session's playbook, read once and kept compiled in its private folder.

    StateError `PB-STATE-TAMPERED` if it no longer says what it said, `PB-STATE-NO-PLAYBOOK` if
    there is none; CheckError if it was never one of ours to know and does not conform.
    """
    data = read_file(folder, "playbook.yaml")
    written = digest(data)
    compiled = private / "compiled.json"
    former = _compiled(compiled, written)
    if former is not None and runtime.ours("playbook.yaml", written):
        return former
    found = _read_playbook(data, runtime, shown(folder, "playbook.yaml"))
    if not runtime.ours("playbook.yaml", written):
        _same_playbook(found, private, runtime, shown(folder, "playbook.yaml"))
        runtime.digests["playbook.yaml"] = [written]
    made = {"digest": written, "playbook": wire.playbook_to_json(found)}
    write_atomically(compiled, json.dumps(made, separators=(",", ":")).encode(), durable=False)
    return found


def _read_playbook(data: bytes, runtime: Runtime, source: str) -> Playbook:
    from playbook_supervisor.schema import read_playbook

    try:
        return read_playbook(data, source)
    except CheckError as error:
        if "playbook.yaml" not in runtime.digests:
            raise
        raise tampered(f"{_CHANGED}: {error.message}", source) from error


def _same_playbook(found: Playbook, private: Path, runtime: Runtime, source: str) -> None:
    """StateError `PB-STATE-TAMPERED` unless it says what the recorded one said, if there is one."""
    for known in runtime.digests.get("playbook.yaml", ()):
        recorded = _compiled(private / "compiled.json", known)
        if recorded is None:
            recorded = _read_playbook(read_file(private, "playbook.yaml"), runtime, source)
        if recorded != found:
            raise tampered(_CHANGED, source)


def _compiled(path: Path, written: str) -> Playbook | None:
    """The compiled playbook, if it is that of these bytes."""
    try:
        made = json.loads(read_bytes(path))
        return wire.playbook_from_json(made["playbook"]) if made["digest"] == written else None
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None
