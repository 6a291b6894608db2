"""The keys of the files, from the JSON Schemas that ship."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tables import code, table

from playbook_supervisor.drivers.step_kinds import OPTIONS
from playbook_supervisor.executors.registry import find
from playbook_supervisor.project.playbooks.schema import schema_text
from playbook_supervisor.project.playbooks.schema_problems import in_short


def keys(schema: str, *path: str | int) -> Callable[[], str]:
    """The table of a mapping's keys, from the JSON Schema that ships."""

    def made() -> str:
        whole: Mapping[str, Any] = json.loads(schema_text(schema))
        mapping: Any = whole
        for part in path:
            mapping = mapping[part]
        rows = _rows(schema, whole, mapping)
        return table(("key", "required", "type", "description"), rows)

    return made


def options(namespace: str) -> Callable[[], str]:
    """The table of what a namespace takes under `with:`, from its executor's JSON Schema."""

    def made() -> str:
        schema = OPTIONS.get(namespace) or find(namespace).with_schema
        return table(("key", "required", "type", "description"), _rows("with", schema, schema))

    return made


def _rows(
    schema: str, whole: Mapping[str, Any], mapping: Mapping[str, Any]
) -> Iterator[tuple[str, ...]]:
    required = mapping.get("required", ())
    for key, value in mapping["properties"].items():
        text = value.get("description") or BESIDE_SCHEMA.get((schema, key))
        text = text or _resolved(whole, value)["description"]
        default = f" Default: `{_shown(value['default'])}`." if "default" in value else ""
        yield f"`{key}`", "yes" if key in required else "", _form(whole, value), text + default


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
        return code(in_short([_shown(each) for each in resolved["enum"]]))
    if "const" in resolved:
        return f"`{_shown(resolved['const'])}`"
    if "anyOf" in resolved:
        return _form(whole, next(each for each in resolved["anyOf"] if each != {"const": ""}))
    if "if" in resolved:
        other = _FORMS[resolved["if"]["type"]]
        return f"{_form(whole, resolved['else'])}, or a {other}"
    if resolved.get("type") == "array":
        items = _resolved(whole, resolved["items"])
        return "list of texts" if items.get("type") == "string" and "enum" not in items else "list"
    if "type" not in resolved:
        return "any value"
    kind = resolved["type"]
    return _FORMS[kind if isinstance(kind, str) else kind[0]]


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


BESIDE_SCHEMA: Mapping[tuple[str, str], str] = {
    ("session", "started_at"): "When the session was created.",
    ("records", "begun"): "What was there when the session began.",
    ("journal", "status"): "The status of the attempt.",
    ("journal", "started_at"): "When the attempt was launched or its gate opened.",
    ("journal", "completed_at"): "When the attempt was settled.",
    ("journal", "launched_at"): "When the agent was launched, if that differs from the start.",
    ("journal", "returned_at"): "When the agent returned, if that differs from the end.",
    ("journal", "resolution"): "How the answer was understood.",
    ("journal", "error"): "What went wrong, in a sentence.",
    ("journal", "error_code"): "Its code, as in [errors.md](errors.md).",
    ("journal", "error_guidance"): "How to fix it.",
    ("journal", "error_cause"): "The underlying error, such as the agent's last lines.",
    (
        "journal",
        "error_lasts",
    ): "The attempt would fail again, so `retry_once` does not repeat it.",
    ("journal", "gates"): "The gates of this attempt, in order.",
    ("journal", "reason"): "Why it opened.",
    ("journal", "opened_at"): "When it opened.",
    ("journal", "answered_at"): "When it was answered; missing while the gate is open.",
    ("journal", "name"): "The agent.",
    ("journal", "id"): "The agent's own id for the work.",
    ("journal", "model"): "The model that was used.",
    ("journal", "cost_usd"): "The cost, if the agent reports it.",
    ("journal", "input_tokens"): "Input tokens.",
    ("journal", "output_tokens"): "Output tokens.",
    ("journal", "weighed_tokens"): "All tokens, weighed by their price, if they were limited.",
    ("journal", "turns"): "The number of turns.",
    ("journal", "retries"): "Transient errors that were retried within the attempt.",
    ("config", "specs"): "Specifications, plans and tasks.",
    ("config", "agreements"): "Agreements and their reports.",
    ("config", "qa"): "Test plans and verdicts.",
}
"""Descriptions of keys that have none in the schema."""

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
