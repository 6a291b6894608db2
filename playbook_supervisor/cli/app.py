"""The `playbook` command: help in three groups, and click's errors in our own words."""

from __future__ import annotations

from collections.abc import Sequence

import click

from playbook_supervisor import __version__
from playbook_supervisor.cli import everyday, mending, options, protocol
from playbook_supervisor.errors import ArgumentError

_GROUPS = {
    "Every day": everyday.COMMANDS,
    "Look and mend": mending.COMMANDS,
    "Protocol of clients": protocol.COMMANDS,
}


class _Program(click.Group):
    """Help shows the commands in their groups, in the order in which one needs them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [str(command.name) for group in _GROUPS.values() for command in group]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        widest = max(map(len, self.commands))
        for title, commands in _GROUPS.items():
            rows = [
                (str(command.name).ljust(widest), command.get_short_help_str(limit=90))
                for command in commands
            ]
            with formatter.section(title):
                formatter.write_dl(rows)


@click.group(
    cls=_Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", message="playbook %(version)s")
@options.everywhere
@click.pass_context
def program(ctx: click.Context) -> int:
    """Run slash commands step by step: the kernel decides, the agent works, you judge.

    \b
    Examples:
      playbook init                      put playbooks into this project
      playbook run auto-feature 013      drive one, and be asked at its gates
      playbook status                    see which session waits for you
      playbook answer continue           answer from any terminal

    Exit codes: 0 fine, 1 invalid input, 2 failed or aborted, 3 the state forbids it, 4 waiting for
    a human, 130 interrupted, 70 a bug of ours.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 0


for _commands in _GROUPS.values():
    for _command in _commands:
        program.add_command(_command)


def invoke(argv: Sequence[str]) -> int:
    """Parse and run. Raises PlaybookErrors, click's usage errors among them."""
    try:
        code: int | None = program.main(list(argv), prog_name="playbook", standalone_mode=False)
    except click.Abort as error:
        raise KeyboardInterrupt from error
    except click.UsageError as error:
        raise _usage(error) from error
    return code or 0


def _usage(error: click.UsageError) -> ArgumentError:
    path = error.ctx.command_path if error.ctx else "playbook"
    message = error.format_message().strip().rstrip(".")
    return ArgumentError(
        "PB-ARG-USAGE",
        message[:1].lower() + message[1:],
        guidance=f"See `{path} --help`.",
    )
