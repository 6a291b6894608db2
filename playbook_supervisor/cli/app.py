"""The `playbook` command: it imports a subcommand when that is needed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from playbook_supervisor import __version__, plugins
from playbook_supervisor.cli import options
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.system.disk import templates
from playbook_supervisor.system.disk.files import read_bytes

EVERYDAY = {
    "init": "Set up playbooks in this project.",
    "check": "Check playbooks, settings and policies for mistakes.",
    "run": "Run a playbook to its end or to a gate.",
    "start": "Create a session in a worktree of its own.",
    "resume": "Continue a session.",
    "answer": "Answer the open gate, from any terminal.",
    "status": "Show all sessions, those that wait for you first.",
    "show": "Show one session: attempts, conditions, evidence and answers.",
    "list": "List the playbooks of this project, and what they take.",
    "pause": "Stop driving a session and leave it open.",
    "abort": "End an open or failed session for good.",
    "finish": "Remove a session's worktree and branch after the merge.",
    "claude": "Start Claude Code in isolation.",
    "demo": "Watch a complete run in a scratch repository.",
}
INSPECTION = {
    "logs": "Show all that the agent of an attempt said.",
    "update": "Update what `playbook init` installed.",
    "doctor": "Check that this installation works.",
    "probe": "Evaluate conditions and triggers now.",
    "prove": "Run checks of the project now, and keep what they prove.",
    "audit": "Check journals for contradictions.",
    "metrics": "Show durations, costs and waiting times.",
    "graph": "Draw a playbook or a session as a Mermaid flowchart.",
    "import": "Write the playbook that a file of another system is read as.",
    "index": "Update .playbooks/_index.yaml.",
    "schema": "Print the JSON Schema of a document.",
    "repair": "Show or undo changes that something else made to a session.",
    "completion": "Print the shell completion script.",
    "help": "Show the help of a command, or all commands.",
}
PROTOCOL = {
    "begin": "Begin a session and print its first directive.",
    "next": "Print the outstanding directive.",
    "report": "Report the outcome of an attempt and print the next directive.",
    "hook": "Answer a hook of Claude Code.",
    "rpc": "Serve one request of a program: JSON in, JSON out.",
}
SUMMARIES = EVERYDAY | INSPECTION | PROTOCOL
"""Each subcommand of ours with the first line of its help."""

_FOR_PROGRAMS = ("index", "schema", "completion")
"""The other commands that programs call: hooks of a commit, editors, shells."""
_RESERVED = {"import": "import_file"}
"""The functions of subcommands whose names Python reserves."""
_MODULES = {
    "begin next report hook rpc": "client_protocol",
    "run resume answer": "subcommands.running",
    "pause abort finish": "subcommands.ending",
    "list status show logs": "subcommands.looking",
    "probe prove graph": "subcommands.proving",
    "audit metrics": "subcommands.journals",
    "index schema import": "subcommands.files",
    "init update": "subcommands.installing",
}
_MODULE_OF = {name: module for names, module in _MODULES.items() for name in names.split()}
"""The modules of subcommands that share one; any other has its own."""
_GUIDE = "authoring"  # what `help` shows beside commands
_SYNONYMS = {"cancel": "abort"}
"""Commands by words that are not like their names."""


def groups() -> dict[str, Mapping[str, str]]:
    """All subcommands by the titles of their groups, those of installed packages among them."""
    added = plugins.offered(plugins.COMMANDS)
    return {
        "Everyday commands": EVERYDAY,
        "Many sessions": {name: _summary(name) for name in added},
        "Inspection and repair": {
            name: line for name, line in INSPECTION.items() if name not in _FOR_PROGRAMS
        },
        "Protocol, for programs": PROTOCOL | {name: INSPECTION[name] for name in _FOR_PROGRAMS},
    }


def names() -> list[str]:
    """Every subcommand, those of installed packages among them."""
    return [*SUMMARIES, *plugins.offered(plugins.COMMANDS)]


def _summary(name: str) -> str:
    """The first line of the command's help. A package may offer one that it cannot import."""
    try:
        return SUMMARIES.get(name) or load(name).get_short_help_str(limit=80)
    except ImportError as error:
        return f"Cannot be imported: {first_line(str(error), 80)}"


