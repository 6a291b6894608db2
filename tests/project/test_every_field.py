"""Each field of the playbook schema, wrong in turn: a problem at its place, and what is allowed.

The fields and their faults are taken from the schema, so that a new field is tested, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from playbook_supervisor.project.playbooks.schema import examine, schema_text
from playbook_supervisor.project.playbooks.schema_problems import in_short

Path = tuple[str | int, ...]
Schema = dict[str, Any]

SCHEMA: Schema = json.loads(schema_text("playbook"))
LEAST: dict[str, Any] = {
    "name": "x",
    "description": "y",
    "version": "1.1",
    "args": [{"name": "a", "description": "b", "required": False}],
    "steps": [{"id": "one", "command": "/one", "autonomy": "auto", "error_policy": "stop"}],
}
FREE = frozenset({"with", "output_schema"})
"""Objects whose keys are the author's."""
ODD = " ODD value! "
"""Text that matches none of the patterns and is no word of a vocabulary."""
TYPES = {
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "number": "a number",
    "integer": "a whole number",
}


class Fault(NamedTuple):
    """A value at a path that is wrong, and what the guidance has to name."""

    path: Path
    value: Any
    allowed: tuple[str, ...]
    at_key: bool = False

    @property
    def label(self) -> str:
        return f"{'.'.join(map(str, self.path))}={json.dumps(self.value)[:30]}"


def resolved(schema: Schema) -> Schema:
    while "$ref" in schema:
        found: Any = SCHEMA
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    return schema


def faults(schema: Schema, path: Path) -> Iterator[Fault]:
    """The faults of the value at the path, and of all in it."""
    schema = resolved(schema)
    if "if" in schema:
        may_be_text = schema["if"]["type"] == "object" and "enum" not in resolved(schema["else"])
        for fault in faults(schema["then"], path):
            is_text = may_be_text and (fault.path, fault.value) == (path, "odd")
            yield fault._replace(value=["odd"], allowed=()) if is_text else fault
        for fault in faults({"type": "string", **resolved(schema["else"])}, path):
            is_list = schema["if"]["type"] == "array" and isinstance(fault.value, list)
            yield fault._replace(value={"odd": "odd"}) if is_list else fault
        return
    kind = schema.get("type", "object" if "properties" in schema else "array")
    if isinstance(kind, list):  # the version: nothing but text can be written
        kind = kind[0]
    allowed = tuple(in_short(schema["enum"])) if "enum" in schema else (TYPES[kind],)
    if "type" in schema and path:
        yield Fault(path, "odd" if kind != "string" else ["odd"], allowed)
    for keyword, value in wrong_values(schema):
        wanted = {"pattern": (schema.get("patternErrorMessage", ""),), "enum": allowed}
        yield Fault(path, value, wanted.get(keyword, ()))
    if kind == "object" and "properties" in schema:
        yield from in_object(schema, path)
    elif kind == "array" and "items" in schema:
        yield from faults(schema["items"], (*path, 0))


def wrong_values(schema: Schema) -> Iterator[tuple[str, Any]]:
    if "pattern" in schema or "enum" in schema:
        yield ("enum" if "enum" in schema else "pattern"), ODD
    if "minLength" in schema:
        yield "minLength", ""
    if "maxLength" in schema:
        yield "maxLength", "x" * (schema["maxLength"] + 1)
    if "minItems" in schema:
        yield "minItems", []
    if "maximum" in schema:
        yield "maximum", schema["maximum"] + 1
    if "exclusiveMinimum" in schema:
        yield "exclusiveMinimum", schema["exclusiveMinimum"]
    if "minimum" in schema:
        yield "minimum", schema["minimum"] - 1


def in_object(schema: Schema, path: Path) -> Iterator[Fault]:
    for name, inner in schema["properties"].items():
        yield from faults(inner, (*path, name))
    if schema.get("additionalProperties") is False:
        for name in (each for each in schema["properties"] if len(each) > 4):
            yield Fault((*path, f"{name}_"), "odd", (f"`{name}`?",), at_key=True)
        yield Fault((*path, "zzz"), "odd", tuple(schema["properties"]), at_key=True)


