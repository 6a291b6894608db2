"""`completion`: the lines by which a shell completes what is typed."""

from __future__ import annotations

import os

from playbook_supervisor.cli import streams
from playbook_supervisor.errors import ArgumentError

SHELLS = ("bash", "zsh", "fish")


def completion(shell: str | None) -> int:
    """Print them, to be read by that shell, or the one that $SHELL names, when it starts."""
    from click import Command
    from click.shell_completion import get_completion_class

    name = shell or os.path.basename(os.environ.get("SHELL", ""))  # noqa: PTH119 - a name is wanted
    kind = get_completion_class(name) if name in SHELLS else None
    if kind is None:
        raise ArgumentError(
            "PB-ARG-USAGE",
            "it is not known which shell this is for",
            guidance=f"Name it: `playbook completion {SHELLS[0]}`, or {' or '.join(SHELLS[1:])}.",
        )
    streams.put(kind(Command("playbook"), {}, "playbook", "_PLAYBOOK_COMPLETE").source())
    return 0
