"""Carries all attacks out and writes what came of them: `python -m isolation.table`, in tests/."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from isolation.attacks import Attack, attacks

TESTS = Path(__file__).parents[1]
DOCUMENT = TESTS.parent / "docs/isolation-attacks.md"
BEGIN = "<!-- written by `python -m isolation.table` -->\n"
OWN = ("--mount", "--pid", "--ipc", "--uts", "--net", "--fork", "--kill-child", "--mount-proc")
SECONDS = 280.0
NAMES = {True: "succeeds", False: "held"}
UNTRIED = "would reach the machine"
"""What is said of an attack that is not tried without isolation."""

Found = dict[tuple[str, str], list[str]]


def judged(mode: str, user: str = "root", room: str = "") -> Found:
    """What was seen of each attack; nothing if held. With a `room`, a check there tries what the
    judge looks at at once, in place of an agent."""
    done = subprocess.run(
        ["unshare", *OWN, sys.executable, "-m", "isolation.world", mode, user, room],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{TESTS}:{TESTS.parent}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = map(json.loads, done.stdout.splitlines())
    return {(line["group"], line["name"]): [*line["seen"]] for line in lines}


def rows(found: Found) -> dict[tuple[str, str], str]:
    """What the table says of each attack without isolation."""
    return {
        (each.group, each.name): UNTRIED
        if each.machine
        else NAMES[bool(found[each.group, each.name])]
        for each in attacks()
        if each.machine or (each.group, each.name) in found
    }


def written() -> dict[tuple[str, str], str]:
    """What the document says of each attack without isolation."""
    found, group = {}, ""
    for line in DOCUMENT.read_text("utf-8").partition(BEGIN)[2].splitlines():
        if line.startswith("## "):
            group = line.removeprefix("## ").lower()
        elif line.startswith("| ") and group:
            name, without, _ = line.strip("| ").split(" | ")
            found[group, name] = without
    return {key: value for key, value in found.items() if key[1] not in ("attack", "---")}


def page(without: dict[tuple[str, str], str], within: Found) -> str:
    tried = attacks()
    lines = [BEGIN, "| group | attacks | succeed without isolation | succeed in isolation |\n"]
    lines.append("| --- | --- | --- | --- |\n")
    groups = list(dict.fromkeys(each.group for each in tried))
    for name, of_group in [*((group, _of(group, tried)) for group in groups), ("all", tried)]:
        outside = sum(without[each.group, each.name] == NAMES[True] for each in of_group)
        inside = sum(bool(within[each.group, each.name]) for each in of_group)
        lines.append(f"| {name} | {len(of_group)} | {outside} | {inside} |\n")
    for group in groups:
        lines.append(f"\n## {group[0].upper()}{group[1:]}\n\n")
        lines.append("| attack | without isolation | in isolation |\n| --- | --- | --- |\n")
        for each in _of(group, tried):
            held = NAMES[bool(within[group, each.name])]
            lines.append(f"| {each.name} | {without[group, each.name]} | {held} |\n")
    return "".join(lines)


def _of(group: str, tried: Iterable[Attack]) -> Sequence[Attack]:
    return [each for each in tried if each.group == group]


def main() -> None:
    head = DOCUMENT.read_text("utf-8").partition(BEGIN)[0]
    text = page(rows(judged("none")), judged("required"))
    DOCUMENT.write_text(f"{head}{text}", "utf-8")


if __name__ == "__main__":
    main()
