"""Finds the slash commands that are installed, and their exact names.

Each agent reads them from folders of its own, in the project and the home; Claude Code also from
plugins. Most send an unknown command to the model as text, so that a misspelt command is not an
error there. Here it is.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from playbook_supervisor.project.command_layouts import CLAUDE, LAYOUTS
from playbook_supervisor.records import Record

_BUILTIN_NAMES = """
add-dir agents bashes bug clear compact config context copy cost doctor exit export fast
feedback help hooks ide init insights install-github-app install-slack-app keybindings login
logout mcp memory mobile model output-style passes permissions plan plugin pr-comments
privacy-settings quit release-notes reload-plugins remote-control rename resume review rewind
run sandbox security-review skills stats status statusline tasks teleport terminal-setup theme
todos upgrade usage verify vim
"""
BUILTINS = frozenset(_BUILTIN_NAMES.split())
"""The built-in commands of the client. They take precedence over files."""

SUPERVISING = frozenset({"playbook.run", "playbook.resume"})
"""Our commands whose prompt says who supervises."""

_OURS = rb"`playbook` program|Bash\(playbook "
_COMMAND = r"/([A-Za-z0-9][A-Za-z0-9_.:-]*)\Z"
_CLOSED = r"(?m)^disable-model-invocation[ \t]*:[ \t]*[\"']?(?i:true|yes|on|1)\b"
_HIDDEN = r"(?m)^user-invocable[ \t]*:[ \t]*[\"']?(?i:false|no|off|0)\b"
_SKILL_NAME = r"(?m)^name[ \t]*:[ \t]*([\"']?)([A-Za-z0-9][\w.:-]*)\1[ \t]*(?:#.*)?\r?$"
_VERSION = r"v?[0-9]+(?:\.[0-9A-Za-z-]+)*\Z|[0-9a-f]{7,40}\Z|unknown\Z"
_FRONT_MATTER_BYTES = 16_384
_PLUGIN_FOLDERS = 2_000
_PLUGIN_DEPTH = 6


class InstalledCommand(Record):
    """A command as it is installed.

    `name` is the installed spelling, as a person types it (`/speckit-plan`, for Codex
    `$speckit-plan`), `file` what defines it (None for a built-in). `closed`: models cannot call it
    (`disable-model-invocation`), so it does not run inside the client. `hidden`: people cannot type
    it (`user-invocable: false`), so it does not run headless.
    """

    name: str
    file: Path | None = None
    closed: bool = False
    builtin: bool = False
    hidden: bool = False


def resolve(root: Path, command: str, *, home: Path) -> InstalledCommand | None:
    """The installed command that a playbook's `command` means, or None if there is none."""
    return CommandIndex(root, home=home).resolve(command)


def is_ours(text: bytes) -> bool:
    """True if a command's text names this program, as those do that we install.

    A prompt that lets a model supervise has no need to.
    """
    return re.search(_OURS, text) is not None


def index_of(root: Path, *, home: Path | None, layout: str) -> CommandIndex | None:
    """The commands of an agent with that `command_layout`.

    None if it is not known where such an agent reads them: then no command is known to be missing.
    """
    return CommandIndex(root, home=home, layout=layout) if layout in LAYOUTS else None


class CommandIndex:
    """The commands of one project and one user for one agent, read once.

    Without `home` they are the project's alone. `layout` is a key of `LAYOUTS`; use `index_of` for
    one that may be unknown.
    """

    def __init__(self, root: Path, *, home: Path | None, layout: str = CLAUDE) -> None:
        self._root = root
        self._home = home
        self._agent, self.layout = layout, LAYOUTS[layout]
        self._files: dict[str, str] = {}
        self._plugins: dict[str, str] | None = None
        places = [(root, self.layout.project)] + ([(home, self.layout.user)] if home else [])
        for base, patterns in places:
            for name, file in self._in_places(base, patterns):
                self._files.setdefault(name, file)

    @property
    def looked(self) -> str:
        """Where it looked, as messages say it."""
        return f"where {self._agent} reads commands: {self.layout.folders}"

    def resolve(self, command: str) -> InstalledCommand | None:
        """As the function `resolve`; without an exact match, `.` and `-` are equivalent."""
        if not (match := re.match(_COMMAND, command)):
            return None
        wanted = match[1]
        if self._agent == CLAUDE and wanted in BUILTINS:
            return InstalledCommand(f"/{wanted}", None, closed=False, builtin=True)
        name = "" if ":" in wanted else self._spelling(wanted, self._files, self._skills)
        if not name and not (name := self._spelling(wanted, self._all(), _named(self._all()))):
            return None
        file = Path(self._files.get(name) or self._all()[name])
        head = _front_matter(file)
        closed = self._agent == CLAUDE and re.search(_CLOSED, head) is not None
        hidden = self.layout.hides and re.search(_HIDDEN, head) is not None
        return InstalledCommand(f"{self.layout.prefix}{name}", file, closed, hidden=hidden)

    def _in_places(self, base: Path, patterns: Iterable[str]) -> Iterator[tuple[str, str]]:
        for pattern in patterns:
            for name, file in _files(f"{base}/{pattern}"):
                if not pattern.endswith("/SKILL.md"):
                    if self.layout.grouped or ":" not in name:
                        yield name, file
                elif self.layout.by_folder:
                    yield name, file
                else:
                    own = re.search(_SKILL_NAME, _front_matter(file))
                    yield own[2] if own else name, file

    def _all(self) -> dict[str, str]:
        if self._plugins is None:
            home = self._home if self._agent == CLAUDE else None
            self._plugins = dict(_in_plugins(home / ".claude" / "plugins")) if home else {}
        return {**self._plugins, **self._files}

    def _spelling(self, wanted: str, files: Mapping[str, str], skills: Mapping[str, str]) -> str:
        """The installed name; a skill's `name` means its folder, whose name the client lists."""
        if wanted not in files and wanted in skills:
            return skills[wanted]
        folded = _fold(wanted)
        spellings = sorted(name for name in files if _fold(name) == folded)
        if spellings:
            return self._preferred(wanted, spellings)
        return next((skills[name] for name in skills if _fold(name) == folded), "")

    @cached_property
    def _skills(self) -> dict[str, str]:
        return _named(self._files)

    def _preferred(self, wanted: str, spellings: list[str]) -> str:
        """The spelling in use: an upgrade of spec-kit leaves its old files behind."""
        if len(spellings) > 1 and wanted.startswith("speckit"):
            separator = _separator(self._root, self._agent)
            live = re.sub(r"[.-]", lambda _: separator, wanted) if separator else ""
            if live in spellings:
                return live
        return wanted if wanted in spellings else spellings[0]


