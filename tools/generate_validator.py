"""Makes `playbook_supervisor/project/schemas/playbook_validator.py` from `playbook.json`.

The validator only says yes or no, seventeen times faster than jsonschema, and needs no library.
fastjsonschema silently ignores what is newer than draft-07: keep the schema there.

    python tools/generate_validator.py            # writes the module
"""

from __future__ import annotations

import json
from pathlib import Path

import fastjsonschema

SCHEMAS = Path(__file__).resolve().parent.parent / "playbook_supervisor" / "project" / "schemas"
TARGET = SCHEMAS / "playbook_validator.py"

HEADER = '''\
"""Whether data conform to `playbook.json`; made by tools/generate_validator.py."""

# fmt: off
# ruff: noqa
# mypy: ignore-errors

import re


class JsonSchemaValueException(ValueError):
    """The data do not conform."""


def conforms(data: object) -> bool:
    """Yes or no; `schema.py` explains a no."""
    try:
        validate(data)
    except JsonSchemaValueException:
        return False
    return True


'''
IMPORTS = (
    "from decimal import Decimal\n"
    "import re\n"
    "from fastjsonschema import JsonSchemaValueException, JsonSchemaValuesException\n"
)


def generate() -> str:
    """The module's text."""
    schema = json.loads((SCHEMAS / "playbook.json").read_text("utf-8"))
    code = fastjsonschema.compile_to_code(schema, detailed_exceptions=False, use_default=False)
    _, found, body = code.partition(IMPORTS)
    if not found:
        raise SystemExit("fastjsonschema's output has changed its shape; look at it")
    # Our reader brings no Decimal, and importing it costs more than validating.
    body = body.replace(", Decimal)", ")")
    several = "(JsonSchemaValueException, JsonSchemaValuesException)"
    body = body.replace(several, "JsonSchemaValueException")  # the second has no raiser here
    lines = (line.rstrip() for line in body.strip().splitlines())
    return HEADER + "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(generate(), "utf-8")
