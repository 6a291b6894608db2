"""What the settings of the client allow its workers to do without asking a person."""

from __future__ import annotations

from pathlib import Path

from playbook_supervisor.drivers.claude_code import settings
from playbook_supervisor.system.files import read_bytes

_EDITING = frozenset({"acceptEdits", "auto", "bypassPermissions"})
"""The permission modes in which workers edit without asking."""
_LARGEST = 1 << 20


def settings_files(root: Path, home: Path) -> tuple[Path, ...]:
    """The files that the client reads; later ones take precedence."""
    return (home / settings.FILE, root / settings.FILE, root / settings.LOCAL_FILE)


def content(file: Path) -> bytes:
    """The file's content; empty if there is none."""
    try:
        return read_bytes(file, limit=_LARGEST)
    except FileNotFoundError:
        return b""


def in_force(root: Path, home: Path) -> tuple[str, list[str]]:
    """The permission mode, and the rules that allow something."""
    mode, allowed = "default", list[str]()
    for file in settings_files(root, home):
        read = settings.read(content(file), str(file))
        own, rules = read.get("permissions", "defaultMode"), read.get("permissions", "allow")
        mode = own if isinstance(own, str) else mode
        allowed += [str(rule) for rule in rules] if isinstance(rules, list) else []
    return mode, allowed


def not_allowed(mode: str, allowed: list[str]) -> list[str]:
    """Which kinds of work need a person's permission: "edit", "shell command"."""
    missing = []
    if mode not in _EDITING and not any(rule.startswith(("Edit", "Write")) for rule in allowed):
        missing.append("edit")
    shell = [rule for rule in allowed if rule.startswith("Bash") and rule not in settings.ALLOW]
    if mode not in _EDITING - {"acceptEdits"} and not shell:
        missing.append("shell command")
    return missing
