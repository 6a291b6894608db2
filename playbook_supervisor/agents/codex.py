"""Codex, over `codex app-server`: JSON-RPC lines, with a fresh process for each call.

Its own sandbox keeps what it runs to the repository; what it wants to do outside of it is decided
by the rules of the settings, else by a person. In our isolation, which is a sandbox already, its
own is off. How a turn ended is judged by its status, never by the exit status.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from playbook_supervisor import __version__
from playbook_supervisor.agents.conversation import (
    Exchange,
    ProgramAgent,
    ProgramClient,
    prompt_of,
)
from playbook_supervisor.agents.decisions import Decisions
from playbook_supervisor.agents.json_rpc import (
    Ask,
    Part,
    RpcError,
    RpcExchange,
    Script,
    unsupported,
)
from playbook_supervisor.agents.process import environment
from playbook_supervisor.agents.profiles import means
from playbook_supervisor.agents.protocol import Call
from playbook_supervisor.agents.requests import Asker, answers, question
from playbook_supervisor.agents.tool_calls import described
from playbook_supervisor.agents.values import Object, mapping, objects, text
from playbook_supervisor.agents.verdicts import (
    CONTEXT,
    OUTPUT,
    REFUSED,
    Verdict,
    empty,
    failure,
    of_status,
    usage_limit,
    with_reason,
)
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.fields import json_object
from playbook_supervisor.formats.sanitize import first_line, one_line, printable, some
from playbook_supervisor.kernel.directives import Failure
from playbook_supervisor.records import replace
from playbook_supervisor.system.disk.files import ensure_folder
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.isolation.profiles import git_protected
from playbook_supervisor.system.isolation.sandbox import Sandbox

TESTED = "0.169.0"
"""The version of the client with which the tests run."""
MODES = ("workspace-write", "read-only", "danger-full-access")
_LINGERS = 3.0  # seconds in which it ends by itself, once its input is closed
_PERMISSIONS = "playbook"  # the name of the permission profile that we define
_STATE = ("sessions", "thread-writer-locks", "isolated")
"""Folders of its home that it writes in isolation, the last one for its databases. Others hold what
its sessions outside run or read as settings."""
_OUTER = frozenset(
    {"CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_SESSION_ID", "CODEX_THREAD_ID"}
)
"""Variables that an enclosing Codex sets for its commands."""
_WRITING = frozenset({"Bash", "Edit", "MultiEdit", "NotebookEdit", "Write"})
_OLD = f"Install a newer Codex: npm install -g @openai/codex@{TESTED}"

_UNKNOWN = "unknown variant"  # of a request, to a client that is too old


def _home(env: Mapping[str, str]) -> Path:
    named = env.get("CODEX_HOME", "")
    return Path(named) if named.startswith("/") else Path.home() / ".codex"


def _changes_files(call: Call, mode: str) -> bool:
    """True unless the step or the settings leave it only what reads; a rule such as `Bash(git *)`
    is decided for each call."""
    return mode != "read-only" and (call.tools is None or not _WRITING.isdisjoint(call.tools))


class _Client(ProgramClient):
    def isolated(self) -> Sandbox | None:
        self.env = {name: each for name, each in self.env.items() if name not in _OUTER}
        sandbox, home = super().isolated(), _home(self.env)
        if sandbox is None:
            return None
        self.env["CODEX_SQLITE_HOME"] = str(home / _STATE[-1])
        for name in _STATE:
            ensure_folder(home / name)
        inside = sandbox.profile
        kept = inside.writable if _changes_files(self.call, self.settings.mode) else ()
        return replace(
            sandbox,
            profile=replace(
                inside,
                opened=(*inside.opened, home),
                shown=(*inside.shown, *inside.writable),
                writable=(*kept, *(home / name for name in (*_STATE, "auth.json"))),
                protected=(*inside.protected, inside.folder / ".codex"),
                copied=(*inside.copied, home / "installation_id"),
            ),
        )

    def _is_temporary(self) -> bool:
        """True if the client would put no programs into its home, and so runs no command."""
        temporary = Path(self.env.get("TMPDIR") or "/tmp").resolve()  # noqa: S108 - as it says
        return sys.platform == "linux" and _home(self.env).resolve().is_relative_to(temporary)

    def exchange(self, conversation: str, asker: Asker) -> Exchange | Failure:
        if (mode := self.settings.mode or MODES[0]) not in MODES:
            message = f"{self.name} has no mode {first_line(mode, 60)}; it has {', '.join(MODES)}"
            return failure("PB-AGENT-FAILED", message)
        if self.call.isolation is None and mode != MODES[2] and self._is_temporary():
            message = f"the home of {self.name} is below the folder for temporary files, where its"
            where = "Set CODEX_HOME to another folder, or TMPDIR."
            return failure("PB-AGENT-FAILED", f"{message} sandbox cannot start", guidance=where)
        return CodexExchange(self, mode, conversation, asker)

    def usage(self, exchanges: Sequence[Exchange], retries: int) -> dict[str, Any]:
        """A conversation tells its whole use again in each process that continues it."""
        by_tokens = sorted(exchanges, key=lambda each: each.usage.tokens)
        largest = {each.conversation: each for each in by_tokens}
        last = [each for each in exchanges if each is largest[each.conversation]]
        return super().usage(last, retries)


class CodexAgent(ProgramAgent):
    """The `codex` on PATH."""

    client = _Client

    def can_continue(self, call: Call) -> bool:
        """It keeps each conversation in a file of its home."""
        if not re.fullmatch(r"[0-9a-fA-F-]{8,64}", call.conversation):
            return False
        sessions = _home(environment(call)) / "sessions"
        return any(sessions.glob(f"*/*/*/rollout-*-{call.conversation}.jsonl"))


class CodexExchange(RpcExchange):
    """One process of the client, and one conversation with it."""

    lingers = _LINGERS
    versioned = False

    def __init__(self, client: _Client, mode: str, conversation: str, asker: Asker) -> None:
        super().__init__([client.profile.program, "app-server"])
        self._name, self._call, self._asker = client.name, client.call, asker
        self._mode, self._model = mode, client.model
        self._decisions = Decisions(client.call, client.settings.allowed_tools, asker, client.name)
        self._turn, self._ended = "", dict[str, Any]()
        self._changes: dict[str, list[Object]] = {}
        self._limits: dict[str, Any] = {}
        self._started = self._answered = False
        self.conversation = conversation
        self.begin()

    # ── what we ask ─────────────────────────────────────────────────────────────────────────

    def script(self) -> Script:
        ours = {"name": "playbook", "title": "playbook", "version": __version__}
        capabilities = {"experimentalApi": True, "requestAttestation": False}
        hello = yield Ask("initialize", {"clientInfo": ours, "capabilities": capabilities})
        version = re.search(r"/(\d+\.[\w.-]+)", text(hello, "userAgent"))
        self.usage.version = version[1] if version else ""
        self.notify("initialized", {})
        skill: Object = {}
        if self._call.command.startswith("/") and not self.conversation:
            skill = yield from self._skill()
            if not skill:
                return
        continued = yield from self._thread()
        said = [prompt_of(self._call, self.conversation if continued else "")]
        if not continued:
            said = [f"${text(skill, 'name')} {self._call.args}".rstrip()] if skill else said
            said += [self._call.feedback] if self._call.feedback else []
        items = [{"type": "skill", "name": skill["name"], "path": skill["path"]}] if skill else []
        while said:
            words = [{"type": "text", "text": each, "text_elements": []} for each in said]
            begin = {"threadId": self.conversation, "input": [*words, *items], **self._permitted()}
            self._ended, items = {}, []
            turn = yield Ask("turn/start", begin)
            self._turn, self._started = text(turn, "turn", "id"), True
            yield lambda: bool(self._ended)
            said = [] if self._asker.put_off else self._decisions.words()

    def _skill(self) -> Part[Object]:
        """The skill that is the playbook's command; without it, nothing is sent."""
        listed = yield Ask("skills/list", {"cwds": [str(self._call.cwd)], "forceReload": False})
        places = objects(listed, "data")
        skills = [each for place in places for each in objects(place, "skills")]
        command = self._call.command
        for skill in skills:
            if means(text(skill, "name"), command) and skill.get("enabled") is not False:
                return skill
        broken = [text(each, "message") for place in places for each in objects(place, "errors")]
        names = [text(each, "name") for each in skills if each.get("scope") != "system"]
        known = f"; it offers {some(names, 8, 300)}" if names else ""
        known += f"; it cannot read {some(broken, 2, 300)}" if broken else ""
        message = f"{self._name} offers no command {first_line(command)} here{known}"
        where = "Install it as .agents/skills/NAME/SKILL.md, or correct its name."
        self.failure = failure("PB-AGENT-COMMAND", message, guidance=where)
        return {}

    def _thread(self) -> Part[bool]:
        """Begin or continue the conversation; true if it continues.

        It begins without rights, and each turn gets its own: else the client would write into the
        person's settings that it trusts the folder.
        """
        features = {"default_mode_request_user_input": self._call.ask is not None}
        place = {
            "cwd": str(self._call.cwd),
            "sandbox": "read-only",
            "approvalPolicy": "untrusted" if self._is_free else "on-request",
            "approvalsReviewer": "user",
            "config": {"features": features, "permissions": {_PERMISSIONS: self._profile()}},
        }
        if self._model:
            place["model"] = self._model
        if self.conversation:
            again = {"threadId": self.conversation, "excludeTurns": True}
            with suppress(RpcError):  # it is not here: the step begins again
                thread = yield Ask("thread/resume", {**again, **place})
                self.usage.model = text(thread, "model")
                return True
        thread = yield Ask("thread/start", place)
        self.conversation = text(thread, "thread", "id")
        self.usage.model = text(thread, "model")
        return False

    @property
    def _is_free(self) -> bool:
        """True if no sandbox holds it, so that each command is decided."""
        return self._mode == MODES[2] and self._call.isolation is None

    def _permitted(self) -> Object:
        if self._call.isolation is not None:
            return {"sandboxPolicy": {"type": "externalSandbox", "networkAccess": "enabled"}}
        if not _changes_files(self._call, self._mode):
            return {"sandboxPolicy": {"type": "readOnly", "networkAccess": False}}
        if self._is_free:
            return {"sandboxPolicy": {"type": "dangerFullAccess"}}
        return {"permissions": _PERMISSIONS}

    def _profile(self) -> Object:
        """What it may write: also git's files, to commit, but not those that git obeys."""
        places = {":root": "read", ":tmpdir": "write", ":slash_tmp": "write"}
        with suppress(PlaybookError):  # there need be no repository
            here = checkout.find(self._call.cwd)
            for name in ("hooks", "info"):  # what is not there cannot be protected
                ensure_folder(here.common_dir / name)
            places |= {str(each): "write" for each in (here.common_dir, here.git_dir)}
            places |= {str(each): "read" for each in git_protected(here) if each.exists()}
        return {"filesystem": {":workspace_roots": {".": "write"}, **places}}

    def cancel(self) -> None:
        if self._turn and not self._ended:
            at = {"threadId": self.conversation, "turnId": self._turn}
            self._send({"id": "cancel", "method": "turn/interrupt", "params": at})

    # ── what it asks ────────────────────────────────────────────────────────────────────────

    def asked(self, method: str, params: Object) -> Any:
        reason = text(params, "reason") or text(params, "message")
        match method:
            case "item/commandExecution/requestApproval":
                return {"decision": self._decided([_command(params)], reason)}
            case "item/fileChange/requestApproval" if self._mode == MODES[1]:
                return {"decision": "decline"}
            case "item/fileChange/requestApproval":
                calls = list(map(_change, self._changes.get(text(params, "itemId"), ())))
                unknown = ("Edit", {"file_path": text(params, "grantRoot")})
                return {"decision": self._decided(calls or [unknown], reason)}
            case "item/tool/requestUserInput":
                return {"answers": self._answers(params)}
            case "mcpServer/elicitation/request":
                meta = mapping(params, "_meta")
                if meta.get("codex_approval_kind") != "mcp_tool_call":
                    return {"action": "decline"}
                tool = f"mcp__{text(params, 'serverName')}__{text(meta, 'tool_name')}"
                call = (tool, mapping(meta, "tool_params"))
                return {"action": self._decided([call], reason), "content": {}}
        raise unsupported(method)

    def _decided(self, calls: Sequence[tuple[str, Object]], reason: str) -> str:
        """`accept` if all calls may be made; `cancel`, at the end of the turn, if a person is to
        decide later."""
        for tool, given in calls:
            allowed = self._decisions.allow(
                tool, given, description=reason, conversation=self.conversation
            )
            if allowed is None:
                self.cancel()  # not each `cancel` does that
                return "cancel"
            if not allowed:
                self._steer()
                return "decline"
        return "accept"

    def _steer(self) -> None:
        """Tell the model why, in the turn that goes on: a refusal itself has no words."""
        if words := self._decisions.words():
            said = [{"type": "text", "text": each, "text_elements": []} for each in words]
            at = {"threadId": self.conversation, "expectedTurnId": self._turn, "input": said}
            self._send({"id": "said", "method": "turn/steer", "params": at})

    def _answers(self, params: Object) -> Object:
        asked = objects(params, "questions")
        given = {"questions": [{**each, "options": each.get("options") or []} for each in asked]}
        if self._call.ask is None:
            return {}
        request = question(self._call, given, who=self._name, conversation=self.conversation)
        reply = self._asker.reply(request)
        if reply is None:
            self.cancel()
            return {}
        told = answers(given, reply.text)
        return {
            text(each, "id"): {"answers": [told.get(text(each, "question"), reply.text)]}
            for each in asked
        }

    # ── what it tells ───────────────────────────────────────────────────────────────────────

    def told(self, method: str, params: Object) -> Iterator[str]:
        main = text(params, "threadId") in ("", self.conversation)  # else of a subagent
        item = mapping(params, "item")
        match method:
            case "item/started" if calls := list(_calls(item)):
                self._changes[text(item, "id")] = objects(item, "changes")
                self.tool_calls, self.silent = self.tool_calls + 1, False
                yield from (described(*call, str(self._call.cwd)) for call in calls)
            case "item/completed" if main and text(item, "type") == "agentMessage":
                if (words := text(item, "text")).strip():
                    self.said, self.silent = words, False
                    yield from filter(str.strip, words.splitlines())
            case "thread/tokenUsage/updated" if main:
                self._take_tokens(mapping(params, "tokenUsage", "total"))
                if text(params, "turnId") == self._turn != "":
                    self._answered = True
                    self.usage.turns = (self.usage.turns or 0) + 1
            case "account/rateLimits/updated":
                told = mapping(params, "rateLimits")  # only what is new
                self._limits |= {key: each for key, each in told.items() if each is not None}
            case "error" if params.get("willRetry") is True:
                error = mapping(params, "error")
                why = text(error, "additionalDetails") or text(error, "message")
                yield f"the model's server: {first_line(why, 300)}; the client retries"
            case "model/rerouted" if main:
                self.usage.model = text(params, "toModel") or self.usage.model
            case "turn/completed" if main:
                self._ended = {**mapping(params, "turn")} or {"status": "unknown"}

    def _take_tokens(self, total: Object) -> None:
        counts = [total.get(key) for key in ("inputTokens", "outputTokens")]
        if all(type(each) is int and each >= 0 for each in counts):
            self.usage.input_tokens, self.usage.output_tokens = counts

    # ── its end ─────────────────────────────────────────────────────────────────────────────

    def verdict(self) -> Verdict | None:
        if self.error is not None and not self._started:
            said = _words_of(self.error.message)
            message = with_reason(f"{self._name} {self.usage.version} could not begin", said)
            cure = _OLD if _UNKNOWN in said else "Correct its settings, as the message says."
            return Verdict(failure("PB-AGENT-FAILED", message, guidance=cure))
        if not self.usage.version and "app-server" in self.errors:
            return Verdict(failure("PB-AGENT-NONE", "this codex has no app-server", guidance=_OLD))
        if not self._ended:
            return None
        status, error = text(self._ended, "status"), mapping(self._ended, "error")
        if status == "failed" or error:
            self.tool_calls += self._answered  # what its sandbox refuses is not told
            return _judged(self._name, error, self._limits)
        if status != "completed":
            message = f"{self._name} ended before its work was done ({first_line(status, 60)})"
            return Verdict(failure("PB-AGENT-ENDED", message))
        if denied := self._decisions.failure():
            return Verdict(denied)
        return empty(self._name) if self.silent else Verdict()


