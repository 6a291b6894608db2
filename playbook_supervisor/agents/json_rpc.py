"""JSON-RPC 2.0, one object per line, with an agent's process: it is asked, and it asks back.

What is asked of it is written as a script, which yields each request and gets its result:

    answer = yield Ask("session/new", {"cwd": "/repo"})
    yield lambda: self.ready  # waits until that is true
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from playbook_supervisor.agents.conversation import Exchange
from playbook_supervisor.agents.process import InputPipe
from playbook_supervisor.agents.values import Object, mapping, text
from playbook_supervisor.formats.fields import json_object

_NO_METHOD = -32601


@dataclass(frozen=True, slots=True)
class Ask:
    """A request of ours; its result, any JSON, is sent into the script."""

    method: str
    params: Object


class RpcError(Exception):
    """The error with which a request of ours, or of the agent, was answered."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class NotYet(Exception):  # noqa: N818 - no error: the answer follows
    """A request of the agent is answered when more is known of what it is about."""


Returned = TypeVar("Returned")
Part = Generator["Ask | Callable[[], bool]", Any, Returned]
"""A part of a script, with what it returns to the script."""
Script = Part[None]


class RpcExchange(Exchange):
    """One process that speaks JSON-RPC. `error` is the one that has ended the script, if any.

    `versioned`: its messages have the member `jsonrpc`.
    """

    versioned = True

    def __init__(self, argv: Sequence[str]) -> None:
        self._pipe = InputPipe()
        super().__init__(argv, self._pipe)
        self.error: RpcError | None = None
        self._waiting: Ask | Callable[[], bool] | None = None
        self._number = 0
        self._held: dict[object, tuple[str, Object]] = {}
        self._script = self.script()

    def begin(self) -> None:
        """Send the first request. Call it once, when the rest of the exchange is ready."""
        self._advance(lambda: next(self._script))

    @abstractmethod
    def script(self) -> Script:
        """What we ask of the agent, in order."""

    @abstractmethod
    def asked(self, method: str, params: Object) -> Any:
        """The result of a request of the agent. RpcError to refuse it; NotYet to be asked again
        with what follows. May block."""

    @abstractmethod
    def told(self, method: str, params: Object) -> Iterator[str]:
        """Take a notification of the agent, and yield lines to show."""

    def notify(self, method: str, params: Object) -> None:
        """Tell the agent something that has no answer."""
        self._send({"method": method, "params": params})

    def hear(self, line: str) -> Iterator[str]:
        message = json_object(line)
        method, id_ = message.get("method"), message.get("id")
        params = mapping(message, "params")
        if isinstance(method, str) and id_ is not None:
            self._reply(id_, method, params)
        elif isinstance(method, str):
            yield from self.told(method, params)
        elif id_ is not None:
            self._take(message)
        elif line.strip():
            yield line  # no message of the protocol: a log line
        for held, asked in [(each, self._held[each]) for each in self._held if each != id_]:
            self._reply(held, *asked)
        if callable(self._waiting) and self._waiting():
            self._advance(lambda: self._script.send(None))

    def _reply(self, id_: object, method: str, params: Object) -> None:
        try:
            self._send({"id": id_, "result": self.asked(method, params)})
        except NotYet:
            self._held[id_] = method, params
            return
        except RpcError as error:
            self._send({"id": id_, "error": {"code": error.code, "message": error.message}})
        self._held.pop(id_, None)

    def _take(self, message: Object) -> None:
        if not isinstance(self._waiting, Ask) or message["id"] != self._number:
            return
        error = message.get("error")
        if error is None:
            self._advance(lambda: self._script.send(message.get("result")))
            return
        said = error if isinstance(error, dict) else {"message": str(error)}
        code = said.get("code")
        found = RpcError(code if isinstance(code, int) else 0, text(said, "message"), said)
        self._advance(lambda: self._script.throw(found))

    def _advance(self, step: Callable[[], Ask | Callable[[], bool]]) -> None:
        """Go on with the script, to its next request that has to be waited for, or to its end."""
        try:
            self._waiting = step()
            while callable(self._waiting) and self._waiting():
                self._waiting = self._script.send(None)
        except StopIteration:
            self._waiting, self.over = None, True
        except RpcError as error:
            self._waiting, self.over, self.error = None, True, error
        if isinstance(self._waiting, Ask):
            self._number += 1
            asked = {"method": self._waiting.method, "params": self._waiting.params}
            self._send({"id": self._number, **asked})

    def _send(self, message: Object) -> None:
        self._pipe.send({"jsonrpc": "2.0", **message} if self.versioned else message)


def unsupported(method: str) -> RpcError:
    """The refusal of a request that we do not know."""
    return RpcError(_NO_METHOD, f"the client does not support {method}")
