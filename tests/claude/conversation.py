"""What the model says, and what the client asks: one request, and the questions a script has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from support import directive_lines

GOES_ON = "The playbook continues."
CALLED_FOR = re.compile(r"Agent\(description='([^']+)'")

NOTIFICATION = re.compile(r"(?s)<task-notification>(.*?)</task-notification>")
ELEMENT = re.compile(r"(?s)<([a-z-]+)>(.*?)</\1>")


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
class Ended:
    """The message ends for this reason: `refusal` where a classifier stopped it."""

    reason: str


@dataclass(frozen=True)
class Failure:
    """An error in place of a message."""

    status: int
    kind: str
    message: str = "scripted"
    headers: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    """What else stands in the error."""


@dataclass(frozen=True)
class Cut:
    """The connection ends here, in the middle of the stream."""


Block = Text | Call | Pause | Used | Ended | Cut
Reply = Sequence[Block] | Failure

OVERLOADED = Failure(529, "overloaded_error", "Overloaded")
BROKEN = Failure(500, "api_error", "Internal server error")


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
    def notifications(self) -> tuple[dict[str, str], ...]:
        """The `<task-notification>`s since then, by tag: task-id, status, summary, result …"""
        return tuple(
            dict(ELEMENT.findall(inner)) for inner in NOTIFICATION.findall(self.context + self.said)
        )

    @property
    def compaction(self) -> bool:
        """Whether the client asks for a summary in order to compact the conversation."""
        return "create a detailed summary of the conversation" in self.said

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
        """The last `playbook-directive[MARK]: {…}` that is a line of the messages, or what the end
        of a turn says in words."""
        for said in reversed(self.texts):
            if GOES_ON in said:
                return _in_words(said)
            if found := directive_lines.in_text(said):
                return found[-1]
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


def _in_words(said: str) -> dict[str, Any]:
    if ids := CALLED_FOR.findall(said):
        return {"directive": "run", "steps": [{"id": id_} for id_ in ids]}
    if gate := re.search(r"The gate (\S+) is open", said):
        return {"directive": "ask", "gate": {"id": gate[1]}}
    if wait := re.search(r"Expected now: `([^`]+)`, for (\S+)\.", said):
        return {"directive": "wait", "command": wait[1], "steps": [wait[2]]}
    return {"directive": "finish" if "The session is" in said else "wait"}


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
