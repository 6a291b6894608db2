"""The bars for coverage: `python tools/coverage_gates.py COVERAGE.json`.

The rooms on which everything else rests are covered wholly, branches included; every other module
to 90 %, all together to 95 %. Prints lines and coverage of each room, then what falls short.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

PACKAGE = "playbook_supervisor"
WHOLLY = (
    "kernel/",
    "project/arguments.py",
    "project/schema.py",
    "project/verdicts.py",
    "sessions/journal.py",
    "sessions/serialize.py",
    "sessions/store.py",
    "system/files.py",
)
FLOOR = 90.0
OVERALL = 95.0
SHOWN = 20


@dataclass(frozen=True)
class Module:
    """What coverage measured of one file; `missing` names lines and branches."""

    path: str
    lines: int
    statements: int
    covered: int
    missing: tuple[str, ...]

    @property
    def room(self) -> str:
        return PurePath(self.path).parts[1].removesuffix(".py")

    @property
    def bar(self) -> float:
        inside = self.path.removeprefix(f"{PACKAGE}/")
        return 100.0 if inside.startswith(WHOLLY) else FLOOR


def percent(modules: Iterable[Module]) -> float:
    """Statements and branches that ran, of all; nothing to run is run wholly."""
    modules = list(modules)
    total = sum(module.statements for module in modules)
    return 100.0 * sum(module.covered for module in modules) / total if total else 100.0


def read(report: dict[str, Any], root: Path) -> list[Module]:
    """The modules of coverage's JSON report, those without any statement left out."""
    if not report["meta"]["branch_coverage"]:
        raise SystemExit("Nothing of the package ran, or branches were not measured.")
    modules = []
    for path, file in sorted(report["files"].items()):
        summary = file["summary"]
        statements = summary["num_statements"] + summary["num_branches"]
        if not statements:
            continue
        missing = [str(line) for line in file["missing_lines"]]
        missing += [f"{start}->{end}" for start, end in file["missing_branches"]]
        modules.append(
            Module(
                path=path,
                lines=len((root / path).read_text(encoding="utf-8").splitlines()),
                statements=statements,
                covered=summary["covered_lines"] + summary["covered_branches"],
                missing=tuple(missing),
            )
        )
    return modules


def table(modules: list[Module]) -> list[str]:
    """One line for each room, and one for the house."""
    rooms: dict[str, list[Module]] = {}
    for module in modules:
        rooms.setdefault(module.room, []).append(module)
    rows = [*rooms.items(), ("all", modules)]
    width = max(len(name) for name, _ in rows)
    return [f"{'room':<{width}}  modules  lines  covered"] + [
        f"{name:<{width}}  {len(members):>7}  {sum(m.lines for m in members):>5}"
        f"  {percent(members):>6.2f}%"
        for name, members in rows
    ]


def shortfalls(modules: list[Module]) -> list[str]:
    """A sentence for each bar that is missed."""
    short = [
        f"{module.path}: {percent([module]):.2f}% of the {module.bar:.0f}% it owes;"
        f" never ran: {', '.join(module.missing[:SHOWN])}{', …' * (len(module.missing) > SHOWN)}"
        for module in modules
        if percent([module]) < module.bar
    ]
    if percent(modules) < OVERALL:
        short.append(f"{PACKAGE}: {percent(modules):.2f}% of the {OVERALL:.0f}% it owes")
    return short


def main(argv: list[str]) -> int:
    """Exit code 0 if every bar is met, else 1."""
    report = json.loads(Path(argv[0]).read_text(encoding="utf-8"))
    modules = read(report, Path.cwd())
    print("\n".join(table(modules)))
    short = shortfalls(modules)
    print("\n".join(["", "Short of the bar:", *short] if short else ["Every bar is met."]))
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
