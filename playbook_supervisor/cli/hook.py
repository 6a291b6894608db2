"""`hook`: the entry point of Claude Code's hooks."""

from __future__ import annotations

from playbook_supervisor.cli import hook_handler, options


@options.command
def hook() -> int:
    """Answer a hook of Claude Code.

    Reads JSON from stdin and prints JSON or nothing. `playbook init` adds the commands that call
    it to .claude/settings.json.

    \b
    Examples:
      playbook hook <payload.json
    """
    return hook_handler.handle(hook_handler.read_payload())
