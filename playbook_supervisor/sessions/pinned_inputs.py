"""The playbook and the policies that a session began with, and under which it runs.

Comments and layout of the pinned files may change, their data may not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from playbook_supervisor.errors import ArgumentError, CheckError, StateError
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.project import session_policy
from playbook_supervisor.project.session_policy import Policy, emit_policy
from playbook_supervisor.records import Record
from playbook_supervisor.sessions import serialize
from playbook_supervisor.sessions.integrity import read_file, shown, tampered
from playbook_supervisor.sessions.local_state import JOURNAL, Runtime
from playbook_supervisor.system.files import digest, read_bytes, write_atomically

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from playbook_supervisor.project.library import PlaybookFile
    from playbook_supervisor.sessions.manifest import Manifest


def load(folder: Path, private: Path, runtime: Runtime) -> tuple[Playbook, Policy]:
    """The playbook that the session runs, tightened by its policies, and these policies.

    Each is parsed once and kept compiled in `private`. StateError `PB-STATE-TAMPERED` if its data
    have changed, `PB-STATE-NO-PLAYBOOK` if there is no playbook, `PB-STATE-CORRUPT`; CheckError for
    a playbook that this worktree reads for the first time and that is not valid.
    """
    playbook: Playbook = _unchanged(_PLAYBOOK, folder, private, runtime)
    policy = _policy(folder, private, runtime)
    return session_policy.tightened(playbook, policy), policy


def pin(
    folder: Path,
    private: Path,
    runtime: Runtime,
    text: bytes,
    playbook: Playbook | None,
    policy: Policy | None,
) -> tuple[Playbook, Policy]:
    """Write what a new session begins with, and return it as `load` will.

    `playbook` is what `text` says; None if it is still to be read.
    """
    playbook = playbook or _read_playbook(text, shown(folder, _PLAYBOOK.file))
    write(folder, text, policy)
    if policy is not None:
        _keep_compiled(_POLICY, private, runtime, emit_policy(policy), policy)
    _keep_compiled(_PLAYBOOK, private, runtime, text, playbook)
    policy = policy or Policy()
    return session_policy.tightened(playbook, policy), policy


def write(folder: Path, text: bytes, policy: Policy | None) -> None:
    """Write the pinned files alone."""
    if policy is not None:
        write_atomically(folder / _POLICY.file, emit_policy(policy))
    write_atomically(folder / _PLAYBOOK.file, text)


def substitute(root: Path, folder: Path, manifest: Manifest) -> PlaybookFile | None:
    """The project's playbook for a session of kai's own tools, which pin none.

    None also if the project has no playbook of that name.
    """
    if not manifest.legacy or os.path.lexists(folder / _PLAYBOOK.file):
        return None
    from playbook_supervisor.project import library

    try:
        return library.find(root, manifest.playbook)
    except (ArgumentError, StateError):
        return None


def pin_substitute(root: Path, folder: Path, manifest: Manifest) -> None:
    """Pin the playbook that `substitute` finds. CheckError if it is not valid."""
    if found := substitute(root, folder, manifest):
        from playbook_supervisor.sessions.creation import policy_in_force

        write(folder, found.data, policy_in_force(root, found.playbook))


def _policy(folder: Path, private: Path, runtime: Runtime) -> Policy:
    name = _POLICY.file
    if name not in runtime.digests:
        if not os.path.lexists(folder / name):
            return Policy()
        if JOURNAL in runtime.digests:  # the session is known here, and had no policy
            raise tampered(f"{name} was put there by something else", shown(folder, name))
    found: Policy = _unchanged(_POLICY, folder, private, runtime)
    return found


class _PinnedKind(Record):
    """One of the two files: its name in messages, and how it is read and compiled."""

    word: str
    file: str
    compiled: str
    read: Callable[[bytes, str], Any]
    to_json: Callable[[Any], dict[str, Any]]
    from_json: Callable[[dict[str, Any]], Any]


def _unchanged(kind: _PinnedKind, folder: Path, private: Path, runtime: Runtime) -> Any:
    data = read_file(folder, kind.file)
    written = digest(data)
    former = _compiled(kind, private, written)
    if former is not None and runtime.ours(kind.file, written):
        return former
    source = shown(folder, kind.file)
    found = _read(kind, data, runtime, source)
    if not runtime.ours(kind.file, written):
        _require_unchanged(kind, found, private, runtime, source)
    _keep_compiled(kind, private, runtime, data, found)
    return found


def _keep_compiled(
    kind: _PinnedKind, private: Path, runtime: Runtime, data: bytes, value: Any
) -> None:
    """Keep the parsed value as JSON, which is read faster, and note that the bytes are ours."""
    written = digest(data)
    if not runtime.ours(kind.file, written):
        runtime.digests[kind.file] = [written]
    made = json.dumps({"digest": written, kind.word: kind.to_json(value)}, separators=(",", ":"))
    write_atomically(private / kind.compiled, made.encode(), durable=False)


def _read(kind: _PinnedKind, data: bytes, runtime: Runtime, source: str) -> Any:
    try:
        return kind.read(data, source)
    except (CheckError, StateError) as error:
        if kind.file not in runtime.digests:
            raise
        raise tampered(f"{_changed(kind)}: {error.message}", source) from error


def _require_unchanged(
    kind: _PinnedKind, found: Any, private: Path, runtime: Runtime, source: str
) -> None:
    """StateError `PB-STATE-TAMPERED` if the recorded value differs."""
    for known in runtime.digests.get(kind.file, ()):
        recorded = _compiled(kind, private, known)
        if recorded is None:
            recorded = _read(kind, read_file(private, kind.file), runtime, source)
        if recorded != found:
            raise tampered(_changed(kind), source)


def _changed(kind: _PinnedKind) -> str:
    return f"the pinned {kind.word} was changed by something else"


def _compiled(kind: _PinnedKind, private: Path, written: str) -> Any:
    """The compiled value of the bytes with this digest; None if there is none."""
    try:
        made = json.loads(read_bytes(private / kind.compiled))
        return kind.from_json(made[kind.word]) if made["digest"] == written else None
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _read_playbook(data: bytes, source: str) -> Playbook:
    from playbook_supervisor.project.schema import read_playbook

    return read_playbook(data, source)


_PLAYBOOK = _PinnedKind(
    "playbook",
    "playbook.yaml",
    "compiled.json",
    _read_playbook,
    serialize.playbook_to_json,
    serialize.playbook_from_json,
)
_POLICY = _PinnedKind(
    "policy",
    session_policy.FILE,
    "policy.json",
    session_policy.read_policy,
    session_policy.policy_to_json,
    session_policy.policy_from_json,
)
