"""Claude Code, headless: a fresh process for each call; the client expands the slash command.

The exit status proves nothing, so the result object is judged. Permissions come from the config and
are never bypassed: the client denies what its rules do not allow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shutil import which
from typing import Any

from playbook_supervisor.agents.claude.stream import Account, Stream
from playbook_supervisor.agents.claude.transcripts import conversation_file, ending, subagent_file
from playbook_supervisor.agents.claude.verdict import (
    budget_failure,
    exhausted,
    judge,
    unknown_command,
)
from playbook_supervisor.agents.conversation import Client, Exchange, conversing, prompt_of
from playbook_supervisor.agents.process import InputPipe, environment
from playbook_supervisor.agents.protocol import Budget, Call, Reply, Running
from playbook_supervisor.agents.requests import QUESTION_TOOL, Asker, answers, permission, question
from playbook_supervisor.agents.tool_calls import rules_for
from playbook_supervisor.agents.verdicts import Verdict
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.fields import json_object
from playbook_supervisor.kernel.directives import Failure
from playbook_supervisor.project.command_layouts import CLAUDE
from playbook_supervisor.project.settings.config import Claude, Config
from playbook_supervisor.system.disk.files import ensure_folder

NAME = "claude"
TESTED = ("2.1.329", "2.1.332")
"""The versions of the client with which the tests run, the newest last."""
_HOSTS = ("api.anthropic.com", "platform.claude.com")
"""Of the model, and of the login of a subscription."""
_ADDRESS = "ANTHROPIC_BASE_URL"
_MCP = "mcp__"  # the beginning of the name of an MCP server's tool
_SET_BY_CLIENT = """
AI_AGENT CLAUDECODE CLAUDE_CODE_CHILD_NOTES_DIR CLAUDE_CODE_CHILD_SESSION CLAUDE_CODE_ENTRYPOINT
CLAUDE_CODE_EXECPATH CLAUDE_CODE_MESSAGING_SOCKET CLAUDE_CODE_MESSAGING_TOKEN
CLAUDE_CODE_SESSION_ATTENDED CLAUDE_CODE_SESSION_ID CLAUDE_EFFORT CLAUDE_PID CLAUDE_PROJECT_DIR
"""
_OUTER_CLIENT = frozenset(_SET_BY_CLIENT.split())
"""Variables that an enclosing Claude Code sets for its children; ours must not inherit them."""


def create(argument: str, config: Config, root: Path) -> ClaudeAgent:
    """`--agent claude`. ArgumentError PB-ARG-AGENT if it has an argument."""
    del root
    if argument:
        raise ArgumentError(
            "PB-ARG-AGENT",
            "the agent claude takes no argument",
            guidance="Write --agent claude; the step sets the model, the config the permissions.",
        )
    return ClaudeAgent(config.claude)


class ClaudeAgent:
    """The `claude` on PATH, with the permissions of the config."""

    name = NAME
    keeps_budgets = True
    command_layout = CLAUDE
    asks = True

    def __init__(self, config: Claude) -> None:
        self._config = config

    def available(self) -> str | None:
        return None if which(NAME) else f"{NAME} is not on PATH"

    def can_continue(self, call: Call) -> bool:
        """The client keeps its transcripts by folder, and each by the conversation's id."""
        if not re.fullmatch(r"[0-9a-fA-F-]{8,64}", call.conversation):
            return False
        return conversation_file(environment(call), call.cwd, call.conversation).is_file()

    def run(self, call: Call) -> Running:
        return conversing(call, _Client(call, self._config))


def hosts(env: Mapping[str, str]) -> tuple[str, ...]:
    """The hosts that the client has to reach in that environment."""
    address = env.get(_ADDRESS, "").partition("://")[2].partition("/")[0].rpartition("@")[2]
    return (*_HOSTS, address) if address else _HOSTS


