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

from playbook_supervisor.agents.claude.control import OPTIONS, Dialogue, prompted
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
from playbook_supervisor.agents.protocol import Budget, Call, Running
from playbook_supervisor.agents.requests import Asker
from playbook_supervisor.agents.verdicts import Verdict
from playbook_supervisor.errors import ArgumentError
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
        return [NAME, "-p", "--verbose", *given, *OPTIONS]
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
        self._call, self._config = call, config
        self.env = {
            name: value for name, value in environment(call).items() if name not in _OUTER_CLIENT
        }
        sandbox = call.isolation
        self.isolation = sandbox.reaching(hosts(self.env)) if sandbox is not None else None
        self.wait_for_limit = config.wait_for_limit
        self._account = Account()

    def exchange(self, conversation: str, asker: Asker) -> Exchange | Failure:
        budget = self._account.left_of(self._call.budget, conversation)
        if failure := exhausted(budget):
            return failure
        if self._call.isolation is not None:  # what is made in the home is gone afterwards
            ensure_folder(conversation_file(self.env, self._call.cwd, "").parent)
        argv = _argv(self._call, self._config, budget, conversation)
        asks = self._call.ask is not None
        pipe = prompted(prompt_of(self._call, conversation)) if asks else None
        made = _Exchange(argv, pipe, asker, self._call, self._config, self._account, self.env)
        self._account.streams.append(made.stream)
        return made

    def usage(self, exchanges: Sequence[Exchange], retries: int) -> dict[str, Any]:
        del exchanges  # the account has all
        weighed = self._call.budget.max_tokens is not None
        return self._account.as_journaled(NAME, retries=retries, weighed=weighed)


class _Exchange(Exchange):
    """One process of the client; it asks through `pipe`, if it may ask."""

    def __init__(
        self,
        argv: list[str],
        pipe: InputPipe | None,
        asker: Asker,
        call: Call,
        config: Claude,
        account: Account,
        env: Mapping[str, str],
    ) -> None:
        super().__init__(argv, pipe or b"")
        self.stream = Stream(root=str(call.cwd))
        self._call, self._config, self._account, self._env = call, config, account, env
        self._dialogue = Dialogue(call, asker, pipe) if pipe else None

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
