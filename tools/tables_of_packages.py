"""The packages of `playbook_supervisor` and their imports, read from the source itself."""

from __future__ import annotations

import ast
import configparser
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

from tables import table

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = "playbook_supervisor"


def layers() -> list[list[str]]:
    """The packages of each layer, the highest layer first, as `.importlinter` enforces them."""
    contracts = configparser.ConfigParser()
    contracts.read(REPOSITORY / ".importlinter", encoding="utf-8")
    lines = contracts["importlinter:contract:house"]["layers"].split("\n")
    names = [[name.strip(" ()") for name in line.split("|")] for line in lines if line]
    return [present for layer in names if (present := [n for n in layer if _exists(n)])]


def packages() -> str:
    """A row for each package: its layer and the docstring of its `__init__`."""
    houses, *core = layers()
    rows = [
        (str(number), f"`{name}`", _docstring(name))
        for number, layer in enumerate(reversed(core), 1)
        for name in layer
    ]
    rows += [("house", f"`{name}`", _docstring(name)) for name in reversed(houses)]
    return table(("layer", "package", "what belongs there, and what does not"), reversed(rows))


def rooms() -> str:
    """A row for each folder inside a package: the docstring of its `__init__`."""
    top = REPOSITORY / PACKAGE
    found = [
        file.parent.relative_to(top).as_posix()
        for layer in layers()
        for name in layer
        for file in sorted((top / name).rglob("*/__init__.py"))
    ]
    return table(("folder", "what is there"), [(f"`{each}/`", _docstring(each)) for each in found])


def graph() -> str:
    """A Mermaid flowchart of the imports between packages.

    An import that also follows from a longer way through other packages is left out.
    """
    imports = _imports()
    lines = ["```mermaid", "flowchart TD"]
    for layer in layers():
        lines += [f"  {name}[{name}]" for name in layer]
    for name, imported in imports.items():
        reachable = {far for near in imported for far in _reachable(near, imports)}
        lines += [f"  {name} --> {near}" for near in sorted(imported - reachable)]
    return "\n".join([*lines, "```"])


WAY_DOWN = (
    (
        "cli.hook_handler",
        "reads the hook's JSON from stdin; `fast_path` answers most tool calls here",
    ),
    ("drivers.claude_code.hooks", "takes the lock, loads the binding, and dispatches by event"),
    ("drivers.claude_code.turns", "recognises the return of an agent and its step"),
    ("drivers.claude_code.context", "knows the session and its tree"),
    ("sessions.tree.session_tree", "makes the observation `Returned`"),
    ("sessions.engine.session_engine", "writes what was learned, and answers every `Check` itself"),
    ("kernel.machine", "finds the rows of `table` that decide, and returns events"),
)
"""The modules that an agent's return passes, from the hook to the kernel."""
WAY_TO_DISK = (
    ("sessions.engine.session_engine", "takes the events into the open session"),
    ("sessions.steps.open_session", "writes ahead: the local state first, then `journal.yaml`"),
    (
        "sessions.files.local_state",
        "what this machine must know, with the digest of the next journal",
    ),
    ("system.disk.ab_file", "overwrites the older of two files"),
    ("system.disk.files", "replaces whole files durably"),
)
"""The modules that an event passes on its way to the disk."""


def way_down() -> str:
    """From a hook to the kernel: a row for each module, checked against the imports."""
    return _way(WAY_DOWN)


def way_to_disk() -> str:
    """From the kernel's events to the journal: a row for each module, checked likewise."""
    return _way(WAY_TO_DISK)


def _way(modules: tuple[tuple[str, str], ...]) -> str:
    """A row for each module. ValueError if a module does not import the next one."""
    for (name, _), (following, _) in pairwise(modules):
        if not _imports_module(name, following):
            raise ValueError(f"{name} does not import {following}")
    rows = [(f"`{name.replace('.', '/')}.py`", does) for name, does in modules]
    return table(("module", "what it does"), rows)


def _imports_module(name: str, imported: str) -> bool:
    source = (REPOSITORY / PACKAGE / name.replace(".", "/")).with_suffix(".py").read_text("utf-8")
    parent, _, last = f"{PACKAGE}.{imported}".rpartition(".")
    return any(
        isinstance(node, ast.ImportFrom)
        and (
            node.module == f"{PACKAGE}.{imported}"
            or (node.module == parent and last in {alias.name for alias in node.names})
        )
        for node in ast.walk(ast.parse(source))
    )


def _imports() -> dict[str, set[str]]:
    """Package → the packages that its modules import."""
    known = {name for layer in layers() for name in layer}
    imports: dict[str, set[str]] = defaultdict(set)
    for name in sorted(known):
        for file in _files(name):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module:
                    parts = node.module.split(".")
                    named = parts[1:2] or [alias.name for alias in node.names]
                    if parts[0] == PACKAGE:
                        imports[name] |= {each for each in named if each in known - {name}}
    return dict(imports)


def _reachable(name: str, imports: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    for near in imports.get(name, ()):
        found |= {near} | _reachable(near, imports)
    return found


def _docstring(name: str) -> str:
    file = REPOSITORY / PACKAGE / name
    source = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    text = ast.get_docstring(ast.parse(source.read_text("utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


def _files(name: str) -> list[Path]:
    place = REPOSITORY / PACKAGE / name
    return sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]


def _exists(name: str) -> bool:
    place = REPOSITORY / PACKAGE / name
    return place.is_dir() or place.with_suffix(".py").is_file()
