"""What several commands take, declared once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from playbook_supervisor.cli import completion
from playbook_supervisor.render.log import Level

Command = Callable[..., Any]
_LEVELS: Final = [level.name.lower() for level in Level]


def _seconds(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """A length of time that somebody can wait for."""
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        said = f"{value!r} is no number of seconds above 0"
        raise click.BadParameter(said, ctx, parameter)
    return number


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
    args = click.argument("args", metavar="[ARG]...", nargs=-1)
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


def driving(command: Command) -> Command:
    """With what a session is driven."""
    options = (
        click.option(
            "--agent",
            metavar="AGENT",
            default="",
            help="exec:PROGRAM, script:FILE.yaml or a name; else the project's, else one found.",
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
    )
    for option in reversed(options):
        command = option(command)
    return command