def _named(files: Mapping[str, str]) -> dict[str, str]:
    """The names that skills give themselves, and those that they are listed by.

    That of a plugin's skill may follow the plugin's.
    """
    found: dict[str, str] = {}
    for listed, file in files.items():
        if file.endswith("/SKILL.md") and (own := re.search(_SKILL_NAME, _front_matter(file))):
            plugin, colon, _ = listed.rpartition(":")
            found.setdefault(f"{plugin}{colon}{own[2]}", listed)
            found.setdefault(own[2], listed)
    return found


def _fold(name: str) -> str:
    return name.replace(".", "-")


def _files(pattern: str) -> Iterator[tuple[str, str]]:
    """The files that match a pattern of a layout, with their names: `folder:name` in a folder."""
    folder, _, form = pattern.rpartition("/N")
    if form == "/SKILL.md":
        deep = folder.endswith("/**")
        yield from _skills(folder.removesuffix("/**"), deep=deep)
        return
    for place, folders, files in os.walk(folder):
        folders.sort()
        inside = place[len(folder) :].split("/")[1:]
        for file_name in sorted(files):
            if file_name.endswith(form):
                yield ":".join((*inside, file_name.removesuffix(form))), f"{place}/{file_name}"


def _skills(folder: str, *, deep: bool) -> Iterator[tuple[str, str]]:
    for skill in _listed(folder):
        if os.path.isfile(file := f"{folder}/{skill}/SKILL.md"):
            yield skill, file
    if deep:
        for place, folders, _ in os.walk(folder):
            folders.sort()
            if place != folder:
                yield from _skills(place, deep=False)


def _in_plugins(folder: Path) -> Iterator[tuple[str, str]]:
    """The commands of plugins, as `plugin:name`. The search is limited in depth and folders."""
    for count, (place, folders, _) in enumerate(os.walk(folder)):
        here = Path(place)
        depth = len(here.relative_to(folder).parts)
        if "commands" in folders or "skills" in folders:
            plugin = _plugin_name(here)
            for form in ("skills/N/SKILL.md", "commands/N.md"):
                for name, file in _files(f"{here}/{form}"):
                    yield f"{plugin}:{name}", file
            folders.clear()
        if depth >= _PLUGIN_DEPTH or count >= _PLUGIN_FOLDERS:
            folders.clear()
        folders.sort()


def _plugin_name(folder: Path) -> str:
    name = _read_object(folder / ".claude-plugin" / "plugin.json").get("name")
    if isinstance(name, str) and name:
        return name
    return folder.parent.name if re.match(_VERSION, folder.name) else folder.name


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _separator(root: Path, agent: str) -> str:
    state = _read_object(root / ".specify" / "integration.json")
    settings = state.get("integration_settings")
    own = settings.get(agent) if isinstance(settings, dict) else None
    for scope in (own, state):
        for key in ("invoke_separator", "separator"):
            if isinstance(scope, dict) and scope.get(key) in (".", "-"):
                return str(scope[key])
    return ""


def _read_object(file: Path) -> dict[str, object]:
    try:
        text = file.read_bytes()
    except OSError:
        return {}
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _front_matter(file: str | Path) -> str:
    """It is searched and not parsed: the client accepts invalid YAML."""
    try:
        with Path(file).open("rb") as stream:
            head = stream.read(_FRONT_MATTER_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    first, _, rest = head.removeprefix("\ufeff").partition("\n")
    if first.rstrip() != "---":
        return ""
    return re.split(r"^---[ \t]*\r?$", rest, maxsplit=1, flags=re.MULTILINE)[0]
