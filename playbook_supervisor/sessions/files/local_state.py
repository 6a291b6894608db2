"""The runtime record of a session in one worktree: a small JSON in its git directory.

It is never committed and may be lost. It can be rebuilt from the session's files, except for what
was on the disk at each launch; without that, the files alone decide.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from playbook_supervisor.errors import StateError, StorageError
from playbook_supervisor.formats.versions import NEWEST, current
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.records import Record, field
from playbook_supervisor.sessions.files.journal import parse_journal
from playbook_supervisor.sessions.files.serialize import entry_from_json, entry_to_json
from playbook_supervisor.system.disk.ab_file import ABFile
from playbook_supervisor.system.disk.files import Stamp, digest, read_bytes
from playbook_supervisor.system.git.checkout import NOW, Pinned

FORMAT = NEWEST["runtime"]
NAME = "runtime"
JOURNAL = "journal.yaml"

Artifacts = dict[str, Stamp | None]  # repository-relative path → stamp, None without a file


class Launch(Record):
    """The facts at the launch of an attempt. `at` in ms, `head` a commit id or empty. `tree`
    is the id of all that was in the work tree; empty where no postcondition needs it, or where git
    could not tell. `rules` stand for the ignore rules at the session's beginning, and
    `search_path` is PATH, as then or where a person has resumed it."""

    at: int
    head: str
    artifacts: Artifacts
    tree: str = ""
    rules: str = ""
    search_path: str = ""

    @property
    def pinned(self) -> Pinned:  # what a session that began so holds to
        return Pinned(self.rules, self.head, self.tree, self.search_path)

    def as_json(self) -> dict[str, Any]:
        stamps = {path: stamp and stamp.as_list() for path, stamp in self.artifacts.items()}
        known = {"tree": self.tree, "rules": self.rules, "search_path": self.search_path}
        shape = {"at": self.at, "head": self.head, "artifacts": stamps}
        return shape | {name: value for name, value in known.items() if value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Launch:
        stamps = data["artifacts"].items()
        artifacts = {path: Stamp.from_list(stamp) if stamp else None for path, stamp in stamps}
        known = (data.get(name, "") for name in ("tree", "rules", "search_path"))
        return cls(data["at"], data["head"], artifacts, *known)


class Runtime(Record, frozen=False):
    """The runtime state of one session in one worktree.

    `digests` holds for each file of the session the digests of what we wrote: the last one, and
    the one before it, which is still on the disk after a crash between the two writes. `away` are
    the files that lack what was written while another branch was checked out, with their digests
    in the work tree of the session's branch. Neither these nor `proofs` belong to a journal.

    Everything from `state` to `head` belongs to the last journal; `former` is the JSON of the same
    for the journal before it, so that such a crash has no effect. `chain` is a digest over the data
    of entries of settled phases, `settled` the size of the lines that have these data. `launches`
    are by attempt, for the due phase; `failing` maps each condition or trigger to the digest of its
    evidence when it last failed there; `waivers` maps conditions to that of the evidence that a
    human waived; `findings` maps digests of reports to `answered` or `accepted`, and those of
    changes of tests to `accepted`. `head` is what was checked out when the session was last written
    on its branch.
    """

    digests: dict[str, list[str]] = field(default_factory=dict)
    begun: Launch | None = None
    proofs: list[dict[str, Any]] = field(default_factory=list)  # of checks (`proofs.py`)

    state: dict[str, Any] = field(default_factory=dict)
    text: dict[str, Any] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    chain: str = ""
    settled: int = 0
    launches: dict[str, Launch] = field(default_factory=dict)
    failing: dict[str, str] = field(default_factory=dict)
    waivers: dict[str, str] = field(default_factory=dict)
    findings: dict[str, str] = field(default_factory=dict)
    head: str = ""

    away: dict[str, str] = field(default_factory=dict)
    former: dict[str, Any] = field(default_factory=dict)
    _saved: dict[str, Any] = field(default_factory=dict)

    @property
    def pinned(self) -> Pinned:
        return self.begun.pinned if self.begun else NOW

    def first_launch(self, step_id: str) -> Launch | None:
        """That of the step's first attempt in the due phase, since it was last taken up."""
        launched = (each for id_, each in self.launches.items() if id_.startswith(f"{step_id}#"))
        return next(launched, None)

    def ours(self, name: str, digest: str) -> bool:
        return digest in self.digests.get(name, ())

    def latest(self, name: str, digest: str) -> bool:
        return self.digests.get(name, ())[-1:] == [digest]

    def will_write(self, name: str, digest: str) -> None:
        """Note the digest of what is about to be written, and keep the current one."""
        self.digests[name] = [*self.digests.get(name, ())[-1:], digest]
        if name == JOURNAL:
            self.former = self._saved

    def expect(self) -> None:
        """Note that another process has written what follows, and keep what was saved here."""
        self.former = self._saved

    def step_back(self) -> None:
        """The journal on the disk is the former one: drop what belongs to the last."""
        self.digests[JOURNAL] = self.digests[JOURNAL][:1]
        self._restore(self.former)

    def save(self, place: ABFile) -> None:
        """Write it durably, ahead of the journal."""
        self._saved = self._snapshot()
        begun = self.begun.as_json() if self.begun else None
        data = {"format": FORMAT, "digests": self.digests, "begun": begun}
        data |= {"now": self._saved, "former": self.former}
        if self.proofs:
            data["proofs"] = self.proofs
        if self.away:
            data["away"] = self.away
        place.write(json.dumps(data, separators=(",", ":")).encode())

    @classmethod
    def load(cls, place: ABFile) -> Runtime | None:
        """The runtime state, or None if this worktree has none. StateError `PB-STATE-CORRUPT` if
        something else wrote it, `PB-STATE-NEWER` if a newer version of this program did."""
        written = place.read()
        return None if written is None else cls.parse(written, place)

    @classmethod
    def parse(cls, written: bytes, place: ABFile) -> Runtime:
        try:
            data = json.loads(written)
            return cls._from_json(current("runtime", data["format"], data, str(place.path)))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise unreadable(place, str(error)) from error
        except (RecursionError, StateError) as error:
            if isinstance(error, StateError) and error.code == "PB-STATE-NEWER":
                raise
            raise unreadable(place, "this program did not write it") from error

    @classmethod
    def _from_json(cls, data: Mapping[str, Any]) -> Runtime:
        begun = Launch.from_json(data["begun"]) if data["begun"] else None
        runtime = cls(data["digests"], begun, data.get("proofs", []))
        runtime.former = data["former"]
        runtime.away = data.get("away", {})
        runtime._restore(data["now"])
        if "agent" in data:  # 1.0 kept how it is driven beside the manifest
            known = {"agent": data["agent"], "mode": data["mode"]}
            runtime.manifest.setdefault("driver", known | {"limits": data.get("limits", {})})
        return runtime

    def _snapshot(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "text": self.text,
            "manifest": self.manifest,
            "chain": self.chain,
            "settled": self.settled,
            "launches": {name: launch.as_json() for name, launch in self.launches.items()},
            "failing": dict(self.failing),
            "waivers": dict(self.waivers),
            "findings": dict(self.findings),
            "head": self.head,
        }

    def _restore(self, snapshot: dict[str, Any]) -> None:
        self._saved = snapshot
        self.state = snapshot["state"]
        self.text = snapshot["text"]
        self.manifest = snapshot["manifest"]
        self.chain = snapshot["chain"]
        self.settled = snapshot.get("settled", 0)
        launches = snapshot["launches"].items()
        self.launches = {name: Launch.from_json(launch) for name, launch in launches}
        self.failing = dict(snapshot["failing"])
        self.waivers = dict(snapshot["waivers"])
        self.findings = dict(snapshot["findings"])
        self.head = snapshot.get("head", "")


