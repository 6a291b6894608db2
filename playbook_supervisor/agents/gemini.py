"""Gemini CLI, headless: a fresh process for each call, whose result is in its stream.

It asks no one. What it may do follows from its mode and from a policy file that is made from the
rules of the settings: it edits the repository, and runs what a rule allows. A call that is denied
fails the step with the rule that would allow it. Its exit status is ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import rmtree, which
from tempfile import mkdtemp
from typing import Any

from playbook_supervisor.agents.conversation import (
    Exchange,
    ProgramAgent,
    ProgramClient,
    prompt_of,
)
from playbook_supervisor.agents.protocol import Call
from playbook_supervisor.agents.requests import Asker
from playbook_supervisor.agents.rulings import ruling
from playbook_supervisor.agents.tool_calls import described
from playbook_supervisor.agents.values import Object, mapping, text
from playbook_supervisor.agents.verdicts import (
    CONTEXT,
    NOT_LOGGED_IN,
    OUTPUT,
    TOO_MANY,
    Verdict,
    empty,
    failure,
    not_permitted,
    of_status,
    of_words,
    usage_limit,
    with_reason,
)
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.fields import json_object
from playbook_supervisor.formats.sanitize import first_line, one_line, printable
from playbook_supervisor.kernel.directives import Failure
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
    "length": OUTPUT,
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


class _Client(ProgramClient):
    def isolated(self) -> Sandbox | None:
        """What it makes in its home is gone afterwards, but for its conversations and its login."""
        self._folder = Path(mkdtemp(prefix="playbook-"))
        self._policy, self.events = self._folder / "policy.toml", self._folder / "told/events"
        ensure_folder(self.events.parent)
        told = {**_TELEMETRY, "GEMINI_TELEMETRY_OUTFILE": str(self.events)}
        self.env["TERM"] = "xterm-256color"  # else it complains, each time
        self.env |= told if _ENABLED not in self.env else {}
        sandbox = super().isolated()
        if sandbox is None:
            return None
        inside, home = sandbox.profile, Path.home() / ".gemini"
        dropped = (home / name for name in ("installation_id", "projects.json"))
        return replace(
            sandbox,
            profile=replace(
                inside,
                opened=(*inside.opened, home),
                writable=(*inside.writable, home / "oauth_creds.json", self.events.parent),
                protected=(*inside.protected, inside.folder / ".gemini/settings.json"),
                copied=(*inside.copied, *dropped),
                shown=(*inside.shown, self._policy),
            ),
        )

    def exchange(self, conversation: str, asker: Asker) -> Exchange | Failure:
        del asker
        call, settings = self.call, self.settings
        prompt = prompt_of(call, conversation)
        if call.command.startswith("/") and not conversation:
            index = CommandIndex(call.cwd, home=Path.home(), layout=self.profile.layout)
            if (installed := index.resolve(call.command)) is None:  # it would be sent as words
                message = f"{self.name} has no command {first_line(call.command)} {index.looked}"
                return failure("PB-AGENT-COMMAND", message)
            prompt = f"{installed.name} {call.args}".rstrip()
        write_atomically(self._policy, _policy(call, settings.allowed_tools).encode())
        options = {
            "output-format": "stream-json",
            "approval-mode": settings.mode or _MODE,
            "policy": str(self._policy),
            "model": self.model,
            "resume": conversation,
            "prompt": prompt if conversation else f"{prompt}\n\n{call.feedback}".rstrip(),
        }
        argv = [self.profile.program, "--skip-trust"]
        argv += [f"--{name}={value}" for name, value in options.items() if value]
        return _Exchange(self, argv, conversation)

    def close(self) -> None:
        rmtree(self._folder, ignore_errors=True)

    def usage(self, exchanges: Sequence[Exchange], retries: int) -> dict[str, Any]:
        for each in exchanges[-1:]:
            each.usage.version = _version(self.profile.program)
        return super().usage(exchanges, retries)


class GeminiAgent(ProgramAgent):
    """The `gemini` on PATH."""

    asks = False
    client = _Client


class _Exchange(Exchange):
    """One process of the client."""

    lingers = _LINGERS

    def __init__(self, client: _Client, argv: list[str], conversation: str) -> None:
        super().__init__(argv)
        self._call, self._name, self._events = client.call, client.name, client.events
        self._allowed = client.settings.allowed_tools
        self.conversation = conversation
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
                call = _as_tool(text(event, "tool_name"), mapping(event, "parameters"))
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
            return Verdict(not_permitted(self._name, unruled, allowed, str(self._call.cwd)))
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
                code, message = CONTEXT
                return Verdict(failure(code, with_reason(message, words)))
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


# ── the rules of a call as its policy ───────────────────────────────────────────────────────
#
# The policy knows tools, exact commands, and how a command begins; for several commands on one
# line, it decides each. A narrower rule (`Edit(/docs/**)`, `Bash(npm * test)`) allows nothing
# there, and forbids more than it says.

_Rule = Mapping[str, object]

_TOOLS = {
    "run_shell_command": "Bash",
    "replace": "Edit",
    "write_file": "Write",
    "read_file": "Read",
    "read_many_files": "Read",
    "list_directory": "LS",
    "glob": "Glob",
    "grep_search": "Grep",
    "web_fetch": "WebFetch",
    "google_web_search": "WebSearch",
    "activate_skill": "Skill",
    "invoke_agent": "Task",
}
"""Its tools → those of Claude Code in whose terms rules speak of them."""
_SHELL = "run_shell_command"
_ASKED = (_SHELL, "web_fetch", "activate_skill", "mcp_*")
"""The tools that need a rule. Others read, or edit the repository."""
_EDITING = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Write"})
_READING = frozenset({"Read", "Glob", "Grep", "LS"})
_FORBIDDEN, _ALLOWED, _UNRULED, _UNNAMED = 900, 500, 100, 1
"""The order of the rules, the first of which wins."""
_NOT_ALLOWED = "The settings do not allow this call."
_NEVER = "$^"  # a regular expression that nothing matches


def _as_tool(name: str, given: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """A call of one of its tools, in the terms of Claude Code's."""
    if name.startswith("mcp_"):
        return "mcp__" + name.removeprefix("mcp_").replace("_", "__", 1), given
    return _TOOLS.get(name, name), given


