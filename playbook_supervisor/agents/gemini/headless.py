"""Gemini CLI, headless: a fresh process for each call, whose result is in its stream.

It asks no one. What it may do follows from its mode and from a policy file that is made from the
rules of the settings: it edits the repository, and runs what a rule allows. A call that is denied
fails the step with the rule that would allow it. Its exit status is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import rmtree, which
from tempfile import mkdtemp
from typing import Any

from playbook_supervisor.agents.conversation import (
    Client,
    Exchange,
    ProgramAgent,
    conversing,
    isolated,
    model_of,
    prompt_of,
)
from playbook_supervisor.agents.gemini.policy import as_tool, policy
from playbook_supervisor.agents.json_rpc import Object, mapping, text
from playbook_supervisor.agents.process import environment
from playbook_supervisor.agents.profiles import Profile
from playbook_supervisor.agents.protocol import Call, Running
from playbook_supervisor.agents.requests import Asker
from playbook_supervisor.agents.rulings import ruling
from playbook_supervisor.agents.tool_calls import described
from playbook_supervisor.agents.verdicts import (
    NOT_LOGGED_IN,
    TOO_MANY,
    Verdict,
    empty,
    failure,
    line_to_add,
    of_status,
    of_words,
    usage_limit,
    with_reason,
)
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.fields import json_object
from playbook_supervisor.formats.sanitize import first_line, one_line, printable, some
from playbook_supervisor.kernel.directives import Failure
from playbook_supervisor.project.settings.config import AgentSettings
from playbook_supervisor.project.slash_commands import CommandIndex
from playbook_supervisor.records import replace
from playbook_supervisor.system.disk.files import ensure_folder, read_bytes, write_atomically
from playbook_supervisor.system.isolation.sandbox import Sandbox

_MODE = "auto_edit"
_PACKAGE = 1 << 20  # bytes of a package.json
_LINGERS = 5.0  # seconds in which it ends by itself after its result
_UNREAD = "Policy file error in policy.toml"
_DENIED = "policy_violation"
_STATUS = r"(?:\"code\":|\bstatus:) ?([45]\d\d)\b"
"""The HTTP status in what it says, or writes to its standard error."""
_ENABLED = "GEMINI_TELEMETRY_ENABLED"
_TELEMETRY = {
    _ENABLED: "true",
    "GEMINI_TELEMETRY_TARGET": "local",
    "GEMINI_TELEMETRY_LOG_PROMPTS": "false",
    "GEMINI_TELEMETRY_TRACES_ENABLED": "false",
}
"""Makes it write into a file how each answer ended: its stream calls one that was cut a success."""
_END = r'"finish_reasons": \[[^\]]*"(\w+)"\s*\],\s*"role": "main"'
_TAIL = 1 << 20  # bytes at the end of that file
_CUTS = {
    "length": ("PB-AGENT-OUTPUT", "an answer of the model reached the limit on its length"),
    "content_filter": ("PB-AGENT-REFUSED", "the model's server cut its answer off"),
}
_FAULTS = (
    (r"exhausted your (?:daily )?(?:quota|capacity)", "limit"),
    (r"request a quota increase|rate limit", "rate"),
    (r"(?:an|invalid) auth method|API key not valid|API_KEY_INVALID", "login"),
    (r"exceeds the maximum number of tokens|context window", "context"),
    (r"empty response", "empty"),
    (r"stream ended|fetch failed|ECONN|ETIMEDOUT|socket hang up", "lost"),
)
"""Words of the client's errors, and what they mean. Their kind is always `unknown`."""


class GeminiAgent(ProgramAgent):
    """The `gemini` on PATH."""

    asks = False

    def run(self, call: Call) -> Running:
        return conversing(call, _Client(self.name, self.profile, self.settings, call))


