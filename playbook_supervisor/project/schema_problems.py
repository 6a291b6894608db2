"""Explains violations of the playbook schema to an author: a place, a sentence and how to fix it.

Terms of JSON Schema (`additionalProperties`, `is a required property`) never appear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from playbook_supervisor.formats.located import Document, Path
from playbook_supervisor.formats.problems import Problem, problem_at
from playbook_supervisor.formats.sanitize import did_you_mean, first_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Schema = Mapping[str, Any]

SCHEMA = "PB-CHECK-SCHEMA"
RULE = "PB-CHECK-RULE"
VERSION = "PB-CHECK-VERSION"

READ_VERSION = "1.0"
"""The newest version of the format that this release reads."""
LATER_VERSION = "1.1"

_LATER_KEYS: Mapping[str, frozenset[str]] = {
    "playbook": frozenset({"owner", "reviewers", "outputs", "limits", "defaults"}),
    "arg": frozenset({"type", "values", "default", "transform", "secret"}),
    "step": frozenset(
        {"title", "with", "stdin", "output", "output_schema", "outputs", "when", "approval"}
        | {"checkpoint", "cwd", "tools", "cache", "timeout_seconds", "max_output_bytes"}
        | {"max_depth", "max_cost_usd", "max_turns", "max_tool_calls"}
    ),
}
"""New keys, by the thing that has them."""

_LATER_CONDITIONS = frozenset(
    {"tasks_done", "file_exists", "file_contains", "git_clean", "branch_exists"}
    | {"verdict_pass", "command_succeeds"}
)
_LATER_POLICIES = frozenset({"continue", "ignore", "fail"})
_LATER_NAMESPACES = frozenset(
    {"markdown", "prompt", "checkpoint", "branch", "commit", "pr", "issue", "playbook"}
    | {"cli", "http", "mcp", "web", "node"}
)


def explain(
    keyword: str, document: Document, path: Path, instance: Any, schema: Schema
) -> Iterator[Problem]:
    """The problems of the `instance` at `path`, which violates the `keyword` of `schema`."""
    if keyword in ("type", "enum", "pattern") and _is_later(_key(path), instance):
        yield _later_value(document, path, instance, schema)
    else:
        yield from _EXPLANATIONS[keyword](document, path, instance, schema)


def shown(value: object) -> str:
    """A value as a message quotes it."""
    match value:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return f"`{first_line(str(value), 60)}`"


def _unknown_keys(
    document: Document, path: Path, instance: Any, schema: Schema
) -> Iterator[Problem]:
    known, kind = schema["properties"], _kind(path)
    for key in instance:
        if key in known:
            continue
        if key in _LATER_KEYS[kind]:
            yield _needs_later(document, (*path, key), f"`{key}`", f"remove `{key}`", key=True)
            continue
        near = did_you_mean(key, known)
        guidance = f"Did you mean `{near}`? " if near else ""
        guidance += f"The keys of {_a(kind)} are {', '.join(known)}."
        message = f"{shown(key)} is not a known {kind} key"
        yield problem_at(document, (*path, key), SCHEMA, message, guidance, key=True)


def _missing_keys(
    document: Document, path: Path, instance: Any, schema: Schema
) -> Iterator[Problem]:
    for key in schema["required"]:
        if key not in instance:
            guidance = f"Add `{key}:` with {_wanted(schema['properties'][key])}."
            yield problem_at(document, path, SCHEMA, f"`{key}` is missing", guidance)


def _wrong_type(document: Document, path: Path, instance: Any, schema: Schema) -> Iterator[Problem]:
    wanted = _wanted(schema)
    if not path:
        is_empty = instance is None
        message = "the file is empty" if is_empty else f"this is {shown(instance)}, not a playbook"
        yield problem_at(document, path, SCHEMA, message, _SKELETON)
    elif instance is None:
        guidance = f"Write {wanted}, or remove the key if it is optional."
        yield problem_at(document, path, SCHEMA, f"{_name(path)} has no value", guidance, key=True)
    else:
        message = f"{_name(path)} is {shown(instance)}, not {_type(schema)}"
        yield problem_at(document, path, SCHEMA, message, f"Write {wanted}.")


def _not_allowed(
    document: Document, path: Path, instance: Any, schema: Schema
) -> Iterator[Problem]:
    if not isinstance(instance, str):
        return  # its type is already reported
    near = did_you_mean(instance, schema["enum"])
    guidance = f"Did you mean `{near}`? " if near else ""
    guidance += f"Allowed: {', '.join(schema['enum'])}."
    message = f"{shown(instance)} is not a valid value of `{_key(path)}`"
    yield problem_at(document, path, SCHEMA, message, guidance)


def _wrong_form(document: Document, path: Path, instance: Any, schema: Schema) -> Iterator[Problem]:
    message = f"{shown(instance)} is not a valid `{_key(path)}` of {_a(_kind(path))}"
    yield problem_at(document, path, SCHEMA, message, schema["patternErrorMessage"])


def _too_short(document: Document, path: Path, _instance: Any, schema: Schema) -> Iterator[Problem]:
    yield problem_at(document, path, SCHEMA, f"{_name(path)} is empty", f"Write {_wanted(schema)}.")


def _too_few(document: Document, path: Path, _instance: Any, _schema: Schema) -> Iterator[Problem]:
    guidance = "A playbook has at least one step."
    yield problem_at(document, path, SCHEMA, f"{_name(path)} is empty", guidance)


def _too_long(document: Document, path: Path, instance: Any, schema: Schema) -> Iterator[Problem]:
    message = f"{_name(path)} has {len(instance):,} characters"
    guidance = f"At most {schema['maxLength']} are allowed."
    yield problem_at(document, path, SCHEMA, message, guidance)


def _later_value(document: Document, path: Path, instance: Any, schema: Schema) -> Problem:
    if _key(path) == "command":
        word = f"a `{instance.split(maxsplit=1)[0]}` command"
        return _needs_later(document, path, word, "write a slash command such as `/speckit.plan`")
    word = f"`{next(iter(instance))}`" if isinstance(instance, dict) else shown(instance)
    if _key(path) == "error_policy" and isinstance(instance, dict):
        word = "an error policy for each code"
    return _needs_later(document, path, word, f"write {_wanted(schema)}")


def _needs_later(
    document: Document, path: Path, word: str, fix: str, *, key: bool = False
) -> Problem:
    guidance = f"This release reads version {READ_VERSION}: {fix}."
    message = f"{word} needs version {LATER_VERSION}"
    return problem_at(document, path, VERSION, message, guidance, key=key)


def _is_later(key: str, value: object) -> bool:
    """Whether 1.1 allows this value of a step's key, or this item of its list."""
    match key, value:
        case "command", str(text):
            return not _LATER_NAMESPACES.isdisjoint(text.split(maxsplit=1)[:1])
        case "error_policy", str(text):
            return text in _LATER_POLICIES or text.startswith("retry:")
        case "error_policy", dict():
            return True
        case "preconditions" | "postconditions", str(text):
            return text in _LATER_CONDITIONS
        case "preconditions" | "postconditions", dict(mapping):
            return len(mapping) == 1 and next(iter(mapping)) in _LATER_CONDITIONS
        case _:
            return False


