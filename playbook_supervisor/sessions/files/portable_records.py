"""records.yaml: what a resume on another machine needs beyond the journal.

It contains digests of the files that launches, waivers and findings depend on. The local state
knows the same, and also when each file was written on this machine. The text follows from the
data, so a file whose data are ours has our digest once it is written again.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.formats.fields import Fields, UnfitError
from playbook_supervisor.formats.strict_yaml import load_of_session
from playbook_supervisor.formats.timestamps import to_time
from playbook_supervisor.formats.versions import NEWEST, current
from playbook_supervisor.formats.yaml_writer import Block, pair
from playbook_supervisor.sessions.files import integrity
from playbook_supervisor.sessions.files.integrity import RECORDS
from playbook_supervisor.sessions.files.local_state import Launch, Runtime
from playbook_supervisor.system.disk.files import Stamp, digest

_HEADER = "# Digests of what the steps found at their launch, for a resume on another machine.\n"
_DIGESTS = ("failing", "waivers", "findings")
# what we wrote last, and what a hook of git, say, has made of it: that is not written again
_FORMATTED = f"{RECORDS}, formatted"


def emit(runtime: Runtime) -> bytes:
    """The text of records.yaml; empty if there is nothing to record and no file yet."""
    mapping = as_mapping(runtime)
    if not mapping and RECORDS not in runtime.digests:
        return b""
    mapping = {"schema": NEWEST[RECORDS], **mapping}
    return (_HEADER + "".join(pair(key, value, 0) for key, value in mapping.items())).encode()


def as_mapping(runtime: Runtime) -> dict[str, object]:
    """The keys of records.yaml that have a value."""
    mapping: dict[str, object] = {}
    if runtime.begun:
        mapping["begun"] = _launch_mapping(runtime.begun)
    if runtime.launches:
        launches = runtime.launches.items()
        mapping["launches"] = [{"attempt": name} | _launch_mapping(each) for name, each in launches]
    for key in _DIGESTS:
        if digests := getattr(runtime, key):
            mapping[key] = Block(digests)
    return mapping


def adopt(folder: Path, runtime: Runtime, attempts: Iterable[str]) -> None:
    """Take what the file records, launches only of these attempts. PB-STATE-CORRUPT or -NEWER."""
    data = _content(folder)
    if not data:
        return
    found = read(data, integrity.shown(folder, RECORDS))
    runtime.begun, runtime.digests[RECORDS] = found.begun, [digest(data)]
    runtime.launches = {name: found.launches[name] for name in attempts if name in found.launches}
    for key in _DIGESTS:
        setattr(runtime, key, getattr(found, key))


def begun(folder: Path) -> Launch | None:
    """The record of the session's beginning in the file; None without a file that can be read."""
    with suppress(PlaybookError):
        if data := _content(folder):
            return read(data, integrity.shown(folder, RECORDS)).begun
    return None


def keep_stamps(runtime: Runtime, former: Runtime) -> None:
    """Use the launches of the former state where they agree: they have times of this machine."""
    if _agree(runtime.begun, former.begun):
        runtime.begun = former.begun
    for name, launch in former.launches.items():
        if _agree(launch, runtime.launches.get(name)):
            runtime.launches[name] = launch


def load(folder: Path, runtime: Runtime) -> None:
    """Compare the file with the runtime state, which is then to be written if the file is old.
    StateError PB-STATE-TAMPERED if something else changed its data."""
    data, source = _content(folder), integrity.shown(folder, RECORDS)
    written = digest(data)
    if not data:
        runtime.digests.pop(RECORDS, None)
    elif RECORDS not in runtime.digests:
        raise integrity.tampered(f"{RECORDS} was put there by something else", source)
    elif not runtime.latest(RECORDS, written):
        *_, last = runtime.digests[RECORDS]
        ours = runtime.ours(RECORDS, written)
        if runtime.digests.get(_FORMATTED) == [last, written]:
            return
        if not ours and (changed := difference(data, runtime)):
            raise integrity.tampered(changed, source)
        if not ours and digest(_emitted(data, runtime)) == last:
            runtime.digests[_FORMATTED] = [last, written]
        else:
            runtime.digests[RECORDS] = [written]


def difference(data: bytes, runtime: Runtime) -> str:
    """A sentence about what something else changed in the file's data; empty if nothing."""
    try:
        if runtime.ours(RECORDS, digest(_emitted(data, runtime))):
            return ""
        found = read(data, RECORDS)
    except StateError as error:
        return f"it was changed by something else: {error.message}"
    mine, theirs = as_mapping(runtime), as_mapping(found)
    keys = [key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key)]
    return f"it was changed by something else: {', '.join(keys) or 'its keys'}"


def read(data: bytes, source: str) -> Runtime:
    """The records of the file, in a runtime state that knows nothing else."""
    document = load_of_session(data, source)
    try:
        shape = document.data if isinstance(document.data, dict) else {}
        number = Fields(shape).integer("schema", least=1)
        fields = Fields(current(RECORDS, number, shape, source, document))
        begun = fields.mapping("begun")
        launches = {each.required("attempt"): _launch(each) for each in fields.each("launches")}
        found = Runtime(begun=_launch(Fields(begun)) if begun else None, launches=launches)
        for key in _DIGESTS:
            setattr(found, key, fields.strings(key))
    except UnfitError as unfit:
        raise document.corrupt((unfit.key,), str(unfit)) from None
    return found


def _emitted(data: bytes, runtime: Runtime) -> bytes:
    found = read(data, RECORDS)
    found.digests = runtime.digests
    return emit(found)


def _launch(fields: Fields) -> Launch:
    stamps = fields.strings("artifacts").items()
    artifacts = {path: Stamp.of_content(known) if known else None for path, known in stamps}
    return Launch(fields.time("at"), fields.text("head"), artifacts, fields.text("tree"))


def _launch_mapping(launch: Launch) -> dict[str, object]:
    stamps = launch.artifacts.items()
    artifacts = {path: stamp.digest if stamp else "" for path, stamp in stamps}
    tree = {"tree": launch.tree} if launch.tree else {}
    return {"at": to_time(launch.at), "head": launch.head, **tree, "artifacts": artifacts}


def _agree(one: Launch | None, other: Launch | None) -> bool:
    return bool(one and other and _launch_mapping(one) == _launch_mapping(other))


def _content(folder: Path) -> bytes:
    try:
        return integrity.read_file(folder, RECORDS)
    except StateError:  # it is written again
        return b""
