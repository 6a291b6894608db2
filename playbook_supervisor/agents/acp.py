"""Any agent that speaks the Agent Client Protocol, version 1: `--agent acp:PROGRAM`.

Its word that a turn has ended proves nothing: what it said, called and used is judged. Its requests
for permission are decided by the rules of the settings, else by a person. What is peculiar to a
known agent is data in `profiles`.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playbook_supervisor import __version__
from playbook_supervisor.agents.acp_calls import CANCELLED, allows, as_tool, chosen, words_of
from playbook_supervisor.agents.conversation import (
    Exchange,
    ProgramAgent,
    ProgramClient,
    Usage,
    after,
    prompt_of,
)
from playbook_supervisor.agents.decisions import Decisions
from playbook_supervisor.agents.json_rpc import (
    Ask,
    NotYet,
    Part,
    RpcError,
    RpcExchange,
    Script,
    unsupported,
)
from playbook_supervisor.agents.profiles import PROFILES, Profile, means
from playbook_supervisor.agents.protocol import Call, argv_of
from playbook_supervisor.agents.requests import Asker
from playbook_supervisor.agents.tool_calls import described
from playbook_supervisor.agents.values import Object, mapping, objects, text
from playbook_supervisor.agents.verdicts import (
    NOT_LOGGED_IN,
    OUTPUT,
    REFUSED,
    Verdict,
    empty,
    failure,
    named_status,
    of_words,
    with_reason,
)
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.fields import json_object
from playbook_supervisor.formats.sanitize import first_line, one_line, printable, some
from playbook_supervisor.kernel.directives import Failure
from playbook_supervisor.project.settings.config import AgentSettings, Config
from playbook_supervisor.system.disk.files import remove

VERSION = 1
_ADVERTISING = 20.0  # seconds in which an agent names its commands
_MORE = 3.0  # and in which it names more of them
_LINGERS = 3.0  # seconds in which it ends by itself, once its input is closed
_AUTH_REQUIRED = -32000
_ENDS = {"max_tokens": OUTPUT, "refusal": REFUSED}
_STATUS_KEYS = ("statusCode", "status", "httpStatusCode", "http_status", "code")
_MAX_COST = 1e9  # dollars; a higher cost is not plausible and is ignored
_LOGGED, _ASKED = "logged", "asked"  # what we note among what is known of a call
_PAUSE = 0.5  # seconds before an answer that begins anew
_MOST_BREAKS = 3


def create(argument: str, config: Config, root: Path) -> AcpAgent:
    """`--agent acp:opencode`, or `"acp:./my-agent --flag"`, split by POSIX quoting.

    ArgumentError PB-ARG-AGENT without a program.
    """
    if argument in PROFILES and PROFILES[argument].acp is not None:
        settings = config.agents.get(argument, AgentSettings())
        return AcpAgent(argument, PROFILES[argument], settings, root)
    if argument in PROFILES:
        message = f"{argument} is driven by its own protocol"
        raise ArgumentError("PB-ARG-AGENT", message, guidance=f"Write --agent {argument}.")
    argv = argv_of("acp", argument, root)
    return AcpAgent("acp", Profile(program=argv[0], acp=()), AgentSettings(acp=tuple(argv)), root)


class _Client(ProgramClient):
    def __init__(self, agent: ProgramAgent, call: Call) -> None:
        super().__init__(agent, call)
        places = (call.cwd / each for each in self.profile.leaves)
        self._leaves = [each for each in places if not each.exists()]

    def exchange(self, conversation: str, asker: Asker) -> Exchange | Failure:
        return AcpExchange(self, conversation, asker)

    def close(self) -> None:
        for place in self._leaves:  # else it would count as a change of the step
            remove(place)
            with suppress(OSError):
                place.parent.rmdir()


class AcpAgent(ProgramAgent):
    """A program that speaks the protocol."""

    client = _Client

    def can_continue(self, call: Call) -> bool:
        """A request names its conversation only if the agent can load one."""
        return bool(call.conversation)


class AcpExchange(RpcExchange):
    """One process of the agent, and one conversation with it."""

    lingers = _LINGERS

    def __init__(self, client: _Client, conversation: str, asker: Asker) -> None:
        super().__init__(client.argv)
        self._profile, self._call, self._name = client.profile, client.call, client.name
        self._mode, self._model = client.settings.mode or client.profile.mode, client.model
        self._decisions = Decisions(client.call, client.settings.allowed_tools, asker, client.name)
        self._asker = asker
        self._loads = self._replaying = self._prompted = False
        self._commands: list[str] | None = None
        self._calls: dict[str, dict[str, Any]] = {}
        self._message = self._line = ""  # that is being said, and its unfinished line
        self._remark = ""  # of an error, if the model has said nothing since
        self._answer = _Answer()
        self._undescribed: threading.Timer | None = None
        self._told_tokens = self._untrusted = self._spoken = False
        self._own: set[str] = set()  # calls that are not the model's
        self._result: Object = {}
        self.conversation = conversation
        self.begin()

    # ── what we ask ─────────────────────────────────────────────────────────────────────────

    def script(self) -> Script:
        capabilities = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        ours = {"name": "playbook", "title": "playbook", "version": __version__}
        hello = yield Ask(
            "initialize",
            {
                "protocolVersion": VERSION,
                "clientCapabilities": capabilities,
                "clientInfo": ours,
            },
        )
        self.usage.version = text(hello, "agentInfo", "version")
        if mapping(hello).get("protocolVersion") != VERSION:
            spoken = json.dumps(mapping(hello).get("protocolVersion"))
            message = f"{self._name} speaks version {first_line(spoken, 20)} of the protocol"
            self._fail("PB-AGENT-FAILED", f"{message}, and we speak version {VERSION}")
            return
        loads = mapping(hello, "agentCapabilities").get("loadSession") is True
        self._loads = loads and not self._profile.forgets
        session = yield from self._session()
        yield from self._set("mode", self._mode, session)
        yield from self._set("model", self._model, session)
        prompt = prompt_of(self._call, self.conversation if self._continues else "")
        if self._call.command.startswith("/") and not self._continues:
            prompt = yield from self._as_advertised()
        if self._call.feedback and not self._continues:  # agents lose a second block of text
            prompt = f"{prompt}\n\n{self._call.feedback}"
        said = [prompt]
        while said:
            self._prompted = True
            blocks = [{"type": "text", "text": each} for each in said]
            self._result = yield Ask(
                "session/prompt", {"sessionId": self.conversation, "prompt": blocks}
            )
            said = [] if self._asker.put_off else self._decisions.words()

    def _session(self) -> Part[Object]:
        place = {"cwd": str(self._call.cwd), "mcpServers": []}
        self._continues = bool(self.conversation) and self._loads
        if self._continues:
            self._replaying = True
            try:
                loaded = yield Ask("session/load", {"sessionId": self.conversation, **place})
            except RpcError:  # it is not here: the step begins again
                self._continues = False
            else:
                return mapping(loaded)
            finally:
                self._replaying = False
        made = yield Ask("session/new", place)
        self.conversation = text(made, "sessionId")
        self._untrusted = text(made, "_meta", "workspace_trust", "status") == "untrusted"
        return mapping(made)

    def _set(self, what: str, wanted: str, session: Object) -> Script:
        """Set the mode or the model by the way that the agent offers; one that is not offered is a
        failure, for the agent would go on in another."""
        options = objects(session, "configOptions")
        option = next(
            (each for each in options if what in (each.get("category"), each.get("id"))), {}
        )
        key, listed, current = {
            "mode": ("modeId", "availableModes", "currentModeId"),
            "model": ("modelId", "availableModels", "currentModelId"),
        }[what]
        now = text(session, f"{what}s", current) or text(option, "currentValue")
        if what == "model":
            self.usage.model = wanted or now
        if not wanted or wanted == now:
            return
        group = objects(mapping(session, f"{what}s"), listed)
        offered = [text(each, "id") or text(each, key) for each in group]
        values = [text(each, "value") for each in _values(option)]
        at = {"sessionId": self.conversation}
        if wanted in offered or not (offered or values):
            yield Ask(f"session/set_{what}", {**at, key: wanted})
        elif wanted in values:
            config = {"configId": option.get("id"), "value": wanted}
            yield Ask("session/set_config_option", {**at, **config})
        else:
            there = some([*offered, *values], 12, 300)
            message = f"{self._name} has no {what} {first_line(wanted, 100)}; it has {there}"
            self._fail("PB-AGENT-FAILED", message)
            raise RpcError(0, message)

    def _as_advertised(self) -> Part[str]:
        """The prompt with the command as the agent names it; without it, the process is ended."""
        command = self._call.command

        def found() -> str:
            names = [name for name in self._commands or () if means(name, command)]
            exact = command.removeprefix("/")  # the others may be skills, which some run otherwise
            return exact if exact in names else next(iter(names), "")

        timers = [after(_ADVERTISING, self._missing)]
        yield lambda: self._commands is not None
        timers.append(after(_MORE, self._missing))
        yield lambda: bool(found())
        for timer in timers:
            timer.cancel()
        name = found()
        typed = name if name.startswith(("/", "$")) else f"/{name}"
        return f"{typed} {self._call.args}".rstrip()

    def _missing(self) -> None:
        known = f"; it offers {some(self._commands, 8, 300)}" if self._commands else ""
        known += "; it does not trust this folder" if self._untrusted else ""
        message = f"{self._name} offers no command {first_line(self._call.command)} here{known}"
        self._fail("PB-AGENT-COMMAND", message)
        self.end()

    def cancel(self) -> None:
        if self._prompted:
            self.notify("session/cancel", {"sessionId": self.conversation})

    # ── what it asks and tells ──────────────────────────────────────────────────────────────

    def asked(self, method: str, params: Object) -> Any:
        if method != "session/request_permission":
            raise unsupported(method)
        told = mapping(params, "toolCall")
        if text(told, "toolCallId") not in self._calls and not text(told, "kind"):
            self._undescribed = self._undescribed or after(_MORE, self._not_described)
            raise NotYet  # the call itself follows
        if self._undescribed is not None:
            self._undescribed.cancel()
            self._undescribed = None
        call = self._merged(told)
        call[_ASKED] = True
        options = objects(params, "options")
        if sum(map(allows, options)) > 1:
            return self._answered(call, options)
        tool, given = as_tool(call)
        decided = self._decisions.allow(
            tool, given, description=text(call, "title"), conversation=self._resumable
        )
        if decided is None:
            self.cancel()
            return CANCELLED
        return chosen(options, "allow_once" if decided else "reject_once")

    def _answered(self, call: Object, options: Sequence[Object]) -> Any:
        """The person's choice among several that would be allowed: it is a question."""
        labels = [{"label": text(each, "name")} for each in options if allows(each)]
        given = {
            "questions": [{"question": words_of(call) or text(call, "title"), "options": labels}]
        }
        answer = self._decisions.answer(given, self._resumable)
        if answer is None:
            self.cancel()
            return CANCELLED
        named = [each for each in options if allows(each) and text(each, "name") == answer]
        return chosen(named or options, "allow_once" if named else "reject_once")

    def _not_described(self) -> None:
        message = f"{self._name} asked for a permission without saying for what"
        self._fail("PB-AGENT-PERMISSION", message)
        self.end()

    @property
    def _resumable(self) -> str:
        return self.conversation if self._loads else ""

    def told(self, method: str, params: Object) -> Iterator[str]:
        update = mapping(params, "update")
        kind = text(update, "sessionUpdate")
        if method != "session/update" or (self._replaying and kind != "available_commands_update"):
            return
        if kind.startswith("tool_call"):
            yield from self._said()
        match kind:
            case "agent_message_chunk":
                yield from self._hear_words(text(update, "content", "text"), update)
            case "available_commands_update":
                names = (text(each, "name") for each in objects(update, "availableCommands"))
                self._commands = [name for name in names if name]
            case "tool_call" | "tool_call_update":
                yield from self._hear_call(update)
            case "usage_update":
                self._take_cost(mapping(update, "cost"))

    def _hear_words(self, words: str, update: Object) -> Iterator[str]:
        self._add_tokens(mapping(update, "_meta", "usage"))
        if self._is_remark(words):
            self._remark = words if words.startswith("Error") else self._remark
            yield from filter(str.strip, words.splitlines())
            return
        if self._answer.broke_off(text(update, "messageId"), words):
            message = f"{self._name} repeats an answer that breaks off: the model's server fails"
            self._fail("PB-AGENT-API", message)
        self._message, self._line = self._message + words, self._line + words
        if words.strip():
            self.silent, self._remark, self._spoken = False, "", True
        *whole, self._line = self._line.split("\n")
        yield from filter(str.strip, whole)

    def _is_remark(self, said: str) -> bool:
        return bool(self._profile.remark and re.match(self._profile.remark, said))

    def _hear_call(self, update: Object) -> Iterator[str]:
        if self._is_remark(text(update, "title")):
            self._own.add(text(update, "toolCallId"))
        if text(update, "toolCallId") in self._own:
            return
        known = text(update, "toolCallId") in self._calls
        call = self._merged(update)
        if not known:
            self.tool_calls, self.silent = self.tool_calls + 1, False
            self._spoken = False
        if text(call, "status") != "pending" and not call.get(_LOGGED):
            call[_LOGGED] = True  # before, its input may not be known
            tool, given = as_tool(call)
            yield described(tool, given, str(self._call.cwd))
            if not call.get(_ASKED) and (failed := self._decisions.unasked(tool, given)):
                self.failure = failed

    def _said(self) -> Iterator[str]:
        """Its message has ended: the last line of it, if that is not shown yet."""
        if self._line.strip():
            yield self._line
        self.said = self._message if self._message.strip() else self.said
        self._message = self._line = ""
        self._answer = _Answer()

    def _merged(self, update: Object) -> dict[str, Any]:
        """What is known of the call so far: later messages tell only what is new."""
        call = self._calls.setdefault(text(update, "toolCallId"), {})
        call.update({key: value for key, value in update.items() if value not in (None, [], {})})
        if "rawInput" not in call and (raw := json_object(words_of(update))):
            call["rawInput"] = raw
        return call

    def hear(self, line: str) -> Iterator[str]:
        yield from super().hear(line)
        if self.over:
            yield from self._said()

    def _take_cost(self, cost: Object) -> None:
        amount = cost.get("amount") if cost.get("currency") == "USD" else None
        if isinstance(amount, int | float) and 0 <= amount < _MAX_COST:
            self.usage.cost_usd = round(float(amount), 6)

    def _add_tokens(self, usage: Object) -> None:
        counts = {key: value for key, value in usage.items() if type(value) is int and value >= 0}
        read = sum(counts.get(key, 0) for key in ("inputTokens", "cachedReadTokens"))
        written = counts.get("outputTokens", 0)
        self._told_tokens = self._told_tokens or bool(read or written)
        if (read or written) and self._profile.usage != "last":
            self.usage.add(Usage(input_tokens=read, output_tokens=written))

    # ── its end ─────────────────────────────────────────────────────────────────────────────

    def _fail(self, code: str, message: str) -> None:
        self.failure = failure(code, message)

    def verdict(self) -> Verdict | None:
        if usage := mapping(self._result, "usage"):
            self.usage.input_tokens = self.usage.output_tokens = None  # it is the sum
            self._add_tokens(usage)
        if self.error is not None:
            return of_error(self._name, self.error)
        stop = text(self._result, "stopReason")
        if not stop:
            return None
        if denied := self._decisions.failure():
            return Verdict(denied)
        if stop in _ENDS:
            return Verdict(failure(*_ENDS[stop]))
        if stop != "end_turn":
            message = f"{self._name} ended before its work was done ({first_line(stop, 60)})"
            return Verdict(failure("PB-AGENT-ENDED", message))
        if self._remark:
            return of_words(self._name, _words(self._remark.removeprefix("Error: ")))
        reason = _words(self.errors)
        if self._profile.tells_usage and not self._told_tokens:
            return of_words(self._name, reason or f"{self._name} used no tokens")
        if self._profile.hides_failures and not self._spoken:
            message = (
                f"{self._name} ended without an answer of the model; its server may have failed"
            )
            return Verdict(failure("PB-AGENT-API", with_reason(message, reason)))
        if self.silent:
            return empty(self._name, reason)
        return Verdict()


