"""`mcp SERVER.TOOL`: one call of a tool of an MCP server, which runs just as long.

The project declares the server in `.mcp.json`. It runs like any program of a step, below its
leash, and the official SDK talks with it; without the extra `mcp` there is no SDK.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from playbook_supervisor.errors import StepError
from playbook_supervisor.executors.protocol import Context, Project, Task, failed, input_error
from playbook_supervisor.formats.sanitize import one_line, suggestion
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.project.expressions.references import is_known
from playbook_supervisor.project.settings.bounds import admit_tool
from playbook_supervisor.project.settings.secrets import SHORTEST
from playbook_supervisor.system.disk.files import contained, read_bytes
from playbook_supervisor.system.installation import command_for


class McpExecutor:
    """Calls a tool with the official SDK; conforms to `Executor`."""

    namespace = "mcp"
    with_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {
            "arguments": {"type": "object", "description": "What the tool's schema asks for."}
        },
        "additionalProperties": False,
    }

    def check(self, task: Task, project: Project | None) -> None:
        """StepError without SERVER.TOOL or a declared server; PolicyError for a denied tool."""
        if len(task.words) == 1 and not is_known(task.words[0].partition(".")[0]):
            return
        server, tool = _named(task)
        if project is not None:
            if is_known(tool):
                admit_tool(project.config, server, tool)
            _declaration(project.root, server)

    def execute(self, task: Task, context: Context) -> Outcome:
        """The text of the result as output, its structured content as data.

        PB-STEP-MCP if the tool or its server fails, PB-STEP-INPUT if there is no such server or
        tool, PB-STEP-PROGRAM without the server's program or the SDK.
        """
        try:
            server, tool = _named(task)
            admit_tool(context.config, server, tool)
            launch = declared(context.root, server, {**os.environ, **task.env})
        except StepError as error:
            return failed(error.code, error.message, guidance=error.guidance, lasts=True)
        for value in launch.secrets:
            context.hide(value)
        try:
            from playbook_supervisor.executors.mcp_call import Call  # it needs the extra
        except ImportError as error:
            message = "an `mcp` step needs the MCP SDK, version 2, which is not installed"
            cure = f"Install it: `{command_for('mcp')}`."
            return failed("PB-STEP-PROGRAM", message, guidance=cure, cause=str(error), lasts=True)
        call = Call(launch.name, launch.argv, launch.env, tool, task, context)
        return call.outcome()


def _named(task: Task) -> tuple[str, str]:
    """The server, which has no dot in its name, and the tool. StepError PB-STEP-INPUT."""
    server, dot, tool = task.words[0].partition(".") if len(task.words) == 1 else ("", "", "")
    if not (server and dot and tool):
        shown = one_line(" ".join(task.words), 60)
        raise input_error(f"`mcp` takes SERVER.TOOL, not {shown!r}")
    return server, tool


# ── the servers that a project declares, as Claude Code reads them ──────────────────────────
#
# Only servers that are programs (`stdio`) are of use here. `${NAME}` and `${NAME:-default}` in
# `command`, `args` and `env` are replaced by variables of the environment.

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


def _declaration(root: Path, name: str) -> tuple[list[str], dict[str, str]]:
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
