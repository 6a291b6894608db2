"""The pinned clients, each installed once in a folder of its own.

    python tests/clients/installed.py          # those that every long run needs
    python tests/clients/installed.py all
    python tests/clients/installed.py codex qwen

The folder is .venv/agents; PLAYBOOK_CLIENTS names another, to be shared by several checkouts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

PLACE = "PLAYBOOK_CLIENTS"
PINS: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("pins.toml").read_text("utf-8")
)
EACH = tuple(name for name, pin in PINS.items() if pin.get("each"))
"""The clients that every long run of the tests drives."""


def folder() -> Path:
    return Path(os.environ.get(PLACE) or Path(sys.prefix) / "agents")


def program(name: str) -> Path | None:
    """The client's program; None if it is not installed in the pinned version."""
    pin, place = PINS[name], folder() / name
    if "pip" in pin:
        made = place / "bin" / pin["program"]
        info = f"{pin['pip'].replace('-', '_')}-{pin['version']}.dist-info"
        there = any(place.glob(f"lib/python3*/site-packages/{info}"))
    else:
        made = place / "node_modules/.bin" / name
        package = place / "node_modules" / pin["npm"] / "package.json"
        there = package.exists() and f'"version": "{pin["version"]}"' in package.read_text("utf-8")
    return made if there and made.exists() else None


def path(*names: str) -> list[Path]:
    """The folders of these clients' programs for PATH, and of the newer Node."""
    found = [program(name) for name in (*names, "node")]
    return [each.parent for each in found if each]


def install(name: str) -> None:
    """Install a client, unless it is there. CalledProcessError, if that fails."""
    if program(name):
        return
    pin, place = PINS[name], folder() / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    if "pip" in pin:
        subprocess.run([_python(pin["python"]), "-m", "venv", place], check=True)
        pip = [str(place / "bin/pip"), "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, f"{pin['pip']}=={pin['version']}"], check=True)
    else:
        npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(place)]
        subprocess.run([*npm, f"{pin['npm']}@{pin['version']}"], check=True)


@cache
def _python(version: str) -> str:
    """The first Python that is as new. A name on PATH may lead to one that is not installed."""
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    names = [sys.executable, "python3.14", "python3.13", "python3.12", "python3"]
    names += map(str, sorted(root.glob("versions/3.*/bin/python"), reverse=True))
    wanted = tuple(map(int, version.split(".")))
    asked = f"import sys, ensurepip; sys.exit(sys.version_info < {wanted})"
    for name in names:
        if shutil.which(name):
            quiet = subprocess.run([name, "-c", asked], capture_output=True, check=False)
            if not quiet.returncode:
                return name
    raise SystemExit(f"No Python of {version} or newer was found.")


def main(names: list[str]) -> None:
    for name in list(PINS) if names == ["all"] else names or EACH:
        try:
            install(name)
        except (OSError, subprocess.CalledProcessError) as error:
            message = f"{name} could not be installed: its tests will be skipped. {error}"
            print(message, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