def _argv(call: Call, config: Claude, budget: Budget, session: str) -> list[str]:
    """Values are joined to their options, and the prompt follows `--`: none can be an option."""
    options = {
        "output-format": "stream-json",
        "permission-mode": config.permission_mode,
        "model": call.model,
        "append-system-prompt": call.feedback,
        "max-turns": budget.max_turns,
        "max-budget-usd": None if budget.max_cost_usd is None else f"{budget.max_cost_usd:.6f}",
        "resume": session,
    }
    given = [f"--{name}={value}" for name, value in options.items() if value]
    rules = (*config.allowed_tools, *(call.tools or ()), *call.allowed_rules)
    given += [f"--allowedTools={rule}" for rule in rules]
    given += [f"--disallowedTools={rule}" for rule in call.forbidden_rules]
    given += _restriction(call.tools)
    if call.ask is not None:
        return [NAME, "-p", "--verbose", *given, *_OPTIONS]
    return [NAME, "-p", "--verbose", *given, "--", prompt_of(call, session)]


def _restriction(tools: tuple[str, ...] | None) -> list[str]:
    """The options that leave no other tools; `Bash(git *)` is a rule for the tool `Bash`."""
    if tools is None:
        return []
    names = dict.fromkeys(rule.partition("(")[0].strip() for rule in tools)
    built_in = [name for name in names if not name.startswith(_MCP)]
    no_servers = [] if len(built_in) < len(names) else ["--strict-mcp-config"]
    return [f"--tools={','.join(built_in)}", *no_servers]


class _Client(Client):
    """The client in one call."""

    name, silence = NAME, None

    def __init__(self, call: Call, config: Claude) -> None:
        self.call, self.config = call, config
        self.env = {
            name: value for name, value in environment(call).items() if name not in _OUTER_CLIENT
        }
        sandbox = call.isolation
        self.isolation = sandbox.reaching(hosts(self.env)) if sandbox is not None else None
        self.wait_for_limit = config.wait_for_limit
        self.account = Account()

    def exchange(self, conversation: str, asker: Asker) -> Exchange | Failure:
        budget = self.account.left_of(self.call.budget, conversation)
        if failure := exhausted(budget):
            return failure
        if self.call.isolation is not None:  # what is made in the home is gone afterwards
            ensure_folder(conversation_file(self.env, self.call.cwd, "").parent)
        argv = _argv(self.call, self.config, budget, conversation)
        asks = self.call.ask is not None
        pipe = _prompted(prompt_of(self.call, conversation)) if asks else None
        return _Exchange(self, argv, pipe, asker)

    def usage(self, exchanges: Sequence[Exchange], retries: int) -> dict[str, Any]:
        del exchanges  # the account has all
        weighed = self.call.budget.max_tokens is not None
        return self.account.as_journaled(NAME, retries=retries, weighed=weighed)


class _Exchange(Exchange):
    """One process of the client; it asks through `pipe`, if it may ask."""

    def __init__(
        self, client: _Client, argv: list[str], pipe: InputPipe | None, asker: Asker
    ) -> None:
        super().__init__(argv, pipe or b"")
        self._call, self._config, self._env = client.call, client.config, client.env
        self._account, self.stream = client.account, Stream(root=str(client.call.cwd))
        self._account.streams.append(self.stream)
        self._dialogue = _Dialogue(client.call, asker, pipe) if pipe else None

    def hear(self, line: str) -> Iterator[str]:
        stream, budget = self.stream, self._call.budget
        yield from stream.feed(line)
        if self._dialogue is not None:
            self._dialogue.hear(line, stream.session)
            stream.decided |= self._dialogue.denied
        self.conversation, self.over = stream.session, stream.over
        self.tool_calls, self.silent = stream.tool_calls, stream.silent
        if limit := self._account.overdrawn(budget):
            self.failure = budget_failure(limit, budget, self._account.spent)
        else:
            self.failure = unknown_command(stream, self._call.command)

    def verdict(self) -> Verdict | None:
        stream = self.stream
        self._read_transcripts()
        self.silent = stream.silent
        self.said = str(stream.result.get("result") or stream.said)
        return judge(stream, self._config.allowed_tools, self._call.budget, self._account.spent)

    def _read_transcripts(self) -> None:
        """Learn which hook stopped the work, and what a command did in a context of its own."""
        stream = self.stream
        if not re.fullmatch(r"[\w-]+", stream.session):
            return
        own = conversation_file(self._env, self._call.cwd, stream.session)
        if stream.result.get("terminal_reason") == "hook_stopped":
            stream.hook = ending(own).hook
        elif not stream.turns and (forks := [each for each in stream.forks if each.isalnum()]):
            ends = [ending(subagent_file(own, fork)) for fork in forks]
            stream.hook = ends[-1].hook
            stream.silent = all(end.silent for end in ends)


