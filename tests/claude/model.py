"""The scripted model: a Messages API on loopback whose answers are a function's.

    def reply(request: Request) -> Reply:
        if request.results:
            return [text("Done.")]
        return [call("Read", file_path="README.md")]

    with Model(reply) as model: ...

Deterministic but for the order in which several clients ask. Every request is kept.
"""

from __future__ import annotations

import json
import select
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Final, Self

from claude.network import Network

DIRECTIVE: Final = "playbook-directive: "


# ── what the model says ─────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Call:
    """A call of a tool."""

    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True)
class Pause:
    """Say nothing for so many seconds, in the middle of the stream; `None`: until released."""

    seconds: float | None = None


@dataclass(frozen=True)
class Used:
    """How full the context shall look to the client, in tokens."""

    tokens: int


@dataclass(frozen=True)
class Failure:
    """An error in place of a message."""

    status: int
    kind: str
    message: str = "scripted"


Block = Text | Call | Pause | Used
Reply = Sequence[Block] | Failure

OVERLOADED: Final = Failure(529, "overloaded_error", "Overloaded")
BROKEN: Final = Failure(500, "api_error", "Internal server error")


def text(words: str) -> Text:
    return Text(words)


def call(tool: str, /, **arguments: Any) -> Call:
    """`call("Bash", command="ls", description="look")`."""
    return Call(tool, arguments)


# ── what the client asks ────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Result:
    """What came back from a call of a tool."""

    id: str
    tool: str
    text: str
    is_error: bool


