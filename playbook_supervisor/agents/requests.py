"""Requests of an agent to a person: the shape of a request, and who replies to it.

The names in a shape are those of the journal. Texts are harmless, without secrets, and bounded.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Mapping
from typing import Any

from playbook_supervisor.agents.protocol import Call, Reply, Request
from playbook_supervisor.agents.tool_calls import rules_for, subject_of
from playbook_supervisor.agents.values import objects
from playbook_supervisor.formats.sanitize import one_line
from playbook_supervisor.system.process.capture import harmless

QUESTION_TOOL = "AskUserQuestion"
_MAX_INPUT = 4_000  # characters of a call's input
_MAX_TEXT = 1_000  # characters of any other text
_NO_TEXT = "…"  # a question or a label without visible text

Input = Mapping[str, Any]


def permission(
    call: Call,
    tool: str,
    given: Input,
    *,
    who: str = "",
    description: str = "",
    path: str = "",
    agent: str = "",
    conversation: str = "",
) -> Request:
    """The request to allow that call of a tool.

    `who` is the agent's name in a sentence, and `agent` the subagent that makes the call.
    """
    root = str(call.cwd)
    rules = list(rules_for(tool, given, root))
    optional = {
        "who": who,
        "rule": rules[0] if len(rules) == 1 else "",
        "path": path,
        "description": description,
        "agent": agent,
        "conversation": conversation,
    }
    return Request(
        "permission",
        {
            "tool": _text(tool, call),
            "subject": _text(subject_of(given, root), call),
            "input": _cut(harmless(_canonical(given), call.secrets), _MAX_INPUT),
            "digest": digest(tool, given),
            **{name: _text(value, call) for name, value in optional.items() if value},
        },
    )


def question(call: Call, given: Input, *, who: str = "", conversation: str = "") -> Request:
    """The request to answer the questions of a call of `AskUserQuestion`."""
    asked = [
        {
            "question": _text(each.get("question"), call) or _NO_TEXT,
            "header": _text(each.get("header"), call),
            "options": [
                {
                    "label": _text(option.get("label"), call) or _NO_TEXT,
                    "description": _text(option.get("description"), call),
                }
                for option in objects(each, "options")
            ],
            "multiple": each.get("multiSelect") is True,
        }
        for each in objects(given, "questions")
    ]
    shape: dict[str, Any] = {
        "tool": QUESTION_TOOL,
        "subject": asked[0]["question"] if asked else "",
        "questions": asked,
        "digest": digest(QUESTION_TOOL, given),
    }
    optional = {"who": who, "conversation": conversation}
    shape |= {name: _text(value, call) for name, value in optional.items() if value}
    return Request("question", shape)


def answers(given: Input, text: str) -> dict[str, str]:
    """The answer to each question of a call of `AskUserQuestion`: a label, or other words.

    `text` has a line for each question; all of it answers a single one. A number, or several with
    commas between them where the question allows several, stands for the labels of its options.
    """
    asked = objects(given, "questions")
    lines = text.strip().splitlines() if len(asked) > 1 else [text.strip()]
    lines += [""] * (len(asked) - len(lines))
    return {
        str(each.get("question", "")): _labels(each, line.strip())
        for each, line in zip(asked, lines, strict=False)
    }


def _labels(asked: Input, line: str) -> str:
    labels = [str(option.get("label", "")) for option in objects(asked, "options")]
    words = [word.strip() for word in line.split(",")] if asked.get("multiSelect") else [line]
    by_name = {one_line(label).casefold(): label for label in labels}
    found = [
        labels[int(word) - 1]
        if word.isdecimal() and 0 < int(word) <= len(labels)
        else by_name.get(word.casefold())
        for word in words
    ]
    known = [label for label in found if label is not None]
    return ", ".join(known) if len(known) == len(words) else line


def digest(tool: str, given: Input) -> str:
    """Identifies a call by what it does: SHA-256 of the canonical JSON of `[tool, input]`.

    Without the words with which a model describes a command: it may choose others when it repeats
    the call.
    """
    deed = {key: value for key, value in given.items() if (tool, key) != ("Bash", "description")}
    return hashlib.sha256(_canonical([tool, deed]).encode("utf-8", "replace")).hexdigest()


class Asker:
    """Gets the replies to a call's requests, one at a time.

    `waited` is how many seconds that took. `put_off` is set once a request was; each later one is,
    too, so that none is shown of which the answer could not reach the agent.
    """

    def __init__(self, call: Call) -> None:
        self._ask = call.ask
        self._recorded = dict(call.replies)
        self._turn = threading.Lock()
        self.waited = 0.0
        self.put_off = False

    def reply(self, request: Request) -> Reply | None:
        """A recorded reply, which allows a call once; else that of a person. None: put off."""
        with self._turn:
            key = request.shape["digest"]
            if (recorded := self._recorded.get(key)) is not None:
                if recorded.resolution == "allow":
                    del self._recorded[key]
                return recorded
            if self.put_off or self._ask is None:
                self.put_off = True
                return None
            began = time.monotonic()
            try:
                reply = self._ask(request)
            finally:
                self.waited += time.monotonic() - began
            self.put_off = reply is None
            return reply


def _canonical(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _text(value: object, call: Call) -> str:
    text = value if isinstance(value, str) else ""
    return one_line(harmless(text, call.secrets), _MAX_TEXT)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