# ── its control protocol ────────────────────────────────────────────────────────────────────
#
# It asks on its standard output, and reads on its standard input, one object per line. Its input
# stays open until its result, because replies follow the prompt there. A client that is put off is
# interrupted: closing its input would deny what it asks, and the model would go on without.

_OPTIONS = ("--input-format=stream-json", "--permission-prompt-tool=stdio")
"""The options that make a client speak this protocol."""
_WHO = "Claude"
_DENIED = "A person has denied this call."
_ERROR = "the supervisor does not support this request"
_INTERRUPT = {
    "type": "control_request",
    "request_id": "put-off",
    "request": {"subtype": "interrupt"},
}


def _prompted(prompt: str) -> InputPipe:
    """The input of a client that is given that prompt first."""
    pipe = InputPipe()
    message = {"role": "user", "content": prompt}
    pipe.send({"type": "user", "message": message, "parent_tool_use_id": None, "session_id": ""})
    return pipe


class _Dialogue:
    """Replies to what one client process asks; `denied` are the ids of calls that were denied."""

    def __init__(self, call: Call, asker: Asker, client: InputPipe) -> None:
        self._call, self._asker, self._client = call, asker, client
        self.denied: set[str] = set()

    def hear(self, line: str, conversation: str) -> None:
        """Reply to a request of the client, which is asked to end if that is put off. May block."""
        if '"control_request"' not in line:
            return
        event = json_object(line)
        if event.get("type") != "control_request":
            return
        id_, asked = event.get("request_id"), event.get("request")
        if not (
            isinstance(asked, dict)
            and asked.get("subtype") == "can_use_tool"
            and isinstance(asked.get("input"), dict)
        ):
            self._respond({"subtype": "error", "request_id": id_, "error": _ERROR})
        elif (decision := self._decision(asked, conversation)) is not None:
            self._respond({"subtype": "success", "request_id": id_, "response": decision})

    def _decision(self, asked: Mapping[str, Any], conversation: str) -> Mapping[str, Any] | None:
        tool, given = str(asked.get("tool_name") or ""), asked["input"]
        already = self._asker.put_off
        if tool == QUESTION_TOOL:
            request = question(self._call, given, who=_WHO, conversation=conversation)
        else:
            request = permission(
                self._call,
                tool,
                given,
                who=_WHO,
                description=asked.get("description") or "",
                path=asked.get("blocked_path") or "",
                agent=asked.get("agent_id") or "",
                conversation=conversation,
            )
        reply = self._asker.reply(request)
        if reply is None:
            if not already:
                self._client.send(_INTERRUPT)
            return None
        if reply.resolution == "deny":
            self.denied.add(str(asked.get("tool_use_id") or ""))
            return {"behavior": "deny", "message": reply.text or _DENIED}
        if tool == QUESTION_TOOL:
            told = {**given, "answers": answers(given, reply.text)}
            return {"behavior": "allow", "updatedInput": told}
        return {"behavior": "allow", "updatedInput": given, **self._rule(reply, tool, given)}

    def _rule(self, reply: Reply, tool: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The update that makes `always` hold for the rest of the process."""
        rules = list(rules_for(tool, given, str(self._call.cwd)))
        if reply.resolution != "always" or len(rules) != 1:
            return {}
        name, _, content = rules[0].partition("(")
        rule = {"toolName": name} | ({"ruleContent": content[:-1]} if content else {})
        update = {
            "type": "addRules",
            "rules": [rule],
            "behavior": "allow",
            "destination": "session",
        }
        return {"updatedPermissions": [update]}

    def _respond(self, response: Mapping[str, Any]) -> None:
        self._client.send({"type": "control_response", "response": response})
