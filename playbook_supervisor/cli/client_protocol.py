"""The commands that clients and programs call: begin, next, report, hook and rpc."""

from __future__ import annotations

import sys

import click

from playbook_supervisor.cli import fast_path, hook_handler, options
from playbook_supervisor.cli.directive_output import print_directive
from playbook_supervisor.cli.drive import drive_and_show
from playbook_supervisor.cli.error_handler import of_the_machine, write_error
from playbook_supervisor.commands import locate
from playbook_supervisor.commands.api.rpc import LARGEST, read_request, serve
from playbook_supervisor.commands.driving import driving
from playbook_supervisor.errors import PlaybookError


@options.command
@options.playbook
@options.start
@options.json
def begin(playbook: str, args: tuple[str, ...], *, start: str, json: bool) -> int:
    """Begin a session and print its first directive.

    A client carries out the directive and reports the outcome with `playbook report`. People use
    `playbook run`.

    \b
    Examples:
      playbook begin auto-feature 013
      playbook begin auto-feature 013 --json
    """
    return print_directive(*driving.begin(playbook, args, start=start), json=json)


@options.command
@options.session
@click.option("--wait", is_flag=True, help="Wait until the directive is no longer `wait`.")
@options.json
def next(*, session: str, wait: bool, json: bool) -> int:
    """Print the outstanding directive.

    It prints the same directive until something is reported or answered.

    \b
    Examples:
      playbook next
      playbook next --json
      playbook next --wait
    """
    return fast_path.run_next(session=session, wait=wait, json=json)


@options.command
@click.argument("attempt", metavar="ID")
@click.option("--error", metavar="TEXT", default="", help="The attempt failed for this reason.")
@click.option(
    "--output", metavar="FILE", default="", help="The outcome as a JSON object (docs/json.md)."
)
@options.session
@options.json
def report(attempt: str, *, error: str, output: str, session: str, json: bool) -> int:
    """Report the outcome of an attempt and print the next directive.

    The supervisor then evaluates the conditions itself. Reporting an attempt again changes
    nothing.

    \b
    Examples:
      playbook report plan#1
      playbook report implement#2 --error "the build is broken"
      playbook report qa-run#1 --output outcome.json
    """
    return fast_path.run_report(attempt, error=error, output=output, session=session, json=json)


@options.command
def hook() -> int:
    """Answer a hook of Claude Code.

    Reads JSON from stdin and prints JSON or nothing. `playbook init` adds the commands that call
    it to .claude/settings.json.

    \b
    Examples:
      playbook hook <payload.json
    """
    return hook_handler.handle(hook_handler.read_payload())


@options.command
def rpc() -> int:
    """Serve one request of a program: JSON in, JSON out.

    The request on stdin is one object. With `"action": "run"` it names a playbook or holds the text
    of one; with `"action": "resume"` it approves or denies what a token stands for. The answer on
    stdout says `ok`, `needs_approval` or `cancelled`, or has an `error`. The exit code is 0 for
    every answer. docs/rpc.md describes both.

    \b
    Examples:
      echo '{"action": "run", "pipeline": "auto-validate"}' | playbook rpc
      playbook rpc < request.json
    """
    if sys.stdin.isatty():
        raise click.UsageError("the request is read from stdin, which is a terminal")
    try:
        request = read_request(sys.stdin.buffer.read(LARGEST + 1), locate.store().checkout.root)
        drive_and_show(
            lambda observer, _: serve(request, observer),
            options.level(),
            json=True,
            asks=False,
        )
    except Exception as error:
        known = error if isinstance(error, PlaybookError) else of_the_machine(error)
        if known is None:
            raise
        write_error(known, envelope=True)
    return 0
