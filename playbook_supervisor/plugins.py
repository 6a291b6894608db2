"""The additions of installed packages, found through entry points.

The houses `fleet`, `inbox` and `dialects` come in this way, too, so the core names none of them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

AGENTS = "playbook_supervisor.agents"
"""A `Factory` for each name that `--agent` accepts (docs/agents.md)."""
COMMANDS = "playbook_supervisor.commands"
"""A click command for each name after `playbook`."""
DIALECTS = "playbook_supervisor.dialects"
"""A `Dialect` for each format of another system (docs/dialects.md)."""
EXECUTORS = "playbook_supervisor.executors"
"""An executor for each namespace of commands (docs/executors.md)."""
PLACES = "playbook_supervisor.places"
"""A `Place` where sessions are found besides this repository (commands/places.py)."""


def offered(group: str) -> dict[str, EntryPoint]:
    """The offers of installed packages there, by name."""
    from importlib.metadata import entry_points

    return {each.name: each for each in sorted(entry_points(group=group))}
