"""How a value is held against a JSON Schema that somebody else wrote."""

from __future__ import annotations

from typing import Any

import pytest

from playbook_supervisor.project.expressions.json_schemas import flaw, mismatch, place

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"items": {"type": "array", "items": {"required": ["name"]}}},
}


def test_a_value_that_conforms_has_no_mismatch() -> None:
    assert mismatch({"items": [{"name": "a"}]}, SCHEMA) == ""


def test_a_mismatch_names_the_place() -> None:
    assert mismatch({"items": [{"name": 1}, {}]}, SCHEMA) == "$.items[1]: `name` is missing"
    assert mismatch([], SCHEMA) == "$: [] is not of type 'object'"


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (["item", "b"], "no key 'itme'; did you mean item?"),
        (["a", "b"], "no key 'itme'; it has a, b"),
        ([], "no key 'itme'; it has none"),
    ],
)
def test_a_key_that_the_schema_does_not_have_is_named(known: list[str], said: str) -> None:
    schema = {"properties": {key: {} for key in known}, "additionalProperties": False}
    assert mismatch({"itme": 1}, schema) == f"$: {said}"
    pattern = {**schema, "patternProperties": {"^x": {}}}
    assert "itme" in mismatch({"itme": 1}, pattern)


def test_a_place_quotes_what_is_no_name() -> None:
    assert place(["a", 0, "b c", "d-e"]) == '$.a[0]["b c"].d-e'


def test_a_schema_is_never_fetched() -> None:
    remote = {"$ref": "http://127.0.0.1:9/schema.json"}
    assert (
        mismatch({}, remote)
        == "$: its schema names http://127.0.0.1:9/schema.json, which is not in it"
    )


def test_a_schema_that_names_itself_without_end_is_a_mismatch() -> None:
    assert "nested too deeply" in mismatch({}, {"$ref": "#"})


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "object"}, ""),
        ([], "$: it is not a mapping"),
        ({"properties": {"a": {"type": "strin"}}}, "$.properties.a.type: 'strin' is not"),
    ],
)
def test_a_flaw_in_a_schema_is_named(schema: Any, said: str) -> None:
    assert flaw(schema).startswith(said)
    assert bool(flaw(schema)) is bool(said)