class _Client(Client):
    def __init__(self, name: str, profile: Profile, settings: AgentSettings, call: Call) -> None:
        self.name, self._profile, self._settings, self._call = name, profile, settings, call
        self._folder = Path(mkdtemp(prefix="playbook-"))
        self._policy, self._events = self._folder / "policy.toml", self._folder / "told/events"
        ensure_folder(self._events.parent)
        told = {**_TELEMETRY, "GEMINI_TELEMETRY_OUTFILE": str(self._events)}
        self.env = {**environment(call), "TERM": "xterm-256color"}  # else it complains, each time
        self.env |= told if _ENABLED not in self.env else {}
        self.isolation = self._isolated(isolated(call, profile))

    def _isolated(self, sandbox: Sandbox | None) -> Sandbox | None:
        """What it makes in its home is gone afterwards, but for its conversations and its login."""
        if sandbox is None:
            return None
        inside, home = sandbox.profile, Path.home() / ".gemini"
        dropped = (home / name for name in ("installation_id", "projects.json"))
        return replace(
            sandbox,
            profile=replace(
                inside,
                opened=(*inside.opened, home),
                writable=(*inside.writable, home / "oauth_creds.json", self._events.parent),
                protected=(*inside.protected, inside.folder / ".gemini/settings.json"),
                copied=(*inside.copied, *dropped),
                shown=(*inside.shown, self._policy),
            ),
        )

    def exchange(self, conversation: str, asker: Asker) -> Exchange | Failure:
        del asker
        call, settings = self._call, self._settings
        prompt = prompt_of(call, conversation)
        if call.command.startswith("/") and not conversation:
            index = CommandIndex(call.cwd, home=Path.home(), layout=self._profile.layout)
            if (installed := index.resolve(call.command)) is None:  # it would be sent as words
                message = f"{self.name} has no command {first_line(call.command)} {index.looked}"
                return failure("PB-AGENT-COMMAND", message)
            prompt = f"{installed.name} {call.args}".rstrip()
        write_atomically(self._policy, policy(call, settings.allowed_tools).encode())
        options = {
            "output-format": "stream-json",
            "approval-mode": settings.mode or _MODE,
            "policy": str(self._policy),
            "model": model_of(call, settings),
            "resume": conversation,
            "prompt": prompt if conversation else f"{prompt}\n\n{call.feedback}".rstrip(),
        }
        argv = [self._profile.program, "--skip-trust"]
        argv += [f"--{name}={value}" for name, value in options.items() if value]
        made = _Exchange(argv, call, settings.allowed_tools, self.name, self._events)
        made.conversation = conversation
        return made

    def close(self) -> None:
        rmtree(self._folder, ignore_errors=True)

    def usage(self, exchanges: Sequence[Exchange], retries: int) -> dict[str, Any]:
        for each in exchanges[-1:]:
            each.usage.version = _version(self._profile.program)
        return super().usage(exchanges, retries)


