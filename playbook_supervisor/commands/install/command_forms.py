"""Our feature commands in the form of each agent: where one is written, and its text.

The skills of `.agents/skills` are commands of all agents but Claude Code and Gemini CLI. Qwen Code
reads them, too, but writes the arguments of each into a file of the project.
"""

from __future__ import annotations

from collections.abc import Iterator

from playbook_supervisor.project.command_layouts import CLAUDE

_ARGUMENTS = "$ARGUMENTS"
_REPLACED = "{{args}}"
_TOLD = "what follows the name of this command in the message: "
"""Some agents put nothing in place of `$ARGUMENTS`, but the arguments are in the message."""


def command_file(name: str, layout: str = CLAUDE) -> str:
    """Where that agent finds a command of ours, relative to the repository."""
    if layout == CLAUDE:
        return f".claude/commands/{name}.md"
    if layout == "gemini":
        return f".gemini/commands/{name}.toml"
    if layout == "qwen":
        return f".qwen/commands/{name}.md"
    return f".agents/skills/{_skill_name(name)}/SKILL.md"


def other_forms(name: str, text: str) -> Iterator[tuple[str, str]]:
    """The files of agents other than Claude Code for a command of which `text` is Claude Code's.

    Each is a path relative to the repository, and the content.
    """
    _, front, body = text.split("---\n", 2)
    description = front.partition("description: ")[2].partition("\n")[0]
    skill = f"---\nname: {_skill_name(name)}\ndescription: {description}\n---\n"
    yield command_file(name, "agents"), skill + body.replace(_ARGUMENTS, _TOLD + _ARGUMENTS)
    yield command_file(name, "qwen"), text.replace(_ARGUMENTS, _REPLACED)
    toml = f"description = '{description}'\nprompt = '''\n{body}'''\n"
    yield command_file(name, "gemini"), toml.replace(_ARGUMENTS, _REPLACED)


def _skill_name(name: str) -> str:
    return name.replace(".", "-")  # some agents read no skill with a dot in its name
