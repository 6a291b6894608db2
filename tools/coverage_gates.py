"""Checks coverage against its limits: `python tools/coverage_gates.py COVERAGE.json`.

The modules that all others depend on need 100 %, branches included; every other module needs 90 %,
and the whole package 95 %. Prints a table of packages, then each module below its limit.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

PACKAGE = "playbook_supervisor"
COMPLETE = (
    "kernel/",
    "project/expressions/arguments.py",
    "project/playbooks/child_playbooks.py",
    "project/playbooks/schema.py",
    "project/conditions/verdicts.py",
    "sessions/files/journal.py",
    "sessions/files/serialize.py",
    "sessions/store/disk_store.py",
    "system/disk/files.py",
    "system/disk/locks.py",
)
EACH = 90.0
ALL = 95.0
SHOWN = 20


@dataclass(frozen=True)
class Module:
    """What coverage measured of one file. `missing` lists lines and branches."""

    path: str
    lines: int
    statements: int
    covered: int
    missing: tuple[str, ...]

    @property
    def package(self) -> str:
        return PurePath(self.path).parts[1].removesuffix(".py")

    @property
    def required(self) -> float:
        inside = self.path.removeprefix(f"{PACKAGE}/")
        return 100.0 if inside.startswith(COMPLETE) else EACH


def percent(modules: Iterable[Module]) -> float:
    """Statements and branches that ran, of all of them; 100 where there are none."""
    modules = list(modules)
    total = sum(module.statements for module in modules)
    return 100.0 * sum(module.covered for module in modules) / total if total else 100.0


def read(report: dict[str, Any], root: Path) -> list[Module]:
    """The modules of coverage's JSON report, except those without any statement."""
    if not report["meta"]["branch_coverage"]:
        raise SystemExit("No module of the package ran, or branches were not measured.")
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
    """One line for each package, and one for all of them."""
    packages: dict[str, list[Module]] = {}
    for module in modules:
        packages.setdefault(module.package, []).append(module)
    rows = [*packages.items(), ("all", modules)]
    width = max(len(name) for name in ("package", *packages))
    return [f"{'package':<{width}}  modules  lines  covered"] + [
        f"{name:<{width}}  {len(members):>7}  {sum(m.lines for m in members):>5}"
        f"  {percent(members):>6.2f}%"
        for name, members in rows
    ]


def shortfalls(modules: list[Module]) -> list[str]:
    """A line for each limit that is not met."""
    short = [
        f"{module.path}: {percent([module]):.2f}%, below {module.required:.0f}%;"
        f" not run: {', '.join(module.missing[:SHOWN])}{', …' * (len(module.missing) > SHOWN)}"
        for module in modules
        if percent([module]) < module.required
    ]
    if percent(modules) < ALL:
        short.append(f"{PACKAGE}: {percent(modules):.2f}%, below {ALL:.0f}%")
    return short


def main(argv: list[str]) -> int:
    """Exit code 0 if every limit is met, else 1."""
    report = json.loads(Path(argv[0]).read_text(encoding="utf-8"))
    modules = read(report, Path.cwd())
    print("\n".join(table(modules)))
    short = shortfalls(modules)
    print("\n".join(["", "Coverage is too low:", *short] if short else ["Coverage is sufficient."]))
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
