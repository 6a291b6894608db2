"""What one worktree knows of a session beyond the journal: a small JSON file in its git directory.

It is never committed and may be lost: everything in it either can be had again from the session's
files or is evidence (what stood on the disk at a launch) without which the rules fall back to
what the files alone can say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from playbook_supervisor.errors import StateError
from playbook_supervisor.files import Stamp, read_bytes, write_atomically

FORMAT: Final = 1

Record = dict[str, Stamp | None]
"""Repository-relative path → what stood there, None where nothing did."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What was known when an attempt was launched. `at` in ms, `head` a commit id or empty."""

    at: int
    head: str
    artifacts: Record

    def as_json(self) -> dict[str, Any]:
        return {"at": self.at, "head": self.head, "artifacts": _stamps_to_json(self.artifacts)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Launch:
        return cls(data["at"], data["head"], _stamps_from_json(data["artifacts"]))


@dataclass(slots=True)
class Runtime:
    """The runtime state of one session in one worktree.

    `digests` holds for journal.yaml, session.yaml and playbook.yaml the digests that are ours:
    the last one written, and the one before it, which stands on the disk when a crash fell
    between this file and that one. `state`, `text` and `manifest` are a snapshot that belongs to
    the last digests; `chain` digests the data of the settled phases' entries.
    """

    digests: dict[str, list[str]] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    text: dict[str, Any] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    chain: str = ""
    agent: str = ""
    mode: str = "manual"
    begun: Launch | None = None
    launches: dict[str, Launch] = field(default_factory=dict)
    """Attempt id → what stood there at its launch, for the due phase."""
    failing: dict[str, str] = field(default_factory=dict)
    """Condition or trigger name → digest of its evidence when it last failed, in the due phase."""
    waivers: dict[str, str] = field(default_factory=dict)
    """Condition name → digest of the evidence that a human waived."""
    findings: dict[str, str] = field(default_factory=dict)
    """Digest of a report → `answered` or `accepted`."""

    def ours(self, name: str, digest: str) -> bool:
        """Whether these are bytes that we wrote."""
        return digest in self.digests.get(name, ())

    def will_write(self, name: str, digest: str) -> None:
        """Note the digest of what is about to be written, and keep the one that stands there."""
        self.digests[name] = [*self.digests.get(name, ())[-1:], digest]

    def save(self, path: Path) -> None:
        """Write it, durably: it is the intent that a following write carries out."""
        data = {
            "format": FORMAT,
            "digests": self.digests,
            "state": self.state,
            "text": self.text,
            "manifest": self.manifest,
            "chain": self.chain,
            "agent": self.agent,
            "mode": self.mode,
            "begun": self.begun.as_json() if self.begun else None,
            "launches": {name: launch.as_json() for name, launch in self.launches.items()},
            "failing": self.failing,
            "waivers": self.waivers,
            "findings": self.findings,
        }
        write_atomically(path, json.dumps(data, separators=(",", ":")).encode())

    @classmethod
    def load(cls, path: Path) -> Runtime | None:
        """The runtime state, or None where this worktree has none.

        StateError `PB-STATE-CORRUPT` if somebody else wrote there.
        """
        try:
            data = json.loads(read_bytes(path))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise _corrupt(path, str(error)) from error
        if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
            raise _corrupt(path, "it is of another version")
        try:
            data["begun"] = Launch.from_json(data["begun"]) if data["begun"] else None
            data["launches"] = {
                name: Launch.from_json(launch) for name, launch in data["launches"].items()
            }
            return cls(**data)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise _corrupt(path, str(error)) from error


def _stamps_to_json(record: Record) -> dict[str, Any]:
    return {path: stamp.as_list() if stamp else None for path, stamp in record.items()}


def _stamps_from_json(data: Mapping[str, Any]) -> Record:
    return {path: Stamp.from_list(stamp) if stamp else None for path, stamp in data.items()}


def _corrupt(path: Path, why: str) -> StateError:
    return StateError(
        "PB-STATE-CORRUPT",
        "the runtime state of the session cannot be read",
        where=str(path),
        guidance="Remove that file: the session's own files are then taken as they are.",
        cause=why,
    )
