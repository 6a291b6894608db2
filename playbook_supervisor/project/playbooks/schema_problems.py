"""Explains violations of the playbook schema to an author: a place, a sentence and how to fix it.

Terms of JSON Schema (`additionalProperties`, `is a required property`) never appear.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from playbook_supervisor.formats.located import Path
from playbook_supervisor.formats.problems import Finding
from playbook_supervisor.formats.sanitize import did_you_mean, first_line
from playbook_supervisor.project.expressions import namespaces
from playbook_supervisor.project.expressions.requirement import LISTS

Schema = Mapping[str, Any]

SCHEMA = "PB-CHECK-SCHEMA"
RULE = "PB-CHECK-RULE"

_VALUED = {
    "file_exists": "file_exists: docs/index.md",
    "file_contains": "file_contains: {path: README.md, text: Install}",
    "branch_exists": "branch_exists: main",
    "tag_exists": "tag_exists: v1.0",
    "verdict_pass": "verdict_pass: review.md",
    "command_succeeds": "command_succeeds: test",
    "command_fails": "command_fails: test",
    "proved": "proved: test",
    "changes_made": "changes_made: src/**",
    "changes_within": "changes_within: [src/**, tests/**]",
}
"""The conditions that need a value, each with an example."""
_A_CONDITION = "git_clean"  # among the words of any list of conditions


def explain(keyword: str, path: Path, instance: Any, schema: Schema) -> Iterator[Finding]:
    """The problems of the `instance` at `path`, which violates the `keyword` of `schema`."""
    match keyword:
        case "additionalProperties":
            return _unknown_keys(path, instance, schema)
        case "required":
            return _missing_keys(path, instance, schema)
        case "type":
            return _wrong_type(path, instance, schema)
        case "enum":
            return _not_allowed(path, instance, schema)
        case "pattern":
            message = f"{shown(instance)} is not a valid `{_key(path)}` of {_a(_kind(path))}"
            guidance = schema["patternErrorMessage"]
        case "minLength":
            message, guidance = f"{_name(path)} is empty", f"Write {_wanted(schema)}."
        case "minItems":
            message, guidance = f"{_name(path)} is empty", "A playbook has at least one step."
        case "maxLength":
            message = f"{_name(path)} has {len(instance):,} characters"
            guidance = f"At most {schema['maxLength']} are allowed."
        case "minimum" | "exclusiveMinimum" | "maximum":
            bounds = [f"{word} {schema[key]:,}" for key, word in _BOUNDS.items() if key in schema]
            message = f"{_name(path)} is {shown(instance)}"
            guidance = f"Write a number {' and '.join(bounds)}."
        case _:  # the number of properties
            message = f"{_name(path)} has {len(instance)} conditions, not one"
            guidance = "Write each condition as its own item."
    return iter([Finding(path, message, guidance, code=SCHEMA)])


def shown(value: object) -> str:
    """A value as a message quotes it."""
    match value:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return f"`{first_line(str(value), 60)}`"


def _unknown_keys(path: Path, instance: Any, schema: Schema) -> Iterator[Finding]:
    known, kind = schema["properties"], _kind(path)
    for key in instance:
        if key in known:
            continue
        guidance = f"{did_you_mean(key, known)}The keys of {_a(kind)} are {', '.join(known)}."
        if kind == "step" and namespaces.has_meaning(str(key)):
            guidance = f"Write `command: {key} …`, and what it needs under `with`."
        message = f"{shown(key)} is not a known {kind} key"
        yield Finding((*path, key), message, guidance, key=True, code=SCHEMA)


def _missing_keys(path: Path, instance: Any, schema: Schema) -> Iterator[Finding]:
    for key in schema["required"]:
        if key not in instance:
            guidance = f"Add `{key}:` with {_wanted(schema['properties'][key])}."
            if key == "version":
                guidance = 'Write `version: "1.2"`: it is the version of the playbook format.'
            yield Finding(path, f"`{key}` is missing", guidance, code=SCHEMA)


def _wrong_type(path: Path, instance: Any, schema: Schema) -> Iterator[Finding]:
    wanted = _wanted(schema)
    if not path:
        is_empty = instance is None
        message = "the file is empty" if is_empty else f"this is {shown(instance)}, not a playbook"
        yield Finding(path, message, _SKELETON, code=SCHEMA)
    elif instance is None:
        guidance = f"Write {wanted}, or remove the key if it is optional."
        yield Finding(path, f"{_name(path)} has no value", guidance, key=True, code=SCHEMA)
    else:
        message = f"{_name(path)} is {shown(instance)}, not {_type(schema)}"
        yield Finding(path, message, f"Write {wanted}.", code=SCHEMA)


def _not_allowed(path: Path, instance: Any, schema: Schema) -> Iterator[Finding]:
    if not isinstance(instance, str):
        return  # its type is already reported
    is_condition = _kind(path) == "condition" and _A_CONDITION in schema["enum"]
    valued = _VALUED if is_condition else {}
    if instance in valued:
        guidance = f"Write `{valued[instance]}`, for example."
        yield Finding(path, f"`{instance}` needs a value", guidance, code=SCHEMA)
        return
    word, equals, value = instance.partition("=")
    if equals and word in valued:  # as evidence spells it
        guidance = f'Write `{word}: "{first_line(value, 60)}"`.'
        message = f"{shown(instance)} is how evidence spells a condition, not how a file does"
        yield Finding(path, message, guidance, code=SCHEMA)
        return
    allowed = [*schema["enum"], *valued]
    guidance = f"{did_you_mean(instance, allowed)}Allowed: {', '.join(in_short(allowed))}."
    message = f"{shown(instance)} is not a valid value of `{_key(path)}`"
    yield Finding(path, message, guidance, code=SCHEMA)


def in_short(words: Sequence[str]) -> list[str]:
    """The words, with the retries as one: `retry:1` to `retry:10`."""
    retries = [word for word in words if word.startswith("retry:")]
    others = [word for word in words if word not in retries]
    return [*others, f"{retries[0]} to {retries[-1]}"] if retries else others


def _key(path: Path) -> str:
    return next((part for part in reversed(path) if isinstance(part, str)), "")


def _kind(path: Path) -> str:
    if not {*LISTS, "conditions"}.isdisjoint(path):
        return "condition"
    kinds = {"args": "arg", "steps": "step", **{key: key for key in _MAPPINGS}}
    return kinds.get(str(path[0]), "playbook") if path else "playbook"


def _a(kind: str) -> str:
    return "an arg" if kind == "arg" else f"`{kind}`" if kind in _MAPPINGS else f"a {kind}"


def _name(path: Path) -> str:
    if isinstance(path[-1], int):
        return f"item {path[-1] + 1} of `{_key(path)}`"
    return f"`{path[-1]}`"


def _wanted(schema: Schema) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(in_short(schema["enum"]))
    return _type(schema) + (" (`[]` for none)" if _type(schema) == "a list" else "")


def _type(schema: Schema) -> str:
    return _TYPES.get(str(schema.get("type")), "text")


_MAPPINGS = ("limits", "defaults", "reviewers")
_TYPES = {
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping of keys",
    "number": "a number",
    "integer": "a whole number",
}
_BOUNDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "up to"}
_SKELETON = "A playbook has `name:`, `description:`, `version:`, `args:` and `steps:`."
