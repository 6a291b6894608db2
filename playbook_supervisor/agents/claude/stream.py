"""Parses the client's output stream, one JSON object per line.

Pure. The format differs between versions, so a missing, misspelt or mistyped field is ignored and
never an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from playbook_supervisor.agents.protocol import Budget
from playbook_supervisor.agents.tool_calls import described
from playbook_supervisor.agents.values import Object, mapping, objects, text
from playbook_supervisor.formats.fields import json_object
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.records import replace

_SYNTHETIC = "<synthetic>"  # the model of a message that the client wrote itself
_MAX_COST = 1e9  # dollars; a higher cost is not plausible and is ignored
_LIMIT = r"usage limit reached\|(\d{9,11})\b"
"""The end of a usage limit as older clients report it, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Denial:
    """A tool call that was not permitted, with the client's reason."""

    tool: str
    input: Mapping[str, Any]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of a conversation so far; `cost_usd` is None until the client reports it.

    `weighed_tokens` are all tokens, weighed by their price: in tokens of input.
    """

    cost_usd: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    weighed_tokens: int = 0


@dataclass(slots=True)
class Stream:
    """The state of one client process, updated by `feed` with every line.

    `commands` are the slash commands that it knows, None until it has listed them. `result` is its
    last result object; `finished` is false if more messages followed it. `api_error` is the
    client's name for the latest failure to reach the model. `limit_ends` is when the latest usage
    limit ends, in seconds since the epoch, or 0. `said` is the latest text of the model. `decided`
    are the ids of the calls that a person denied, which are no `denials`. `delegating`: subagents
    run in the background, and the end of each begins another turn. `forks` are the commands that
    ran in contexts of their own, with how each ended. `hook` is the hook that stopped the work,
    with its reason. `silent`: neither said the model anything nor called it a tool.
    """

    root: str = ""
    session: str = ""
    model: str = ""
    commands: frozenset[str] | None = None
    tool_calls: int = 0
    result: Mapping[str, Any] = field(default_factory=dict)
    finished: bool = False
    api_error: str = ""
    limit_ends: int = 0
    said: str = ""
    decided: set[str] = field(default_factory=set)
    delegating: bool = False
    forks: dict[str, str] = field(default_factory=dict)
    hook: str = ""
    silent: bool = True
    _turns: int = 0
    _answers: dict[str, Usage] = field(default_factory=dict)
    _denials: dict[str, Denial] = field(default_factory=dict)
    _reasons: dict[str, str] = field(default_factory=dict)

    def feed(self, line: str) -> list[str]:
        event = json_object(line)
        self.session = text(event, "session_id") or self.session
        kind = text(event, "type")
        if kind in ("assistant", "user"):
            self.finished = False
        match kind, text(event, "subtype"):
            case "system", "init":
                self._init(event)
            case "system", "api_retry":
                return [_retrying(event)]
            case "system", "permission_denied":
                self._reasons[text(event, "tool_use_id")] = text(event, "message")
            case "system", "background_tasks_changed":
                tasks = objects(event, "tasks")
                self.delegating = any(task.get("task_type") == "local_agent" for task in tasks)
            case "system", "task_started" if not event.get("tool_use_id"):
                if text(event, "task_type") == "local_agent":
                    self.forks[text(event, "task_id")] = ""
            case "system", "task_notification" if text(event, "task_id") in self.forks:
                self.forks[text(event, "task_id")] = text(event, "status")
            case "system", "informational" if event.get("prevent_continuation") is True:
                words = text(event, "content").partition("\n\nOriginal prompt:")[0]
                self.hook = first_line(" ".join(words.split()))
            case "assistant", _:
                return list(self._assistant(event))
            case "user", _:
                self._tool_results(event)
            case "rate_limit_event", _:
                info = mapping(event, "rate_limit_info")
                if text(info, "status") == "rejected":
                    self.limit_ends = _number(info, "resetsAt")
            case "result", _:
                self._ended(event)
        return []

    @property
    def over(self) -> bool:
        """True if no turn follows the result: no subagent runs, and it answers the prompt.

        A resumed client first reports the subagents that it has lost, with a result of no turn.
        """
        origin = text(self.result, "origin", "kind")
        reported = origin == "task-notification" and not _number(self.result, "num_turns")
        return self.finished and not self.delegating and not reported

    @property
    def turns(self) -> int:
        return self._turns if self.result else len(self._answers)

    @property
    def fork_failed(self) -> bool:
        """True if the command ran in a context of its own, and not to its end."""
        return not self.turns and not {"", "completed"}.issuperset(self.forks.values())

    @property
    def has_worked(self) -> bool:
        """True if anything was done. A command in a context of its own has no turns, but usage."""
        used = self.usage
        spent = used.cost_usd or used.input_tokens or used.output_tokens
        return bool(self.turns or self.forks or self.tool_calls or spent)

    @property
    def usage(self) -> Usage:
        """The conversation's usage, including its subagents and earlier processes.

        Input tokens include cached ones. If the client was stopped before its result, the tokens
        are those of the main conversation only, and the cost is unknown.
        """
        if not self.result:
            return _summed(None, self._answers.values())
        cost = self.result.get("total_cost_usd")
        if not isinstance(cost, int | float) or not 0 <= cost < _MAX_COST:
            cost = None
        models = mapping(self.result, "modelUsage").values()
        known = None if cost is None else round(cost, 6)
        return _summed(known, (_usage(mapping(each), _RESULT_KEYS) for each in models))

    @property
    def denials(self) -> tuple[Denial, ...]:
        """The tool calls that were not permitted, with the client's reason if it gave one."""
        return tuple(
            Denial(denial.tool, denial.input, self._reasons.get(id_, ""))
            for id_, denial in self._denials.items()
            if id_ not in self.decided
        )

    # ── events ──────────────────────────────────────────────────────────────────────────────

    def _init(self, event: Object) -> None:
        commands = event.get("slash_commands")
        if isinstance(commands, list):
            self.commands = frozenset(name for name in commands if isinstance(name, str))
        self.model = text(event, "model")

    def _assistant(self, event: Object) -> Iterator[str]:
        message = mapping(event, "message")
        model = text(message, "model")
        main = not event.get("parent_tool_use_id")
        if main:
            self.api_error = text(event, "error")
        if main and model and model != _SYNTHETIC:
            self.model, self.hook = model, ""
            usage = _usage(mapping(message, "usage"), _MESSAGE_KEYS)
            self._answers[text(message, "id")] = usage
        for block in objects(message, "content"):
            match text(block, "type"):
                case "text" if main and (words := text(block, "text")).strip():
                    self.said, self.silent = words, self.silent and model == _SYNTHETIC
                    yield from filter(str.strip, words.splitlines())
                case "tool_use":
                    self.tool_calls, self.silent = self.tool_calls + 1, False
                    yield described(text(block, "name"), mapping(block, "input"), self.root)

    def _tool_results(self, event: Object) -> None:
        """A refused call's result gives the reason, unless an event has given it before."""
        for block in objects(event, "message", "content"):
            if block.get("is_error") is True:
                self._reasons.setdefault(text(block, "tool_use_id"), text(block, "content"))

    def _ended(self, event: Object) -> None:
        self.result, self.finished = event, True
        self._turns += _number(event, "num_turns")
        if found := re.search(_LIMIT, text(event, "result")):
            self.limit_ends = int(found[1])
        for denial in objects(event, "permission_denials"):
            tool, given = text(denial, "tool_name"), mapping(denial, "tool_input")
            self._denials[text(denial, "tool_use_id")] = Denial(tool, given)


