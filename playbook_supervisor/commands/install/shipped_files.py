"""What ships to be installed in a project, today and in every release before.

What lies in a project and equals, byte for byte, a file that was ever released was not edited by
anybody, whatever install.yaml says or no longer says.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from playbook_supervisor.project import library
from playbook_supervisor.project.install_record import as_fingerprint
from playbook_supervisor.project.schema import schema_text
from playbook_supervisor.system import templates
from playbook_supervisor.system.files import read_bytes

PLAYBOOKS = ("auto-feature", "auto-speckit", "auto-validate")
"""Those that ship, the one that does most first."""
COMMANDS = tuple(
    f"playbook.{name}" for name in ("run", "resume", "status", "list", "pause", "abort", "create")
)
"""The slash commands that ship."""

GUIDES = (".knowledge/guides/playbook-authoring.md", "docs/playbook-authoring.md")
"""Where the guide for authors lies: with what a project knows, or else with its documents."""

RELEASES = "released.sha256"
"""Among the templates: a line `digest  path` for each content that a file had in a release."""


def files(root: Path) -> dict[str, bytes]:
    """Every file that an installation consists of, by its place in the project at `root`."""
    place = _guide(root)
    everywhere = at_every_place().items()
    return {path: data for path, data in everywhere if path == place or path not in GUIDES}


def at_every_place() -> dict[str, bytes]:
    """The same for any project: the guide stands at each place where one may have it."""
    folder = templates.folder()
    shipped = {
        f"{library.FOLDER}/{name}.yaml": read_bytes(folder / "playbooks" / f"{name}.yaml")
        for name in PLAYBOOKS
    }
    shipped[f"{library.TOP}/templates/playbook.tpl.yaml"] = read_bytes(folder / "playbook.tpl.yaml")
    shipped[f"{library.TOP}/playbook.schema.json"] = schema_text("playbook").encode()
    for name in COMMANDS:
        command = read_bytes(folder / "commands" / f"{name}.md")
        shipped[f".claude/commands/{name}.md"] = command
    return shipped | dict.fromkeys(GUIDES, read_bytes(folder / "playbook-authoring.md"))


def _guide(root: Path) -> str:
    """Where it stands already it stays, also when the project begins to keep a .knowledge/."""
    for place in GUIDES:
        if (root / place).is_file():
            return place
    return GUIDES[0] if (root / ".knowledge").is_dir() else GUIDES[1]


def released() -> Mapping[str, frozenset[str]]:
    """The fingerprints that each file had in releases, by its place; also of those that are gone.

    Of a release of today they say nothing new; `tools/record_release.py` writes them down.
    """
    found: dict[str, set[str]] = {}
    for line in read_bytes(templates.folder() / RELEASES).decode().splitlines():
        summed, _, path = line.partition("  ")
        if path and not line.startswith("#"):
            found.setdefault(path, set()).add(as_fingerprint(summed))
    return {path: frozenset(sums) for path, sums in found.items()}
