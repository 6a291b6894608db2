"""The packages of `playbook_supervisor` and their imports, read from the source itself."""

from __future__ import annotations

import ast
import configparser
from collections import defaultdict
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
    rows = [
        (str(number), f"`{name}`", _docstring(name))
        for number, layer in enumerate(reversed(layers()), 1)
        for name in layer
    ]
    return table(("layer", "package", "what belongs there, and what does not"), reversed(rows))


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
