"""The MCP servers that a project declares in `.mcp.json`, as Claude Code reads it.

Only servers that are programs (`stdio`) are of use here. `${NAME}` and `${NAME:-default}` in
`command`, `args` and `env` are replaced by variables of the environment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from playbook_supervisor.errors import StepError
from playbook_supervisor.formats.sanitize import one_line, suggestion
from playbook_supervisor.project.settings.secrets import SHORTEST
from playbook_supervisor.system.disk.files import contained, read_bytes

if TYPE_CHECKING:
    from typing import Any, NoReturn

FILE = ".mcp.json"
_LARGEST = 1 << 20
_VARIABLE = r"\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}"
_COMMON = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER"})
"""Variables that are no secret, and whose values appear everywhere."""
_CURE = "Declare it in .mcp.json: `claude mcp add --scope project NAME -- PROGRAM ARGS` does."


@dataclass(frozen=True, slots=True)
class Server:
    """A server as a program: its argv, and the variables to add to its environment.

    `secrets` are the values of our own variables that `env` names: that is how a server is given
    what must not stand in the file.
    """

    name: str
    argv: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


def declared(root: Path, name: str, variables: Mapping[str, str]) -> Server:
    """The server of this name. StepError PB-STEP-INPUT; errors of `contained` and `read_bytes`."""
    argv, env = _declaration(root, name)
    shown = one_line(name, 40)

    def value(found: re.Match[str]) -> str:
        variable, optional, default = found.groups()
        if variable not in variables and not optional:
            _wrong(shown, f"needs the variable {variable}", f"Set {variable} in the environment.")
        return variables.get(variable, default)

    return Server(
        shown,
        tuple(re.sub(_VARIABLE, value, each) for each in argv),
        {key: re.sub(_VARIABLE, value, each) for key, each in env.items()},
        tuple(dict.fromkeys(_confidential(env.values(), variables))),
    )


def require(root: Path, name: str) -> None:
    """The errors of `declared`, but for variables of the environment."""
    _declaration(root, name)


def _declaration(root: Path, name: str) -> tuple[list[str], dict[str, str]]:
    """The argv and the environment of the server as they are written."""
    servers, shown = _servers(root), one_line(name, 40)
    if name not in servers:
        there = ", ".join(one_line(each, 40) for each in sorted(servers)) or "no server"
        _refuse(f"there is no MCP server {shown!r}{suggestion(shown, servers)}", f"It has {there}.")
    given = servers[name]
    if not isinstance(given, dict):
        _wrong(shown, "must be a mapping")
    if given.get("type", "stdio") != "stdio" or "url" in given:
        cure = "Only servers with a `command` can be called from a step."
        _wrong(shown, "is no program", cure)
    command, args, env = (given.get(key) for key in ("command", "args", "env"))
    args, env = [] if args is None else args, {} if env is None else env
    if not isinstance(command, str) or not command:
        _wrong(shown, "has no `command`")
    if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
        _wrong(shown, "needs a list of texts as `args`")
    if not isinstance(env, dict) or not all(isinstance(each, str) for each in env.values()):
        _wrong(shown, "needs texts as values of `env`")
    return [command, *args], env


def _servers(root: Path) -> dict[str, Any]:
    try:
        text = read_bytes(contained(root, FILE), limit=_LARGEST).decode("utf-8-sig")
    except FileNotFoundError:
        _refuse("the project declares no MCP servers")
    except UnicodeDecodeError:
        _refuse("it is not UTF-8", "Save it as UTF-8.")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        _refuse(f"it is not JSON: {one_line(str(error))}", "Correct the JSON there.")
    servers = content.get("mcpServers", {}) if isinstance(content, dict) else None
    if not isinstance(servers, dict):
        _refuse("`mcpServers` must map names to servers", "Correct the JSON there.")
    return servers


def _confidential(texts: Iterable[str], variables: Mapping[str, str]) -> Iterator[str]:
    """The values that the texts take from variables, unless they are too short to hide."""
    for text in texts:
        for name, _, _ in re.findall(_VARIABLE, text):
            value = variables.get(name, "")
            if name not in _COMMON and len(value) >= SHORTEST:
                yield value


def _wrong(shown: str, what: str, cure: str = "Correct the JSON there.") -> NoReturn:
    _refuse(f"the MCP server {shown!r} {what}", cure)


def _refuse(what: str, cure: str = _CURE) -> NoReturn:
    raise StepError("PB-STEP-INPUT", f"{FILE}: {what}", where=FILE, guidance=cure)
