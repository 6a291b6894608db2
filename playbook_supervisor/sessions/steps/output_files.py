"""The files of kept outputs: `outputs/<step>.json` in a session's folder.

A file names the attempt that it is from. That of a loop has the outputs of all its items, each with
its attempt on a line of its own, in the order in which they came. So the file system never sees the
name of an item, and one more item is one more line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from playbook_supervisor.errors import StateError, StorageError
from playbook_supervisor.formats.fields import Fields, UnfitError
from playbook_supervisor.formats.versions import NEWEST, refuse_newer
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.kernel.model import Playbook, Step, base_of, item_id, item_number
from playbook_supervisor.kernel.state import Entry, last_entries
from playbook_supervisor.kernel.vocabulary import EntryStatus
from playbook_supervisor.kernel.when import JSON
from playbook_supervisor.project.expressions.references import named_outputs
from playbook_supervisor.records import Record, replace
from playbook_supervisor.sessions.files import integrity
from playbook_supervisor.sessions.files.local_state import Runtime
from playbook_supervisor.system.disk.files import digest, read_bytes, write_atomically

FORMAT = NEWEST["outputs"]
_HEAD = b'{\n "schema": %d,\n "items": [\n' % FORMAT
_TAIL = b"\n ]\n}\n"
MOST = 16_000_000  # bytes of the outputs of all items of a loop


class StepData(Record):
    """The output of one attempt. `stdout` is None, and `has_json` false, where it is not kept.
    `cut`: bytes in the middle of `stdout` are left out; a mark says so."""

    attempt: str
    stdout: str | None = None
    cut: bool = False
    has_json: bool = False
    json: Any = None

    @property
    def step(self) -> str:
        return self.attempt.partition("#")[0]

    @property
    def file(self) -> str:
        return file_of(self.step)

    def emit(self) -> bytes:
        text = json.dumps({"schema": FORMAT, **self.shape()}, indent=1, ensure_ascii=False)
        return _encoded(f"{text}\n")

    def shape(self) -> dict[str, Any]:
        shape: dict[str, Any] = {"attempt": self.attempt}
        if self.stdout is not None:
            shape["stdout"] = self.stdout
        if self.cut:
            shape["cut"] = True
        if self.has_json:
            shape["json"] = self.json
        return shape


class LoopData(Record):
    loop: str
    items: Mapping[int, StepData]


class LoopFile(Record):
    """The file of a loop as it is to be written; empty before its first output."""

    loop: str
    data: bytes = b""

    @property
    def file(self) -> str:
        return file_of(self.loop)

    def emit(self) -> bytes:
        return self.data

    def with_output(self, output: StepData) -> LoopFile:
        """The file with this output, which replaces that of an earlier attempt at the item.
        StateError PB-STATE-CORRUPT or -NEWER for a file that must be read and cannot be."""
        data, line = self.data, _line(output)
        laid_out = data.startswith(_HEAD) and data.endswith(_TAIL)
        if laid_out and f'"attempt": "{output.step}#'.encode() not in data:
            # An item costs the same in a short loop and in a long one: nothing is parsed.
            return replace(self, data=data.removesuffix(_TAIL) + b",\n" + line + _TAIL)
        found = read(data, self.file) if data else None
        known = found.items if isinstance(found, LoopData) else {}
        others = {k: each for k, each in known.items() if k != item_number(output.step)}
        lines = [_line(each) for each in others.values()]
        return replace(self, data=_HEAD + b",\n".join([*lines, line]) + _TAIL)


def file_of(step_id: str) -> str:
    """The path of a step's output in the session's folder; that of an item is its loop's."""
    return f"{integrity.OUTPUTS}/{base_of(step_id)}.json"


def read(data: bytes, source: str) -> StepData | LoopData:
    """The data that `emit` wrote. StateError PB-STATE-CORRUPT or -NEWER."""
    try:
        shape = json.loads(data)
        if not isinstance(shape, dict) or type(shape.get("schema")) is not int:
            raise UnfitError("schema", "is missing")
        refuse_newer("outputs", shape["schema"], source)
        if "items" not in shape:
            return _step_data(shape)
        outputs = [_step_data(each) for each in Fields(shape).items("items")]
        items = {item_number(each.step): each for each in outputs}
        if 0 in items or len({base_of(each.step) for each in outputs}) != 1:
            raise UnfitError("items", "must be of one loop")
        return LoopData(base_of(outputs[0].step), items)
    except (ValueError, RecursionError) as error:
        raise StateError("PB-STATE-CORRUPT", f"it cannot be read: {error}", where=source) from error


def _step_data(shape: Any) -> StepData:
    if not isinstance(shape, dict):
        raise UnfitError("items", "must be a list of objects")
    return StepData(
        attempt=Fields(shape).required("attempt"),
        stdout=Fields(shape).text("stdout") if "stdout" in shape else None,
        cut=shape.get("cut") is True,
        has_json="json" in shape,
        json=shape.get("json"),
    )


