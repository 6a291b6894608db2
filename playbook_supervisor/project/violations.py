"""What a violation of the playbook's schema means to its author: a sentence, the cure, the place.

The schema's own words (`additionalProperties`, `is a required property`) never reach a person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from playbook_supervisor.formats.located import Path
from playbook_supervisor.formats.sanitize import did_you_mean, first_line
from playbook_supervisor.project import later_version
from playbook_supervisor.project.later_version import LATER_VERSION, READ_VERSION
from playbook_supervisor.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Schema = Mapping[str, Any]

SCHEMA = "PB-CHECK-SCHEMA"
RULE = "PB-CHECK-RULE"
VERSION = "PB-CHECK-VERSION"


class Violation(Record):
    """A fault at a path into the document; at its key rather than its value where `at_key`."""

    path: Path
    code: str
    message: str
    guidance: str
    at_key: bool = False
    warning: bool = False


def explain(keyword: str, path: Path, instance: Any, schema: Schema) -> Iterator[Violation]:
    """What the violated `keyword` of `schema` says of the `instance` at `path`."""
    yield from _EXPLANATIONS[keyword](path, instance, schema)


def shown(value: object) -> str:
    """A value as a message quotes it."""
    match value:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return f"`{first_line(str(value), 60)}`"


def thing(path: Path) -> str:
    """What stands at a path: a playbook, an arg or a step."""
    return {"args": "arg", "steps": "step"}.get(str(path[0]), "playbook") if path else "playbook"


def _unknown_keys(path: Path, instance: Any, schema: Schema) -> Iterator[Violation]:
    known, kind = schema["properties"], thing(path)
    for key in instance:
        if key in known:
            continue
        if key in later_version.KEYS[kind]:
            yield _needs_later((*path, key), f"`{key}`", f"take `{key}` out", at_key=True)
            continue
        near = did_you_mean(key, known)
        guidance = f"Did you mean `{near}`? " if near else ""
        guidance += f"A{'n' if kind == 'arg' else ''} {kind} has {', '.join(known)}."
        message = f"{shown(key)} is no key of a{'n' if kind == 'arg' else ''} {kind}"
        yield Violation((*path, key), SCHEMA, message, guidance, at_key=True)


def _missing_keys(path: Path, instance: Any, schema: Schema) -> Iterator[Violation]:
    for key in schema["required"]:
        if key not in instance:
            wanted = _wanted(schema["properties"][key])
            message = f"`{key}` is missing"
            yield Violation(path, SCHEMA, message, f"Add `{key}:` and behind it {wanted}.")


def _wrong_type(path: Path, instance: Any, schema: Schema) -> Iterator[Violation]:
    key = _key(path)
    if later_version.is_value(key, instance):
        yield _later_value(path, key, instance, schema)
        return
    wanted = _wanted(schema)
    if not path:
        found = "the file is empty" if instance is None else f"here stands {shown(instance)}"
        yield Violation(path, SCHEMA, f"{found} where a playbook is wanted", _SKELETON)
    elif instance is None:
        guidance = f"Write {wanted}, or take it out if it may be left out."
        yield Violation(path, SCHEMA, f"{_name(path)} has no value", guidance, at_key=True)
    else:
        message = f"{_name(path)} is {shown(instance)}, not {_kind(schema)}"
        yield Violation(path, SCHEMA, message, f"Write {wanted}.")


def _not_allowed(path: Path, instance: Any, schema: Schema) -> Iterator[Violation]:
    key = _key(path)
    if not isinstance(instance, str):
        return  # its type is already reported
    if later_version.is_value(key, instance):
        yield _later_value(path, key, instance, schema)
        return
    near = did_you_mean(instance, schema["enum"])
    guidance = f"Did you mean `{near}`? " if near else ""
    guidance += f"Allowed: {', '.join(schema['enum'])}."
    yield Violation(path, SCHEMA, f"{shown(instance)} is no value of `{key}`", guidance)


def _wrong_form(path: Path, instance: Any, schema: Schema) -> Iterator[Violation]:
    key = _key(path)
    if later_version.is_value(key, instance):
        yield _later_value(path, key, instance, schema)
        return
    message = f"{shown(instance)} cannot be the `{key}` of a{_n(path)} {thing(path)}"
    yield Violation(path, SCHEMA, message, schema["patternErrorMessage"])


def _too_short(path: Path, _instance: Any, schema: Schema) -> Iterator[Violation]:
    yield Violation(path, SCHEMA, f"{_name(path)} is empty", f"Write {_wanted(schema)}.")


def _too_few(path: Path, _instance: Any, _schema: Schema) -> Iterator[Violation]:
    yield Violation(path, SCHEMA, f"{_name(path)} is empty", "A playbook has at least one step.")


def _too_long(path: Path, instance: Any, schema: Schema) -> Iterator[Violation]:
    message = f"{_name(path)} has {len(instance):,} characters"
    yield Violation(path, SCHEMA, message, f"At most {schema['maxLength']} are read.")


def _later_value(path: Path, key: str, instance: Any, schema: Schema) -> Violation:
    if key == "command":
        word = f"a `{instance.split(maxsplit=1)[0]}` command"
        return _needs_later(path, word, "write a slash command, as in `/speckit.plan`")
    word = f"`{next(iter(instance))}`" if isinstance(instance, dict) else shown(instance)
    if key == "error_policy" and isinstance(instance, dict):
        word = "an error policy for each code"
    return _needs_later(path, word, f"write {_wanted(schema)}")


def _needs_later(path: Path, word: str, cure: str, *, at_key: bool = False) -> Violation:
    guidance = f"This release reads version {READ_VERSION}: {cure}."
    message = f"{word} needs version {LATER_VERSION}"
    return Violation(path, VERSION, message, guidance, at_key=at_key)


def _key(path: Path) -> str:
    """The key that a value, or the list that it stands in, belongs to."""
    return next((part for part in reversed(path) if isinstance(part, str)), "")


def _name(path: Path) -> str:
    if isinstance(path[-1], int):
        return f"item {path[-1] + 1} of `{_key(path)}`"
    return f"`{path[-1]}`"


def _n(path: Path) -> str:
    return "n" if thing(path) == "arg" else ""


def _wanted(schema: Schema) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(schema["enum"])
    return _kind(schema) + (" (`[]` where there is nothing)" if _kind(schema) == "a list" else "")


def _kind(schema: Schema) -> str:
    return _KINDS.get(str(schema.get("type")), "text")


_KINDS = {"boolean": "true or false", "array": "a list", "object": "a mapping of keys"}
_SKELETON = "It begins with `name:`, `description:`, `version:`, `args:` and `steps:`."
_EXPLANATIONS: Mapping[str, Callable[[Path, Any, Schema], Iterator[Violation]]] = {
    "additionalProperties": _unknown_keys,
    "required": _missing_keys,
    "type": _wrong_type,
    "enum": _not_allowed,
    "pattern": _wrong_form,
    "minLength": _too_short,
    "minItems": _too_few,
    "maxLength": _too_long,
}
