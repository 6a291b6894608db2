"""The shell script that hooks run: the project's `.claude/hooks/playbook.sh`, or our plugin's.

A worker could empty or change it, and the client watches the settings only. So a conversation is
bound only to the script that was installed, runs a copy of it in the user's state from then on,
and stops when the project's is another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from playbook_supervisor.drivers.claude_code import settings
from playbook_supervisor.drivers.claude_code.marker import SCRIPT
from playbook_supervisor.errors import StateError
from playbook_supervisor.system.disk import files
from playbook_supervisor.system.disk.files import digest, read_bytes

_SHIPPED = "hooks/playbook.sh"  # in our templates, which are the plugin
_PLUGIN = "CLAUDE_PLUGIN_ROOT"
_LARGEST = 1 << 20  # bytes
_CURE = "`playbook update` writes it again; then type /playbook.resume."
_CURE_OF_PLUGIN = "Install the plugin again (`claude plugin install`); then type /playbook:resume."


def shipped() -> bytes:
    """The script of this version."""
    from playbook_supervisor.system.disk import templates

    return read_bytes(templates.folder() / _SHIPPED)


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


def required(root: Path, environment: Mapping[str, str]) -> list[str]:
    """The script that runs the hooks of a conversation, and its digest; empty if none is known.

    StateError PB-STATE-TAMPERED if the project's is missing or changed.
    """
    file = root / SCRIPT
    if settings.runs_script(_read(root / settings.FILE)):
        if found := problem(root):
            raise _changed(found, str(file))
    elif plugin := environment.get(_PLUGIN):
        file = Path(plugin) / _SHIPPED
    else:
        return []
    return [str(file), digest(_read(file))]


def content(script: Sequence[str]) -> bytes:
    """The script that `required` found; empty if it is another one by now, or none was found."""
    data = _read(Path(script[0])) if script else b""
    return data if data and digest(data) == script[1] else b""


def require_unchanged(script: Sequence[str]) -> None:
    """StateError PB-STATE-TAMPERED if it is not as `required` found it."""
    if script and digest(_read(Path(script[0]))) != script[1]:
        raise _changed(f"{script[0]} was changed or removed by something else", script[0])


def _changed(what: str, file: str) -> StateError:
    message = f"{what}, so the session would not be supervised"
    cure = _CURE if file.endswith(SCRIPT) else _CURE_OF_PLUGIN
    return StateError("PB-STATE-TAMPERED", message, where=file, guidance=cure)


def _read(file: Path) -> bytes:
    return files.content(file, limit=_LARGEST)
