"""How this program was installed, and the command that adds an extra to it."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

NAME = "playbook-supervisor"


def command_for(extra: str) -> str:
    """The command that adds an extra to this installation, by its tool and from its source."""
    requirement, installer = _requirement(extra), _record("INSTALLER").strip()
    if Path(sys.prefix, "uv-receipt.toml").is_file():
        return f"uv tool install {requirement}"
    if Path(sys.prefix, "pipx_metadata.json").is_file():
        return f"pipx install --force {requirement}"
    python = shlex.quote(sys.executable)
    if installer == "uv":  # its environments have no pip
        return f"uv pip install --python {python} {requirement}"
    return f"{python} -m pip install {requirement}"


def _requirement(extra: str) -> str:
    """As the tools read it, quoted for a shell: a name of the index, a folder or an address."""
    origin = json.loads(_record("direct_url.json") or "{}")  # PEP 610; none if from the index
    if not origin:
        return shlex.quote(f"{NAME}[{extra}]")
    url = str(origin["url"])
    if "dir_info" in origin:
        folder = shlex.quote(f"{unquote(urlsplit(url).path)}[{extra}]")
        return f"--editable {folder}" if origin["dir_info"].get("editable") else folder
    if vcs := origin.get("vcs_info"):
        url = f"{vcs['vcs']}+{url}@{vcs.get('requested_revision', vcs['commit_id'])}"
    return shlex.quote(f"{NAME}[{extra}] @ {url}")


def _record(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, distribution  # slow, for an error alone

    try:
        return distribution(NAME).read_text(name) or ""
    except PackageNotFoundError:  # a source tree that was never installed
        return ""
