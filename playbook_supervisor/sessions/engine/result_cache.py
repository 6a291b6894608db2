"""The recorded outputs of steps with a `cache`, which stand in for runs (cat NFR-1.4).

They lie in the common git directory, one file for each key, shared by all worktrees. A key is the
digest of all that decides the output: the step as interpolated, what it reads of an earlier step,
and the files that it names. A key is made when the step is launched, and recorded with the output
once the step is done, so that what was not accepted is never recorded. A file that cannot be read
or written only costs a run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import time

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.fields import Fields, UnfitError
from playbook_supervisor.kernel.directives import Outcome, Returned
from playbook_supervisor.kernel.model import Step
from playbook_supervisor.kernel.state import Change, Event
from playbook_supervisor.project.expressions.globs import matches_any
from playbook_supervisor.project.expressions.references import fill, interpolate
from playbook_supervisor.sessions.steps import step_data
from playbook_supervisor.sessions.steps.open_session import OpenSession
from playbook_supervisor.system.disk.files import (
    contained,
    digest,
    ensure_folder,
    read_bytes,
    remove,
    write_atomically,
)
from playbook_supervisor.system.git.checkout import Checkout

FORMAT = 1
MOST_BYTES = 2_000_000  # of one recorded output; a larger one is not recorded
MOST_RECORDS = 200
OLDEST = 30 * 24 * 3600  # seconds after which a record no longer counts
_MOST_FILES, _MOST_READ = 5_000, 64 * 1024 * 1024  # of one key; beyond that the step runs
_SOURCE = r"[0-9]{8}-[a-z0-9]{3}/[^/#\s]{1,200}#[1-9][0-9]{0,5}"


def folder(here: Checkout) -> Path:
    """Where all worktrees of the repository keep the records."""
    return here.common_dir / "playbook" / "cache"


def launched(opened: OpenSession, here: Checkout, event: Event, at: int) -> Returned | None:
    """The recorded return of an attempt that is launched; None if it has to run. Only a first
    attempt takes a recorded output: who retries wants a run."""
    entry, step = event.entry, opened.playbook.step(event.entry.step_id)
    if event.change is not Change.LAUNCHED or step.cache is None:
        return None
    with suppress(PlaybookError, OSError, _TooMuchError):
        key = _key(opened, here.root, step, step.cache)
        if entry.attempt == 1 and (found := _recorded(folder(here) / f"{key}.json", key)):
            return Returned(at, entry.id, found)
        write_atomically(_pending(opened, entry.id), key.encode(), durable=False)
    return None


def returned(opened: OpenSession, seen: Returned) -> None:
    """Keep the output of an attempt that is to be recorded, until its step is judged."""
    pending = _pending(opened, seen.id)
    with suppress(PlaybookError, OSError):
        key = _text(pending)
        if not key:
            return
        outcome = step_data.harmless(seen.outcome)
        shape = {"schema": FORMAT, "key": key, "from": f"{opened.manifest.session_id}/{seen.id}"}
        shape |= {"output": outcome.output, "data": outcome.data}
        data = json.dumps(shape).encode()
        if outcome.ok and len(data) <= MOST_BYTES:
            write_atomically(pending, data, durable=False)
        else:
            remove(pending)


def settled(opened: OpenSession, here: Checkout, event: Event) -> None:
    """Record the output of an attempt that is done and that no person waived anything of."""
    entry = event.entry
    pending = _pending(opened, entry.id)
    with suppress(PlaybookError, OSError):
        if not entry.settled or not (text := _text(pending)):
            return
        remove(pending)
        if event.change is Change.DONE and not entry.waived and text.startswith("{"):
            key = Fields(json.loads(text)).required("key")
            ensure_folder(folder(here))
            write_atomically(folder(here) / f"{key}.json", text.encode(), durable=False)
            _sweep(folder(here))


def _pending(opened: OpenSession, attempt: str) -> Path:
    return opened.private / f"cache-{attempt}"


def _text(file: Path) -> str:
    try:
        return read_bytes(file, limit=MOST_BYTES).decode()
    except FileNotFoundError:
        return ""


def _recorded(file: Path, key: str) -> Outcome | None:
    try:
        if time() - file.stat().st_mtime > OLDEST:
            return None
        shape = json.loads(read_bytes(file, limit=MOST_BYTES))
        if not isinstance(shape, dict):
            return None
        fields = Fields(shape)
        source = fields.required("from")
        fits = shape["schema"] == FORMAT and shape["key"] == key
        if not fits or not re.fullmatch(_SOURCE, source):
            return None
        return Outcome(output=fields.text("output"), data=shape["data"], cached_from=source)
    except (ValueError, KeyError, TypeError, RecursionError, UnfitError, OSError, PlaybookError):
        return None


def _sweep(records: Path) -> None:
    known = sorted(((file.stat().st_mtime, file) for file in records.glob("*.json")), reverse=True)
    for number, (written, file) in enumerate(known):
        if number >= MOST_RECORDS or time() - written > OLDEST:
            remove(file)


class _TooMuchError(Exception):  # the files of a key are too many, or too large
    pass


def _key(opened: OpenSession, root: Path, step: Step, patterns: tuple[str, ...]) -> str:
    values = opened.playbook.values(opened.manifest.args)
    runs = step.agent or opened.manifest.driver.agent or opened.config.agent
    agent = runs if step.needs_agent else ""
    limits = step.limits.max_output_bytes or opened.playbook.limits.max_output_bytes
    parts = [
        FORMAT,
        interpolate(step.command, values),
        step.command,
        fill(json.loads(step.options or "{}"), values, {}),
        step_data.input_of(opened, step),
        [step.model, agent, step.tools],
        [step.output, step.output_schema, limits],
        interpolate(step.cwd, values),
        opened.manifest.feature,
        patterns,
        sorted(_files(root, patterns)),
    ]
    return digest(json.dumps(parts, sort_keys=True).encode("utf-8", "backslashreplace"))


def _files(root: Path, patterns: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The path and the digest of each file; a path that is missing, or no file, has no digest."""
    read = number = 0
    for relative in {*_named(patterns), *_matching(root, patterns)}:
        number += 1
        path = contained(root, relative)
        if not path.is_file():
            yield relative, ""
            continue
        data = read_bytes(path, limit=_MOST_READ)
        read += len(data)
        if read > _MOST_READ or number > _MOST_FILES:
            raise _TooMuchError
        yield relative, digest(data)


def _named(patterns: tuple[str, ...]) -> Iterator[str]:
    return (each for each in patterns if not re.search(r"[*?]|/\Z", each))


def _matching(root: Path, patterns: tuple[str, ...]) -> Iterator[str]:
    wide = [each for each in patterns if re.search(r"[*?]|/\Z", each)]
    wide += [f"{each}/" for each in _named(patterns) if (root / each).is_dir()]
    if not wide:
        return
    seen = 0
    folders = [root]
    while folders:
        for path in sorted(folders.pop().iterdir()):
            seen += 1
            if seen > 10 * _MOST_FILES:
                raise _TooMuchError
            if path.is_dir() and not path.is_symlink():
                folders += [path] if path.name != ".git" else []
            elif matches_any(wide, relative := path.relative_to(root).as_posix()):
                yield relative
