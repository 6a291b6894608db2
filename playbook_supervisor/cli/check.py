"""`check`: the problems in playbooks and other files that users write."""

from __future__ import annotations

import click

from playbook_supervisor.cli import fast_path, options


@options.command
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@options.output_format
@click.option("--json", is_flag=True, hidden=True)
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings, too.")
def check(files: tuple[str, ...], *, format: str, json: bool, strict: bool) -> int:
    """Check playbooks, settings and policies for mistakes.

    Prints each problem with its place and how to correct it. Changes nothing. Exit code 1 if a
    file has an error.

    \b
    Examples:
      playbook check .playbooks/playbooks/*.yaml
      playbook check release.yaml --strict
      playbook check .playbooks/playbooks/*.yaml --format github
    """
    return fast_path.run_check(files, format="json" if json else format, strict=strict)