def _key(path: Path) -> str:
    """The key of a value, or of the list that contains it."""
    return next((part for part in reversed(path) if isinstance(part, str)), "")


def _kind(path: Path) -> str:
    """What the path leads into: a playbook, an arg or a step."""
    return {"args": "arg", "steps": "step"}.get(str(path[0]), "playbook") if path else "playbook"


def _a(kind: str) -> str:
    return "an arg" if kind == "arg" else f"a {kind}"


def _name(path: Path) -> str:
    if isinstance(path[-1], int):
        return f"item {path[-1] + 1} of `{_key(path)}`"
    return f"`{path[-1]}`"


def _wanted(schema: Schema) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(schema["enum"])
    return _type(schema) + (" (`[]` for none)" if _type(schema) == "a list" else "")


def _type(schema: Schema) -> str:
    return _TYPES.get(str(schema.get("type")), "text")


_TYPES = {"boolean": "true or false", "array": "a list", "object": "a mapping of keys"}
_SKELETON = "A playbook has `name:`, `description:`, `version:`, `args:` and `steps:`."
_EXPLANATIONS: Mapping[str, Callable[[Document, Path, Any, Schema], Iterator[Problem]]] = {
    "additionalProperties": _unknown_keys,
    "required": _missing_keys,
    "type": _wrong_type,
    "enum": _not_allowed,
    "pattern": _wrong_form,
    "minLength": _too_short,
    "minItems": _too_few,
    "maxLength": _too_long,
}
