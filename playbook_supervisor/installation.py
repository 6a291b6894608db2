"""install.yaml: what an installation wrote into a project, so that a later one knows its own past.

A file that is not in it is the user's; one whose digest differs has been edited; one that is in it
and not there has been deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from playbook_supervisor.emitter import Block, pair
from playbook_supervisor.errors import CheckError
from playbook_supervisor.fields import Fields, UnfitError
from playbook_supervisor.files import contained, digest, read_bytes
from playbook_supervisor.records import Record, field
from playbook_supervisor.strict_yaml import MAX_BYTES, Document, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

FILE: Final = ".playbooks/install.yaml"
SCHEMA: Final = 1

_HEADER: Final = "# What `playbook init` wrote, and the digests of it then. Keep it in git.\n"


class Installation(Record):
    """`version` of the program that wrote last; `files` by path from the repository's top, each
    with the `fingerprint` of what was written; `no_hooks` if files of others are left alone."""

    version: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    no_hooks: bool = False


def fingerprint(data: bytes) -> str:
    """How a file's content is recorded: `sha256:` and 64 hexadecimal digits."""
    return as_fingerprint(digest(data))


def as_fingerprint(summed: str) -> str:
    """The same of a SHA-256 that has been taken."""
    return f"sha256:{summed}"


def emit_installation(made: Installation) -> bytes:
    """The whole of an install.yaml, files in the order of their paths."""
    mapping = {
        "schema": SCHEMA,
        "version": made.version,
        **({"no_hooks": True} if made.no_hooks else {}),
        "files": Block(sorted(made.files.items())),
    }
    return (_HEADER + "".join(pair(key, value, 0) for key, value in mapping.items())).encode()


def read_installation(root: Path) -> Installation:
    """What was installed in the project; an empty one where nothing was.

    CheckError with the place of what cannot be read, or was written by a newer version.
    """
    try:
        document = load(read_bytes(contained(root, FILE), limit=MAX_BYTES), FILE)
    except FileNotFoundError:
        return Installation()
    try:
        return _read(document)
    except UnfitError as unfit:
        line, col = document.place((unfit.key,))
        raise CheckError(
            "PB-CHECK-SCHEMA",
            str(unfit),
            where=f"{FILE}:{line}:{col}",
            guidance="Mend the file, or remove it: what stands there then counts as yours.",
        ) from None


def _read(document: Document) -> Installation:
    if not isinstance(document.data, dict):
        raise UnfitError("schema", "is missing")
    fields = Fields(document.data)
    if fields.integer("schema", least=1) > SCHEMA:
        raise UnfitError("schema", "was written by a newer version of playbook: upgrade this one")
    return Installation(fields.text("version"), fields.strings("files"), fields.flag("no_hooks"))
