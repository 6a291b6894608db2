"""The agent for which `init` looks for commands, and in whose form it writes ours."""

from __future__ import annotations

from pathlib import Path

from playbook_supervisor.agents import registry
from playbook_supervisor.commands.install import shipped
from playbook_supervisor.drivers.claude_code import settings
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.project.command_layouts import CLAUDE, LAYOUTS
from playbook_supervisor.project.install_record import read_installation
from playbook_supervisor.project.settings import config


def layout_of(root: Path, asked: str = "") -> str:
    """The `command_layout` of the project's agent.

    It is the one that the settings name or a person asked for, else Claude Code if the project or
    the machine has it, else the only known agent that is found, else Claude Code. ArgumentError
    PB-ARG-AGENT if the settings name another one than a person, or its folders are not known.
    """
    project = config.load(root)
    if asked and project.agent not in ("", asked):
        raise ArgumentError(
            "PB-ARG-AGENT",
            f"--agent {first_line(asked, 60)}: the settings name {first_line(project.agent, 60)}",
            where=config.FILE,
            guidance="Omit --agent, or change `agent` in the settings.",
        )
    if named := asked or project.agent:
        layout = registry.layout_of(named, project, root)
        if asked and not layout:
            raise ArgumentError(
                "PB-ARG-AGENT",
                f"it is not known where the agent {first_line(asked, 60)} reads commands",
                guidance=f"Known are {', '.join(LAYOUTS)}.",
            )
        return layout or CLAUDE
    found = list(registry.on_this_machine())
    if CLAUDE in found or len(found) != 1 or _has_claude(root):
        return CLAUDE
    return registry.layout_of(found[0], project, root) or CLAUDE


def _has_claude(root: Path) -> bool:
    """True if the project has files of Claude Code that `init` does not write in every project."""
    recorded = read_installation(root)
    ours = {*recorded.files, settings.FILE} - shipped.FEATURE_COMMAND_FILES
    files = (file for file in (root / ".claude").rglob("*") if file.is_file())
    return any(not recorded.version or str(file.relative_to(root)) not in ours for file in files)