@dataclass(slots=True)
class Account:
    """The usage of a call over all its processes.

    A resumed conversation reports its earlier usage again, so only its largest sum counts.
    """

    streams: list[Stream] = field(default_factory=list)

    @property
    def turns(self) -> int:
        return sum(stream.turns for stream in self.streams)

    @property
    def tool_calls(self) -> int:
        return sum(stream.tool_calls for stream in self.streams)

    @property
    def weighed_tokens(self) -> int:
        return round(sum(self._largest("weighed_tokens").values()))

    def as_journaled(
        self, name: str, *, retries: int = 0, weighed: bool = False
    ) -> dict[str, str | int | float]:
        """The journal's `agent`, without the unknown values.

        `retries` counts the processes that started afresh; `weighed`: with the tokens' weight.
        """
        last = self.streams[-1] if self.streams else Stream()
        costs = self._largest("cost_usd")
        usage: dict[str, str | int | float | None] = {
            "name": name,
            "id": last.session or None,
            "model": next((each.model for each in reversed(self.streams) if each.model), None),
            "cost_usd": round(sum(costs.values()), 6) if costs else None,
            "input_tokens": sum(self._largest("input_tokens").values()) or None,
            "output_tokens": sum(self._largest("output_tokens").values()) or None,
            "weighed_tokens": (weighed and self.weighed_tokens) or None,
            "turns": self.turns or None,
            "retries": retries or None,
        }
        return {key: value for key, value in usage.items() if value is not None}

    def left_of(self, budget: Budget, session: str = "") -> Budget:
        """The budget of the next process, in the conversation `session` or in a new one."""
        turns, cost, tokens = budget.max_turns, budget.max_cost_usd, budget.max_tokens
        others = sum(cost for id_, cost in self._largest("cost_usd").items() if id_ != session)
        return replace(
            budget,
            max_turns=None if turns is None else turns - self.turns,
            max_cost_usd=None if cost is None else cost - others,
            max_tokens=None if tokens is None else tokens - self.weighed_tokens,
        )

    @property
    def spent(self) -> dict[str, float]:
        """The use of each limit of a `Budget`; without a cost that is not known."""
        costs = self._largest("cost_usd")
        return {
            "max_turns": self.turns,
            "max_tool_calls": self.tool_calls,
            "max_tokens": self.weighed_tokens,
            **({"max_cost_usd": sum(costs.values())} if costs else {}),
        }

    def overdrawn(self, budget: Budget) -> str:
        """The limit that only we enforce and that is exceeded; empty if none is."""
        spent = self.spent
        allowed = {name: getattr(budget, name) for name in ("max_tool_calls", "max_tokens")}
        over = (name for name, most in allowed.items() if most is not None and spent[name] > most)
        return next(over, "")

    def _largest(self, name: str) -> dict[str, float]:
        found: dict[str, float] = {}
        for stream in self.streams:
            if (number := getattr(stream.usage, name)) is not None:
                found[stream.session] = max(number, found.get(stream.session, 0))
        return found


