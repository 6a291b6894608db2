"""The scripted model: an API on loopback whose answers are a function's.

    def reply(request: Request) -> Reply:
        if request.results:
            return [text("Done.")]
        return [call("Read", file_path="README.md")]

    with Model(reply) as model: ...

Deterministic but for the order in which several clients ask. Every request is kept. The API is
Anthropic's Messages; `dialects` adds others.
"""

from __future__ import annotations

import json
import select
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Protocol, Self

from claude.conversation import (
    BROKEN,
    OVERLOADED,
    Block,
    Call,
    Cut,
    Ended,
    Failure,
    Pause,
    Reply,
    Request,
    Result,
    Text,
    Used,
    call,
    text,
)
from claude.network import Network

__all__ = [
    "BROKEN",
    "OVERLOADED",
    "Block",
    "Call",
    "Cut",
    "Dialect",
    "Ended",
    "Failure",
    "Model",
    "Pause",
    "Reply",
    "Request",
    "Script",
    "Text",
    "Used",
    "call",
    "text",
]

Script = Callable[[Request], Reply]
Event = Mapping[str, Any] | str
"""One of a stream: an object, or a line that is none."""


class Dialect(Protocol):
    """How another API asks and answers. Requests are read into the shape of Messages."""

    def asked(self, path: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """The body as Messages would have it; `None`: it is not this API that is asked."""

    def events(self, request: Request, blocks: Sequence[Block]) -> Iterator[Event | Pause | Cut]:
        """The answer as a stream."""

    def message(self, request: Request, blocks: Sequence[Block]) -> Mapping[str, Any]:
        """The answer as one object."""

    def failure(self, failure: Failure) -> Mapping[str, Any]:
        """The answer where there is none."""


@dataclass
class Model:
    """Serves while it is entered. A script that raises fails the test when it is left."""

    reply: Script
    network: Network = field(default_factory=Network)
    dialects: Sequence[Dialect] = ()
    requests: list[Request] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    """What else the client asked for: method and path."""
    pages: dict[str, object] = field(default_factory=dict)
    """What the server has beside the API, for programs of the client: path → JSON."""
    errors: list[Exception] = field(default_factory=list)
    """What the script raised."""
    called: dict[str, Call] = field(default_factory=dict)
    """Every call that it made, by its id, as the script has it: a client may rewrite its input."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._released = threading.Event()
        self._closed = threading.Event()
        model = self

        class Handler(_Handler):
            served = model

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = self.network.listener
        self._server.daemon_threads = True
        self._server.block_on_close = False

    @property
    def url(self) -> str:
        return self.network.url

    @property
    def main(self) -> list[Request]:
        """The requests of main threads, side questions left out."""
        return [request for request in self.requests if request.main and request.tools]

    @property
    def subagents(self) -> list[Request]:
        return [request for request in self.requests if request.agent]

    def results_of(self, made: Call) -> list[Result]:
        """What came back from each time that it made this call, in order."""
        ids = [id_ for id_, each in self.called.items() if each == made]
        found = {each.id: each for request in self.requests for each in request.all_results}
        return [found[id_] for id_ in ids if id_ in found]

    def release(self) -> None:
        """End every `Pause(None)`, now and later."""
        self._released.set()

    def wait_for(self, wanted: Callable[[Request], bool], timeout: float = 60) -> Request:
        """The first request, already there or to come, that is `wanted`."""

        def found() -> Request | None:
            return next((request for request in self.requests if wanted(request)), None)

        with self._arrived:
            request = self._arrived.wait_for(found, timeout)
        assert request is not None, f"no such request within {timeout} s"
        return request

    def __enter__(self) -> Self:
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self._closed.set()
        self._released.set()
        self._server.shutdown()
        self._thread.join()
        self.network.__exit__(kind, *error)
        if self.errors and kind is None:
            raise self.errors[0]

    def _asked(self, path: str, body: dict[str, Any]) -> tuple[Dialect, dict[str, Any]] | None:
        """Which API is asked, and what."""
        for dialect in (_Messages(), *self.dialects):
            if (asked := dialect.asked(path, body)) is not None:
                return dialect, asked
        return None

    def _answer(self, headers: Mapping[str, str], body: dict[str, Any]) -> tuple[Request, Reply]:
        with self._arrived:
            request = Request(len(self.requests) + 1, headers, body)
            self.requests.append(request)
            self._arrived.notify_all()
        try:
            reply = self.reply(request)
        except Exception as error:
            self.errors.append(error)
            return request, Failure(400, "invalid_request_error", repr(error))
        if not isinstance(reply, Failure):
            self.called |= dict(called(request.number, reply))
        return request, reply

    def _pause(self, seconds: float | None, gone: Callable[[], bool]) -> None:
        """Wait so long, or until the client hung up or the model is left."""
        event = self._closed if seconds is not None else self._released
        waited = 0.0
        while not (seconds is not None and waited >= seconds) and not gone():
            step = 0.05 if seconds is None else min(0.05, seconds - waited)
            if event.wait(step):
                return
            waited += step


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: ClassVar[Model]

    def handle(self) -> None:
        with suppress(OSError):  # a client that was killed
            super().handle()

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        asked = self.served._asked(self.path, json.loads(raw)) if raw[:1] == b"{" else None
        if asked is None:
            self._stray()
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        dialect, body = asked
        try:
            request, reply = self.served._answer(headers, body)
            if isinstance(reply, Failure):
                self._json(reply.status, dialect.failure(reply), reply.headers)
            elif body.get("stream"):
                self._stream(dialect.events(request, reply))
            else:
                self._pauses(reply)
                self._json(200, dialect.message(request, reply))
        except OSError:
            self.close_connection = True  # the client hung up, or was killed

    def do_GET(self) -> None:
        if self.path in self.served.pages:
            self._json(200, self.served.pages[self.path])
        else:
            self._stray()

    def do_HEAD(self) -> None:
        self._stray()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""

    def _stray(self) -> None:
        self.served.strays.append(f"{self.command} {self.path}")
        self._json(404, failed(Failure(404, "not_found_error")))

    def _json(self, status: int, data: object, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _stream(self, events: Iterator[Event | Pause | Cut]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in events:
            if isinstance(event, Pause):
                self.served._pause(event.seconds, self._gone)
            elif isinstance(event, Cut):
                self.close_connection = True
                return
            else:
                self._chunk(_line(event).encode())
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _pauses(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            if isinstance(block, Pause):
                self.served._pause(block.seconds, self._gone)

    def _gone(self) -> bool:
        """The client hung up: it says nothing while it waits for an answer."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable)


def said(blocks: Sequence[Block]) -> Iterator[Text | Call]:
    """What of it the model says."""
    return (block for block in blocks if isinstance(block, Text | Call))


def called(number: int, blocks: Sequence[Block]) -> Iterator[tuple[str, Call]]:
    """Each call with its id, which is unique because requests are numbered."""
    for index, block in enumerate(said(blocks)):
        if isinstance(block, Call):
            yield f"toolu_{number:04}{index:02}", block


def used(blocks: Sequence[Block]) -> int:
    """How many tokens went in, as the script has it."""
    return next((block.tokens for block in blocks if isinstance(block, Used)), 100)


def ended(blocks: Sequence[Block]) -> str:
    """Why the message ends."""
    usual = "tool_use" if any(isinstance(block, Call) for block in blocks) else "end_turn"
    return next((block.reason for block in blocks if isinstance(block, Ended)), usual)


def _line(event: Event) -> str:
    if isinstance(event, str):
        return f"data: {event}\n\n"
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n"


def failed(failure: Failure) -> dict[str, Any]:
    """An error, as most say it."""
    error = {"type": failure.kind, "message": failure.message, **failure.more}
    return {"type": "error", "error": error}


class _Messages:
    """Anthropic's own."""

    def asked(self, path: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
        return dict(body) if path.partition("?")[0] == "/v1/messages" else None

    def message(self, request: Request, blocks: Sequence[Block]) -> dict[str, Any]:
        """The whole message, as it is once its stream has ended."""
        calls = called(request.number, blocks)
        content = [
            {"type": "text", "text": block.text}
            if isinstance(block, Text)
            else _tool_use(*next(calls))
            for block in said(blocks)
        ]
        return {
            "id": f"msg_{request.number:04}",
            "type": "message",
            "role": "assistant",
            "model": request.model,
            "content": content,
            "stop_reason": ended(blocks),
            "stop_sequence": None,
            "usage": {"input_tokens": used(blocks), "output_tokens": 10},
        }

    def events(self, request: Request, blocks: Sequence[Block]) -> Iterator[Event | Pause | Cut]:
        message = self.message(request, blocks)
        start = message | {"content": [], "stop_reason": None}
        yield {"type": "message_start", "message": start}
        content = iter(message["content"])
        index = 0
        for block in blocks:
            if isinstance(block, Pause | Cut):
                yield block
            elif isinstance(block, Text | Call):
                yield from _block_events(index, next(content))
                index += 1
        yield {
            "type": "message_delta",
            "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
            "usage": {"output_tokens": message["usage"]["output_tokens"]},
        }
        yield {"type": "message_stop"}

    def failure(self, failure: Failure) -> dict[str, Any]:
        return failed(failure)


def _tool_use(id_: str, made: Call) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": made.name, "input": dict(made.input)}


def _block_events(index: int, block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if block["type"] == "text":
        empty: dict[str, Any] = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": block["text"]}
    else:
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    yield {"type": "content_block_start", "index": index, "content_block": empty}
    yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}
