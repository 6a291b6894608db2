"""`report`: the outcome of an attempt."""

from __future__ import annotations

import click

from playbook_supervisor.cli import fast_path, options


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
