"""The agents that are known beside Claude Code, as data: how each is started, and what it shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A known agent.

    `program` is looked for on PATH. `made_by` names the class, which is given the agent's name,
    this profile, the settings and the repository. `acp` are the arguments that make it speak the
    Agent Client Protocol, None if it is not driven that way. `layout` says where its command files
    lie. `mode` is the one in which it asks before it acts, `env` what else makes it ask. `asks`:
    which calls it puts to a person; its own settings decide the others.

    `forgets`: a conversation that it loads again lacks the text of the command, so the step begins
    again. `usage` is what its tokens count: all that it used, its last request, or that is not
    known; `tells_usage`: an end without them is a failure. `hides_failures`: where the model's
    server failed, it ends its turn without a word. `remark` is the pattern of a message, or of a
    call's title, that is the agent's own and not the model's; one that begins with `Error` says
    that the model has failed. `leaves` are what it makes for itself in the repository.

    `install` says how to get it. For isolation, `hosts` are those that it has to reach, `homes` its
    folders in the user's home, and `state` those among them whose content has to stay: the
    conversations.
    """

    program: str
    made_by: str = "playbook_supervisor.agents.acp:AcpAgent"
    acp: tuple[str, ...] | None = None
    layout: str = ""
    mode: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    forgets: bool = False
    usage: Literal["all", "last", "unknown"] = "unknown"
    tells_usage: bool = False
    hides_failures: bool = False
    remark: str = ""
    leaves: tuple[str, ...] = ()
    asks: Literal["all", "commands", "outside", "nothing"] = "all"
    install: str = ""
    hosts: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()
    state: tuple[str, ...] = ()


_OPENCODE = (
    '{"*":"ask","read":"allow","glob":"allow","grep":"allow","list":"allow","task":"allow",'
    '"skill":"allow","todoread":"allow","todowrite":"allow"}'
)
"""It allows nearly everything by itself; what only reads, or starts what asks, stays allowed."""

PROFILES: Mapping[str, Profile] = {
    "codex": Profile(
        program="codex",
        made_by="playbook_supervisor.agents.codex:CodexAgent",
        layout="codex",
        asks="outside",
        hosts=("api.openai.com", "chatgpt.com", "auth.openai.com"),
        install="npm install -g @openai/codex",
    ),
    "gemini": Profile(
        program="gemini",
        made_by="playbook_supervisor.agents.gemini:GeminiAgent",
        layout="gemini",
        asks="nothing",
        hosts=(
            "generativelanguage.googleapis.com",
            "cloudcode-pa.googleapis.com",
            "oauth2.googleapis.com",
        ),
        state=(".gemini/tmp", ".gemini/history"),
        install="npm install -g @google/gemini-cli",
    ),
    "opencode": Profile(
        program="opencode",
        acp=("acp",),
        layout="opencode",
        env={"OPENCODE_PERMISSION": _OPENCODE},
        usage="last",
        leaves=(".opencode/.gitignore",),
        homes=(".config/opencode", ".cache/opencode"),
        state=(".local/share/opencode", ".local/state/opencode"),
        install="npm install -g opencode-ai",
    ),
    "copilot": Profile(
        program="copilot",
        acp=("--acp",),
        layout="copilot",
        usage="all",
        tells_usage=True,
        remark=r"(?:Info|Error): ",
        hosts=("api.githubcopilot.com", "*.githubcopilot.com", "api.github.com", "github.com"),
        homes=(".copilot",),
        state=(".copilot/session-state",),
        install="npm install -g @github/copilot",
    ),
    "qwen": Profile(
        program="qwen",
        acp=("--acp",),
        layout="qwen",
        mode="default",
        forgets=True,
        usage="all",
        leaves=(".qwen/tmp",),
        homes=(".qwen",),
        state=(".qwen/projects", ".qwen/tmp"),
        install="npm install -g @qwen-code/qwen-code",
    ),
    "kimi": Profile(
        program="kimi",
        acp=("acp",),
        layout="kimi",
        mode="default",
        hides_failures=True,
        asks="commands",
        install="npm install -g @moonshot-ai/kimi-code",
        hosts=("api.kimi.com", "api.moonshot.ai", "api.moonshot.cn"),
        homes=(".kimi-code",),
        state=(".kimi-code/sessions",),
    ),
    "vibe": Profile(
        program="vibe-acp",
        acp=(),
        layout="vibe",
        mode="ask",
        remark="Loading skill: ",
        usage="all",
        tells_usage=True,
        hosts=("api.mistral.ai",),
        homes=(".vibe",),
        state=(".vibe/logs",),
        install="uv tool install mistral-vibe",
    ),
}
"""By the name that `--agent`, a step and the settings use."""


def means(name: str, command: str) -> bool:
    """True if what an agent calls a command is a playbook's: `$speckit-plan` is `/speckit.plan`."""
    bare = name.lstrip("/$").removeprefix("skill:")
    return bare.replace(".", "-") == command.removeprefix("/").replace(".", "-")
