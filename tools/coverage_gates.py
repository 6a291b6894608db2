"""Checks coverage against its limits, and tells when it has to be measured again.

The modules that all others depend on need 100 %, branches included; every other module needs 90 %,
and the whole package 95 %.

`python tools/coverage_gates.py COVERAGE.json` prints a table of packages, then each module below
its limit. If there is none, it keeps the figures in `tests/measured_coverage.json`.

`python tools/coverage_gates.py` lists the modules that may have sunk below their limits since then,
were nothing tested that has been added: docs/decisions/0269.
"""

from __future__ import annotations

import ast
import json
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from hashlib import sha256
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
)
EACH = 90.0
ALL = 95.0
SHOWN = 20
MEASURED = Path("tests/measured_coverage.json")


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


# ── since the last measurement ──────────────────────────────────────────────────────────────


def source_of(path: Path, inside: str) -> tuple[int, str]:
    """How many statements stand in functions, and, where each counts, a digest of the code.

    Other statements run when the module is imported.
    """
    tree = ast.parse(path.read_bytes())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    outermost: list[ast.AST] = [tree]
    size = 0
    while outermost:
        for child in ast.iter_child_nodes(outermost.pop()):
            if isinstance(child, functions):
                size += sum(isinstance(node, ast.stmt) for node in ast.walk(child)) - 1
            elif isinstance(child, ast.stmt):
                outermost.append(child)
    whole = inside.startswith(COMPLETE)
    return size, sha256(ast.dump(tree).encode()).hexdigest()[:12] if whole else ""


def keep(modules: Iterable[Module], root: Path) -> None:
    """Write down what was measured of each module, and the code to which it applies."""
    lines = []
    for module in modules:
        inside = module.path.removeprefix(f"{PACKAGE}/")
        figures = [module.covered, module.statements, *source_of(root / module.path, inside)]
        lines.append(f"{json.dumps(inside)}: {json.dumps(figures)}")
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    (root / MEASURED).write_text(text, encoding="utf-8")


def uncertain(root: Path) -> list[str]:
    """A line for each limit that may no longer be met, if nothing is tested that has been added.

    A statement counts twice, since it may branch.
    """
    file = root / MEASURED
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    omitted = settings["tool"]["coverage"]["run"]["omit"]
    found, covered_of_all, all_of_them = [], 0, 0
    for path in sorted((root / PACKAGE).rglob("*.py")):
        inside = path.relative_to(root / PACKAGE).as_posix()
        if any(fnmatch(str(path), pattern) for pattern in omitted):
            continue
        tree = ast.parse(path.read_bytes())
        if len(tree.body) == 1 and ast.get_docstring(tree):  # nothing in it is measured
            continue
        covered, of, size, digest = kept.get(inside, [0, 0, 0, ""])
        now, code = source_of(path, inside)
        of += 2 * max(0, now - size)
        covered_of_all += covered
        all_of_them += of
        if code != digest:
            found.append(f"{inside} has changed, and needs 100%")
        elif of and 100.0 * covered / of < EACH:
            found.append(f"{inside}: at least {100.0 * covered / of:.0f}%, needs {EACH:.0f}%")
    if all_of_them and 100.0 * covered_of_all / all_of_them < ALL:
        found.append(f"{PACKAGE}: at least {100.0 * covered_of_all / all_of_them:.0f}%")
    return found


def main(argv: list[str]) -> int:
    """Exit code 0 if every limit is met, else 1."""
    if not argv:
        found = uncertain(Path.cwd())
        said = ["Coverage has to be measured by `make coverage`:", *found]
        print("\n".join(said if found else ["The last measurement of coverage applies."]))
        return 1 if found else 0
    report = json.loads(Path(argv[0]).read_text(encoding="utf-8"))
    modules = read(report, Path.cwd())
    print("\n".join(table(modules)))
    short = shortfalls(modules)
    if not short:
        keep(modules, Path.cwd())
    print("\n".join(["", "Coverage is too low:", *short] if short else ["Coverage is sufficient."]))
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
