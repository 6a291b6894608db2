"""Binds the arguments that a person gave to the declared args.

They are positional in the order of the playbook's `args`, or `name=value` (kai FR1, FR10). One
error reports all problems. Values are not changed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.sanitize import first_line, printable, suggestion
from playbook_supervisor.kernel.model import Arg, Playbook

_ARG_NAME = r"[A-Za-z_][\w-]*\Z"


def bind(playbook: Playbook, given: Sequence[str]) -> dict[str, str]:
    """Value by name, in the order of declaration; an optional arg that was not given is `""`.

    A word before the first `=` is the name of an arg; text that begins otherwise is positional, as
    in `https://host/?q=1`. The n-th positional argument is the n-th declared arg. An argument is
    one line of printable text. ArgumentError PB-ARG-INVALID has a line for each arg in its details.
    """
    declared = [arg.name for arg in playbook.args]
    values: dict[str, str] = {}
    faults: list[str] = []
    surplus: list[str] = []
    position = 0
    for text in given:
        name, equals, value = text.partition("=")
        if equals and re.match(_ARG_NAME, name) and name not in declared:
            faults.append(f"no arg is called {first_line(name, 40)}{suggestion(name, declared)}")
            continue
        if not equals or name not in declared:
            value = text
            if position >= len(declared):
                surplus.append(first_line(text, 40))
                continue
            name = declared[position]
            position += 1
        if name in values:
            faults.append(f"{name} is given twice")
        elif printable(value) != value:
            faults.append(f"{name} contains control characters")
        values.setdefault(name, value)
    if surplus:
        what = ", ".join(f'"{text}"' for text in surplus)
        faults.append(f"too many arguments: {what}")
    faults += [
        f"{arg.name} is missing"
        for arg in playbook.args
        if arg.required and not values.get(arg.name, "").strip()
    ]
    if faults:
        raise ArgumentError(
            "PB-ARG-INVALID",
            f"{playbook.name}: {'; '.join(dict.fromkeys(faults))}",
            guidance=_guidance(playbook),
            details=tuple(_wanted(arg) for arg in playbook.args),
        )
    return {name: values.get(name, "") for name in declared}


def _wanted(arg: Arg) -> str:
    need = "required" if arg.required else "optional"
    return f"{arg.name} ({need}): {first_line(arg.description)}"


def _guidance(playbook: Playbook) -> str:
    example = " ".join(["playbook run", playbook.name, *map(_example, playbook.args)])
    if not playbook.args:
        return f"It takes no arguments: {example}"
    return f"It takes {', '.join(map(_wanted, playbook.args))}. For example: {example}"


def _example(arg: Arg) -> str:
    value = "013" if arg.name == "feature" else arg.name.upper()
    return value if arg.required else f"[{arg.name}={value}]"
