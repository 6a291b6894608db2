"""The playbook, the policies and the settings that a session began with, and under which it runs.

Comments and layout of the pinned files may change, their data may not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from playbook_supervisor.errors import ArgumentError, CheckError, PlaybookError, StateError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.project.policies import session_policy
from playbook_supervisor.project.policies.session_policy import Policy, emit_policy
from playbook_supervisor.project.settings import config, session_settings
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import Record, replace
from playbook_supervisor.sessions.files import integrity, serialize
from playbook_supervisor.sessions.files.local_state import JOURNAL, Runtime
from playbook_supervisor.sessions.files.manifest import Manifest
from playbook_supervisor.system.disk.files import digest, read_bytes, write_atomically

if TYPE_CHECKING:
    from playbook_supervisor.project.playbooks.playbook_file import PlaybookFile


NO_CHILDREN: Mapping[str, bytes] = MappingProxyType({})


class PinnedChild(Record):
    """The beginning of a child's session; `policy` is None in a project without policies."""

    playbook: Playbook
    text: bytes
    policy: Policy | None


class Pinned(Record, slots=False):
    """The inputs of a session: the playbook, tightened by the policies, and the settings.

    `children` are those that its steps can reach, as their authors wrote them; `files` the bytes of
    the pinned files.
    """

    playbook: Playbook
    policy: Policy
    config: Config
    children: Mapping[str, Playbook]
    files: Mapping[str, bytes]

    def child(self, name: str) -> PinnedChild:
        if name not in self.children:
            said = f"the session keeps no playbook {first_line(name, 60)}"
            raise StateError("PB-STATE-NO-PLAYBOOK", said)
        policy = self.policy.child(name) if _POLICY.file in self.files else None
        return PinnedChild(self.children[name], self.files[integrity.child_file(name)], policy)

    @cached_property
    def tightened_children(self) -> Mapping[str, Playbook]:
        return {
            name: session_policy.tightened(child, self.policy.child(name))
            for name, child in self.children.items()
        }


def load(folder: Path, private: Path, runtime: Runtime) -> Pinned:
    """The session's inputs. Each is parsed once and kept compiled in `private`. StateError
    `PB-STATE-TAMPERED`, `PB-STATE-NO-PLAYBOOK` or `PB-STATE-CORRUPT`; CheckError for a file that
    this worktree reads for the first time and that is not valid."""
    files: dict[str, bytes] = {}
    playbook: Playbook = _unchanged(_PLAYBOOK, folder, private, runtime, files)
    policy: Policy = _optional(_POLICY, folder, private, runtime, files) or Policy()
    settings: Config | None = _optional(_SETTINGS, folder, private, runtime, files)
    settings = settings or config.load(folder.parents[2])  # an earlier version began the session
    children = _children(folder, private, runtime, files)
    return Pinned(session_policy.tightened(playbook, policy), policy, settings, children, files)


def _children(
    folder: Path, private: Path, runtime: Runtime, files: dict[str, bytes]
) -> dict[str, Playbook]:
    known: Iterable[str] = integrity.children(runtime.digests)
    if JOURNAL not in runtime.digests:  # this worktree reads the session for the first time
        there = (folder / integrity.CHILDREN).glob("*.yaml")
        known = sorted(integrity.child_file(each.stem) for each in there)
    return {
        Path(name).stem: _unchanged(_child_kind(name), folder, private, runtime, files)
        for name in known
    }


def pin(
    folder: Path,
    private: Path,
    runtime: Runtime,
    text: bytes,
    playbook: Playbook | None,
    policy: Policy | None,
    children: Mapping[str, bytes] = NO_CHILDREN,
    inherited: bytes | None = None,
) -> Pinned:
    """Write what a new session begins with, and return it as `load` will. `playbook` is what `text`
    says, if it was read. `children` are texts by name, `inherited` the settings of a parent."""
    playbook = playbook or _read_playbook(text, integrity.shown(folder, _PLAYBOOK.file))
    files = write(folder, text, policy, inherited)
    settings = session_settings.read_settings(files[_SETTINGS.file], config.FILE)
    values: dict[_PinnedKind, Any] = {_PLAYBOOK: playbook, _POLICY: policy, _SETTINGS: settings}
    read: dict[str, Playbook] = {}
    for name, child in children.items():
        kind = _child_kind(integrity.child_file(name))
        values[kind] = read[name] = _read_playbook(child, integrity.shown(folder, kind.file))
        integrity.write_inside(folder, kind.file, child)
        files[kind.file] = child
    for kind, value in values.items():
        if kind.file in files:
            _keep_compiled(kind, private, runtime, files[kind.file], value)
    policy = policy or Policy()
    return Pinned(session_policy.tightened(playbook, policy), policy, settings, read, files)


def write(
    folder: Path, text: bytes, policy: Policy | None, settings: bytes | None = None
) -> dict[str, bytes]:
    """Write the pinned files alone, and return them; the settings are the project's, or those."""
    chosen = session_settings.text(folder.parents[2]) if settings is None else settings
    files = {_SETTINGS.file: chosen, _PLAYBOOK.file: text}
    if policy is not None:
        files[_POLICY.file] = emit_policy(policy)
    for name, data in files.items():
        write_atomically(folder / name, data)
    return files


def substitute(root: Path, folder: Path, manifest: Manifest) -> PlaybookFile | None:
    """The project's playbook, if any, for a session of kai's own tools, which pin none."""
    if not manifest.legacy or os.path.lexists(folder / _PLAYBOOK.file):
        return None
    from playbook_supervisor.project.playbooks import library

    try:
        return library.find(root, manifest.playbook)
    except (ArgumentError, StateError):
        return None


