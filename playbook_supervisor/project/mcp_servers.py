"""The MCP servers that a project declares in `.mcp.json`, as Claude Code reads it.

Only servers that are programs (`stdio`) are of use here. `${NAME}` and `${NAME:-default}` in
`command`, `args` and `env` are replaced by variables of the environment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from playbook_supervisor.errors import StepError
from playbook_supervisor.formats.sanitize import one_line, suggestion
from playbook_supervisor.project.secrets import SHORTEST
from playbook_supervisor.records import Record, field
from playbook_supervisor.system.files import contained, read_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

FILE = ".mcp.json"
_LARGEST = 1 << 20
_VARIABLE = r"\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}"
_COMMON = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER"})
"""Variables that are no secret, and whose values appear everywhere."""
_CURE = "Declare it in .mcp.json: `claude mcp add --scope project NAME -- PROGRAM ARGS` does."


class Server(Record):
    """A server as a program: its argv, and the variables to add to its environment.

    `secrets` are the values of our own variables that `env` names: that is how a server is given
    what must not stand in the file.
    """

    name: str
    argv: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


def declared(root: Path, name: str, variables: Mapping[str, str]) -> Server:
    """The server of this name. StepError PB-STEP-INPUT says what is missing or not as it must be.

    Errors of `contained` and `read_bytes` but FileNotFoundError.
    """
    return _declaration(root, name).server(variables)


def require(root: Path, name: str) -> None:
    """The errors of `declared`, but for variables of the environment."""
    _declaration(root, name).parts()


def _declaration(root: Path, name: str) -> _Declaration:
    servers = _servers(root)
    if name not in servers:
        there = ", ".join(one_line(each, 40) for each in sorted(servers)) or "no server"
        shown = one_line(name, 40)
        _refuse(f"there is no MCP server {shown!r}{suggestion(shown, servers)}", f"It has {there}.")
    return _Declaration(name, servers[name])


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


class _Declaration:
    """One entry of `mcpServers`, read by name."""

    def __init__(self, name: str, given: Any) -> None:
        self._name, self._given = one_line(name, 40), given

    def server(self, variables: Mapping[str, str]) -> Server:
        argv, env = self.parts()
        return Server(
            self._name,
            tuple(self._expanded(each, variables) for each in argv),
            {name: self._expanded(value, variables) for name, value in env.items()},
            tuple(dict.fromkeys(_confidential(env.values(), variables))),
        )

    def parts(self) -> tuple[list[str], dict[str, str]]:
        """The argv and the environment as they are written."""
        if not isinstance(self._given, dict):
            self._wrong("must be a mapping")
        kind = self._given.get("type", "stdio")
        if kind != "stdio" or "url" in self._given:
            self._wrong("is no program", "Only servers with a `command` can be called from a step.")
        command, args, env = (self._given.get(key) for key in ("command", "args", "env"))
        args, env = [] if args is None else args, {} if env is None else env
        if not isinstance(command, str) or not command:
            self._wrong("has no `command`")
        if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
            self._wrong("needs a list of texts as `args`")
        if not isinstance(env, dict) or not all(isinstance(each, str) for each in env.values()):
            self._wrong("needs texts as values of `env`")
        return [command, *args], env

    def _expanded(self, text: str, variables: Mapping[str, str]) -> str:
        def value(found: re.Match[str]) -> str:
            name, optional, default = found.groups()
            if name not in variables and not optional:
                self._wrong(f"needs the variable {name}", f"Set {name} in the environment.")
            return variables.get(name, default)

        return re.sub(_VARIABLE, value, text)

    def _wrong(self, what: str, cure: str = "Correct the JSON there.") -> NoReturn:
        _refuse(f"the MCP server {self._name!r} {what}", cure)


def _confidential(texts: Iterable[str], variables: Mapping[str, str]) -> Iterator[str]:
    """The values that the texts take from variables, unless they are too short to hide."""
    for text in texts:
        for name, _, _ in re.findall(_VARIABLE, text):
            value = variables.get(name, "")
            if name not in _COMMON and len(value) >= SHORTEST:
                yield value


def _refuse(what: str, cure: str = _CURE) -> NoReturn:
    raise StepError("PB-STEP-INPUT", f"{FILE}: {what}", where=FILE, guidance=cure)
