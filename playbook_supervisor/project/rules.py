"""The rules of a playbook that its schema cannot express (kai FR8, Catalyst FR-1.3).

The data may violate the schema elsewhere, so that all problems are reported at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from playbook_supervisor.formats.located import Document, Path
from playbook_supervisor.formats.problems import Problem, problem_at
from playbook_supervisor.formats.sanitize import did_you_mean, first_line
from playbook_supervisor.project.references import names
from playbook_supervisor.project.schema_problems import LATER_VERSION, READ_VERSION, RULE, VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Thing = Mapping[str, Any]

_CONTROL = "[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"


def violations(data: Any, document: Document) -> Iterator[Problem]:
    """Every broken rule, and a warning about an unknown version."""
    if not isinstance(data, dict):
        return
    yield from _version(document, data)
    yield from _repeated(document, data, "args", "name", "arg")
    yield from _repeated(document, data, "steps", "id", "step")
    yield from _undeclared(document, data)
    yield from _scattered_groups(document, data)
    yield from _unprintable(document, data)


def _version(document: Document, data: Thing) -> Iterator[Problem]:
    version = _text(data, "version")
    if version not in ("", READ_VERSION):
        word = "supported yet" if version == LATER_VERSION else "known"
        yield problem_at(
            document,
            ("version",),
            VERSION,
            f"version `{first_line(version, 20)}` is not {word}; it is read as {READ_VERSION}",
            f'Write `version: "{READ_VERSION}"`.',
            severity="warning",
        )


def _repeated(document: Document, data: Thing, key: str, name: str, kind: str) -> Iterator[Problem]:
    """`name` must be unique among the things under `key`."""
    seen: dict[str, int] = {}
    for index, each in _things(data, key):
        value = _text(each, name)
        if value in seen:
            yield problem_at(
                document,
                (key, index, name),
                RULE,
                f"{kind} {seen[value] + 1} already has the {name} `{first_line(value, 60)}`",
                f"Give each {kind} a different {name}.",
            )
        elif value:
            seen[value] = index


def _undeclared(document: Document, data: Thing) -> Iterator[Problem]:
    """Every `{{name}}` must be a declared arg."""
    declared = dict.fromkeys(_text(arg, "name") for _, arg in _things(data, "args"))
    some = ", ".join(list(declared)[:10]) + (", …" if len(declared) > 10 else "")
    for index, step in _things(data, "steps"):
        for name in names(_text(step, "args")):
            if name in declared:
                continue
            near = did_you_mean(name, declared)
            guidance = f"Did you mean `{{{{{near}}}}}`? " if near else ""
            yield problem_at(
                document,
                ("steps", index, "args"),
                RULE,
                f"`{{{{{first_line(name, 60)}}}}}` is not a declared arg",
                guidance + f"Declare it under `args`. Declared: {first_line(some) or 'none'}.",
            )


def _scattered_groups(document: Document, data: Thing) -> Iterator[Problem]:
    """The steps of a parallel group must be next to each other (kai FR7)."""
    closed: set[str] = set()
    former = ""
    for index, step in _things(data, "steps"):
        group = _text(step, "parallel_group")
        if group != former:
            closed.add(former)
            if group and group in closed:
                yield problem_at(
                    document,
                    ("steps", index, "parallel_group"),
                    RULE,
                    f"this step is separated from the rest of the group `{first_line(group, 60)}`",
                    "Put the steps of a group next to each other, or use two group names.",
                )
        former = group


def _unprintable(document: Document, data: Thing) -> Iterator[Problem]:
    """Text for terminals and agents has no control characters except line ends and tabs."""
    for path, text in _free_texts(data):
        if found := re.search(_CONTROL, text):
            yield problem_at(
                document,
                path,
                RULE,
                f"`{path[-1]}` contains the control character U+{ord(found[0]):04X}",
                "Remove it.",
            )


def _free_texts(data: Thing) -> Iterator[tuple[Path, str]]:
    yield ("description",), _text(data, "description")
    for index, arg in _things(data, "args"):
        yield ("args", index, "description"), _text(arg, "description")
    for index, step in _things(data, "steps"):
        yield ("steps", index, "args"), _text(step, "args")
        yield ("steps", index, "parallel_group"), _text(step, "parallel_group")


def _things(data: Thing, key: str) -> Iterator[tuple[int, Thing]]:
    """The mappings in the list under `key`, with their index; other items are skipped."""
    items = data.get(key)
    if isinstance(items, list):
        yield from ((index, each) for index, each in enumerate(items) if isinstance(each, dict))


def _text(each: Thing, key: str) -> str:
    value = each.get(key)
    return value if isinstance(value, str) else ""
