"""The user's own folders, for what belongs to no repository: JSON files of state, and a cache."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from playbook_supervisor.errors import StateError
from playbook_supervisor.system.disk import files

_LARGEST = 1 << 20


def path(name: str) -> Path:
    """`$XDG_STATE_HOME/playbook/NAME`, by default in `~/.local/state`; it may not exist."""
    return _own("XDG_STATE_HOME", "~/.local/state") / name


def cached(name: str) -> Path:
    """`$XDG_CACHE_HOME/playbook/NAME`, by default in `~/.cache`; it may not exist."""
    return _own("XDG_CACHE_HOME", "~/.cache") / name


def _own(variable: str, default: str) -> Path:
    base = os.environ.get(variable, "")
    if not base.startswith("/"):  # the specification ignores a relative path
        base = os.path.expanduser(default)  # noqa: PTH111 - Path.expanduser may raise
    return Path(base) / "playbook"


def load(name: str) -> object:
    """The content of the file, None if there is none. StateError as `damaged` if it is no JSON."""
    try:
        return json.loads(files.read_bytes(path(name), limit=_LARGEST))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise damaged(name, str(error)) from error


def change(name: str, edit: Callable[[object], object]) -> None:
    """Replace the content of the file with what `edit` makes of it, under a lock.

    Only the user can read it. Errors as `load`, StorageError if it cannot be written.
    """
    file = path(name)
    files.ensure_folder(file.parent)
    with files.locked(file.with_name(f"{name}.lock")):
        text = json.dumps(edit(load(name)), indent=2, ensure_ascii=False)
        files.write_atomically(file, f"{text}\n".encode(), permissions=0o600)


def damaged(name: str, why: str) -> StateError:
    """PB-STATE-CORRUPT: the file is not what we wrote."""
    file, cure = path(name), "Remove it, and add again what it held."
    said = f"{file} is damaged: {why}"
    return StateError("PB-STATE-CORRUPT", said, where=str(file), guidance=cure)
