"""One call of a tool of an MCP server, with the official SDK, which is an extra."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from anyio import from_thread, to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import Client, MCPError
from mcp.shared.message import SessionMessage
from mcp.types import (
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    Implementation,
    LoggingMessageNotificationParams,
    ResourceLink,
    TextContent,
    TextResourceContents,
    jsonrpc_message_adapter,
)

from playbook_supervisor import __version__
from playbook_supervisor.errors import PlaybookError, StepError
from playbook_supervisor.executors.protocol import Context, Stopped, Task, failed, input_error
from playbook_supervisor.formats.sanitize import first_line, last_line, one_line, suggestion
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.system.process.cancellation import cancelled_by
from playbook_supervisor.system.process.process_groups import signal_name
from playbook_supervisor.system.process.processes import Completed

GRACE = 2.0
"""Seconds that a server may take to end once its input has ended."""
PAGES = 100
"""The most pages of a server's list of tools that are read."""

Heard = SessionMessage | Exception


class Call:
    """One call, and the server that runs for it in a thread of its own."""

    def __init__(
        self,
        server: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        tool: str,
        task: Task,
        context: Context,
    ) -> None:
        self._argv, self._env = argv, env
        self._tool, self._task, self._context = tool, task, context
        self._name = f"{server}.{one_line(tool, 60)}"
        self._who = f"the MCP server {server}"
        self._closing = False  # we have nothing more to ask of the server
        self._overdue = False  # and it does not end
        self._oversized = False
        self._ended: Completed | None = None  # before we were closing
        self._not_started: PlaybookError | None = None

    def outcome(self) -> Outcome:
        """Raises Stopped, StorageError PB-IO-PROGRAM, PolicyError PB-POLICY-DENIED."""
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
        raise input_error(message, f"It has {there}.")

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
        def run() -> Completed:
            with cancelled_by(lambda: self._overdue):
                return self._context.run(
                    self._argv,
                    stdin=theirs,
                    env={**self._task.env, **self._env},
                    cwd=self._context.root,
                    on_line=lambda line: self._hear(line, heard),
                )

        try:
            ended = await to_thread.run_sync(run)
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

        def deliver(message: SessionMessage) -> None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # we are closing
                heard.send_nowait(message)

        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self._context.say(line)
            if len(line.encode()) > self._context.cap:  # it was cut
                self._oversized = True
                from_thread.run_sync(heard.close)
        else:
            from_thread.run_sync(deliver, SessionMessage(message))


def _text(block: ContentBlock) -> str:
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
