"""Claude Code, headless: a fresh process for each call, the slash command expanded by the client.

Its exit status proves nothing: its last word is judged. Permissions are the config's, and are never
bypassed: whatever its rules do not allow, the client denies.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from playbook_supervisor.agents.claude_conversation import Client, Conversation
from playbook_supervisor.agents.process import environment
from playbook_supervisor.agents.protocol import Budget, Call, Running
from playbook_supervisor.errors import ArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.project.config import Claude, Config

NAME = "claude"
_GO_ON = "The usage limit that stopped you has been reset. Go on where you were."
_OF_ANOTHER = frozenset(
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
"""What a client that we run inside says of itself to its own children: ours is none of them."""


def create(argument: str, config: Config, root: Path) -> ClaudeAgent:
    """`--agent claude`. ArgumentError PB-ARG-AGENT where anything stands behind a colon."""
    del root
    if argument:
        raise ArgumentError(
            "PB-ARG-AGENT",
            "claude takes nothing behind a colon",
            guidance="Write --agent claude: the model is the step's, permissions are the config's.",
        )
    return ClaudeAgent(config.claude)


class ClaudeAgent:
    """The client that is found on PATH, with the permissions that the config gives it."""

    name = NAME
    keeps_budgets = True
    reads_claude_commands = True

    def __init__(self, config: Claude) -> None:
        self._config = config

    def available(self) -> str | None:
        from shutil import which

        return None if which(NAME) else f"{NAME} is not on PATH"

    def run(self, call: Call) -> Running:
        client = Client(
            NAME,
            partial(_argv, call, self._config),
            {name: said for name, said in environment(call).items() if name not in _OF_ANOTHER},
            self._config.allowed_tools,
            self._config.wait_for_limit,
        )
        conversation = Conversation(call, client)
        return Running(conversation.messages(), stop=conversation.stop)


def _argv(call: Call, config: Claude, budget: Budget, session: str) -> list[str]:
    """Every value is glued to its option and the prompt stands behind `--`: none can be another."""
    options = {
        "output-format": "stream-json",
        "permission-mode": config.permission_mode,
        "model": call.model,
        "max-turns": budget.max_turns,
        "max-budget-usd": None if budget.max_cost_usd is None else f"{budget.max_cost_usd:.6f}",
        "resume": session,
    }
    given = [f"--{name}={value}" for name, value in options.items() if value]
    allowed = [f"--allowedTools={rule}" for rule in config.allowed_tools]
    return [NAME, "-p", "--verbose", *given, *allowed, "--", _GO_ON if session else call.prompt]
