"""The files that this release installs in a project, and the digests of every earlier release.

A file that equals a released one was not edited, even if install.yaml disagrees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from playbook_supervisor.drivers.claude_code import hook_script
from playbook_supervisor.drivers.claude_code.marker import SCRIPT
from playbook_supervisor.project.command_layouts import CLAUDE, LAYOUTS
from playbook_supervisor.project.install_record import as_fingerprint
from playbook_supervisor.project.playbooks import library
from playbook_supervisor.project.playbooks.schema import schema_text
from playbook_supervisor.system.disk import templates
from playbook_supervisor.system.disk.files import read_bytes

CHANGE = "auto-change"
"""The shipped playbook that needs no commands and no feature, only a check `test`."""
PLAYBOOKS = (
    "auto-feature",
    "auto-speckit",
    "auto-hotfix",
    "auto-intake",
    CHANGE,
    "auto-validate",
)
"""The shipped playbooks, the one that does most first."""
COMMANDS = tuple(
    f"playbook.{name}"
    for name in ("run", "resume", "status", "list", "pause", "abort", "create", "goal")
)
"""The shipped slash commands that belong to this program."""
FEATURE_COMMANDS = ("agreement.create", "agreement.check", "qa.plan", "qa.run", "feature.pr")
"""The shipped slash commands that do a step's work, for projects that have none of their own."""

RETIRED = (".knowledge/guides/playbook-authoring.md", "docs/playbook-authoring.md")
"""Where earlier versions installed the authoring guide, which `playbook help authoring` prints."""

RELEASES = "released.sha256"
"""The template file with a line `digest  path` for each version of a file in a release."""


# ── our feature commands in the form of each agent ───────────────────────────────────────────
#
# The skills of `.agents/skills` are commands of all agents but Claude Code and Gemini CLI. Qwen
# Code reads them, too, but writes the arguments of each into a file of the project.

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


# ── all files ───────────────────────────────────────────────────────────────────────────────


def playbook_file(name: str) -> str:
    """Where a playbook is installed, relative to the repository."""
    return f"{library.FOLDER}/{name}.yaml"


PLAYBOOK_FILES = frozenset(map(playbook_file, PLAYBOOKS))
FEATURE_COMMAND_FILES = frozenset(
    command_file(name, layout) for name in FEATURE_COMMANDS for layout in LAYOUTS
)
OPTIONAL = PLAYBOOK_FILES | FEATURE_COMMAND_FILES
"""The files that are installed only where they are of use."""


def files() -> dict[str, bytes]:
    """The content of every file that can be installed, by its path in the project."""
    folder = templates.folder()
    sources = {
        **{playbook_file(name): f"playbooks/{name}.yaml" for name in PLAYBOOKS},
        f"{library.TOP}/templates/playbook.tpl.yaml": "playbook.tpl.yaml",
        f"{library.TOP}/README.md": "playbooks-folder.md",
        **{command_file(name): f"commands/{name}.md" for name in COMMANDS},
        **{command_file(name): f"feature-commands/{name}.md" for name in FEATURE_COMMANDS},
    }
    shipped = {path: read_bytes(folder / source) for path, source in sources.items()}
    for name in FEATURE_COMMANDS:
        text = shipped[command_file(name)].decode()
        shipped |= {path: form.encode() for path, form in other_forms(name, text)}
    return shipped | {
        f"{library.TOP}/playbook.schema.json": schema_text("playbook").encode(),
        SCRIPT: hook_script.shipped(),
    }


def released() -> Mapping[str, frozenset[str]]:
    """The fingerprints of each file in all releases, by path, including retired files.

    `tools/record_release.py` adds those of a new release.
    """
    found: dict[str, set[str]] = {}
    for line in read_bytes(templates.folder() / RELEASES).decode().splitlines():
        hexdigest, _, path = line.partition("  ")
        if path and not line.startswith("#"):
            found.setdefault(path, set()).add(as_fingerprint(hexdigest))
    return {path: frozenset(digests) for path, digests in found.items()}
