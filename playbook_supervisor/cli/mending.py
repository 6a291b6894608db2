"""The commands that look and mend, as click is told of them."""

from __future__ import annotations

import click

from playbook_supervisor.cli import completion, options


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--format",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    help="For people, for programs, or as annotations on GitHub.",
)
@click.option("--json", is_flag=True, hidden=True)
@click.option("--strict", is_flag=True, help="Warnings count: 1 if there is one.")
@options.everywhere
def check(files: tuple[str, ...], *, format: str, json: bool, strict: bool) -> int:
    """Say everything that is wrong with playbooks, each with its place and its cure.

    Reads only. Exit code 1 if one of them cannot run.

    \b
    Examples:
      playbook check .playbooks/playbooks/*.yaml
      playbook check release.yaml --strict
      playbook check .playbooks/playbooks/*.yaml --format github
    """
    from playbook_supervisor.cli.check import check

    return check(files, format="json" if json else format, strict=strict)


@click.command()
@click.argument(
    "names", metavar="CONDITION...", nargs=-1, required=True, shell_complete=completion.conditions
)
@click.option("--feature", metavar="FEATURE", default="", help="Else the session's, the branch's.")
@options.session
@options.json
@options.everywhere
def probe(names: tuple[str, ...], *, feature: str, session: str, json: bool) -> int:
    """Ask conditions, and triggers that look at reports, what they say now.

    A trigger is held where it would fire. Exit code 2 if one does not hold.

    \b
    Conditions: spec_exists plan_exists tasks_exists agreement_exists agreement_pass
                qa_plan_exists qa_verdict_pass pr_created
    Triggers:   agreement_breaking verdict_fail

    \b
    Examples:
      playbook probe plan_exists tasks_exists
      playbook probe qa_verdict_pass --feature 013 --json
    """
    from playbook_supervisor.cli.probe import probe

    return probe(names, feature=feature, session=session, json=json)


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; 1 if it is out of date.")
@options.everywhere
def index(*, check: bool) -> int:
    """Bring .playbooks/_index.yaml up to date.

    It is rewritten only where its content has changed.

    \b
    Examples:
      playbook index
      playbook index --check
    """
    from playbook_supervisor.cli.index import index

    return index(check=check)


@click.command()
@click.argument("name", metavar="[NAME]", default="playbook", shell_complete=completion.schemas)
@options.everywhere
def schema(name: str) -> int:
    """Print the JSON Schema of a document; without a name, of a playbook.

    \b
    Examples:
      playbook schema
      playbook schema journal
    """
    from playbook_supervisor.cli.schema import schema

    return schema(name)


@click.command()
@options.one_session
@click.option("--take", is_flag=True, help="The files as they are count from now on.")
@click.option("--restore", is_flag=True, help="Put back what was written.")
@options.everywhere
def repair(named: str, *, session: str, take: bool, restore: bool) -> int:
    """Show what something else changed in a session, or mend it.

    Without --take and --restore nothing is changed, and the exit code is 3 while there is a
    difference. Comments and layout are nobody's business and never a difference.

    \b
    Examples:
      playbook repair
      playbook repair 20260219-a7k --restore
      playbook repair --take
    """
    from playbook_supervisor.cli.repair import repair

    if take and restore:
        raise click.UsageError("--take and --restore exclude each other")
    return repair(options.meant(named, session), take=take, restore=restore)


@click.command()
@options.everywhere
def doctor() -> int:
    """Try whether everything here does what it is for, and say how to mend it.

    Changes nothing. Exit code 3 if something is wrong.

    \b
    Examples:
      playbook doctor
    """
    from playbook_supervisor.cli.doctor import doctor

    return doctor()


COMMANDS = (check, probe, doctor, index, schema, repair)
