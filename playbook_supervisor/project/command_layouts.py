"""Where each known agent keeps its slash commands, and what it calls them, as data."""

from __future__ import annotations

from collections.abc import Mapping

from playbook_supervisor.records import Record

CLAUDE = "claude"


class Layout(Record):
    """The places of an agent's commands.

    `project` and `user` are patterns below the repository and the home, the first of which wins: in
    place of N is the command's name, in place of ** any folders. A person types `prefix` before the
    name. Where `grouped`, a command in a folder below is called `folder:name`; elsewhere it has no
    name that a playbook can give. A skill is listed by the name in its front matter, or by
    that of its folder (`by_folder`). `hides`: `user-invocable: false` keeps it from people.
    """

    project: tuple[str, ...]
    user: tuple[str, ...]
    prefix: str = "/"
    grouped: bool = False
    by_folder: bool = False
    hides: bool = False

    @property
    def folders(self) -> str:
        """The project's folders, for messages."""
        places = (pattern.partition("/**")[0].partition("/N")[0] for pattern in self.project)
        return ", ".join(dict.fromkeys(places))


_SHARED = ".agents/skills/N/SKILL.md"
_SHARED_DEEP = ".agents/skills/**/N/SKILL.md"
_CLAUDE = (".claude/skills/N/SKILL.md", ".claude/commands/N.md")
_CODEX = (_SHARED_DEEP, ".codex/skills/**/N/SKILL.md")
_GEMINI = (".gemini/commands/N.toml",)
_QWEN = (
    *(".qwen/commands/N.md", ".qwen/commands/N.toml"),
    *(".qwen/skills/N/SKILL.md", _SHARED),
)
_KIMI = (".kimi-code/skills/**/N/SKILL.md", _SHARED_DEEP)
_VIBE = (".vibe/skills/N/SKILL.md", _SHARED)
_COPILOT = (_SHARED_DEEP, ".claude/skills/**/N/SKILL.md", ".claude/commands/N.md")
_OPENCODE_SKILLS = (".claude/skills/**/N/SKILL.md", _SHARED_DEEP)


def _opencode(folder: str) -> tuple[str, ...]:
    commands = (f"{folder}/{each}/N.md" for each in ("commands", "command"))
    skills = (f"{folder}/{each}/**/N/SKILL.md" for each in ("skills", "skill"))
    return (*commands, *skills)


LAYOUTS: Mapping[str, Layout] = {
    CLAUDE: Layout(_CLAUDE, _CLAUDE, grouped=True, by_folder=True, hides=True),
    "codex": Layout(_CODEX, _CODEX, "$"),
    "copilot": Layout(
        (".github/skills/**/N/SKILL.md", *_COPILOT),
        (".copilot/skills/**/N/SKILL.md", _SHARED_DEEP),
        hides=True,
    ),
    "gemini": Layout(_GEMINI, _GEMINI, grouped=True),
    "kimi": Layout(_KIMI, _KIMI, "/skill:"),
    "opencode": Layout(
        (*_opencode(".opencode"), *_OPENCODE_SKILLS),
        (*_opencode(".config/opencode"), *_opencode(".opencode"), *_OPENCODE_SKILLS),
    ),
    "qwen": Layout(_QWEN, _QWEN, grouped=True, hides=True),
    "vibe": Layout(_VIBE, _VIBE, hides=True),
}
"""By the name that an agent's `command_layout` has. What is not here is not known."""
