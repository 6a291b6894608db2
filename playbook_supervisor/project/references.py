"""Interpolates `{{arg}}` in the text of a step.

One pass: `{{…}}` in a value is not replaced. An unknown name is an error, never an empty string
(kai data model, Step `args`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from playbook_supervisor.errors import CheckError

_REFERENCE = r"\{\{([^{}]*)\}\}"


def names(text: str) -> tuple[str, ...]:
    """The names between double braces, in order, each once; `{{ feature }}` is `feature`."""
    return tuple(dict.fromkeys(match.strip() for match in re.findall(_REFERENCE, text)))


def interpolate(text: str, values: Mapping[str, str]) -> str:
    """`text` with each `{{name}}` replaced by its value; CheckError for a name without one."""
    unknown = [name for name in names(text) if name not in values]
    if unknown:
        declared = ", ".join(values) or "none"
        raise CheckError(
            "PB-CHECK-RULE",
            f"unknown arg {', '.join('{{' + name[:60] + '}}' for name in unknown)}",
            guidance=f"Declare it under `args`, or use a declared one: {declared}.",
        )
    return re.sub(_REFERENCE, lambda match: values[match[1].strip()], text)
