"""The commands that look and mend, as click is told of them."""

from __future__ import annotations

import click

from playbook_supervisor.cli import completion, options, shells


@options.command()
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


@options.command()
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


@options.command()
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


@options.command()
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


@options.command()
@click.argument(
    "playbook",
    metavar="[PLAYBOOK]",
    required=False,
    default="",
    shell_complete=completion.playbooks,
)
@click.option(
    "--session",
    metavar="ID",
    default="",
    shell_complete=completion.sessions,
    help="Draw how far this session has come, with the playbook that it began with.",
)
@options.everywhere
def graph(playbook: str, *, session: str) -> int:
    """Draw a playbook, or a session of it, as a Mermaid flowchart.

    Forges draw the text where it stands in a ```mermaid block: steps, what they need and give,
    what runs at once, and where a human decides.

    \b
    Examples:
      playbook graph auto-feature
      playbook graph auto-feature --session 20260219-a7k
    """
    from playbook_supervisor.cli.graph import graph

    return graph(playbook, session=session)


@options.command("completion")
@click.argument(
    "shell", metavar="[bash|zsh|fish]", required=False, type=click.Choice(shells.SHELLS)
)
@options.everywhere
def completion_(shell: str | None) -> int:
    """Print what makes a shell complete commands, flags, playbooks, sessions and steps.

    For bash put the first example into ~/.bashrc, for zsh the second into ~/.zshrc, behind its
    `compinit`; for fish type the third once. Without a name it is the shell that $SHELL names.

    \b
    Examples:
      eval "$(playbook completion bash)"
      eval "$(playbook completion zsh)"
      playbook completion fish > ~/.config/fish/completions/playbook.fish
    """
    return shells.completion(shell)


@options.command()
@options.one_session
@click.option("--take", is_flag=True, help="The files as they are count from now on.")
@click.option("--restore", is_flag=True, help="Put back what was written, the worktree too.")
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


@options.command()
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


@options.command()
@click.argument("names", metavar="[SESSION]...", nargs=-1, shell_complete=completion.sessions)
@click.option("--all", is_flag=True, help="Every session of every worktree.")
@click.option(
    "--format",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    help="For people, for programs, or as annotations on GitHub.",
)
@click.option("--json", is_flag=True, hidden=True)
@options.everywhere
def audit(names: tuple[str, ...], *, all: bool, format: str, json: bool) -> int:
    """Say what cannot be true of a session's journal, whoever wrote it.

    A SESSION is an id, a session's folder or a journal; without one it is this worktree's. Reads
    only. Exit code 1 if anything is found; docs/audit.md lists the rules.

    \b
    Examples:
      playbook audit
      playbook audit 20260219-a7k 20260220-b3m
      playbook audit --all --format github
      playbook audit ../other/.playbooks/sessions/20260219-a7k/journal.yaml
    """
    from playbook_supervisor.cli.audit import audit

    if all and names:
        raise click.UsageError("--all means every session; name none")
    return audit(names, every=all, format="json" if json else format)


@options.command()
@options.one_session
@click.option("--all", is_flag=True, help="Every session of every worktree, together.")
@click.option(
    "--playbook",
    metavar="NAME",
    default="",
    shell_complete=completion.playbooks,
    help="Every session of this playbook.",
)
@options.json
@options.everywhere
def metrics(named: str, *, session: str, all: bool, playbook: str, json: bool) -> int:
    """Show how long steps take, what they cost, and where people are waited for.

    Of one session, or of many together. Only what their journals say: what is unknown is no 0.

    \b
    Examples:
      playbook metrics
      playbook metrics 20260219-a7k --json
      playbook metrics --all
      playbook metrics --playbook auto-feature
    """
    from playbook_supervisor.cli.metrics import metrics

    name = options.meant(named, session)
    if name and (all or playbook):
        raise click.UsageError("a session, --all or --playbook: one of them")
    return metrics(name, every=all, playbook=playbook, json=json)


COMMANDS = (check, probe, audit, metrics, graph, doctor, index, schema, repair, completion_)