def _command(of: Object) -> tuple[str, Object]:
    """The command, without the shell that it is given to."""
    line = text(of, "command")
    with suppress(ValueError):  # an open quote
        words = shlex.split(line)
        if len(words) == 3 and words[1] in ("-c", "-lc"):
            line = words[2]
    return "Bash", {"command": line}


def _change(change: Object) -> tuple[str, Object]:
    tool = "Write" if text(change, "kind", "type") == "add" else "Edit"
    return tool, {"file_path": text(change, "path"), "content": text(change, "diff")}


def _calls(item: Object) -> Iterator[tuple[str, Object]]:
    """What an item does, in the terms of Claude Code's tools; nothing if it is no tool's call."""
    match text(item, "type"):
        case "commandExecution":
            yield _command(item)
        case "fileChange":
            yield from map(_change, objects(item, "changes"))
        case "mcpToolCall":
            tool = f"mcp__{text(item, 'server')}__{text(item, 'tool')}"
            yield tool, mapping(item, "arguments")
        case "webSearch":
            yield "WebSearch", {"query": text(item, "query")}
        case "collabAgentToolCall":
            yield "Task", {"description": text(item, "prompt")}


# ── why a turn has failed, by its own names ─────────────────────────────────────────────────

_FULL = 100  # per cent of a limit
_BAD_REQUEST = 400
_STATUSES = {
    "badRequest": _BAD_REQUEST,
    "unauthorized": 401,
    "modelNotFound": 404,
    "rateLimitExceeded": 429,
    "internalServerError": 500,
    "flexUnavailable": 503,
    "policyCapacityUnavailable": 503,
    "serverOverloaded": 503,
}
"""Its names of the model server's failures → the HTTP status that means the same."""
_ENDS = {
    "contextWindowExceeded": CONTEXT,
    "cyberPolicy": REFUSED,
    "inferenceHookDenied": REFUSED,
    "misalignmentPolicyViolation": REFUSED,
}
_CUTS = {"reason: max_output_tokens": OUTPUT, "reason: content_filter": REFUSED}
_CUT = "stream disconnected"


