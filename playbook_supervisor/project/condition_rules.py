"""The rules about the parameters of conditions, and about where a condition can be asked.

The data may violate the schema elsewhere, so that all problems are reported at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from playbook_supervisor.formats.located import Document, Path
from playbook_supervisor.formats.problems import Problem, problem_at
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.vocabulary import Condition
from playbook_supervisor.project.format_version import things
from playbook_supervisor.project.requirement import (
    PARAMETERS,
    SINCE_LAUNCH,
    Parameter,
    flaw_of,
    stated_conditions,
)
from playbook_supervisor.project.schema_problems import RULE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Thing = Mapping[str, Any]

_AFTER = ("postconditions", "conditions")


def violations(data: Thing, document: Document) -> Iterator[Problem]:
    """Every parameter that can mean nothing, and every condition that could never be checked."""
    for index, step in things(data, "steps"):
        for path, stated in stated_conditions(step):
            yield from in_list(stated, document, ("steps", index, *path))
        yield from _outputs(step, document, ("steps", index))
    yield from _outputs(data, document, ())


def in_list(stated: object, document: Document, path: Path) -> Iterator[Problem]:
    """The same of one list of conditions; `path` leads to it and ends with its key."""
    for number, each in enumerate(stated if isinstance(stated, list) else ()):
        at = (*path, number)
        for word, value in each.items() if isinstance(each, dict) else [(each, None)]:
            if isinstance(word, str) and word in set(Condition):
                yield from _misplaced(document, at, Condition(word))
                yield from _flawed(document, at, Condition(word), value)


def _outputs(thing: Thing, document: Document, path: Path) -> Iterator[Problem]:
    """Files that must exist, as if they were conditions."""
    stated = thing.get("outputs")
    for number, each in enumerate(stated if isinstance(stated, list) else ()):
        if isinstance(each, str) and "{{" not in each and (why := flaw_of(Parameter.PATH, each)):
            message = f"`outputs`: {first_line(each, 60)!r} {why}"
            yield problem_at(document, (*path, "outputs", number), RULE, message, "Correct it.")


def _misplaced(document: Document, path: Path, condition: Condition) -> Iterator[Problem]:
    if condition in SINCE_LAUNCH and path[-2] not in _AFTER:
        message = f"`{condition}` compares with the launch of its step"
        yield problem_at(document, path, RULE, message, "Put it under `postconditions`.")


def _flawed(
    document: Document, path: Path, condition: Condition, value: object
) -> Iterator[Problem]:
    values = list(value.values()) if isinstance(value, dict) else value
    kinds = PARAMETERS.get(condition, ())
    texts = values if isinstance(values, list) else [values]
    if len(kinds) == 1:
        kinds = kinds * len(texts)
    for kind, text in zip(kinds, texts, strict=False):
        why = flaw_of(kind, text) if isinstance(text, str) and "{{" not in text else ""
        if why:
            message = f"`{condition}`: {first_line(text, 60)!r} {why}"
            yield problem_at(document, path, RULE, message, "Correct it.")
