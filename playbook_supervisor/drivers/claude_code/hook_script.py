"""The shell script that the project's hooks run, `.claude/hooks/playbook.sh`.

A worker could empty or change it, and the client watches the settings only. So a conversation is
bound only to the script that was installed, and stops when it is another one.
"""

from __future__ import annotations

from pathlib import Path

from playbook_supervisor.drivers.claude_code import settings
from playbook_supervisor.drivers.claude_code.marker import SCRIPT
from playbook_supervisor.errors import StateError
from playbook_supervisor.system.disk.files import digest, read_bytes

_LARGEST = 1 << 20  # bytes
_CURE = "`playbook update` writes it again; then type /playbook.resume."


def shipped() -> bytes:
    """The script of this version."""
    from playbook_supervisor.system.disk import templates

    return read_bytes(templates.folder() / "hooks/playbook.sh")


def problem(root: Path) -> str:
    """The fault of the script in that project, empty if it is the one that was installed.

    If install.yaml does not know it, it must be the one of this version.
    """
    from playbook_supervisor.project.install_record import fingerprint, read_installation

    data = _read(root / SCRIPT)
    if not data:
        return f"{SCRIPT} is missing or empty"
    recorded = read_installation(root).files.get(SCRIPT) or fingerprint(shipped())
    return "" if fingerprint(data) == recorded else f"{SCRIPT} is not what was installed"


def required(root: Path) -> str:
    """The digest of the script, empty if the project's settings run none (a plugin's may run).

    StateError PB-STATE-TAMPERED if it is missing or changed.
    """
    if not settings.holds_ours(_read(root / settings.FILE)):
        return ""
    if found := problem(root):
        raise _changed(found)
    return digest(_read(root / SCRIPT))


def require_unchanged(root: Path, bound: str) -> None:
    """StateError PB-STATE-TAMPERED if it has not the digest that `required` gave."""
    if bound and digest(_read(root / SCRIPT)) != bound:
        raise _changed(f"{SCRIPT} was changed or removed by something else")


def _changed(what: str) -> StateError:
    message = f"{what}, so the session would not be supervised"
    return StateError("PB-STATE-TAMPERED", message, where=SCRIPT, guidance=_CURE)


def _read(file: Path) -> bytes:
    """The file's content, empty if there is none."""
    try:
        return read_bytes(file, limit=_LARGEST)
    except FileNotFoundError:
        return b""
