"""What several commands take, declared once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from playbook_supervisor.cli import completion
from playbook_supervisor.cli.render.log import Level

if TYPE_CHECKING:
    from playbook_supervisor.agents.protocol import Budget
    from playbook_supervisor.commands.driving import DriveOptions

Command = Callable[..., Any]
_ARGS = "args"  # of a playbook, which says itself what it needs
_LEVELS = [level.name.lower() for level in Level]


def _above_zero(what: str) -> Callable[[click.Context, click.Parameter, str | None], float | None]:
    """Reads a number that can be waited for, or spent; `what` it is, when it is none."""

    def read(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
        if value is None:
            return None
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not 0 < number < float("inf"):
            raise click.BadParameter(f"{value!r} is no {what} above 0", ctx, parameter)
        return number

    return read


class _Command(click.Command):
    """Refuses what is given and empty: it is a script's variable that nobody has set."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        surplus = super().parse_args(ctx, args)
        for parameter in () if ctx.resilient_parsing else self.params:
            name = parameter.name or ""
            value = ctx.params.get(name)
            given = ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
            empty = value == "" or (isinstance(value, tuple) and "" in value)
            if given and empty and name != _ARGS:
                raise click.BadParameter("it is empty; is a variable not set?", ctx, parameter)
        return surplus


command = partial(click.command, cls=_Command)
"""What every command of ours is declared with."""

_seconds = _above_zero("number of seconds")
_dollars = _above_zero("sum")


def _remember(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    del parameter
    if value is not None:
        ctx.meta["level"] = Level[value.upper()]


def level() -> Level:
    """What `--log-level` says, before the command or behind it."""
    said: Level = click.get_current_context().meta.get("level", Level.INFO)
    return said


def everywhere(command: Command) -> Command:
    """`--log-level` and `--debug`, which may stand before a command as well as behind it."""
    log_level = click.option(
        "--log-level",
        type=click.Choice(_LEVELS),
        metavar="LEVEL",
        expose_value=False,
        callback=_remember,
        help="What stderr is told: error, warning, info or debug.",
    )
    # Looked for by the funnel, which has to know it before anything is parsed.
    debug = click.option(
        "--debug", is_flag=True, expose_value=False, help="Show where an error came from."
    )
    return log_level(debug(command))


def json(command: Command) -> Command:
    """`--json`."""
    option = click.option("--json", is_flag=True, help="Print one JSON object (docs/json.md).")
    return option(command)


def one_session(command: Command) -> Command:
    """`[SESSION]` and `--session ID`: the same thing, said at most once."""
    argument = click.argument(
        "named",
        metavar="[SESSION]",
        required=False,
        default="",
        shell_complete=completion.sessions,
    )
    return argument(session(command))


def session(command: Command) -> Command:
    """`--session ID`."""
    option = click.option(
        "--session",
        metavar="ID",
        default="",
        shell_complete=completion.sessions,
        help="Else $PLAYBOOK_SESSION, else the session of this worktree.",
    )
    return option(command)


def meant(named: str, session: str) -> str:
    """The session that was named, in either way."""
    if named and session and named != session:
        raise click.UsageError(f"two sessions are named, {named} and {session}")
    return named or session


def playbook(command: Command) -> Command:
    """`PLAYBOOK [ARG]…`."""
    name = click.argument("playbook", metavar="PLAYBOOK", shell_complete=completion.playbooks)
    args = click.argument(_ARGS, metavar="[ARG]...", nargs=-1)
    return name(args(command))


def start(command: Command) -> Command:
    """`--from STEP`."""
    option = click.option(
        "--from",
        "start",
        metavar="STEP",
        default="",
        shell_complete=completion.steps,
        help="Begin at this step; the earlier ones are journaled as skipped.",
    )
    return option(command)


def branching(command: Command) -> Command:
    """`--base REF` and `--branch NAME`."""
    base = click.option(
        "--base",
        metavar="REF",
        default="",
        help="What a new branch grows from, else HEAD.",
    )
    branch = click.option(
        "--branch",
        metavar="NAME",
        default="",
        help="The branch, else the feature's own.",
    )
    return base(branch(command))


def driving(command: Command) -> Command:
    """With what a session is driven."""
    options = (
        click.option(
            "--agent",
            metavar="AGENT",
            default="",
            help="claude, exec:PROGRAM, script:FILE.yaml or a name; else the project's, else one"
            " found.",
        ),
        click.option(
            "--mode",
            type=click.Choice(["manual", "autonomous"]),
            default=None,
            help="autonomous: gates that guard nothing broken approve themselves.",
        ),
        click.option(
            "--timeout",
            metavar="SECONDS",
            callback=_seconds,
            default=None,
            help="How long a step may take.",
        ),
        click.option(
            "--idle-timeout",
            metavar="SECONDS",
            callback=_seconds,
            default=None,
            help="How long a step may say nothing.",
        ),
        click.option(
            "--max-cost-usd",
            metavar="USD",
            callback=_dollars,
            default=None,
            help="What the whole run may cost; remembered, as the next two.",
        ),
        click.option(
            "--max-turns",
            metavar="N",
            type=click.IntRange(min=1),
            default=None,
            help="How often the model may answer in a step.",
        ),
        click.option(
            "--max-tool-calls",
            metavar="N",
            type=click.IntRange(min=1),
            default=None,
            help="How many calls of tools a step may make.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def drive(how: dict[str, object]) -> DriveOptions:
    """What these options say."""
    from playbook_supervisor.commands.driving import DriveOptions
    from playbook_supervisor.kernel.vocabulary import Mode

    mode, wall, idle = how["mode"], how["timeout"], how["idle_timeout"]
    return DriveOptions(
        agent=str(how["agent"]),
        mode=Mode(str(mode)) if mode else None,
        wall=wall if isinstance(wall, float) else None,
        idle=idle if isinstance(idle, float) else None,
        kill=bool(how.get("kill")),
        limits=_limits(how),
    )


def _limits(how: dict[str, object]) -> Budget:
    from playbook_supervisor.agents.protocol import Budget

    turns, calls, cost = how["max_turns"], how["max_tool_calls"], how["max_cost_usd"]
    return Budget(
        max_turns=turns if isinstance(turns, int) else None,
        max_tool_calls=calls if isinstance(calls, int) else None,
        max_cost_usd=cost if isinstance(cost, float) else None,
    )
