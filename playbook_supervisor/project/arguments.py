"""The arguments that a person gave → a value for every declared one.

Positional in the order of the playbook's `args`, or `name=value` (kai FR1, FR10). All faults come
in one error. Values stay what was typed.
"""

from __future__ import annotations

from collections.abc import Sequence

from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.sanitize import first_line, printable
from playbook_supervisor.kernel.model import Arg, Playbook


def bind(playbook: Playbook, given: Sequence[str]) -> dict[str, str]:
    """Value by name, in the order of declaration; an optional arg that was not given is `""`.

    `name=value` counts as such only where `name` is declared: other text may hold a `=`. The n-th
    positional one is the n-th declared arg. An argument is one line of printable text. Raises
    ArgumentError PB-ARG-INVALID, whose details are a line for each arg.
    """
    declared = [arg.name for arg in playbook.args]
    values: dict[str, str] = {}
    faults: list[str] = []
    surplus: list[str] = []
    position = 0
    for text in given:
        name, equals, value = text.partition("=")
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
            faults.append(f"{name} holds control characters")
        values.setdefault(name, value)
    if surplus:
        what = ", ".join(f'"{text}"' for text in surplus)
        faults.append(f"{what} {'is' if len(surplus) == 1 else 'are'} more than it takes")
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
