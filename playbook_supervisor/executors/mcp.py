"""`mcp SERVER.TOOL`: one call of a tool of an MCP server, which runs just as long.

The project declares the server in `.mcp.json`. It runs like any program of a step, below its
leash, and the official SDK talks with it; without the extra `mcp` there is no SDK.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playbook_supervisor import __version__
from playbook_supervisor.errors import PlaybookError, StepError
from playbook_supervisor.executors.protocol import Context, Project, Stopped, Task, failed
from playbook_supervisor.formats.sanitize import first_line, last_line, one_line, suggestion
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.project.expressions.references import is_known
from playbook_supervisor.project.settings.bounds import admit_tool
from playbook_supervisor.project.settings.secrets import SHORTEST
from playbook_supervisor.system.disk.files import contained, read_bytes
from playbook_supervisor.system.process.cancellation import cancelled_by
from playbook_supervisor.system.process.process_groups import signal_name
from playbook_supervisor.system.process.processes import Completed

if TYPE_CHECKING:
    from typing import NoReturn

    import anyio
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp import Client
    from mcp.shared.message import SessionMessage
    from mcp.types import CallToolResult, ContentBlock, LoggingMessageNotificationParams

    Heard = SessionMessage | Exception


GRACE = 2.0
"""Seconds that a server may take to end once its input has ended."""
PAGES = 100
"""The most pages of a server's list of tools that are read."""
_INSTALL = (
    "Install it: `uv tool install 'playbook-supervisor[mcp]'`, or with pip, into the environment "
    "of playbook."
)


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
            require(project.root, server)

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
            return _Call(launch, tool, task, context).outcome()
        except ImportError as error:
            message = "an `mcp` step needs the MCP SDK, version 2, which is not installed"
            return failed(
                "PB-STEP-PROGRAM", message, guidance=_INSTALL, cause=str(error), lasts=True
            )


def _named(task: Task) -> tuple[str, str]:
    """The server, which has no dot in its name, and the tool. StepError PB-STEP-INPUT."""
    server, dot, tool = task.words[0].partition(".") if len(task.words) == 1 else ("", "", "")
    if not (server and dot and tool):
        shown = one_line(" ".join(task.words), 60)
        raise StepError("PB-STEP-INPUT", f"`mcp` takes SERVER.TOOL, not {shown!r}")
    return server, tool


