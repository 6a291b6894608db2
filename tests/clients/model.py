"""The scripted model for every client: OpenAI's two APIs and Gemini's beside Anthropic's.

    with everyones(reply) as model: ...

Requests are read into the shape of Messages, so that a script asks all of them the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from claude.conversation import Block, Call, Cut, Failure, Pause, Request, Text
from claude.model import Event, Model, Script, called, ended, failed, said, used

OUT = 10
"""Tokens that every answer costs."""


def everyones(reply: Script) -> Model:
    """A model that every client can ask."""
    return Model(reply, dialects=(Responses(), Chat(), Gemini()))


class Responses:
    """OpenAI's Responses, which Codex speaks."""

    def asked(self, path: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
        if not path.endswith("/responses"):
            return None
        given = body.get("input", [])
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        said = [("system", [_text(body.get("instructions", ""))])]
        for item in items:
            kind = item.get("type", "message")
            if kind == "message":
                said.append((item["role"], _texts(item["content"])))
            elif kind in ("function_call", "custom_tool_call"):
                given = item["input"] if kind[0] == "c" else json.loads(item["arguments"])
                told = given if isinstance(given, dict) else {"input": given}
                said.append(("assistant", [_use(item["call_id"], item["name"], told)]))
            elif kind.endswith("_call_output"):
                said.append(("user", [_result(item["call_id"], item["output"])]))
        tools = [tool for tool in body.get("tools") or () if "name" in tool]
        return _body(body, said, tools)

    def message(self, request: Request, blocks: Sequence[Block]) -> dict[str, Any]:
        calls = called(request.number, blocks)
        free = {tool["name"] for tool in request.body["tools"] if tool.get("type") == "custom"}
        output = [
            self._words(block.text) if isinstance(block, Text) else self._call(*next(calls), free)
            for block in said(blocks)
        ]
        tokens = used(blocks)
        for index, item in enumerate(output):
            item["id"] = f"item_{request.number:04}{index:02}"
        return {
            "id": f"resp_{request.number:04}",
            "object": "response",
            "model": request.model,
            "status": "completed",
            "output": output,
            "usage": {
                "input_tokens": tokens,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": OUT,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": tokens + OUT,
            },
        }

    def events(self, request: Request, blocks: Sequence[Block]) -> Iterator[Event | Pause | Cut]:
        response = self.message(request, blocks)
        begun = response | {"output": [], "usage": None, "status": "in_progress"}
        yield {"type": "response.created", "response": begun}
        items = iter(response["output"])
        index = 0
        for block in blocks:
            if isinstance(block, Pause | Cut):
                yield block
            elif isinstance(block, Text | Call):
                item, at = next(items), {"output_index": index}
                yield {"type": "response.output_item.added", **at, "item": self._empty(item)}
                if isinstance(block, Text):
                    delta = {"item_id": item["id"], "content_index": 0, "delta": block.text}
                    yield {"type": "response.output_text.delta", **at, **delta}
                yield {"type": "response.output_item.done", **at, "item": item}
                index += 1
        yield {"type": "response.completed", "response": response}

    def failure(self, failure: Failure) -> dict[str, Any]:
        return failed(failure)

    def _words(self, words: str) -> dict[str, Any]:
        part = {"type": "output_text", "text": words, "annotations": []}
        return {"type": "message", "role": "assistant", "status": "completed", "content": [part]}

    def _call(self, id_: str, made: Call, free: set[str]) -> dict[str, Any]:
        told = {"call_id": id_, "name": made.name, "status": "completed"}
        if made.name in free:
            return {"type": "custom_tool_call", **told, "input": made.input["input"]}
        return {"type": "function_call", **told, "arguments": json.dumps(made.input)}

    def _empty(self, item: Mapping[str, Any]) -> dict[str, Any]:
        nothing: dict[str, Any] = {"content": [], "arguments": "", "input": ""}
        return {**item, **{key: nothing[key] for key in nothing if key in item}}


class Chat:
    """OpenAI's Chat Completions, which most others speak."""

    def asked(self, path: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
        if not path.endswith("/chat/completions"):
            return None
        said = []
        for message in body["messages"]:
            if message["role"] == "tool":
                said.append(("user", [_result(message["tool_call_id"], message["content"])]))
                continue
            calls = [
                _use(
                    made["id"], made["function"]["name"], json.loads(made["function"]["arguments"])
                )
                for made in message.get("tool_calls") or ()
            ]
            said.append((message["role"], _texts(message.get("content") or "") + calls))
        return _body(body, said, [tool["function"] for tool in body.get("tools") or ()])

    def message(self, request: Request, blocks: Sequence[Block]) -> dict[str, Any]:
        words = "".join(block.text for block in blocks if isinstance(block, Text))
        calls = [self._call(*made) for made in called(request.number, blocks)]
        message = {"role": "assistant", "content": words or None, "tool_calls": calls or None}
        choice = {"index": 0, "message": message, "finish_reason": self._reason(blocks)}
        return self._envelope(request) | {"choices": [choice], "usage": self._usage(blocks)}

    def events(self, request: Request, blocks: Sequence[Block]) -> Iterator[Event | Pause | Cut]:
        envelope = self._envelope(request) | {"object": "chat.completion.chunk"}

        def chunk(delta: Mapping[str, Any], reason: str | None = None) -> Event:
            return {**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

        yield chunk({"role": "assistant", "content": ""})
        calls, index = called(request.number, blocks), 0
        for block in blocks:
            if isinstance(block, Pause | Cut):
                yield block
            elif isinstance(block, Text):
                yield chunk({"content": block.text})
            elif isinstance(block, Call):
                yield chunk({"tool_calls": [{"index": index, **self._call(*next(calls))}]})
                index += 1
        yield chunk({}, self._reason(blocks))
        yield {**envelope, "choices": [], "usage": self._usage(blocks)}
        yield "[DONE]"

    def failure(self, failure: Failure) -> dict[str, Any]:
        return failed(failure)

    def _envelope(self, request: Request) -> dict[str, Any]:
        told = {"object": "chat.completion", "created": 1_700_000_000, "model": request.model}
        return {"id": f"chatcmpl-{request.number:04}", **told}

    def _call(self, id_: str, made: Call) -> dict[str, Any]:
        told = {"name": made.name, "arguments": json.dumps(made.input)}
        return {"id": id_, "type": "function", "function": told}

    def _reason(self, blocks: Sequence[Block]) -> str:
        theirs = {"tool_use": "tool_calls", "end_turn": "stop", "max_tokens": "length"}
        return theirs.get(ended(blocks), "content_filter")

    def _usage(self, blocks: Sequence[Block]) -> dict[str, int]:
        went = used(blocks)
        return {"prompt_tokens": went, "completion_tokens": OUT, "total_tokens": went + OUT}


class Gemini:
    """Google's generateContent, whole and as a stream."""

    def asked(self, path: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
        found = re.search(r"/models/([^:]+):(stream)?[gG]enerateContent", path)
        if not found:
            return None
        said = [("system", self._parts(body.get("systemInstruction", {}), []))]
        open_calls: list[tuple[str, str]] = []
        for content in body["contents"]:
            role = "assistant" if content.get("role") == "model" else "user"
            said.append((role, self._parts(content, open_calls)))
        tools = [
            declared
            for tool in body.get("tools") or ()
            for declared in tool.get("functionDeclarations", ())
        ]
        return _body({"model": found[1], "stream": bool(found[2])}, said, tools)

    def message(self, request: Request, blocks: Sequence[Block]) -> dict[str, Any]:
        calls = called(request.number, blocks)
        parts = [self._part(block, calls) for block in said(blocks)]
        return self._answer(parts, blocks)

    def events(self, request: Request, blocks: Sequence[Block]) -> Iterator[Event | Pause | Cut]:
        calls = called(request.number, blocks)
        for block in blocks:
            if isinstance(block, Pause | Cut):
                yield block
            elif isinstance(block, Text | Call):
                content = {"role": "model", "parts": [self._part(block, calls)]}
                yield {"candidates": [{"index": 0, "content": content}]}
        yield self._answer([{"text": ""}], blocks)

    def failure(self, failure: Failure) -> dict[str, Any]:
        told = {"code": failure.status, "message": failure.message, "status": failure.kind.upper()}
        return {"error": {**told, **failure.more}}

    def _parts(self, content: Any, open_calls: list[tuple[str, str]]) -> list[dict[str, Any]]:
        """Where a call has no id, it is the first of its name without a result."""
        found = []
        for part in content.get("parts", ()) if isinstance(content, dict) else ():
            if made := part.get("functionCall"):
                open_calls.append((made.get("id") or f"unnamed-{len(open_calls)}", made["name"]))
                found.append(_use(*open_calls[-1], made.get("args", {})))
            elif came := part.get("functionResponse"):
                first = next((id_ for id_, name in open_calls if name == came["name"]), "")
                id_ = came.get("id") or first
                open_calls[:] = [each for each in open_calls if each[0] != id_]
                found.append(_result(id_, came.get("response", {})))
            elif part.get("text"):
                found.append(_text(part["text"]))
        return found

    def _part(self, block: Text | Call, calls: Iterator[tuple[str, Call]]) -> dict[str, Any]:
        if isinstance(block, Text):
            return {"text": block.text}
        id_, made = next(calls)
        told = {"id": id_, "name": made.name, "args": dict(made.input)}
        return {"functionCall": told, "thoughtSignature": "c2lnbmVk"}

    def _answer(self, parts: list[dict[str, Any]], blocks: Sequence[Block]) -> dict[str, Any]:
        theirs = {"tool_use": "STOP", "end_turn": "STOP", "max_tokens": "MAX_TOKENS"}
        reason = theirs.get(ended(blocks), "SAFETY")
        went = used(blocks)
        return {
            "candidates": [
                {"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": reason}
            ],
            "usageMetadata": {
                "promptTokenCount": went,
                "candidatesTokenCount": OUT,
                "totalTokenCount": went + OUT,
            },
        }


def _body(
    body: Mapping[str, Any],
    said: Sequence[tuple[str, list[dict[str, Any]]]],
    tools: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """As Messages has it: the system's words apart, and messages of one role joined."""
    system: list[dict[str, Any]] = []
    messages: list[dict[str, Any]] = []
    for role, blocks in said:
        if role in ("system", "developer"):
            system += blocks
        elif messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": list(blocks)})
    told = {"model": body.get("model", ""), "stream": bool(body.get("stream"))}
    return {**told, "system": system, "messages": messages, "tools": list(tools)}


def _texts(content: Any) -> list[dict[str, Any]]:
    parts = [{"text": content}] if isinstance(content, str) else content
    return [_text(part["text"]) for part in parts if part.get("text")]


def _text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def _use(id_: str, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": name, "input": given}


def _result(id_: str, output: Any) -> dict[str, Any]:
    words = output if isinstance(output, str) else json.dumps(output)
    return {"type": "tool_result", "tool_use_id": id_, "content": words}
