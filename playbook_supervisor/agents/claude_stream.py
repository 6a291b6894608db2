"""What the client of Claude Code says while it works, one JSON object per line, made into facts.

Pure: it reads lines and asks nothing. The client's shapes differ between versions, so whatever is
missing, misspelt or of another kind is left out, never an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.records import Record, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Event = Mapping[str, Any]

_OWN_WORDS = "<synthetic>"
"""The model of a message that the client wrote itself."""
_TOLD = ("file_path", "notebook_path", "command", "pattern", "path", "url", "query")
_TOLD_OF_OTHERS = ("skill", "description", "prompt")
"""What of a tool's input is worth a line, in this order."""
_FORTUNE = 1e9
"""Nobody spends so many dollars on a step: whatever says so is mistaken."""
_LIMIT = r"usage limit reached\|(\d{9,11})\b"
"""How older clients name the second at which a usage limit ends."""


class Denial(Record):
    """A call of a tool that was not permitted. `reason` is the client's own."""

    tool: str
    input: Mapping[str, Any]
    reason: str = ""


class Usage(Record):
    """What a conversation has used so far; `cost_usd` None where the client has not said."""

    cost_usd: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0


class Stream(Record, frozen=False):
    """What one process of the client has said so far. `hear` every line of it.

    `commands` are those that it knows, None until it has said so. `result` is its last result
    object, `last_word` whether nothing came after that. `api_error` is its own word for what kept
    the model from being asked last. `limit_ends` is when the last usage limit that was named ends,
    in seconds since the epoch, or 0.
    """

    root: str = ""
    session: str = ""
    model: str = ""
    commands: frozenset[str] | None = None
    tool_calls: int = 0
    result: Mapping[str, Any] = field(default_factory=dict)
    last_word: bool = False
    api_error: str = ""
    limit_ends: int = 0
    _turns: int = 0
    _answers: dict[str, tuple[int, int]] = field(default_factory=dict)
    _denials: dict[str, Denial] = field(default_factory=dict)
    _reasons: dict[str, str] = field(default_factory=dict)

    def hear(self, line: str) -> list[str]:
        """Take one line in; what of it is worth being shown."""
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return []
        if not isinstance(event, dict):
            return []
        self.session = _text(event, "session_id") or self.session
        kind = _text(event, "type")
        if kind in ("assistant", "user"):
            self.last_word = False
        match kind, _text(event, "subtype"):
            case "system", "init":
                self._begun(event)
            case "system", "api_retry":
                return [_retrying(event)]
            case "system", "permission_denied":
                self._reasons[_text(event, "tool_use_id")] = _text(event, "message")
            case "assistant", _:
                return list(self._assistant(event))
            case "user", _:
                self._came_back(event)
            case "rate_limit_event", _:
                self._limited(_mapping(event, "rate_limit_info"))
            case "result", _:
                self._ended(event)
        return []

    @property
    def turns(self) -> int:
        """How often the model answered in the main conversation."""
        return self._turns if self.result else len(self._answers)

    @property
    def usage(self) -> Usage:
        """All that the conversation used, what its subagents did and earlier processes included.

        Input tokens are all that were read, from a cache or not. Where the client was ended
        before it summed up, the tokens are those of the main conversation and the cost unknown.
        """
        if not self.result:
            read, written = zip(*self._answers.values(), strict=True) if self._answers else ((), ())
            return Usage(None, sum(read), sum(written))
        cost = self.result.get("total_cost_usd")
        if not isinstance(cost, int | float) or not 0 <= cost < _FORTUNE:
            cost = None
        models = [each for each in _mapping(self.result, "modelUsage").values() if _is(each)]
        return Usage(
            None if cost is None else round(cost, 6),
            sum(_number(each, *_READ) for each in models),
            sum(_number(each, "outputTokens") for each in models),
        )

    @property
    def denials(self) -> tuple[Denial, ...]:
        """The calls that were not permitted, with the client's reason as far as it gave one."""
        return tuple(
            Denial(denial.tool, denial.input, self._reasons.get(id_, ""))
            for id_, denial in self._denials.items()
        )

    # ── events ──────────────────────────────────────────────────────────────────────────────

    def _begun(self, event: Event) -> None:
        commands = event.get("slash_commands")
        if isinstance(commands, list):
            self.commands = frozenset(name for name in commands if isinstance(name, str))
        self.model = _text(event, "model")

    def _assistant(self, event: Event) -> Iterator[str]:
        message = _mapping(event, "message")
        model = _text(message, "model")
        ours = not event.get("parent_tool_use_id")
        if ours:
            self.api_error = _text(event, "error")
        if ours and model and model != _OWN_WORDS:
            self.model = model
            used = _mapping(message, "usage")
            tokens = _number(used, *_READ_NOW), _number(used, "output_tokens")
            self._answers[_text(message, "id")] = tokens
        for block in _blocks(message):
            match _text(block, "type"):
                case "text" if ours and (said := first_line(_text(block, "text"))):
                    yield said
                case "tool_use":
                    self.tool_calls += 1
                    yield described(_text(block, "name"), _mapping(block, "input"), self.root)

    def _came_back(self, event: Event) -> None:
        """Why a call was refused stands in its result, where no event of its own says it."""
        for block in _blocks(_mapping(event, "message")):
            if block.get("is_error") is True:
                said = _text(block, "content")
                self._reasons.setdefault(_text(block, "tool_use_id"), said)

    def _limited(self, info: Event) -> None:
        if _text(info, "status") == "rejected":
            self.limit_ends = _number(info, "resetsAt")

    def _ended(self, event: Event) -> None:
        self.result, self.last_word = event, True
        self._turns += _number(event, "num_turns")
        if found := re.search(_LIMIT, _text(event, "result")):
            self.limit_ends = int(found[1])
        denials = event.get("permission_denials")
        for denial in filter(_is, denials if isinstance(denials, list) else ()):
            tool, given = _text(denial, "tool_name"), _mapping(denial, "tool_input")
            self._denials[_text(denial, "tool_use_id")] = Denial(tool, given)


def described(tool: str, given: Mapping[str, Any], root: str = "") -> str:
    """A call of a tool in a few words: `Write specs/013-x/plan.md`, paths seen from `root`."""
    told = next((said for key in (*_TOLD, *_TOLD_OF_OTHERS) if (said := _text(given, key))), "")
    if root:
        told = told.removeprefix(f"{root}/")
    return first_line(f"{tool} {told}")


# ── what an event holds, where it holds it ──────────────────────────────────────────────────

_READ = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
_READ_NOW = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def _retrying(event: Event) -> str:
    why = _text(event, "error").replace("_", " ") or "an error"
    status = _number(event, "error_status")
    said = f"the model's server: {why}{f' ({status})' if status else ''}"
    number, most = _number(event, "attempt"), _number(event, "max_retries")
    return f"{said}; the client tries again, {number} of {most}"


def _is(value: object) -> bool:
    return isinstance(value, dict)


def _text(event: Event, key: str) -> str:
    value = event.get(key)
    return value if isinstance(value, str) else ""


def _number(event: Event, *keys: str) -> int:
    """The sum of these keys' whole numbers, what is none counting nothing."""
    values = (event.get(key) for key in keys)
    return sum(
        value
        for value in values
        if isinstance(value, int) and not isinstance(value, bool) and value > 0
    )


def _mapping(event: Event, key: str) -> Mapping[str, Any]:
    value = event.get(key)
    return value if isinstance(value, dict) else {}


def _blocks(message: Event) -> Iterator[Event]:
    content = message.get("content")
    return filter(_is, content if isinstance(content, list) else ())