@dataclass(slots=True)
class _Answer:
    """An answer of the model. Some agents repeat one that breaks off, again and again."""

    id: str = ""
    first: str = ""
    again: int = 0
    heard: float = 0.0

    def broke_off(self, id_: str, words: str) -> bool:
        """Take the next words; true if they have begun anew too often, each time after a pause."""
        now = time.monotonic()
        if not self.first or id_ != self.id:
            self.id, self.first, self.again = id_, words, 0
        elif words == self.first and now - self.heard > _PAUSE:
            self.again += 1
        self.heard = now
        return self.again >= _MOST_BREAKS


def of_error(name: str, error: RpcError) -> Verdict:
    """The verdict on an error with which a request of ours was answered."""
    data = mapping(error.data, "data")
    status = _status(data) or named_status(error.message)
    if not status and error.code == _AUTH_REQUIRED:
        status = min(NOT_LOGGED_IN)
    words = error.message.removeprefix("Internal error").lstrip(": ")
    return of_words(name, _words(_innermost(data) or words or error.message), status)


def _words(text: str) -> str:
    return one_line(printable(text), 400)


def _status(data: object) -> int:
    """The HTTP status that is somewhere in the data of an error, or 0."""
    if isinstance(data, dict):
        for key in _STATUS_KEYS:
            if isinstance(number := data.get(key), int) and 400 <= number < 600:
                return number
        return next(filter(None, map(_status, data.values())), 0)
    return 0


def _innermost(data: object) -> str:
    """The most precise message of an error: the deepest one."""
    if not isinstance(data, dict):
        return ""
    inner = next(filter(None, map(_innermost, data.values())), "")
    own = data.get("message") or data.get("details")
    return inner or (own if isinstance(own, str) else "")


def _values(option: Object) -> list[Object]:
    """The values of a choice, which may be grouped."""
    found = objects(option, "options")
    grouped = [inner for each in found for inner in objects(each, "options")]
    return [*found, *grouped]
