"""Which formats are read besides our own, and the one point where they are."""

from __future__ import annotations

from functools import cache

from playbook_supervisor import plugins
from playbook_supervisor.formats.located import Document
from playbook_supervisor.formats.strict_yaml import load
from playbook_supervisor.project.playbooks.translation import Translation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.project.playbooks.translation import Dialect

_OURS = frozenset({"autonomy", "error_policy", "preconditions", "postconditions"})
"""Keys of a step that no other system has."""


def read(data: bytes, source: str) -> Translation:
    """A playbook of any format that is known, as data of our own.

    A file that no dialect recognises is one of ours, and left as it is. CheckError PB-CHECK-YAML
    or PB-CHECK-HOSTILE if the text cannot be read.
    """
    if source.endswith(".md"):
        from playbook_supervisor.formats.front_matter import load_markdown

        document = load_markdown(data, source)
    else:
        document = load(data, source)
    if not _is_ours(document):
        for dialect in _dialects():
            if dialect.recognises(document):
                return dialect.translate(document)
    return Translation(document)


@cache
def _dialects() -> tuple[Dialect, ...]:
    """All that are installed. No two recognise the same file.

    Each goes by the shape of a file, so that one wrong word does not make it one of ours.
    """
    return tuple(each.load() for each in plugins.offered(plugins.DIALECTS).values())


def _is_ours(document: Document) -> bool:
    """Whether it surely is: then no dialect is imported."""
    data = document.data
    if not isinstance(data, dict) or "workflow" in data or "schema_version" in data:
        return False
    steps = data.get("steps")
    return ("name" in data and "version" in data) or any(
        isinstance(step, dict) and not _OURS.isdisjoint(step)
        for step in (steps if isinstance(steps, list) else ())
    )