def kept(folder: Path, runtime: Runtime, step_id: str) -> StepData | LoopData | None:
    """The output kept of a step, from any attempt; None without one. StateError
    PB-STATE-TAMPERED if something else changed it, PB-STATE-CORRUPT, StorageError."""
    data = kept_bytes(folder, runtime, step_id)
    return read(data, integrity.shown(folder, file_of(step_id))) if data else None


def kept_bytes(folder: Path, runtime: Runtime, step_id: str) -> bytes:
    """The file of what is kept of a step, unread; empty if there is none. StateError
    PB-STATE-TAMPERED if something else changed it, StorageError."""
    name = file_of(step_id)
    if name not in runtime.digests or (data := content(folder, name)) is None:
        return b""
    require_ours(data, name, folder, runtime)
    return data


def require_ours(data: bytes, name: str, folder: Path, runtime: Runtime) -> None:
    """StateError PB-STATE-TAMPERED if something else wrote these bytes."""
    if not runtime.ours(name, digest(data)):
        source = integrity.shown(folder, name)
        raise integrity.tampered(f"{name} was changed by something else", source)


def content(folder: Path, name: str) -> bytes | None:
    """The bytes of a file of the session; None if they cannot be had."""
    try:
        return integrity.read_file(folder, name)
    except StateError:
        return None


def _line(output: StepData) -> bytes:
    return b"  " + _encoded(json.dumps(output.shape(), ensure_ascii=False))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")  # `\ud800` is what JSON writes, too


def combined(found: LoopData | None, loop: str, entries: Sequence[Entry]) -> StepData | None:
    """The outputs of all items as one; None if the loop had none."""
    of_items = (entry for entry in entries if entry.items and base_of(entry.step_id) == loop)
    last = last_entries(of_items)
    if not last:
        return None
    items = found.items if found else {}
    outputs: list[StepData | None] = []
    for number in range(1, max(entry.items for entry in last.values()) + 1):
        entry, output = last.get(item_id(loop, number)), items.get(number)
        done = entry.id if entry and entry.status is EntryStatus.DONE else ""
        outputs.append(output if output and output.attempt == done else None)
    texts = [each.stdout for each in outputs if each and each.stdout is not None]
    return StepData(
        attempt=f"{loop}#1",
        stdout="\n".join(texts) if texts else None,
        has_json=any(each and each.has_json for each in outputs),
        json=[each.json if each else None for each in outputs],
    )


def require_unchanged(folder: Path, runtime: Runtime) -> None:
    """StateError PB-STATE-TAMPERED if something else changed an output. One that is gone, with its
    copy too, is forgotten: a step that reads it then fails."""
    for name in integrity.outputs(runtime.digests):
        if (data := content(folder, name)) is None:
            del runtime.digests[name]
        else:
            require_ours(data, name, folder, runtime)


def adopt(folder: Path, playbook: Playbook, runtime: Runtime, *, child: bool = False) -> None:
    """Record the outputs that are there, in a worktree that knows nothing of the session."""
    for step_id in read_later(playbook, child=child):
        name = file_of(step_id)
        if (data := content(folder, name)) is not None:
            read(data, integrity.shown(folder, name))
            runtime.digests[name] = [digest(data)]


def read_later(playbook: Playbook, *, child: bool) -> dict[str, frozenset[str]]:
    """Step id → the parts of its output that are read later: by a step, or by a child's parent."""
    named = named_outputs(playbook)
    if child:
        named[last_speaker(playbook)] = frozenset(("stdout", JSON))
    return named


def last_speaker(playbook: Playbook) -> str:
    """The last step that can have an output; its output is that of a child session."""
    speaking = [step.id for step in playbook.steps if not step.is_checkpoint]
    return (speaking or [playbook.steps[-1].id])[-1]


_LAST = "output.json"
_LARGEST = 64_000_000  # bytes of the file


def keep_last(private: Path, step: Step, outcome: Outcome) -> None:
    """Keep the output of an attempt: its data if it promised JSON (a list as its items), else its
    lines. A child session keeps its own. No step needs this file, so a full disk is no error."""
    if not outcome.output or step.has_child:
        return
    if outcome.ok and outcome.data is not None:
        values = outcome.data if isinstance(outcome.data, list) else [outcome.data]
    else:
        values = outcome.output.rstrip("\n").split("\n")
    with suppress(StorageError):
        text = json.dumps(values, ensure_ascii=False).encode("utf-8", "backslashreplace")
        write_atomically(private / _LAST, text, durable=False)


def read_last(privates: Iterable[Path]) -> list[Any]:
    """The latest output that is kept in one of these local folders; empty if there is none."""
    files = [private / _LAST for private in privates]
    found = [file for file in files if file.is_file()]
    if not found:
        return []
    latest = max(found, key=lambda file: file.stat().st_mtime_ns)
    with suppress(StorageError, FileNotFoundError, ValueError, RecursionError):
        kept = json.loads(read_bytes(latest, limit=_LARGEST))
        return kept if isinstance(kept, list) else []
    return []
