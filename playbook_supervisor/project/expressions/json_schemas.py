"""Values held against JSON Schemas that people or plugins wrote: `output_schema`, `with:`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from playbook_supervisor.formats.sanitize import one_line, suggestion
from playbook_supervisor.records import Record

if TYPE_CHECKING:
    from jsonschema import ValidationError

_PLAIN = r"[A-Za-z_][A-Za-z0-9_-]*\Z"
_TOO_DEEP = "it is nested too deeply"


def parsed(text: str) -> Any:
    """The JSON value. ValueError says what is wrong, with line and column."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"{where}: {error.msg[:1].lower()}{error.msg[1:]}") from error
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


class Mismatch(Record):
    """Where a value breaks its schema, by keys and indexes, and how.

    `unknown` is a key of the value at `path` that the schema does not have, if that is what is
    wrong.
    """

    path: tuple[str | int, ...]
    said: str
    unknown: str = ""


def mismatch(value: Any, schema: Mapping[str, Any]) -> str:
    """Where and how the value breaks the schema, as in `$.items[2].name: 5 is not a string`.

    Empty if it conforms. Nothing is fetched: a `$ref` to another document is a mismatch, too.
    """
    found = find_mismatch(value, schema)
    return "" if found is None else f"{place(found.path)}: {found.said}"


def find_mismatch(value: Any, schema: Mapping[str, Any]) -> Mismatch | None:
    """The mismatch that says most, as `mismatch` tells it; None if the value conforms."""
    import referencing.exceptions
    from jsonschema import exceptions, validators

    dialect = validators.validator_for(schema, default=validators.Draft7Validator)
    validator = dialect(schema, registry=referencing.Registry())
    try:
        error = exceptions.best_match(validator.iter_errors(value))
    except referencing.exceptions.Unresolvable as unknown:
        said = f"its schema names {one_line(str(unknown.ref), 100)}, which is not in it"
        return Mismatch((), said)
    except RecursionError:
        return Mismatch((), _TOO_DEEP)
    if error is None:
        return None
    return Mismatch(tuple(error.absolute_path), _said(error), _unknown(error))


def _said(error: ValidationError) -> str:
    schema: Any = error.schema
    instance: Any = error.instance
    wanted: Any = error.validator_value
    if error.validator == "required":
        lacking = [name for name in wanted if name not in instance]
        return f"`{', '.join(lacking)}` is missing"
    if unknown := _unknown(error):
        known = schema.get("properties", {})
        there = f"; it has {one_line(', '.join(known)) or 'none'}"
        return f"no key {one_line(unknown, 60)!r}{suggestion(unknown, known) or there}"
    return one_line(error.message)


def _unknown(error: ValidationError) -> str:
    schema: Any = error.schema
    instance: Any = error.instance
    if error.validator != "additionalProperties" or "patternProperties" in schema:
        return ""
    return str(next(name for name in instance if name not in schema.get("properties", {})))


def flaw(schema: Any) -> str:
    """Why this is not a JSON Schema; empty if it is one."""
    from jsonschema import exceptions, validators

    if not isinstance(schema, Mapping):
        return "$: it is not a mapping"
    try:
        dialect = validators.validator_for(schema, default=validators.Draft7Validator)
        dialect.check_schema(dict(schema))
    except exceptions.SchemaError as error:
        return f"{place(error.absolute_path)}: {one_line(error.message)}"
    except RecursionError:
        return f"$: {_TOO_DEEP}"
    return ""


def place(path: Sequence[str | int]) -> str:
    """`$.items[2].name`; a key that is no name stands in quotes, `$["a b"]`."""
    steps = (
        f".{one_line(part, 60)}"
        if isinstance(part, str) and re.match(_PLAIN, part)
        else f"[{json.dumps(part)}]"
        for part in path
    )
    return "".join(["$", *steps])