class _Exchange(Exchange):
    """One process of the client."""

    lingers = _LINGERS

    def __init__(
        self, argv: list[str], call: Call, allowed: tuple[str, ...], name: str, events: Path
    ) -> None:
        super().__init__(argv)
        self._call, self._allowed, self._name, self._events = call, allowed, name, events
        self._words = self._line = ""  # of the message that is being said, and not yet shown
        self._calls: dict[str, tuple[str, Object]] = {}
        self._denied: list[tuple[str, Object]] = []
        self._fault = ""
        self._result: Object = {}

    def hear(self, line: str) -> Iterator[str]:
        event = json_object(line)
        kind = text(event, "type")
        if kind == "message" and text(event, "role") == "assistant":
            self._words += text(event, "content")
            whole, newline, self._line = (self._line + text(event, "content")).rpartition("\n")
            yield from filter(str.strip, (whole + newline).splitlines())
            return
        if self._words.strip():
            self.said, self.silent = self._words.strip(), False
            yield from filter(str.strip, [self._line])
        self._words = self._line = ""
        match kind:
            case "init":
                self.conversation = text(event, "session_id")
                self.usage.model = text(event, "model")
            case "tool_use":
                call = as_tool(text(event, "tool_name"), mapping(event, "parameters"))
                self._calls[text(event, "tool_id")] = call
                self.tool_calls, self.silent = self.tool_calls + 1, False
                yield described(*call, str(self._call.cwd))
            case "tool_result" if text(event, "error", "type") == _DENIED:
                self._denied += filter(None, [self._calls.get(text(event, "tool_id"))])
            case "error" if text(event, "severity") == "error":
                self._fault = text(event, "message")
            case "result":
                self._result, self.over = event, True
                self._take_tokens(mapping(event, "stats"))

    def _take_tokens(self, stats: Object) -> None:
        counts = [stats.get(key) for key in ("input_tokens", "output_tokens")]
        if all(type(each) is int and each >= 0 for each in counts):
            self.usage.input_tokens, self.usage.output_tokens = counts

    def verdict(self) -> Verdict | None:
        if _UNREAD in self.errors:
            message = f"{self._name} has not read the policy that it was given"
            return Verdict(failure("PB-AGENT-FAILED", message, self.errors[:2_000]))
        if not self._result:
            meaning, words = _meaning(self.errors), first_line(printable(self.errors), 300)
            return of_status(self._name, min(NOT_LOGGED_IN), words) if meaning == "login" else None
        if text(self._result, "status") != "success":
            return self._failed(text(self._result, "error", "message") or self._fault)
        allowed = self._allowed
        unruled = [each for each in self._denied if ruling(self._call, allowed, *each) != "deny"]
        if unruled:
            root = str(self._call.cwd)
            calls = some([described(*each, root) for each in unruled], 3, 400)
            message = f"{self._name} was not permitted: {calls}"
            line = line_to_add(self._name, unruled, allowed, root)
            return Verdict(failure("PB-AGENT-PERMISSION", message, guidance=line, lasts=True))
        if (end := _last_end(self._events)) in _CUTS:
            return Verdict(failure(*_CUTS[end]))
        return empty(self._name) if self.silent else Verdict()

    def _failed(self, said: str) -> Verdict:
        inner = re.search(r"\{.*\}", said, re.DOTALL)
        error = mapping(json_object(inner[0]), "error") if inner else {}
        words = one_line(printable(text(error, "message") or said), 400)
        match _meaning(said):
            case "login":
                return of_status(self._name, min(NOT_LOGGED_IN), words)
            case "limit":
                return usage_limit(self._name, 0, words)
            case "rate":
                return of_status(self._name, TOO_MANY, words)
            case "context":
                message = "the conversation does not fit into the model's context"
                return Verdict(failure("PB-AGENT-CONTEXT", with_reason(message, words)))
            case "empty":
                return empty(self._name, words)
            case "lost":
                return of_status(self._name, 0, words, lost=True)
        told = re.findall(_STATUS, said) or re.findall(_STATUS, self.errors) or ["0"]
        return of_words(self._name, words, int(told[-1]))


def _last_end(events: Path) -> str:
    """How the model's last answer ended, as the client's telemetry names it; empty if unknown."""
    with suppress(OSError), events.open("rb") as file:
        file.seek(max(0, events.stat().st_size - _TAIL))
        ends = re.findall(_END, file.read(_TAIL).decode("utf-8", "replace"))
        return str(ends[-1]) if ends else ""
    return ""


def _version(program: str) -> str:
    """The version in its package, for the client would need a second to tell it."""
    for folder in Path(which(program) or "/").resolve().parents:
        with suppress(OSError, PlaybookError):
            told = read_bytes(folder / "package.json", limit=_PACKAGE)
            package = json_object(told.decode("utf-8", "replace"))
            if text(package, "name") == "@google/gemini-cli":
                return text(package, "version")
    return ""


def _meaning(said: str) -> str:
    found = (meaning for words, meaning in _FAULTS if re.search(words, said, re.IGNORECASE))
    return next(found, "")