def pin_substitute(root: Path, folder: Path, manifest: Manifest) -> None:
    """Pin the playbook that `substitute` finds. CheckError if it is not valid."""
    if found := substitute(root, folder, manifest):
        from playbook_supervisor.project.policies import policy_files

        policy = policy_files.in_force(root, found.playbook, config.load(root))
        write(folder, found.kept, policy)


def pinned_children(folder: Path) -> dict[str, Playbook]:
    """The child playbooks in a session's folder, to be shown, as far as valid."""
    found = {}
    for path in sorted((folder / integrity.CHILDREN).glob("*.yaml")):
        with suppress(PlaybookError):
            name = integrity.child_file(path.stem)
            found[path.stem] = _read_playbook(
                integrity.read_file(folder, name), integrity.shown(folder, name)
            )
    return found


def replace_settings(
    folder: Path, private: Path, runtime: Runtime, data: bytes, save: Callable[[], None]
) -> Config:
    """Pin these settings. Until the file is written, the former ones apply, also after a crash;
    then `save`, which writes the runtime state, again."""
    name = _SETTINGS.file
    settings = session_settings.read_settings(data, config.FILE)
    write_atomically(private / name, data)
    runtime.will_write(name, digest(data))
    save()
    write_atomically(folder / name, data)
    runtime.digests[name] = [digest(data)]
    _keep_compiled(_SETTINGS, private, runtime, data, settings)
    return settings


def _optional(
    kind: _PinnedKind, folder: Path, private: Path, runtime: Runtime, files: dict[str, bytes]
) -> Any:
    if kind.file not in runtime.digests:
        if not os.path.lexists(folder / kind.file):
            return None
        if JOURNAL in runtime.digests:  # the session is known here, and had none
            said = f"{kind.file} was put there by something else"
            raise integrity.tampered(said, integrity.shown(folder, kind.file))
    return _unchanged(kind, folder, private, runtime, files)


class _PinnedKind(Record):
    word: str
    file: str
    compiled: str
    read: Callable[[bytes, str], Any]
    to_json: Callable[[Any], dict[str, Any]]
    from_json: Callable[[dict[str, Any]], Any]


def _unchanged(
    kind: _PinnedKind, folder: Path, private: Path, runtime: Runtime, files: dict[str, bytes]
) -> Any:
    data = files[kind.file] = integrity.read_file(folder, kind.file)
    written = digest(data)
    ours = runtime.ours(kind.file, written)
    if ours and (former := _compiled(kind, private, runtime, written)) is not None:
        return former
    source = integrity.shown(folder, kind.file)
    found = _read(kind, data, runtime, source)
    if not ours and kind.file in runtime.digests:
        _require_unchanged(kind, found, private, runtime, source)
        integrity.write_inside(private, kind.file, data, durable=False)
    _keep_compiled(kind, private, runtime, data, found)
    return found


def _keep_compiled(
    kind: _PinnedKind, private: Path, runtime: Runtime, data: bytes, value: Any
) -> None:
    """Keep the parsed value as JSON, which is read faster, and note that the bytes are ours."""
    written = digest(data)
    if not runtime.ours(kind.file, written):
        runtime.digests[kind.file] = [written]
    shape = {"digest": written, kind.word: kind.to_json(value)}
    made = json.dumps(shape, separators=(",", ":")).encode()
    runtime.digests[kind.compiled] = [digest(made)]
    integrity.write_inside(private, kind.compiled, made, durable=False)


def _read(kind: _PinnedKind, data: bytes, runtime: Runtime, source: str) -> Any:
    try:
        return kind.read(data, source)
    except (CheckError, StateError) as error:
        if kind.file not in runtime.digests:
            raise
        raise integrity.tampered(f"{_changed(kind)}: {error.message}", source) from error


def _require_unchanged(
    kind: _PinnedKind, found: Any, private: Path, runtime: Runtime, source: str
) -> None:
    for known in runtime.digests[kind.file]:
        recorded = _compiled(kind, private, runtime, known)
        if recorded is None:
            copy = b""
            with suppress(FileNotFoundError):
                copy = read_bytes(private / kind.file)
            recorded = _read(kind, copy, runtime, source) if digest(copy) == known else None
        if recorded != found:
            raise integrity.tampered(_changed(kind), source)


def _changed(kind: _PinnedKind) -> str:
    verb = "were" if kind.word.endswith("s") else "was"
    return f"the pinned {kind.word} {verb} changed by something else"


def _compiled(kind: _PinnedKind, private: Path, runtime: Runtime, written: str) -> Any:
    try:
        made = read_bytes(private / kind.compiled)
        if not runtime.latest(kind.compiled, digest(made)):
            return None
        shape = json.loads(made)
        return kind.from_json(shape[kind.word]) if shape["digest"] == written else None
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _read_playbook(data: bytes, source: str) -> Playbook:
    from playbook_supervisor.project.playbooks.schema import read_playbook

    return read_playbook(data, source)


_PLAYBOOK = _PinnedKind(
    "playbook",
    "playbook.yaml",
    "compiled.json",
    _read_playbook,
    serialize.playbook_to_json,
    serialize.playbook_from_json,
)


def _child_kind(file: str) -> _PinnedKind:
    return replace(_PLAYBOOK, file=file, compiled=file.removesuffix(".yaml") + ".json")


_POLICY = _PinnedKind(
    "policy",
    session_policy.FILE,
    "policy.json",
    session_policy.read_policy,
    session_policy.policy_to_json,
    session_policy.policy_from_json,
)
_SETTINGS = _PinnedKind(
    "settings",
    session_settings.FILE,
    "settings.json",
    session_settings.read_settings,
    session_settings.settings_to_json,
    session_settings.settings_from_json,
)
