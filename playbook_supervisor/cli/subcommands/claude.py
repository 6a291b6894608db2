"""`claude`: Claude Code in isolation, with all of its own arguments."""

from __future__ import annotations

import click

from playbook_supervisor.cli import dispatch, output, streams
from playbook_supervisor.commands import locate
from playbook_supervisor.drivers.claude_code import isolated_client


class _Untouched(click.Command):
    """Parses nothing: every argument is the client's, `--help` and `--` too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.params["words"] = tuple(args)
        return []


@click.command(cls=_Untouched, options_metavar="", add_help_option=False)
@click.argument("words", metavar="[ARG]...", nargs=-1)
def claude(words: tuple[str, ...]) -> int:
    """Start Claude Code in isolation.

    It takes the arguments of `claude`, which has to be on PATH. Claude Code and all that it starts
    can write this checkout, but no records of playbooks, no settings of git or of Claude Code and
    nothing else of yours. Hooks work as ever: a process outside does for them what must be written.
    `isolation` in .playbooks/config.yaml says what may be written and seen besides.

    \b
    Examples:
      playbook claude
      playbook claude --continue
      playbook claude -p "/playbook.run auto-feature 013"
    """
    return isolated_client.start(
        words, locate.current_folder(), carry_out=_carry_out, warm=_warm, notice=output.inform
    )


def _warm() -> None:
    # The client starts meanwhile.
    from playbook_supervisor.cli import directive_output, hook_handler
    from playbook_supervisor.drivers.claude_code import commands, hooks

    del commands, directive_output, hook_handler, hooks


def _carry_out(argv: list[str]) -> int:
    streams.prepare()
    return dispatch.run(argv)
