"""Options and arguments that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import click

from playbook_supervisor.cli import completers

if TYPE_CHECKING:
    from playbook_supervisor.commands.driving.driving import DriveOptions

Command = Callable[..., Any]


class Level(IntEnum):
    """The amount that a command prints to stderr; gates and failures always are."""

    ERROR = 0
    WARNING = 1
    INFO = 2
    DEBUG = 3


_SIMILAR = 0.8  # of difflib's ratio: a misspelt option is no arg
_ARGS = "args"  # of a playbook, which may accept an empty one


class _Command(click.Command):
    """Refuses an empty value on the command line: usually a script's variable is not set."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if any(parameter.name == _ARGS for parameter in self.params):
            args = self._with_named_args(args)
        surplus = super().parse_args(ctx, args)
        for parameter in () if ctx.resilient_parsing else self.params:
            name = parameter.name or ""
            value = ctx.params.get(name)
            given = ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
            empty = value == "" or (isinstance(value, tuple) and "" in value)
            if given and empty and name != _ARGS:
                raise click.BadParameter("it is empty; is a variable not set?", ctx, parameter)
        return surplus

    def _with_named_args(self, words: list[str]) -> list[str]:
        """`--name=value` means `name=value`, unless an option has that name or a similar one."""
        from difflib import get_close_matches  # for an error alone

        known = [option for parameter in self.params for option in parameter.opts]
        end = words.index("--") if "--" in words else len(words)
        return [
            word.removeprefix("--")
            if number < end
            and re.match(r"--[A-Za-z_][\w-]*=", word)
            and not get_close_matches(word.partition("=")[0], known, 1, _SIMILAR)
            else word
            for number, word in enumerate(words)
        ]


class _Group(_Command, click.Group):
    """A subcommand that has commands of its own."""


def command(function: Command) -> click.Command:
    """Declare a subcommand."""
    made = click.command(cls=_Command)(function)
    made.params += COMMON
    return made


def group(function: Command) -> click.Group:
    """Declare a subcommand that has commands of its own, and does something without them."""
    made = click.group(cls=_Group, invoke_without_command=True)(function)
    made.params += COMMON
    return made


def add_imported(group: click.Group, package: str, modules: Mapping[str, str]) -> None:
    """Give the group these commands, each imported from its module in the package when needed."""
    group.commands = cast("Any", _Commands(package, modules))  # it only looks names up


class _Commands(Mapping[str, click.Command]):
    """The commands of a group: each is imported from its module when it is needed."""

    def __init__(self, package: str, modules: Mapping[str, str]) -> None:
        self._package, self._modules = package, modules

    def __getitem__(self, name: str) -> click.Command:
        module = import_module(f"{self._package}.{self._modules[name]}")
        found: click.Command = getattr(module, name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


def _store_level(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta["level"] = Level[value.upper()]


def level() -> Level:
    """The value of `--log-level`."""
    chosen: Level = click.get_current_context().meta.get("level", Level.INFO)
    return chosen


COMMON = (
    click.Option(
        ["--log-level"],
        type=click.Choice([level.name.lower() for level in Level]),
        metavar="LEVEL",
        expose_value=False,
        callback=_store_level,
        help="How much to print to stderr: error, warning, info or debug.",
    ),
    # Read by the error handler, which needs it before anything is parsed.
    click.Option(
        ["--debug"], is_flag=True, expose_value=False, help="Show the traceback of an error."
    ),
)
"""Options of the program and of every subcommand."""


json = click.option("--json", is_flag=True, help="Print one JSON object (docs/json.md).")

session = click.option(
    "--session",
    metavar="ID",
    default="",
    shell_complete=completers.sessions,
    help="The session; the beginning or end of its id is enough. Default: $PLAYBOOK_SESSION, else"
    " the one of this worktree.",
)


def session_argument(command: Command) -> Command:
    """`[SESSION]` and `--session ID`, of which a user gives one."""
    argument = click.argument(
        "named", metavar="[SESSION]", default="", shell_complete=completers.sessions
    )
    return argument(session(command))


def chosen_session(named: str, session: str) -> str:
    """The session that was given in either way."""
    if named and session and named != session:
        raise click.UsageError(f"two different sessions are given: {named} and {session}")
    return named or session


def playbook(command: Command) -> Command:
    """`PLAYBOOK [ARG]…`."""
    name = click.argument("playbook", metavar="PLAYBOOK", shell_complete=completers.playbooks)
    args = click.argument(_ARGS, metavar="[ARG]...", nargs=-1, shell_complete=completers.arguments)
    return name(args(command))


start = click.option(
    "--from",
    "start",
    metavar="STEP",
    default="",
    shell_complete=completers.steps,
    help="Begin at this step; the steps before it are journaled as skipped.",
)

output_format = click.option(
    "--format",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    help="text for people, json for programs, github for annotations on GitHub.",
)


# ── driving a session ───────────────────────────────────────────────────────────────────────


def _above_zero(what: str) -> Callable[[click.Context, click.Parameter, str | None], float | None]:

    def read(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
        if value is None:
            return None
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not 0 < number < float("inf"):
            raise click.BadParameter(f"{value!r} is not {what} above 0", ctx, parameter)
        return number

    return read


def _seconds(name: str, words: str) -> Callable[[Command], Command]:
    return click.option(
        name, metavar="SECONDS", callback=_above_zero("a number of seconds"), help=words
    )


def _number(name: str, words: str) -> Callable[[Command], Command]:
    return click.option(name, metavar="N", type=click.IntRange(min=1), help=words)


def isolation(command: Command) -> Command:
    """`--isolation`; None for the settings' own."""
    return click.option(
        "--isolation",
        type=click.Choice(["none", "auto", "required"]),
        metavar="MODE",
        help="Isolate agents, programs and checks: none, auto or required. Default: the settings.",
    )(command)


def driving(command: Command) -> Command:
    """The options of `run` and `resume` that `drive_options` reads."""
    options = (
        click.option(
            "--agent",
            metavar="AGENT",
            default="",
            help="claude, codex, copilot, gemini, kimi, opencode, qwen, vibe, acp:PROGRAM,"
            " exec:PROGRAM, script:FILE.yaml or a configured name. Default: the project's agent,"
            " else one that is installed.",
        ),
        click.option(
            "--mode",
            type=click.Choice(["manual", "autonomous"]),
            help="autonomous approves the gates of gate_always and tools without asking.",
        ),
        isolation,
        _seconds("--timeout", "Longest duration of a step."),
        _seconds("--idle-timeout", "Longest time that a step may print nothing."),
        _seconds(
            "--patience",
            "How long to wait, without a terminal, for the answer to what an agent asks.",
        ),
        click.option(
            "--max-cost-usd",
            metavar="USD",
            callback=_above_zero("an amount"),
            help="Highest cost of the whole run. `resume` keeps this limit and the next three.",
        ),
        _number(
            "--max-tokens", "Most tokens of the whole run, weighed by price in tokens of input."
        ),
        _number("--max-turns", "Most turns of the model in one step."),
        _number("--max-tool-calls", "Most tool calls in one step."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def drive_options(values: dict[str, Any]) -> DriveOptions:
    """The values of the `driving` options, and of `--kill` if the command has it."""
    from playbook_supervisor.commands.driving.driving import (  # help needs none
        DriveLimits,
        drive_options,
    )

    limits = {name: values.get(name) for name in DriveLimits.__annotations__}
    return drive_options(
        values["agent"],
        values["mode"],
        kill=values.get("kill", False),
        isolation=values.get("isolation") or "",
        **cast("DriveLimits", limits),
    )
