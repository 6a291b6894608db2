"""The settings of a session and those of the project: what differs, and taking the latter over."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from playbook_supervisor.errors import ArgumentError, PlaybookError, StateError
from playbook_supervisor.formats.sanitize import first_line, one_line, printable
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.project.settings import config, session_settings
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import Record
from playbook_supervisor.sessions.files.manifest import Confirmation
from playbook_supervisor.sessions.files.pinned_inputs import Pinned
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.system.disk.files import digest, read_bytes

_SHOWN = 160  # characters of a value in a sentence
_MOST_LINES, _LONGEST = 8, 200  # of a difference at a gate: what is longer is not offered there
_DIGITS = 12  # of a digest that a person types
_CONFIDENTIAL = (
    r"(?i)((?:token|secret|passw|api_?key|credential)[\w-]*[\"']?\s*[:=]\s*)[^\s[{][^,}\]]*"
)


class SettingsChange(Record):
    """The difference between the project's settings and a session's, for a person at a gate.

    `lines` are those of a diff, without what looks like secrets; none if there are too many to
    show: what a person has not seen is not taken over at a gate. `digest` is that of the project's
    file.
    """

    keys: tuple[str, ...]
    lines: tuple[str, ...]
    digest: str

    @property
    def words(self) -> str:
        """The answer that takes these settings over: `take settings 3f2a91c0b7de`."""
        return f"take settings {self.digest[:_DIGITS]}"


def change(root: Path, folder: Path, kept: Config) -> SettingsChange | None:
    """The difference to the settings `kept` in the session's folder; None without one. Settings
    that cannot be read are no change: they cannot be taken over."""
    try:
        data = session_settings.text(root)
        before = read_bytes(folder / session_settings.FILE)
        if data == before:
            return None
        now = session_settings.read_settings(data, config.FILE)
    except (PlaybookError, OSError):
        return None
    keys = tuple(key for key, *_ in session_settings.changes(kept, now))
    return SettingsChange(keys, _unified(before, data), digest(data)) if keys else None


def _unified(before: bytes, after: bytes) -> tuple[str, ...]:
    from difflib import unified_diff

    old, new = (data.decode("utf-8", "replace").splitlines() for data in (before, after))
    marked = list(unified_diff(old, new, n=0, lineterm=""))[2:]
    lines = [f"{line[0]} {line[1:]}" for line in marked if not line.startswith("@@")]
    if len(lines) > _MOST_LINES or max(map(len, lines), default=0) > _LONGEST:
        return ()
    return tuple(printable(_redacted(line)) for line in lines)


def take(
    store: DiskStore,
    lineage: Sequence[str],
    asked: Ask,
    seen: str,
    decided: Resolution,
    by: Principal,
) -> None:
    """Let the session of this gate, and those above it (`lineage`, from the top), run under the
    project's settings. `seen` is the digest, or its first digits, of what the person has seen:
    ArgumentError PB-ARG-ANSWER without one, StateError PB-STATE-CHANGED if it is another now.
    PolicyError where a policy does not let `by` answer; CheckError for settings that are not
    valid."""
    root = store.checkout.root
    data = session_settings.text(root)
    session_settings.read_settings(data, config.FILE)
    with store.open(lineage[-1]) as opened:
        opened.policy.admit(asked.member.step.id, asked.reason, decided, by.name, by.role)
        found = change(root, opened.folder, opened.config)
    if found is None:
        said = "the project's settings are those of the session: nothing to take"
        raise StateError("PB-STATE-CHANGED", said)
    if len(seen) < _DIGITS or not digest(data).startswith(seen):
        what = "; ".join(map(one_line, found.lines))
        what = what or f"more than can be shown: {', '.join(found.keys)}"
        said = f"the project's settings differ from the session's by {what}"
        cure = f"Answer `{found.words}` once you have seen them in {config.FILE}."
        if seen:
            raise StateError("PB-STATE-CHANGED", said, guidance=cure)
        raise ArgumentError("PB-ARG-ANSWER", said, guidance=cure)
    for session_id in lineage:  # the gate's own last: until then it still offers them
        accept(store, session_id, by, data)


def difference(root: Path, pinned: Pinned) -> tuple[str, bytes | None]:
    """One sentence about the difference between the project's settings and the session's, or "".
    With the settings that were compared, None if there is no reading them. Settings that are not
    valid differ, too. The session's own settings apply in any case."""
    data = None
    try:
        data = session_settings.text(root)
        if data == pinned.files.get(session_settings.FILE):
            return "", data
        now = session_settings.read_settings(data, config.FILE)
        found = session_settings.changes(pinned.config, now)
    except PlaybookError as error:
        return f"the project's settings cannot be read: {error.message} ({error.where})", data
    changed = [f"{key} was {_short(old)} and is {_short(new)}" for key, old, new in found]
    said = f"the settings changed since the session began: {'; '.join(changed)}"
    return said if changed else "", data


def kept(told: str, session_id: str, *, typed: bool = False) -> str:
    """The notice about a difference that is not accepted; `typed`: to a person in Claude Code."""
    command = "/playbook.resume" if typed else f"playbook resume {session_id}"
    return f"{told}; the session keeps its own. `{command} --accept-config` takes the new ones"


def pin_missing(store: DiskStore, session_id: str) -> tuple[Pinned, str]:
    """The session's inputs; with a notice if an earlier version had pinned no settings."""
    pinned = store.pinned(session_id)
    if session_settings.FILE in pinned.files:
        return pinned, ""
    with store.open(session_id) as opened:
        if session_settings.FILE not in opened.runtime.digests:
            opened.pin_settings()
        pinned = opened.pinned
    return pinned, f"session {session_id} keeps the settings of today from now on"


def accept(store: DiskStore, session_id: str, by: Principal, data: bytes | None = None) -> None:
    """Run under the project's present settings, or these; session.yaml records who said so. It does
    so first: after a crash there are no settings in force that no person has accepted."""
    data = session_settings.text(store.checkout.root) if data is None else data
    settings = session_settings.read_settings(data, config.FILE)
    with store.open(session_id) as opened:
        if changed := list(session_settings.changes(opened.config, settings)):
            keys = ", ".join(key for key, *_ in changed)
            what = f"changed settings: {keys} (sha256 {digest(data)})"
            last = opened.manifest.confirmed[-1:]
            if [(each.what, each.by) for each in last] != [(what, by.name)]:
                opened.confirm(Confirmation(store.clock(), by.name, what))
                opened.write()
        opened.pin_settings(data)
        opened.copy()


def _short(value: str) -> str:
    return first_line(_redacted(value), _SHOWN)


def _redacted(text: str) -> str:
    return re.sub(_CONFIDENTIAL, r"\1[redacted]", text)
