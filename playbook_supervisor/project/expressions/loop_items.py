"""The items of a loop: from its list to the values of `{{NAME}}` and `{{NAME.key}}`.

A list is JSON of an earlier step, or an arg: JSON text that begins with `[`, else words by POSIX
quoting. An item is text, a number, a boolean or an object.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel import when
from playbook_supervisor.kernel.directives import Answer
from playbook_supervisor.kernel.model import Loop, Step
from playbook_supervisor.kernel.when import Facts
from playbook_supervisor.project.expressions.references import names

LONGEST = 65_536
"""Characters of an item's text: it may become one word of a command."""

_ARG = r"\$([a-z][a-z0-9_-]*)\Z"
_CONTROL = "[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"


def arg_of(source: str) -> str:
    """The arg that `$files` names; empty for the JSON of a step."""
    found = re.match(_ARG, source)
    return found[1] if found else ""


def items(loop: Loop, values: Mapping[str, str], facts: Facts) -> list[Any]:
    """The list that a loop is about. LookupError, a sentence, if there is none."""
    if arg := arg_of(loop.source):
        return _of_text(values.get(arg, ""), loop.source)
    found = when.look_up(loop.source, facts)
    if not isinstance(found, list):
        raise LookupError(f"{loop.source} is no list")  # noqa: TRY004 - what a person wrote
    return found


def _of_text(text: str, source: str) -> list[Any]:
    if not text.lstrip().startswith("["):
        try:
            return [*shlex.split(text)]
        except ValueError as error:
            raise LookupError(f"{source} cannot be split into words: {error}") from None
    from playbook_supervisor.project.expressions.json_schemas import parsed

    try:
        found = parsed(text)
    except (ValueError, RecursionError) as error:
        raise LookupError(f"{source} is not JSON: {error}") from None
    return [*found]  # what begins with a bracket is a list


def passed_over(loop: Loop, item: Any) -> str:
    """Why `where` leaves the item out; empty if it does not. LookupError if that is not known."""
    if not loop.where:
        return ""
    probed = when.evaluate(loop.where, lambda _, __: item, loop.name)
    if probed.answer is Answer.ERROR:
        raise LookupError(f"`where` has no answer: {probed.evidence}")
    return "" if probed.held else f"where: {probed.evidence}"


def fault(loop: Loop, step: Step, found: Sequence[Any], *, holes: bool) -> str:
    """Why the loop cannot be run over this list, as a sentence; empty if it can. `holes`: it may
    have items without a value, which an earlier loop has left."""
    if len(found) > loop.most:
        return f"{loop.source} has {len(found):,} items, more than {loop.most:,}"
    members = own_names(step, _texts(step))
    for number, item in enumerate(found, 1):
        if item is None and holes:
            continue
        try:
            if passed_over(loop, item):
                continue
        except LookupError as unknown:
            return f"item {number} of {loop.source}: {unknown.args[0]}"
        if wrong := _fault_of(item, loop, members):
            return f"item {number} of {loop.source} {wrong}"
    return ""


def _fault_of(item: Any, loop: Loop, members: Sequence[str]) -> str:
    if item is None or isinstance(item, list):
        return f"is {'null' if item is None else 'a list'}, not text"
    text = _text(item)
    if len(text) > LONGEST:
        return f"has {len(text):,} characters, more than {LONGEST:,}"
    given = dict(values(loop, item))
    if found := re.search(_CONTROL, "".join(given.values())):
        return f"contains the control character U+{ord(found[0]):04X}"
    missing = [name for name in members if name not in given]
    return f"has no text for `{{{{{first_line(missing[0], 60)}}}}}`" if missing else ""


def values(loop: Loop, item: Any) -> tuple[tuple[str, str], ...]:
    """The values of `{{NAME}}` and of each `{{NAME.key}}` of an object; the item itself first."""
    return tuple(_values(loop.name, item))


def _values(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if value is None or isinstance(value, list):
        return
    yield name, _text(value)
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _values(f"{name}.{key}", each)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def with_references(values: Mapping[str, str], step: Step) -> dict[str, str]:
    """The values, and for a loop each reference to its item: it stands for itself until it runs."""
    if step.for_each is None:
        return dict(values)
    return {**values, **{name: f"{{{{{name}}}}}" for name in own_names(step, _texts(step))}}


def own_names(step: Step, text: str) -> tuple[str, ...]:
    """The names in a text that refer to the item of a loop: `task`, `task.file`."""
    item = step.for_each.name if step.for_each else ""
    return tuple(name for name in names(text) if item and name.partition(".")[0] == item)


def _texts(step: Step) -> str:
    texts = (step.command, step.args, step.options, step.cwd, *step.outputs, *step.conditions)
    return " ".join(texts)