def load(name: str) -> click.Command:
    """The subcommand of that name."""
    if name == "help":
        return help_command
    command: click.Command
    if name in SUMMARIES:
        module = _MODULE_OF.get(name, f"subcommands.{name}")
        found = import_module(f"playbook_supervisor.cli.{module}")
        command = getattr(found, _RESERVED.get(name, name))
    else:
        command = plugins.offered(plugins.COMMANDS)[name].load()
    return command


class _Program(click.Group):
    """Lists and completes subcommands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        return load(cmd_name) if cmd_name in SUMMARIES or cmd_name in names() else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        known = name in SUMMARIES or name.startswith("-") or ctx.resilient_parsing
        if not known and name not in names():
            raise _unknown(name, ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        _write_groups(formatter, {"Everyday commands": EVERYDAY})
        formatter.write_paragraph()
        formatter.write("`playbook help --all` lists all commands. ")
        formatter.write(f"`playbook help {_GUIDE}` explains how to write a playbook.\n")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        commands = [
            CompletionItem(name, help=_summary(name))
            for name in names()
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]


def _unknown(name: str, ctx: click.Context) -> click.UsageError:
    return click.UsageError(f"no such command {name!r}.{_hint(name)}", ctx)


def _hint(name: str) -> str:
    """The command that may be meant, also one of a group: `Did you mean 'playbook fleet up'?`."""
    from difflib import get_close_matches  # for an error alone

    if close := get_close_matches(name, names(), 1):
        return f" Did you mean 'playbook {close[0]}'?"
    below = {word: group for group in names() for word in getattr(load(group), "commands", ())}
    close = get_close_matches(name, below, 1)
    meant = f"{below[close[0]]} {close[0]}" if close else _SYNONYMS.get(name)
    return f" Did you mean 'playbook {meant}'?" if meant else ""


def _write_groups(formatter: click.HelpFormatter, shown: Mapping[str, Mapping[str, str]]) -> None:
    widest = max(len(name) for group in shown.values() for name in group)
    for title, group in shown.items():
        with formatter.section(title):
            formatter.write_dl([(name.ljust(widest), line) for name, line in group.items()])


@options.command
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="List all commands.")
@click.pass_context
def help_command(ctx: click.Context, words: tuple[str, ...], *, every: bool) -> int:
    """Show the help of a command, or all commands.

    \b
    Examples:
      playbook help --all
      playbook help run
      playbook help authoring     how to write a playbook
    """
    above = ctx.find_root()
    if words == (_GUIDE,):
        guide = read_bytes(templates.folder() / "playbook-authoring.md").decode().rstrip()
        show = click.echo_via_pager if sys.stdout.isatty() else click.echo
        show(guide)
        return 0
    if every:
        formatter = above.make_formatter()
        _write_groups(formatter, groups())
        click.echo(formatter.getvalue().strip("\n"))
        return 0
    command: click.Command = program
    for word in words:
        found = command.get_command(above, word) if isinstance(command, click.Group) else None
        if found is None:
            raise _unknown(word, above)
        above = click.Context(found, above, word)
        command = found
    click.echo(command.get_help(above))
    return 0


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


def _of_group(error: click.UsageError) -> str:
    """For `playbook status --fleet`: a hint to the command that the group `fleet` has."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return ""
    group, command = error.option_name.lstrip("-"), error.ctx.info_name
    if group not in names() or command not in getattr(load(group), "commands", ()):
        return ""
    return f". Did you mean 'playbook {group} {command}'?"


def invoke(argv: Sequence[str]) -> int:
    """Parse and run. Raises PlaybookErrors, among them those for click's usage errors."""
    try:
        code: int | None = program.main(list(argv), prog_name="playbook", standalone_mode=False)
    except click.Abort as error:
        raise KeyboardInterrupt from error
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "playbook"
        no_command = path == "playbook" and not isinstance(error, click.NoSuchOption)
        where = "playbook help --all" if no_command else f"{path} --help"
        message = error.format_message().strip().rstrip(".")
        message = message[:1].lower() + message[1:] + _of_group(error)
        raise ArgumentError("PB-ARG-USAGE", message, guidance=f"See `{where}`.") from error
    return code or 0
