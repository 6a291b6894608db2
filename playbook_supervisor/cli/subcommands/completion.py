"""`completion`: the shell completion script."""

from __future__ import annotations

import os

import click
from click.shell_completion import get_completion_class

from playbook_supervisor.cli import options, output
from playbook_supervisor.errors import ArgumentError

_SHELLS = ("bash", "zsh", "fish")


@options.command
@click.argument("shell", metavar="[bash|zsh|fish]", required=False, type=click.Choice(_SHELLS))
def completion(shell: str | None) -> int:
    """Print the shell completion script.

    It completes commands, options, playbooks, sessions and steps. For bash add the first example
    to ~/.bashrc, for zsh the second to ~/.zshrc after `compinit`; for fish run the third once.
    Without an argument it prints the script for $SHELL.

    \b
    Examples:
      eval "$(playbook completion bash)"
      eval "$(playbook completion zsh)"
      playbook completion fish > ~/.config/fish/completions/playbook.fish
    """
    name = shell or os.path.basename(os.environ.get("SHELL", ""))  # noqa: PTH119 - a name is wanted
    kind = get_completion_class(name) if name in _SHELLS else None
    if kind is None:
        raise ArgumentError(
            "PB-ARG-USAGE",
            "your shell could not be determined",
            guidance=f"Name it: `playbook completion {_SHELLS[0]}`, or {' or '.join(_SHELLS[1:])}.",
        )
    output.write(kind(click.Command("playbook"), {}, "playbook", "_PLAYBOOK_COMPLETE").source())
    return 0
