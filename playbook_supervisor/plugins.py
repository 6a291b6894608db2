"""The additions of installed packages, found through entry points.

The houses `fleet`, `inbox` and `dialects` come in this way, too, so the core names none of them.
They are read here, because importing `importlib.metadata` takes longer than a whole command
(docs/decisions/0303); it is asked where packages are not in folders.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, TypeAlias

Named: TypeAlias = tuple[str, str, str]  # the group, the name and what it stands for

AGENTS = "playbook_supervisor.agents"
"""A `Factory` for each name that `--agent` accepts (docs/agents.md)."""
COMMANDS = "playbook_supervisor.commands"
"""A click command for each name after `playbook`."""
DIALECTS = "playbook_supervisor.dialects"
"""A `Dialect` for each format of another system (docs/dialects.md)."""
EXECUTORS = "playbook_supervisor.executors"
"""An executor for each namespace of commands (docs/executors.md)."""
PLACES = "playbook_supervisor.places"
"""A `Place` where sessions are found besides this repository (commands/places.py)."""


_METADATA = (".dist-info", ".egg-info")


class Offer:
    """What a package offers under a name: a module, or `module:attribute`."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: str) -> None:
        self.name, self.value = name, value

    def load(self) -> Any:
        """Import it. Whatever the package raises."""
        module, _, attributes = self.value.partition("[")[0].replace(" ", "").partition(":")
        found: Any = import_module(module)
        for name in filter(None, attributes.split(".")):
            found = getattr(found, name)
        return found


def offered(group: str) -> dict[str, Offer]:
    """The offers of installed packages there, by name."""
    return {name: Offer(name, value) for name, value in _installed(group, *sys.path)}


@lru_cache(maxsize=8)
def _installed(group: str, *folders: str) -> tuple[tuple[str, str], ...]:
    """The names and values of a group, sorted."""
    finders = [each for each in sys.meta_path if hasattr(each, "find_distributions")]
    zipped = (each for each in folders if each.endswith(".egg") or Path(each).is_file())
    if finders == [PathFinder] and not any(zipped):
        found = ((name, value) for of, name, value in _in_folders(folders) if of == group)
        return tuple(sorted(found))
    from importlib.metadata import entry_points

    return tuple(sorted((each.name, each.value) for each in entry_points(group=group)))


def _in_folders(folders: tuple[str, ...]) -> Iterator[Named]:
    """The offers of the packages there; of two versions of a package the first one counts."""
    seen: set[str] = set()
    for folder in folders:
        try:
            entries = list(os.scandir(folder or "."))
        except OSError:  # some of a usual path are not there
            continue
        for entry in entries:
            package = re.sub(r"[-_.]+", "_", entry.name.partition("-")[0]).casefold()
            if entry.name.endswith(_METADATA) and package not in seen:
                seen.add(package)
                yield from _of_package(Path(entry.path, "entry_points.txt"))


def _of_package(file: Path) -> Iterator[Named]:
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):  # most packages offer nothing
        return
    group = ""
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif equals and not line.startswith("#"):
            yield group, name.strip(), value.strip()
