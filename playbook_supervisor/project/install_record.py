"""install.yaml: what an installation wrote into a project.

A file that is not listed belongs to the user. A file with another digest was edited, and a listed
file that is missing was deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from playbook_supervisor.errors import CheckError
from playbook_supervisor.formats.fields import Fields, UnfitError
from playbook_supervisor.formats.located import Document
from playbook_supervisor.formats.strict_yaml import MAX_BYTES, load
from playbook_supervisor.formats.versions import NEWEST, current
from playbook_supervisor.formats.yaml_writer import Block, pair
from playbook_supervisor.system.disk.files import contained, digest, read_bytes

FILE = ".playbooks/install.yaml"
SCHEMA = NEWEST["install.yaml"]

_HEADER = "# What `playbook init` wrote, and the digests of it then. Keep it in git.\n"


@dataclass(frozen=True, slots=True)
class Installation:
    """`version` of the program that wrote last; `files` maps paths from the root of the repository
    to the `fingerprint` of what was written; `no_hooks` if hooks are not installed."""

    version: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    no_hooks: bool = False


def fingerprint(data: bytes) -> str:
    """The digest of a file as it is recorded: `sha256:` and 64 hexadecimal digits."""
    return as_fingerprint(digest(data))


def as_fingerprint(summed: str) -> str:
    """The fingerprint for a SHA-256 digest."""
    return f"sha256:{summed}"


def emit_installation(made: Installation) -> bytes:
    """The text of install.yaml, with the files sorted by path."""
    mapping = {
        "schema": SCHEMA,
        "version": made.version,
        **({"no_hooks": True} if made.no_hooks else {}),
        "files": Block(sorted(made.files.items())),
    }
    return (_HEADER + "".join(pair(key, value, 0) for key, value in mapping.items())).encode()


def read_installation(root: Path) -> Installation:
    """The record of what was installed in the project; empty if nothing was.

    CheckError with the place of the problem if the file is not valid; StateError PB-STATE-NEWER if
    a newer version wrote it.
    """
    try:
        document = load(read_bytes(contained(root, FILE), limit=MAX_BYTES), FILE)
    except FileNotFoundError:
        return Installation()
    try:
        return _read(document)
    except UnfitError as unfit:
        at = document.position((unfit.key,))
        cure = "Correct the file or remove it; unchanged files are still recognised as ours."
        raise CheckError(
            "PB-CHECK-SCHEMA", str(unfit), where=FILE, position=at, guidance=cure
        ) from None


def _read(document: Document) -> Installation:
    if not isinstance(document.data, dict):
        raise UnfitError("schema", "is missing")
    number = Fields(document.data).integer("schema", least=1)
    data = current("install.yaml", number, document.data, FILE, document)
    fields = Fields(data)
    return Installation(fields.text("version"), fields.strings("files"), fields.flag("no_hooks"))
