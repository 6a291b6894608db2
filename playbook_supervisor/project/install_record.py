"""install.yaml: what an installation wrote into a project, so that a later one knows its own past.

A file that is not in it is the user's; one whose digest differs has been edited; one that is in it
and not there has been deleted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from playbook_supervisor import __version__
from playbook_supervisor.errors import CheckError, StateError
from playbook_supervisor.formats.fields import Fields, UnfitError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.strict_yaml import MAX_BYTES, Document, load
from playbook_supervisor.formats.versions import NEWEST, current
from playbook_supervisor.formats.yaml_writer import Block, pair
from playbook_supervisor.records import Record, field
from playbook_supervisor.system.files import contained, digest, read_bytes

FILE = ".playbooks/install.yaml"
SCHEMA = NEWEST["install.yaml"]

_HEADER = "# What `playbook init` wrote, and the digests of it then. Keep it in git.\n"


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

    CheckError with the place of what cannot be read; StateError PB-STATE-NEWER, likewise, where a
    newer version wrote it.
    """
    try:
        document = load(read_bytes(contained(root, FILE), limit=MAX_BYTES), FILE)
    except FileNotFoundError:
        return Installation()
    try:
        return _read(document)
    except UnfitError as unfit:
        raise CheckError(
            "PB-CHECK-SCHEMA",
            str(unfit),
            where=FILE,
            position=document.position((unfit.key,)),
            guidance="Mend the file, or remove it: what equals a release still counts as ours.",
        ) from None


def refuse_downgrade(made: Installation) -> None:
    """StateError PB-STATE-NEWER where a later version wrote last: an older one takes nothing back.

    What is no version with numbers in it counts as none.
    """
    if _numbers(made.version) > _numbers(__version__):
        raise StateError(
            "PB-STATE-NEWER",
            f"playbook {first_line(made.version, 20)} wrote here, and this is {__version__}",
            where=FILE,
        )


def _numbers(version: str) -> tuple[int, ...]:
    """The release in a version: 1.10.0rc1 → (1, 10); trailing zeros say nothing."""
    release = re.match(r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,9}", version)
    numbers = [int(number) for number in release[0].split(".")] if release else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def _read(document: Document) -> Installation:
    if not isinstance(document.data, dict):
        raise UnfitError("schema", "is missing")
    number = Fields(document.data).integer("schema", least=1)
    data = current("install.yaml", number, document.data, FILE, document)
    fields = Fields(data)
    return Installation(fields.text("version"), fields.strings("files"), fields.flag("no_hooks"))