def unreadable(place: ABFile, why: str) -> StateError:
    """The error for a runtime state that cannot be read."""
    said, where = "the runtime state of the session cannot be read", f"{place.path}-*"
    cure = "A person looks at the session at a terminal: `playbook repair`."
    return StateError("PB-STATE-CORRUPT", said, where=where, guidance=cure, cause=why)


_NAME = "settled.jsonl"


class History(Record):
    """All entries of a session, and what was known when it began, here or elsewhere. `begun` is
    None if nothing records it. `runtime` is what this worktree knows, if it knows any."""

    entries: tuple[Entry, ...]
    begun: Launch | None
    runtime: Runtime | None = None


def chain(former: str, settled: Iterable[Entry]) -> str:
    """Continue the digest over the data of settled entries."""
    return _chained(former, map(_line, settled))


def keep_settled(private: Path, runtime: Runtime, settled: Iterable[Entry]) -> None:
    """Add entries that have been settled to the lines and to the digest in the runtime state. Lines
    behind those that the runtime state counts do not matter: it may never be saved."""
    from playbook_supervisor.system.disk.log_file import put

    lines = [_line(entry) for entry in settled]
    data = b"".join(line + b"\n" for line in lines)
    put(private / _NAME, data, runtime.settled)
    runtime.settled += len(data)
    runtime.chain = _chained(runtime.chain, lines)


def journal_entries(
    data: bytes, source: str, private: Path, runtime: Runtime | None
) -> tuple[Entry, ...]:
    """The entries of this journal, parsed only if something else wrote it. Errors as
    `parse_journal`."""
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
