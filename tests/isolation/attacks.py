"""The attacks as data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shutil import which

import yaml

FILE = Path(__file__).with_name("attacks.yaml")


@dataclass(frozen=True)
class Attack:
    """One attempt to leave.

    The agent runs `text`, which is of bash or Python. Then a person outside runs `then`; `undo`
    puts back what the judge cannot. `moment` says when the judge looks: at `once`, at the `end` of
    a run of its own, or some seconds `later`. `needs` is a program without which there is nothing
    to attack. What reaches the whole `machine` is only tried in isolation.
    """

    group: str
    name: str
    text: str
    language: str = "bash"
    then: str = ""
    undo: str = ""
    moment: str = "once"
    needs: str = ""
    machine: bool = False

    @property
    def possible(self) -> bool:
        return not self.needs or which(self.needs) is not None


def attacks() -> list[Attack]:
    read = yaml.safe_load(FILE.read_text("utf-8"))
    return [
        _attack(group, name, given)
        for group, all_of in read.items()
        for name, given in all_of.items()
    ]


def _attack(group: str, name: str, given: str | dict[str, object]) -> Attack:
    if isinstance(given, str):
        return Attack(group, name, given)
    python = given.pop("python", None)
    if python is not None:
        return Attack(group, name, str(python), "python", **given)  # type: ignore[arg-type]
    return Attack(group, name, str(given.pop("bash")), **given)  # type: ignore[arg-type]