class _Call:
    """One call, and the server that runs for it in a thread of its own."""

    def __init__(self, server: Server, tool: str, task: Task, context: Context) -> None:
        self._server, self._tool, self._task, self._context = server, tool, task, context
        self._name = f"{server.name}.{one_line(tool, 60)}"
        self._closing = False  # we have nothing more to ask of the server
        self._overdue = False  # and it does not end
        self._oversized = False
        self._ended: Completed | None = None  # before we were closing
        self._not_started: PlaybookError | None = None

    def outcome(self) -> Outcome:
        """Raises Stopped, StorageError PB-IO-PROGRAM, PolicyError PB-POLICY-DENIED, ImportError."""
        import anyio
        from mcp import MCPError

        _silence()
        try:
            return anyio.run(self._result)
        except Exception as error:
            if self._not_started is not None:
                raise self._not_started from error
            if self._context.stopped:
                raise Stopped from error
            first = _first(error)
            return self._failure(first, told=isinstance(first, MCPError))

    async def _result(self) -> Outcome:
        from mcp import Client
        from mcp.types import Implementation

        client = Client(
            self._connection(),
            client_info=Implementation(name="playbook-supervisor", version=__version__),
            logging_callback=self._log,
        )
        async with client:
            await self._find(client)
            arguments = dict(self._task.options.get("arguments", {}))
            result = await client.call_tool(
                self._tool, arguments, progress_callback=self._show_progress
            )
        return self._judged(result)

    async def _find(self, client: Client) -> None:
        """StepError PB-STEP-INPUT if the server has no such tool."""
        names: list[str] = []
        cursor: str | None = None
        for _ in range(PAGES):
            page = await client.list_tools(cursor=cursor)
            names += [tool.name for tool in page.tools]
            cursor = page.next_cursor
            if self._tool in names:
                return
            if cursor is None:
                break
        there = one_line(", ".join(sorted(names)), 500) or "no tools"
        shown = one_line(self._tool, 60)
        message = f"{self._who} has no tool {shown!r}{suggestion(shown, names)}"
        raise StepError("PB-STEP-INPUT", message, guidance=f"It has {there}.")

    def _judged(self, result: CallToolResult) -> Outcome:
        text = "\n".join(map(_text, result.content))
        data = result.structured_content
        if not text and data is not None:
            text = json.dumps(data, ensure_ascii=False)
        self._context.say(text)
        if result.is_error:
            said = first_line(text)
            message = f"{self._name} failed{f': {said}' if said else ''}"
            return failed("PB-STEP-MCP", message, output=text)
        return Outcome(output=text, data=data)

    def _failure(self, error: BaseException, *, told: bool) -> Outcome:
        """The outcome of an error; `told` by the server, or because it is gone."""
        why = one_line(str(error)) or type(error).__name__
        if isinstance(error, StepError):
            return failed(error.code, error.message, guidance=error.guidance, lasts=True)
        if self._oversized:
            message = f"{self._who} sent a message of more than {self._context.cap:,} bytes"
            return failed("PB-STEP-OUTPUT", message, guidance="Raise `max_output_bytes`.")
        if self._ended is not None:
            status = self._ended.returncode
            end = f"with exit status {status}" if status >= 0 else f"by {signal_name(status)}"
            said = last_line(self._ended.stderr)
            message = f"{self._who} ended {end} before it answered{f': {said}' if said else ''}"
            return failed("PB-STEP-MCP", message, cause=why)
        if told:
            return failed("PB-STEP-MCP", f"{self._name} failed: {why}")
        return failed("PB-STEP-MCP", f"{self._who} does not answer as MCP asks: {why}")

    @property
    def _who(self) -> str:
        return f"the MCP server {self._server.name}"

    async def _log(self, params: LoggingMessageNotificationParams) -> None:
        self._context.say(f"{params.level}: {params.data}")

    async def _show_progress(
        self, progress: float, total: float | None, message: str | None
    ) -> None:
        of = "" if total is None else f" of {total:g}"
        self._context.say(f"{progress:g}{of}{f': {message}' if message else ''}")

    # ── the server ──────────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def _connection(
        self,
    ) -> AsyncIterator[
        tuple[MemoryObjectReceiveStream[Heard], MemoryObjectSendStream[SessionMessage]]
    ]:
        """The streams between a client and the server, which runs while this is open.

        At the end its input ends. If it does not end within `GRACE` seconds, it is ended.
        """
        import anyio

        heard, hearing = anyio.create_memory_object_stream[Any](math.inf)
        saying, said = anyio.create_memory_object_stream[Any](0)
        theirs, ours = os.pipe()
        os.set_blocking(ours, False)
        gone = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._run, theirs, heard, gone)
            tasks.start_soon(self._feed, ours, said)
            try:
                yield hearing, saying
            finally:
                with anyio.CancelScope(shield=True):
                    self._closing = True
                    saying.close()
                    hearing.close()
                    with anyio.move_on_after(GRACE):
                        await gone.wait()
                    self._overdue = True
                    await gone.wait()
                tasks.cancel_scope.cancel()

    async def _run(
        self, theirs: int, heard: MemoryObjectSendStream[Heard], gone: anyio.Event
    ) -> None:
        from anyio.to_thread import run_sync

        def run() -> Completed:
            with cancelled_by(lambda: self._overdue):
                return self._context.run(
                    self._server.argv,
                    stdin=theirs,
                    env={**self._task.env, **self._server.env},
                    cwd=self._context.root,
                    on_line=lambda line: self._hear(line, heard),
                )

        try:
            ended = await run_sync(run)
            if not self._closing:
                self._ended = ended
        except Stopped:
            pass
        except PlaybookError as error:
            self._not_started = error
        finally:
            os.close(theirs)
            heard.close()
            gone.set()

    async def _feed(self, ours: int, said: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write messages, a line each, until there are no more or the server has ended."""
        import anyio

        try:
            async with said:
                async for each in said:
                    line = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                    unwritten = memoryview(line.encode() + b"\n")
                    while unwritten:
                        try:
                            unwritten = unwritten[os.write(ours, unwritten) :]
                        except BlockingIOError:
                            await anyio.wait_writable(ours)
            self._closing = True  # the server ends because its input does
        except BrokenPipeError:
            pass
        finally:
            os.close(ours)

    def _hear(self, line: str, heard: MemoryObjectSendStream[Heard]) -> None:
        """Pass on a message; show what is none. Runs in the thread of the server."""
        import anyio
        from anyio.from_thread import run_sync
        from mcp.shared.message import SessionMessage
        from mcp.types import jsonrpc_message_adapter

        def deliver(message: SessionMessage) -> None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # we are closing
                heard.send_nowait(message)

        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self._context.say(line)
            if len(line.encode()) > self._context.cap:  # it was cut
                self._oversized = True
                run_sync(heard.close)
        else:
            run_sync(deliver, SessionMessage(message))


def _text(block: ContentBlock) -> str:
    from mcp.types import EmbeddedResource, ResourceLink, TextContent, TextResourceContents

    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, EmbeddedResource) and isinstance(block.resource, TextResourceContents):
        return block.resource.text
    if isinstance(block, EmbeddedResource):
        return f"[resource {block.resource.uri}]"
    if isinstance(block, ResourceLink):
        return f"[resource {block.uri}]"
    return f"[{block.type} {block.mime_type}]"


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _silence() -> None:
    """Keep the SDK's log off the terminal, unless the program has set up logging."""
    for name in ("client", "mcp"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())


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


def require(root: Path, name: str) -> None:
    """The errors of `declared`, but for variables of the environment."""
    _declaration(root, name)


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
