"""What a violation of the playbook's schema means to its author: a sentence, the cure, the place.

The schema's own words (`additionalProperties`, `is a required property`) never reach a person.
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
"""The newest version of the format that is read."""
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
    """What the violated `keyword` of `schema` says of the `instance` at `path`."""
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


def thing(path: Path) -> str:
    """What stands at a path: a playbook, an arg or a step."""
    return {"args": "arg", "steps": "step"}.get(str(path[0]), "playbook") if path else "playbook"


def _unknown_keys(
    document: Document, path: Path, instance: Any, schema: Schema
) -> Iterator[Problem]:
    known, kind = schema["properties"], thing(path)
    for key in instance:
        if key in known:
            continue
        if key in _LATER_KEYS[kind]:
            yield _needs_later(document, (*path, key), f"`{key}`", f"take `{key}` out", key=True)
            continue
        near = did_you_mean(key, known)
        guidance = f"Did you mean `{near}`? " if near else ""
        guidance += f"A{'n' if kind == 'arg' else ''} {kind} has {', '.join(known)}."
        message = f"{shown(key)} is no key of a{'n' if kind == 'arg' else ''} {kind}"
        yield problem_at(document, (*path, key), SCHEMA, message, guidance, key=True)


def _missing_keys(
    document: Document, path: Path, instance: Any, schema: Schema
) -> Iterator[Problem]:
    for key in schema["required"]:
        if key not in instance:
            wanted = _wanted(schema["properties"][key])
            message = f"`{key}` is missing"
            yield problem_at(
                document, path, SCHEMA, message, f"Add `{key}:` and behind it {wanted}."
            )


def _wrong_type(document: Document, path: Path, instance: Any, schema: Schema) -> Iterator[Problem]:
    key = _key(path)
    if _is_later(key, instance):
        yield _later_value(document, path, key, instance, schema)
        return
    wanted = _wanted(schema)
    if not path:
        found = "the file is empty" if instance is None else f"here stands {shown(instance)}"
        yield problem_at(document, path, SCHEMA, f"{found} where a playbook is wanted", _SKELETON)
    elif instance is None:
        guidance = f"Write {wanted}, or take it out if it may be left out."
        yield problem_at(document, path, SCHEMA, f"{_name(path)} has no value", guidance, key=True)
    else:
        message = f"{_name(path)} is {shown(instance)}, not {_kind(schema)}"
        yield problem_at(document, path, SCHEMA, message, f"Write {wanted}.")


def _not_allowed(
    document: Document, path: Path, instance: Any, schema: Schema
) -> Iterator[Problem]:
    key = _key(path)
    if not isinstance(instance, str):
        return  # its type is already reported
    if _is_later(key, instance):
        yield _later_value(document, path, key, instance, schema)
        return
    near = did_you_mean(instance, schema["enum"])
    guidance = f"Did you mean `{near}`? " if near else ""
    guidance += f"Allowed: {', '.join(schema['enum'])}."
    yield problem_at(document, path, SCHEMA, f"{shown(instance)} is no value of `{key}`", guidance)


def _wrong_form(document: Document, path: Path, instance: Any, schema: Schema) -> Iterator[Problem]:
    key = _key(path)
    if _is_later(key, instance):
        yield _later_value(document, path, key, instance, schema)
        return
    message = f"{shown(instance)} cannot be the `{key}` of a{_n(path)} {thing(path)}"
    yield problem_at(document, path, SCHEMA, message, schema["patternErrorMessage"])


def _too_short(document: Document, path: Path, _instance: Any, schema: Schema) -> Iterator[Problem]:
    yield problem_at(document, path, SCHEMA, f"{_name(path)} is empty", f"Write {_wanted(schema)}.")


def _too_few(document: Document, path: Path, _instance: Any, _schema: Schema) -> Iterator[Problem]:
    yield problem_at(
        document, path, SCHEMA, f"{_name(path)} is empty", "A playbook has at least one step."
    )


def _too_long(document: Document, path: Path, instance: Any, schema: Schema) -> Iterator[Problem]:
    message = f"{_name(path)} has {len(instance):,} characters"
    yield problem_at(document, path, SCHEMA, message, f"At most {schema['maxLength']} are read.")


def _later_value(
    document: Document, path: Path, key: str, instance: Any, schema: Schema
) -> Problem:
    if key == "command":
        word = f"a `{instance.split(maxsplit=1)[0]}` command"
        return _needs_later(document, path, word, "write a slash command, as in `/speckit.plan`")
    word = f"`{next(iter(instance))}`" if isinstance(instance, dict) else shown(instance)
    if key == "error_policy" and isinstance(instance, dict):
        word = "an error policy for each code"
    return _needs_later(document, path, word, f"write {_wanted(schema)}")


def _needs_later(
    document: Document, path: Path, word: str, cure: str, *, key: bool = False
) -> Problem:
    guidance = f"This release reads version {READ_VERSION}: {cure}."
    message = f"{word} needs version {LATER_VERSION}"
    return problem_at(document, path, VERSION, message, guidance, key=key)


def _is_later(key: str, value: object) -> bool:
    """Whether 1.1 knows this value of a step's key (or of an item of its list)."""
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
