"""Data → a YAML file for people: a line for each key, and text of several lines as it is."""

from __future__ import annotations

from collections.abc import Iterator

from playbook_supervisor.formats.located import Data, Plain
from playbook_supervisor.formats.yaml_writer import scalar

_END = "\n"


def yaml_text(data: dict[str, Data]) -> str:
    """A mapping as YAML, which `strict_yaml.load` reads as it is."""
    return "".join(f"{line}\n" for line in _lines(data, ""))


def _lines(data: dict[str, Data] | list[Data], margin: str) -> Iterator[str]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _item(f"{margin}{scalar(key)}:", value, margin)
    else:
        for value in data:
            if isinstance(value, (dict, list)) and value:
                first, *others = _lines(value, f"{margin}  ")
                yield f"{margin}- {first.removeprefix(f'{margin}  ')}"
                yield from others
            else:
                yield from _item(f"{margin}-", value, margin)


def _item(start: str, value: Data, margin: str) -> Iterator[str]:
    if not isinstance(value, str):
        if value:
            yield start
            yield from _lines(value, f"{margin}  ")
        else:
            yield f"{start} {'{}' if isinstance(value, dict) else '[]'}"
    elif isinstance(value, Plain) and not isinstance(value.value, str):
        yield f"{start} {value}".rstrip()
    elif _fits_a_block(value):
        yield f"{start} {'|' if value.endswith(_END) else '|-'}"
        for line in value.removesuffix(_END).split(_END):
            yield f"{margin}  {line}" if line else ""
    else:
        yield f"{start} {scalar(str(value))}"


def _fits_a_block(text: str) -> bool:
    """True if a block shows the text as it is, to people and to every reader."""
    lines = text.removesuffix(_END).split(_END)
    return (
        len(lines) > 1
        and all(line.replace("\t", " ").isprintable() for line in lines)
        and bool(lines[0].strip() and lines[-1].strip())
        and not lines[0].startswith((" ", "\t"))
    )
