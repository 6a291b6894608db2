"""Claude Code, headless: a fresh process for each call; the client expands the slash command.

The exit status proves nothing, so the result object is judged. Permissions come from the config and
are never bypassed: the client denies what its rules do not allow.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from playbook_supervisor.agents.claude_control import OPTIONS
from playbook_supervisor.agents.claude_conversation import Client, Conversation
from playbook_supervisor.agents.claude_transcripts import conversation_file
from playbook_supervisor.agents.process import environment
from playbook_supervisor.agents.protocol import Budget, Call, Running
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.project.config import Claude, Config

NAME = "claude"
TESTED = ("2.1.329", "2.1.332")
"""The versions of the client with which the tests run, the newest last."""
_GO_ON = "The usage limit that stopped you has been reset. Continue where you stopped."
_DECIDED = """\
You were interrupted because calls of tools needed a person's decision; none was carried out.
The person has now decided. Make each of these calls again, with exactly the same input: the
decision is applied to it. A subagent that waited has ended: start it again, with the same prompt.
Then continue where you stopped."""
_MCP = "mcp__"  # the beginning of the name of an MCP server's tool
_OUTER_CLIENT = frozenset(
    {
        "AI_AGENT",
        "CLAUDECODE",
        "CLAUDE_CODE_CHILD_NOTES_DIR",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_EXECPATH",
        "CLAUDE_CODE_MESSAGING_SOCKET",
        "CLAUDE_CODE_MESSAGING_TOKEN",
        "CLAUDE_CODE_SESSION_ATTENDED",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_EFFORT",
        "CLAUDE_PID",
        "CLAUDE_PROJECT_DIR",
    }
)
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
    reads_claude_commands = True
    asks = True

    def __init__(self, config: Claude) -> None:
        self._config = config

    def available(self) -> str | None:
        from shutil import which

        return None if which(NAME) else f"{NAME} is not on PATH"

    def can_continue(self, call: Call) -> bool:
        """The client keeps its transcripts by folder, and each by the conversation's id."""
        if not re.fullmatch(r"[0-9a-fA-F-]{8,64}", call.conversation):
            return False
        return conversation_file(environment(call), call.cwd, call.conversation).is_file()

    def run(self, call: Call) -> Running:
        client = Client(
            NAME,
            partial(_argv, call, self._config),
            partial(_prompt, call),
            {name: value for name, value in environment(call).items() if name not in _OUTER_CLIENT},
            self._config.allowed_tools,
            self._config.wait_for_limit,
        )
        conversation = Conversation(call, client)
        return Running(conversation.messages(), stop=conversation.stop)


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
    return [NAME, "-p", "--verbose", *given, "--", _prompt(call, session)]


def _prompt(call: Call, session: str) -> str:
    """What the client is told first, in that conversation or in a new one."""
    if not session:
        return call.prompt
    if session != call.conversation:
        return _GO_ON
    told = [reply.text for reply in call.replies.values() if reply.text]
    return "\n\n".join((_DECIDED, *(f"The person said: {words}" for words in told)))


def _restriction(tools: tuple[str, ...] | None) -> list[str]:
    """The options that leave no other tools; `Bash(git *)` is a rule for the tool `Bash`."""
    if tools is None:
        return []
    names = dict.fromkeys(rule.partition("(")[0].strip() for rule in tools)
    built_in = [name for name in names if not name.startswith(_MCP)]
    no_servers = [] if len(built_in) < len(names) else ["--strict-mcp-config"]
    return [f"--tools={','.join(built_in)}", *no_servers]
