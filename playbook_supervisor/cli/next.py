"""`next`: the outstanding directive."""

from __future__ import annotations

import click

from playbook_supervisor.cli import fast_path, options


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
