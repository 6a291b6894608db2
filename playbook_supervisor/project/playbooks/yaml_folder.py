"""The YAML and JSON files in a folder of `.playbooks/`."""

from __future__ import annotations

from pathlib import Path

from playbook_supervisor.errors import StorageError

ENDINGS = (".yaml", ".yml", ".json")


def names(folder: Path, endings: tuple[str, ...] = ENDINGS) -> list[str]:
    """Their names, sorted, without hidden files; none without a folder. StorageError."""
    try:
        found = sorted(path.name for path in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError("PB-IO-READ", f"cannot read {folder}: {reason}", cause=reason) from error
    return [name for name in found if name.endswith(endings) and not name.startswith(".")]
