"""`check`: the problems in playbooks and other files that users write."""

from __future__ import annotations

import click

from playbook_supervisor.cli import completers, fast_path, options


@options.command
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=completers.playbooks)
@options.output_format
@click.option("--json", is_flag=True, hidden=True)
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings, too.")
def check(names: tuple[str, ...], *, format: str, json: bool, strict: bool) -> int:
    """Check playbooks, settings and policies for mistakes.

    A NAME is a file, a folder or the name of a playbook. Default: the whole project. Prints each
    problem with its place and how to correct it. Changes nothing. Exit code 1 if a file has an
    error. A comment silences a warning on its line or the next one:
    `# playbook: allow PB-CHECK-LINT-UNSEEN because REASON`.

    \b
    Examples:
      playbook check
      playbook check auto-feature --strict
      playbook check .playbooks/playbooks/*.yaml --format github
    """
    return fast_path.run_check(names, format="json" if json else format, strict=strict)
