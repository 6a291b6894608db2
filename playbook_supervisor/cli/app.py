"""The `playbook` command: it imports a subcommand when that is needed, mostly from NAME.py."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from playbook_supervisor import __version__
from playbook_supervisor.cli import options
from playbook_supervisor.errors import ArgumentError

GROUPS = {
    "Everyday commands": {
        "init": "Set up playbooks in this project.",
        "update": "Update what `playbook init` installed.",
        "run": "Run a playbook to its end or to a gate.",
        "start": "Create a session in a worktree of its own.",
        "resume": "Continue a session.",
        "answer": "Answer the open gate, from any terminal.",
        "inbox": "Decide in the browser, also on the phone, about all that waits.",
        "status": "Show all sessions, those that wait for you first.",
        "logs": "Show all that the agent of an attempt said.",
        "show": "Show one session: attempts, conditions, evidence and answers.",
        "list": "List the playbooks of this project, and what they take.",
        "pause": "Stop driving a session and leave it open.",
        "abort": "End an open or failed session for good.",
        "finish": "Remove a session's worktree and branch after the merge.",
        "demo": "Watch a complete run in a scratch repository.",
    },
    "Inspection and repair": {
        "check": "Check playbooks, settings and policies for mistakes.",
        "probe": "Evaluate conditions and triggers now.",
        "prove": "Run checks of the project now, and keep what they prove.",
        "audit": "Check journals for contradictions.",
        "metrics": "Show durations, costs and waiting times.",
        "graph": "Draw a playbook or a session as a Mermaid flowchart.",
        "doctor": "Check that this installation works.",
        "import": "Write the playbook that a file of another system is read as.",
        "index": "Update .playbooks/_index.yaml.",
        "schema": "Print the JSON Schema of a document.",
        "repair": "Show or undo changes that something else made to a session.",
        "completion": "Print the shell completion script.",
    },
    "Many machines": {
        "submit": "Queue a session for the workers of a fleet.",
        "worker": "Carry out the sessions of a fleet on this machine.",
        "cancel": "End a session of the fleet for good.",
        "fleet": "Set up the database of the fleet, and look after it.",
    },
    "Client protocol": {
        "begin": "Begin a session and print its first directive.",
        "next": "Print the outstanding directive.",
        "report": "Report the outcome of an attempt and print the next directive.",
        "hook": "Answer a hook of Claude Code.",
        "rpc": "Serve one request of a program: JSON in, JSON out.",
    },
}
"""Each subcommand with the first line of its help, in the order of the program's help."""

_MODULES = dict.fromkeys(GROUPS["Client protocol"], "client_protocol")
"""The modules that hold several subcommands."""
_FUNCTIONS = {"import": "import_file"}
"""The functions, and their modules, of subcommands whose names Python reserves."""

SUMMARIES = {name: line for group in GROUPS.values() for name, line in group.items()}


class _Program(click.Group):
    """Lists and completes subcommands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [*SUMMARIES]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        return load(cmd_name) if cmd_name in SUMMARIES else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not (name in SUMMARIES or name.startswith("-") or ctx.resilient_parsing):
            from difflib import get_close_matches

            close = get_close_matches(name, SUMMARIES, 1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise click.UsageError(f"no such command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        widest = max(map(len, SUMMARIES))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), line) for name, line in group.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        commands = [
            CompletionItem(name, help=line)
            for name, line in SUMMARIES.items()
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]


def load(name: str) -> click.Command:
    """The subcommand of that name."""
    function = _FUNCTIONS.get(name, name)
    module = import_module(f"playbook_supervisor.cli.{_MODULES.get(name, function)}")
    command: click.Command = getattr(module, function)
    return command


@click.group(
    cls=_Program,
    invoke_without_command=True,
    params=[*options.COMMON],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", message="playbook %(version)s")
@click.pass_context
def program(ctx: click.Context) -> int:
    """Run playbooks step by step: the kernel decides, the agent works, you judge.

    \b
    Examples:
      playbook init                      set up playbooks in this project
      playbook run auto-feature 013      run one and answer its gates
      playbook status                    see which session waits for you
      playbook answer continue           answer from any terminal

    Exit codes: 0 success, 1 invalid input, 2 failed or aborted, 3 state error, 4 waiting for a
    human, 130 interrupted, 70 internal error.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 0


def invoke(argv: Sequence[str]) -> int:
    """Parse and run. Raises PlaybookErrors, among them those for click's usage errors."""
    try:
        code: int | None = program.main(list(argv), prog_name="playbook", standalone_mode=False)
    except click.Abort as error:
        raise KeyboardInterrupt from error
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "playbook"
        message = error.format_message().strip().rstrip(".")
        message = message[:1].lower() + message[1:]
        raise ArgumentError("PB-ARG-USAGE", message, guidance=f"See `{path} --help`.") from error
    return code or 0
