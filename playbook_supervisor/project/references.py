"""`{{arg}}` in a step's text: which names it uses, and the text with their values.

One pass: a value that itself holds `{{…}}` stays as it is, and an unknown name is an error, never
an empty string (kai data model, Step `args`).
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
            guidance=f"Declare it under `args`, or use one of those declared: {declared}.",
        )
    return re.sub(_REFERENCE, lambda match: values[match[1].strip()], text)