def _policy(call: Call, allowed: Iterable[str]) -> str:
    """The policy file, in TOML; `allowed` are the rules of the settings.

    A step's `tools` are all that it has. Else a tool that needs a rule is there also without one:
    the model shall try, and not make do without.
    """
    rules = [_forbidding(rule) for rule in call.forbidden_rules]
    rules += map(_allowing, (*allowed, *(call.tools or ()), *call.allowed_rules))
    if call.tools is None:
        told = {"argsPattern": ".", "denyMessage": _NOT_ALLOWED}
        rules.append({"toolName": _ASKED, **told, "decision": "deny", "priority": _UNRULED})
        shown = {"toolName": _ASKED, "argsPattern": _NEVER}
        rules.append({**shown, "decision": "allow", "priority": _ALLOWED})
    else:
        rules.append({"toolName": "*", "decision": "deny", "priority": _UNNAMED})
    return "\n".join(f"[[rule]]\n{_toml(rule)}" for rule in rules if rule)


def _toml(rule: _Rule) -> str:
    return "".join(f"{key} = {_json(value)}\n" for key, value in rule.items())


def _allowing(rule: str) -> _Rule:
    """Empty if the policy cannot mean the rule."""
    tool, pattern = _parsed(rule)
    decision = {"decision": "allow", "priority": _ALLOWED}
    if tool == "Bash" and pattern:
        beginning = re.sub(r"(?: |:)\*$", "", pattern)
        if "*" in beginning:
            return {}
        if beginning != pattern:
            return {"toolName": _SHELL, "commandPrefix": beginning, **decision}
        return {"toolName": _SHELL, "commandRegex": f'{_literal(pattern)}"', **decision}
    return {} if pattern and tool not in _READING else {"toolName": _names(tool), **decision}


def _forbidding(rule: str) -> _Rule:
    tool, pattern = _parsed(rule)
    decision = {"decision": "deny", "priority": _FORBIDDEN}
    if tool == "Bash" and pattern:
        beginning = pattern.partition("*")[0].rstrip(" :")
        return {"toolName": _SHELL, "commandRegex": _literal(beginning), **decision}
    return {"toolName": _names(tool), **decision}


def _parsed(rule: str) -> tuple[str, str]:
    tool, _, pattern = rule.strip().partition("(")
    pattern = pattern.removesuffix(")")
    return tool, "" if pattern == "*" else pattern


def _literal(words: str) -> str:
    """A regular expression for these words in JSON, which is what the client searches."""
    return re.sub(r"([\\^$.|?*+()\[\]{}])", r"\\\1", _json(words)[1:-1])


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _names(tool: str) -> list[str]:
    """Its tools that the tool of a rule stands for."""
    if tool.startswith("mcp__"):
        server, _, own = tool.removeprefix("mcp__").partition("__")
        return [f"mcp_{server}_{own or '*'}"]
    alike = next((kind for kind in (_EDITING, _READING) if tool in kind), {tool})
    return [name for name, theirs in _TOOLS.items() if theirs in alike] or [tool]
