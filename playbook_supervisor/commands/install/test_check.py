"""The check `test` that `init` proposes for config.yaml: how this project runs its tests.

Settings that already have `checks` are left alone, also if they are empty: a person decided.
"""

from __future__ import annotations

from pathlib import Path

from playbook_supervisor.commands.install import changes
from playbook_supervisor.commands.install.changes import Action, FileChange
from playbook_supervisor.formats.strict_yaml import load
from playbook_supervisor.formats.yaml_writer import Block, flow, pair
from playbook_supervisor.project import config
from playbook_supervisor.project.test_command import Proposal, detect

NAME = "test"

_HEADER = "# The settings of this project; `playbook schema config` describes every key.\n"


def proposed(root: Path) -> Proposal | None:
    """What `init` would add; None if the settings have `checks`, or no command is found.

    Errors as for `config.text`, and CheckError if the settings are no YAML.
    """
    return detect(root) if is_open(root) else None


def is_open(root: Path) -> bool:
    """Whether the settings say nothing about checks yet. Errors as for `proposed`."""
    settings = load(config.text(root) or b"", config.FILE).data
    return not isinstance(settings, dict) or "checks" not in settings


def line(proposal: Proposal) -> str:
    """The check as config.yaml says it: `test: {run: [make, test]}`."""
    return f"{NAME}: {flow(_check(proposal))}"


def change(root: Path, proposal: Proposal) -> FileChange:
    """How the check is added to config.yaml."""
    if why := changes.obstacle(root, config.FILE):
        return FileChange(Action(config.FILE, "conflict", why))
    before = config.text(root)
    why = f"checks: {line(proposal)}, as {proposal.source} says"
    action = Action(config.FILE, "merge" if before else "write", why)
    return FileChange(action, with_check(before or b"", proposal))


def with_check(text: bytes, proposal: Proposal) -> bytes:
    """The settings with the check; everything that is there stays as it is, comments too."""
    checks = Block({NAME: _check(proposal)})
    if isinstance(load(text, config.FILE).data, dict):
        from playbook_supervisor.formats.yaml_edit import edit_mapping

        return edit_mapping(text, {}, {"checks": checks})
    above = text.decode() if text.strip() else _HEADER
    return (above.rstrip("\n") + "\n\n" + pair("checks", checks, 0)).encode()


def _check(proposal: Proposal) -> dict[str, object]:
    env = {"env": dict(proposal.env)} if proposal.env else {}
    return {"run": proposal.run, **env}
