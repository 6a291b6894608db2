"""Generates manifests, hooks and the icon of the plugin for Claude Code, which is `templates/`.

python tools/generate_plugin.py            # writes the manifest and the hooks
python tools/generate_plugin.py --check    # names those that are out of date, and exits with 1
python tools/generate_plugin.py --icon     # draws the icon; needs chromium
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from playbook_supervisor import __version__
from playbook_supervisor.commands.install.shipped import COMMANDS
from playbook_supervisor.drivers.claude_code import settings

REPOSITORY = Path(__file__).resolve().parent.parent
TEMPLATES = REPOSITORY / "templates"
ICON = TEMPLATES / ".claude-plugin/icon.png"
SIZE = 512  # pixels
_DESCRIPTION = (
    "Runs playbooks of slash commands step by step, and believes files, tests and git alone."
)
_PLUGIN = {
    "name": "playbook",
    "version": __version__,
    "description": _DESCRIPTION,
    "author": {"name": "The authors of playbook-supervisor"},
    "license": "MIT",
    "keywords": ["playbook", "workflow", "supervisor", "gates", "proof"],
    "icon": "./.claude-plugin/icon.png",
    # named /playbook:run; the files' own names would make it /playbook:playbook.run
    "commands": {
        name.removeprefix("playbook."): {"source": f"./commands/{name}.md"} for name in COMMANDS
    },
}
_MARKETPLACE = {
    "name": "playbook-supervisor",
    "description": "The plugin of playbook-supervisor.",
    "owner": _PLUGIN["author"],
    "plugins": [{"name": "playbook", "source": "./templates", "description": _DESCRIPTION}],
}
GENERATED: dict[Path, object] = {
    TEMPLATES / ".claude-plugin/plugin.json": _PLUGIN,
    TEMPLATES / "hooks/hooks.json": {"hooks": settings.plugin_hooks()},
    REPOSITORY / ".claude-plugin/marketplace.json": _MARKETPLACE,
}


def main(*, check: bool) -> int:
    """Write the files; with `check` only name those that differ."""
    old = [file for file, data in GENERATED.items() if _read(file) != _text(data)]
    for file in old:
        if check:
            print(f"{file.relative_to(REPOSITORY)} is out of date: python tools/generate_plugin.py")
        else:
            file.write_text(_text(GENERATED[file]), "utf-8")
    return 1 if check and old else 0


def _read(file: Path) -> str:
    return file.read_text("utf-8") if file.exists() else ""


def _text(data: object) -> str:
    return json.dumps(data, indent=2) + "\n"


def draw() -> None:
    """Draw the icon of the pages; a directory of plugins takes no SVG."""
    svg = (
        (TEMPLATES / "pages/icon.svg").read_text("utf-8").replace("<svg ", f'<svg width="{SIZE}" ')
    )
    with tempfile.TemporaryDirectory(prefix="icon-") as scratch:
        page = Path(scratch) / "icon.html"
        page.write_text(f'<body style="margin: 0">{svg}', "utf-8")
        options = (
            "--headless",
            "--no-sandbox",
            "--hide-scrollbars",
            f"--window-size={SIZE},{SIZE}",
        )
        drawn = (f"--screenshot={ICON}", "--default-background-color=00000000", page.as_uri())
        subprocess.run(["chromium", *options, *drawn], check=True, cwd=scratch)


if __name__ == "__main__":
    if "--icon" in sys.argv[1:]:
        draw()
    sys.exit(main(check="--check" in sys.argv[1:]))
