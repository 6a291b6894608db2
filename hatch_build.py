"""Makes `playbook_supervisor/project/schemas/playbook_validator.py` when the package is built.

The validator only says yes or no, seventeen times faster than jsonschema, and needs no library.
fastjsonschema silently ignores what is newer than draft-07: keep the schema there.

    python hatch_build.py            # makes it without a build
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import fastjsonschema
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SCHEMA = (
    Path(__file__).resolve().parent / "playbook_supervisor/project/schemas/written/playbook.json"
)
TARGET = SCHEMA.parent.with_name("playbook_validator.py")

HEADER = '''\
"""Whether data conform to `playbook.json`; made by hatch_build.py."""

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


class ValidatorHook(BuildHookInterface[Any]):
    """Writes the validator before a wheel or an editable install is made."""

    def initialize(self, *_: Any) -> None:
        """Called by hatchling."""
        write()


def write() -> None:
    """Make the module. Another process never reads a part of it."""
    partly = TARGET.with_suffix(f".{os.getpid()}")
    partly.write_text(generate(), "utf-8")
    partly.replace(TARGET)


def generate() -> str:
    """The module's text."""
    schema = json.loads(SCHEMA.read_text("utf-8"))
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
    write()
