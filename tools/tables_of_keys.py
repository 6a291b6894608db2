"""The keys of the files, from the JSON Schemas that ship."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tables import code, table

from playbook_supervisor.project.schema import schema_text


def keys(schema: str, *path: str) -> Callable[[], str]:
    """The table of a mapping's keys, from the JSON Schema that ships."""

    def made() -> str:
        whole: Mapping[str, Any] = json.loads(schema_text(schema))
        mapping = whole
        for part in path:
            mapping = mapping[part]
        rows = _rows(schema, whole, mapping)
        return table(("key", "needed", "form", "what it is"), rows)

    return made


def _rows(
    schema: str, whole: Mapping[str, Any], mapping: Mapping[str, Any]
) -> Iterator[tuple[str, ...]]:
    needed = mapping.get("required", ())
    for key, value in mapping["properties"].items():
        told = value.get("description") or BESIDE_SCHEMA.get((schema, key))
        told = told or _resolved(whole, value)["description"]
        default = f" Default: `{_shown(value['default'])}`." if "default" in value else ""
        yield f"`{key}`", "yes" if key in needed else "", _form(whole, value), told + default


def _resolved(whole: Mapping[str, Any], value: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in value:
        return value
    definition: Mapping[str, Any] = whole["definitions"][value["$ref"].split("/")[-1]]
    return definition


def _form(whole: Mapping[str, Any], value: Mapping[str, Any]) -> str:
    name = value.get("$ref", "").split("/")[-1]
    if name in _NAMED_FORMS:
        return _NAMED_FORMS[name]
    resolved = _resolved(whole, value)
    if "enum" in resolved:
        return code(resolved["enum"])
    if "const" in resolved:
        return f"`{_shown(resolved['const'])}`"
    if "anyOf" in resolved:
        return _form(whole, next(each for each in resolved["anyOf"] if each != {"const": ""}))
    if resolved.get("type") == "array":
        items = _resolved(whole, resolved["items"])
        return "list of texts" if items.get("type") == "string" and "enum" not in items else "list"
    kind = resolved.get("type", "")
    return _FORMS[kind if isinstance(kind, str) else kind[0]]


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


BESIDE_SCHEMA: Mapping[tuple[str, str], str] = {
    ("session", "started_at"): "When the session was created.",
    ("journal", "status"): "Where the attempt stands.",
    ("journal", "started_at"): "When its turn began: it was launched, or its gate opened.",
    ("journal", "completed_at"): "When it was settled.",
    ("journal", "launched_at"): "When the agent was set to work, where that is not the start.",
    ("journal", "returned_at"): "When the agent came back, where that is not the end.",
    ("journal", "resolution"): "What the answer was taken for.",
    ("journal", "error"): "What went wrong, in a sentence.",
    ("journal", "error_code"): "Its code, as in [errors.md](errors.md).",
    ("journal", "error_guidance"): "How to mend it.",
    ("journal", "error_cause"): "What lay beneath, such as an agent's last lines.",
    (
        "journal",
        "error_lasts",
    ): "The same attempt would fail again: `retry_once` does not repeat it.",
    ("journal", "gates"): "The gates of this attempt, in order.",
    ("journal", "reason"): "Why it opened.",
    ("journal", "opened_at"): "When it opened.",
    ("journal", "answered_at"): "When it was answered; while that is missing, it waits.",
    ("journal", "name"): "The agent.",
    ("journal", "id"): "Its own name for the piece of work.",
    ("journal", "model"): "The model that really worked.",
    ("journal", "cost_usd"): "What it cost, where the agent says so.",
    ("journal", "input_tokens"): "Tokens read.",
    ("journal", "output_tokens"): "Tokens written.",
    ("journal", "turns"): "Turns taken.",
    ("journal", "retries"): "Transient errors that were tried again within the attempt.",
    ("config", "specs"): "Specifications, plans and tasks.",
    ("config", "agreements"): "Agreements and their reports.",
    ("config", "qa"): "Test plans and verdicts.",
}
"""What keys mean that the schema leaves to their names."""

_FORMS = {
    "string": "text",
    "number": "number",
    "integer": "number",
    "boolean": "`true`, `false`",
    "object": "mapping",
}
_NAMED_FORMS = {
    "slug": "text `[a-z0-9][a-z0-9-]*`",
    "time": "time",
    "time_or_empty": "time",
    "texts": "list of texts",
    "argv": "list: program, arguments",
    "globs": "list of patterns",
}
