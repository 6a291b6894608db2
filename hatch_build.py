"""What is added when the package is built: the validator of playbooks, and what an index shows.

The validator, `playbook_supervisor/project/schemas/playbook_validator.py`, only says yes or no,
seventeen times faster than jsonschema, and needs no library.
fastjsonschema silently ignores what is newer than draft-07: keep the schema there.

    python hatch_build.py            # makes it without a build
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import fastjsonschema
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

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


class ProjectHook(MetadataHookInterface):
    """Adds the README, and the addresses of the repository whose workflow builds the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling."""
        readme = Path(self.root, "README.md").read_text("utf-8")
        if repository := os.environ.get("GITHUB_REPOSITORY"):
            home = f"{os.environ['GITHUB_SERVER_URL']}/{repository}"
            readme = with_addresses(readme, home, os.environ["GITHUB_REF_NAME"])
            metadata["urls"] = {
                "Homepage": home,
                "Documentation": f"{home}/blob/main/docs/README.md",
                "Changelog": f"{home}/blob/main/CHANGELOG.md",
                "Issues": f"{home}/issues",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}


def with_addresses(text: str, home: str, reference: str) -> str:
    """The text whose relative links and pictures lead to the files of a reference."""
    text = re.sub(r"(!\[[^]]*\]\(|<img src=\")(?!https?:)", rf"\1{home}/raw/{reference}/", text)
    return re.sub(r"(?<!!)(\[[^]]*\]\()(?!https?:|#)", rf"\1{home}/blob/{reference}/", text)


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