def _judged(name: str, error: Object, limits: Object) -> Verdict:
    """The verdict on a failed turn: its `error`, and what was last told of the usage limits."""
    info, said = error.get("codexErrorInfo"), text(error, "message")
    kind = next(iter(info), "") if isinstance(info, dict) else str(info or "other")
    words = _words_of(said)
    if kind == "usageLimitExceeded":
        return usage_limit(name, _reset(limits), words)
    if kind in _ENDS:
        code, message = _ENDS[kind]
        return Verdict(failure(code, with_reason(message, words)))
    for found, end in _CUTS.items():
        if found in said:
            return Verdict(failure(*end))
    status = mapping(info, kind).get("httpStatusCode")
    if type(status) is int:
        return of_status(name, status, words)
    if isinstance(info, dict) or _CUT in said:
        return of_status(name, 0, words, lost=True)
    if kind in _STATUSES:
        return of_status(name, _STATUSES[kind], words)
    if kind == "other":  # JSON is the answer of a server that found a fault in the request
        return of_status(name, _BAD_REQUEST if json_object(said) else 0, words)
    message = with_reason(f"{name} ended with {first_line(kind, 60)}", words)
    return Verdict(failure("PB-AGENT-FAILED", message))


def _words_of(said: str) -> str:
    """The message of an error, on one line; it may be the JSON of the model's server."""
    inner = json_object(said)
    told = text(inner, "error", "message") or text(inner, "detail") or said
    return one_line(printable(told), 400)


def _reset(limits: Object) -> int:
    """When the limits that are used up end, in seconds since the epoch; 0 if that is unknown."""
    windows = [mapping(limits, name) for name in ("primary", "secondary")]
    full = [each for each in windows if _used(each) >= _FULL]
    ends = [each.get("resetsAt") for each in full]
    return max((each for each in ends if type(each) is int), default=0)


def _used(window: Object) -> float:
    used = window.get("usedPercent")
    return used if isinstance(used, int | float) else 0