# ── fields of an event ──────────────────────────────────────────────────────────────────────

_RESULT_KEYS = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "outputTokens")
_MESSAGE_KEYS = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
)
_PRICES = (1.0, 0.1, 1.25, 5.0)
"""The price of a token of each key, in tokens of input; alike for all models of the provider."""


def _usage(event: Object, keys: tuple[str, ...]) -> Usage:
    counts = [_number(event, key) for key in keys]
    weighed = sum(count * price for count, price in zip(counts, _PRICES, strict=True))
    return Usage(None, sum(counts[:3]), counts[3], round(weighed))


def _summed(cost: float | None, usages: Iterable[Usage]) -> Usage:
    each = tuple(usages)
    return Usage(
        cost,
        sum(usage.input_tokens for usage in each),
        sum(usage.output_tokens for usage in each),
        sum(usage.weighed_tokens for usage in each),
    )


def _retrying(event: Object) -> str:
    error = text(event, "error").replace("_", " ") or "an error"
    status = _number(event, "error_status")
    message = f"the model's server: {error}{f' ({status})' if status else ''}"
    number, maximum = _number(event, "attempt"), _number(event, "max_retries")
    return f"{message}; the client retries, {number} of {maximum}"


def _number(event: Object, key: str) -> int:
    value = event.get(key)
    return value if type(value) is int and value > 0 else 0