def changed(fault: Fault) -> dict[str, Any]:
    """The least playbook with the fault in it."""
    data: dict[str, Any] = json.loads(json.dumps(LEAST))
    inner: Any = data
    for part, following in zip(fault.path, fault.path[1:], strict=False):
        empty: Any = [] if isinstance(following, int) else {}
        if isinstance(part, int):
            if part == len(inner):
                inner.append(empty)
            inner = inner[part]
        else:
            if not isinstance(inner.get(part), type(empty)):
                inner[part] = empty
            inner = inner[part]
    last = fault.path[-1]
    if isinstance(last, int):
        inner[last:] = [fault.value]
    else:
        inner[last] = fault.value
    return data


class Writer:
    """Writes data as JSON, a line for each value, and notes where keys and values begin."""

    def __init__(self, data: Any) -> None:
        self.text = ""
        self.keys: dict[Path, tuple[int, int]] = {}
        self.values: dict[Path, tuple[int, int]] = {}
        self._write(data, ())

    @property
    def _here(self) -> tuple[int, int]:
        return self.text.count("\n") + 1, len(self.text) - self.text.rfind("\n")

    def _write(self, data: Any, path: Path) -> None:
        self.values[path] = self._here
        if not isinstance(data, dict | list) or not data:
            self.text += json.dumps(data)
            return
        begin, end = "{}" if isinstance(data, dict) else "[]"
        self.text += begin
        named = data.items() if isinstance(data, dict) else enumerate(data)
        for number, (name, each) in enumerate(named):
            self.text += ",\n" if number else "\n"
            self.text += " " * len(path)
            self.keys[(*path, name)] = self._here
            if isinstance(data, dict):
                self.text += f"{json.dumps(name)}: "
            self._write(each, (*path, name))
        self.text += end


ALL = tuple(faults(SCHEMA, ()))


@pytest.mark.parametrize("fault", ALL, ids=lambda fault: fault.label)
def test_a_wrong_field_is_named_at_its_place_with_what_is_allowed(fault: Fault) -> None:
    """kai FR8, NFR3; cat FR-1.3, SC-5."""
    written = Writer(changed(fault))
    place = (written.keys if fault.at_key else written.values)[fault.path]
    playbook, problems, _ = examine(written.text.encode(), "x.json")
    assert playbook is None
    there = [each for each in problems if each.position == place and each.severity == "error"]
    assert there, [(each.place, each.message) for each in problems]
    assert [each for each in there if all(word in each.guidance for word in fault.allowed)], there
    assert all(each.guidance.endswith((".", "?")) for each in there)


def test_every_key_of_the_schema_is_among_them() -> None:
    tried = {part for fault in ALL for part in fault.path if not fault.at_key}
    assert set(keys(SCHEMA)) <= tried


def keys(schema: Any) -> Iterator[str]:
    """The names below every `properties`."""
    for name, inner in schema.items() if isinstance(schema, dict) else ():
        if name == "properties":
            yield from inner
        yield from keys(inner)


THINGS: dict[Path, Schema] = {
    (): SCHEMA,
    ("args", 0): SCHEMA["definitions"]["arg"],
    ("steps", 0): SCHEMA["definitions"]["step"],
}
REQUIRED = [(path, name) for path, schema in THINGS.items() for name in schema["required"]]


@pytest.mark.parametrize(("path", "name"), REQUIRED)
def test_a_missing_field_is_named_at_the_thing_that_lacks_it(path: Path, name: str) -> None:
    data = json.loads(json.dumps(LEAST))
    inner = data
    for part in path:
        inner = inner[part]
    del inner[name]
    written = Writer(data)
    _, problems, _ = examine(written.text.encode(), "x.json")
    found = [each for each in problems if each.message == f"`{name}` is missing"]
    assert [each.position for each in found] == [written.values[path]]
    wanted = "Write `version: " if name == "version" else f"Add `{name}:` with "
    assert found[0].guidance.startswith(wanted)