@dataclass(frozen=True)
class Request:
    """One request, with the questions that a script asks of it. `number` counts from 1."""

    number: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Mapping[str, Any]

    @property
    def session(self) -> str:
        """The client's session id."""
        return self.headers.get("x-claude-code-session-id", "")

    @property
    def agent(self) -> str:
        """The id of the subagent that asks; empty: the main thread."""
        return self.headers.get("x-claude-code-agent-id", "")

    @property
    def main(self) -> bool:
        return not self.agent

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.body["messages"]
        return messages

    @cached_property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that are offered; none: a side question, as for a title."""
        return tuple(tool["name"] for tool in self.body.get("tools") or ())

    @cached_property
    def system(self) -> str:
        return _words(self.body.get("system", ""))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """All that was said and returned, in order: every text of every message."""
        return tuple(words for message in self.messages for words in _texts(message["content"]))

    @cached_property
    def prompt(self) -> str:
        """What the conversation began with: in a subagent, its whole prompt."""
        return "\n".join(_said(self.messages[0]))

    @cached_property
    def said(self) -> str:
        """What the user, or the client in its place, said since the assistant's last turn."""
        return "\n".join(words for message in self._latest for words in _said(message))

    @cached_property
    def context(self) -> str:
        """What the client added since then: reminders, hooks' additions, its own notes."""
        return "\n".join(words for message in self._latest for words in _added(message))

    @cached_property
    def results(self) -> tuple[Result, ...]:
        """The results of tools since the assistant's last turn."""
        return self._results(self._latest)

    @cached_property
    def all_results(self) -> tuple[Result, ...]:
        return self._results(self.messages)

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Every call of a tool in this conversation so far, in order."""
        return tuple(Call(block["name"], block["input"]) for block in self._uses)

    def called(self, tool: str) -> int:
        """How often this conversation called that tool."""
        return sum(call.name == tool for call in self.calls)

    def mentions(self, words: str) -> bool:
        """Whether `words` stand anywhere in the messages."""
        return any(words in said for said in self.texts)

    def directive(self) -> dict[str, Any] | None:
        """The last `playbook-directive: {…}` seen anywhere in the messages."""
        for said in reversed(self.texts):
            at = said.rfind(DIRECTIVE)
            if at >= 0:
                found, _ = json.JSONDecoder().raw_decode(said, at + len(DIRECTIVE))
                return dict(found)
        return None

    @cached_property
    def _latest(self) -> list[dict[str, Any]]:
        turns = [i for i, message in enumerate(self.messages) if message["role"] == "assistant"]
        return self.messages[turns[-1] + 1 :] if turns else self.messages

    @cached_property
    def _uses(self) -> list[dict[str, Any]]:
        return [
            block
            for message in self.messages
            for block in _blocks(message["content"])
            if block["type"] == "tool_use"
        ]

    def _results(self, messages: Sequence[Mapping[str, Any]]) -> tuple[Result, ...]:
        names = {use["id"]: use["name"] for use in self._uses}
        return tuple(
            Result(
                id=block["tool_use_id"],
                tool=names.get(block["tool_use_id"], ""),
                text=_words(block.get("content", "")),
                is_error=bool(block.get("is_error")),
            )
            for message in messages
            for block in _blocks(message["content"])
            if block["type"] == "tool_result"
        )


def _blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _texts(content: str | list[dict[str, Any]]) -> Iterator[str]:
    for block in _blocks(content):
        if block["type"] == "text":
            yield block["text"]
        elif block["type"] == "tool_result":
            yield from _texts(block.get("content", ""))


def _said(message: Mapping[str, Any]) -> Iterator[str]:
    added = set(_added(message))
    for block in _blocks(message["content"]):
        if block["type"] == "text" and block["text"] not in added:
            yield block["text"]


def _added(message: Mapping[str, Any]) -> Iterator[str]:
    for block in _blocks(message["content"]):
        if block["type"] == "text" and (
            message["role"] == "system" or block["text"].startswith("<system-reminder>")
        ):
            yield block["text"]


def _words(content: str | list[dict[str, Any]]) -> str:
    return "\n".join(_texts(content))


# ── the server ──────────────────────────────────────────────────────────────────────────────


@dataclass
class Model:
    """Serves while it is entered. A script that raises fails the test when it is left."""

    reply: Callable[[Request], Reply]
    network: Network = field(default_factory=Network)
    requests: list[Request] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    """What else the client asked for: method and path."""
    errors: list[Exception] = field(default_factory=list)
    """What the script raised."""

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

    def release(self) -> None:
        """End every `Pause(None)`, now and later."""
        self._released.set()

    def wait_for(self, wanted: Callable[[Request], bool], timeout: float = 20) -> Request:
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._closed.set()
        self._released.set()
        self._server.shutdown()
        self._thread.join()
        self.network.__exit__(kind, error, traceback)
        if self.errors and error is None:
            raise self.errors[0]

    def _answer(self, headers: Mapping[str, str], body: Mapping[str, Any]) -> tuple[int, Reply]:
        with self._arrived:
            request = Request(len(self.requests) + 1, headers, body)
            self.requests.append(request)
            self._arrived.notify_all()
        try:
            return request.number, self.reply(request)
        except Exception as error:
            self.errors.append(error)
            return request.number, Failure(400, "invalid_request_error", repr(error))

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

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path.partition("?")[0] != "/v1/messages":
            self._stray()
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = json.loads(raw)
        try:
            number, reply = self.served._answer(headers, body)
            if isinstance(reply, Failure):
                self._json(reply.status, _failure(reply))
            elif body.get("stream"):
                self._stream(_events(number, str(body.get("model", "")), reply))
            else:
                self._pauses(reply)
                self._json(200, _message(number, str(body.get("model", "")), reply))
        except OSError:
            self.close_connection = True  # the client hung up, or was killed

    def do_GET(self) -> None:
        self._stray()

    def do_HEAD(self) -> None:
        self._stray()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""

    def _stray(self) -> None:
        self.served.strays.append(f"{self.command} {self.path}")
        self._json(404, _failure(Failure(404, "not_found_error")))

    def _json(self, status: int, data: object) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _stream(self, events: Iterator[dict[str, Any] | Pause]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in events:
            if isinstance(event, Pause):
                self.served._pause(event.seconds, self._gone)
            else:
                self._chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
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


def _failure(failure: Failure) -> dict[str, Any]:
    return {"type": "error", "error": {"type": failure.kind, "message": failure.message}}


def _message(number: int, model: str, blocks: Sequence[Block]) -> dict[str, Any]:
    """The whole message, as it is once its stream has ended."""
    said = [block for block in blocks if isinstance(block, Text | Call)]
    content = [
        {"type": "text", "text": block.text}
        if isinstance(block, Text)
        else {
            "type": "tool_use",
            "id": f"toolu_{number:04}{index:02}",
            "name": block.name,
            "input": dict(block.input),
        }
        for index, block in enumerate(said)
    ]
    used = next((block.tokens for block in blocks if isinstance(block, Used)), 100)
    return {
        "id": f"msg_{number:04}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if any(isinstance(block, Call) for block in said) else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": used, "output_tokens": 10},
    }


def _events(number: int, model: str, blocks: Sequence[Block]) -> Iterator[dict[str, Any] | Pause]:
    message = _message(number, model, blocks)
    start = message | {"content": [], "stop_reason": None}
    yield {"type": "message_start", "message": start}
    content = iter(message["content"])
    index = 0
    for block in blocks:
        if isinstance(block, Pause):
            yield block
        elif not isinstance(block, Used):
            yield from _block_events(index, next(content))
            index += 1
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
        "usage": {"output_tokens": message["usage"]["output_tokens"]},
    }
    yield {"type": "message_stop"}


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
