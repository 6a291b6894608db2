"""The commands by which a client drives a session, as click is told of them."""

from __future__ import annotations

import click

from playbook_supervisor.cli import options


@options.command()
@options.playbook
@options.start
@options.json
@options.everywhere
def begin(playbook: str, args: tuple[str, ...], *, start: str, json: bool) -> int:
    """Begin a session and print its first directive.

    A client carries the directive out and says so with `playbook report`; `playbook run` is the
    command for people.

    \b
    Examples:
      playbook begin auto-feature 013
      playbook begin auto-feature 013 --json
    """
    from playbook_supervisor.cli.begin import begin

    return begin(playbook, args, start=start, json=json)


@options.command()
@options.session
@click.option("--wait", is_flag=True, help="Wait until it is something other than work under way.")
@options.json
@options.everywhere
def next(*, session: str, wait: bool, json: bool) -> int:
    """Print the directive that is outstanding.

    Asked again it answers the same, until something is reported or answered.

    \b
    Examples:
      playbook next
      playbook next --json
      playbook next --wait
    """
    from playbook_supervisor.cli.next import next as ask

    return ask(session=session, wait=wait, json=json)


@options.command()
@click.argument("attempt", metavar="ID")
@click.option("--error", metavar="TEXT", default="", help="It failed, and this is why.")
@click.option("--output", metavar="FILE", default="", help="JSON: what it brought (docs/json.md).")
@options.session
@options.json
@options.everywhere
def report(attempt: str, *, error: str, output: str, session: str, json: bool) -> int:
    """Say that the worker of a directive came back; print what is outstanding then.

    Conditions are evaluated here: what the worker says of itself counts for nothing. A repeated
    report changes nothing.

    \b
    Examples:
      playbook report plan#1
      playbook report implement#2 --error "the build is broken"
      playbook report qa-run#1 --output outcome.json
    """
    from playbook_supervisor.cli.report import report

    return report(attempt, error=error, output=output, session=session, json=json)


@options.command()
@options.everywhere
def hook() -> int:
    """Answer a hook of Claude Code: JSON on stdin, JSON or nothing on stdout.

    `playbook init` puts the shell lines that call it into .claude/settings.json.

    \b
    Examples:
      playbook hook <payload.json
    """
    from playbook_supervisor.cli.hook import hook, payload

    return hook(payload())


COMMANDS = (begin, next, report, hook)
