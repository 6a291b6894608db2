"""`init`: set up playbooks in a project."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.cli.render import text
from playbook_supervisor.commands.install import init as install
from playbook_supervisor.commands.install.shipped import CHANGE
from playbook_supervisor.commands.install.survey import Survey, check_line
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.records import replace as changed

_UNSUPERVISED = (
    "A model that follows such a prompt judges conditions and writes the journal itself."
)
_USE_OF_TESTS = "Playbooks can prove changes by them."


@options.command
@click.option("--yes", is_flag=True, help="Write without asking.")
@click.option(
    "--commands",
    is_flag=True,
    help="Install the commands that the shipped playbooks need and the project lacks.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Replace commands called /playbook.* that are not ours; keep the old ones as *.old.",
)
@click.option(
    "--restore",
    multiple=True,
    metavar="FILE",
    help="Bring back an installed file that was deleted; also a playbook that does not fit.",
)
@click.option(
    "--no-hooks/--hooks",
    default=None,
    help="Leave .claude/settings.json alone. The choice is remembered.",
)
@click.option("--dry-run", is_flag=True, help="Show the plan and write nothing.")
def init(
    *,
    yes: bool,
    commands: bool,
    replace: bool,
    restore: tuple[str, ...],
    no_hooks: bool | None,
    dry_run: bool,
) -> int:
    """Set up playbooks in this project.

    Shows for each file whether it will be written, kept, merged or is in conflict, then asks.
    Installs the playbooks whose commands the project has, and adds the project's test command to
    .playbooks/config.yaml as the check `test`. Files that are not ours are not overwritten unless
    you say so, deleted files stay deleted, and other settings are not changed. Running it again
    writes nothing.

    \b
    Examples:
      playbook init
      playbook init --dry-run
      playbook init --yes --commands
      playbook init --yes --replace
      playbook init --restore .playbooks/playbooks/auto-speckit.yaml
    """
    choices = install.Choices(no_hooks, replace, commands, restore)
    plan = install.plan(choices=choices)
    if output.is_interactive() and not (yes or dry_run):
        choices = _asked(choices, install.look(plan))
        plan = install.plan(choices=choices)
    found = install.look(plan)
    output.write(*text.table([(each.verb, each.path, each.why) for each in plan.actions]))
    if dry_run:
        output.inform(*_without_tests(found), *_remarks(found))
        return 0
    changes = bool(plan.changes)
    if changes and not yes:
        if not output.is_interactive():
            raise ArgumentError(
                "PB-ARG-USAGE",
                "there is no terminal to ask at",
                guidance="Run `playbook init --yes`; `--dry-run` only shows the plan.",
            )
        if not output.confirmed("Write these files?", default=True):
            output.inform("nothing was written")
            return 1
    install.apply(plan)
    output.inform(f"{'installed' if changes else 'nothing to do'} in {plan.root}")
    output.inform(*_without_tests(found), *_next_steps(found, fresh=changes))
    output.inform(*_remarks(found))
    return 0


def _asked(choices: install.Choices, found: Survey) -> install.Choices:
    if found.foreign:
        files = ", ".join(map(printable, found.foreign.values()))
        output.inform(f"{_not_ours(found)}: {files}")
        if found.unsupervised:
            output.inform(_UNSUPERVISED)
        answer = output.confirmed("Replace them? The old ones are kept as *.old.", default=True)
        choices = changed(choices, replace=answer)
    if found.completing:
        output.inform(f"{_lacking(found, set(found.offered).__contains__)}.")
        answer = output.confirmed("Install ours?", default=True)
        choices = changed(choices, commands=answer)
    if found.tests:
        command, source = shlex.join(found.tests.run), printable(found.tests.source)
        output.inform(f"The tests run with `{printable(command)}`, says {source}. {_USE_OF_TESTS}")
        line = printable(check_line(found.tests))
        asked = f"Add `{line}` to the checks in .playbooks/config.yaml?"
        answer = output.confirmed(asked, default=True)
        choices = changed(choices, test_check=answer)
    return choices


# ── what was found, and what to do next ──────────────────────────────────────────────────────


def _next_steps(found: Survey, *, fresh: bool) -> Iterator[str]:
    if not found.runnable:
        yield "next: write a playbook of your own; /playbook.create in Claude Code drafts one"
        return
    is_change = found.runnable == CHANGE
    what = '"WHAT TO CHANGE"' if is_change else printable(found.feature) or "FEATURE"
    run = f"{found.runnable} {what}"
    if not (found.feature or is_change):
        how = f"type {found.specify} in Claude Code" if found.specify else "specs/FEATURE/spec.md"
        yield f"first: write the specification of a feature ({how})"
    if is_change and fresh:
        yield "first: commit the installed files, or they become part of the change"
    yield f"next: playbook run {run}"
    if found.inside:
        yield f"or, inside Claude Code: /playbook.run {run}"


def _without_tests(found: Survey) -> Iterator[str]:
    """The way to add a test command that `init` did not find."""
    if found.untested:
        yield (
            "no file names a command that runs the tests; add it to .playbooks/config.yaml: "
            "`checks: {test: {run: [PROGRAM, ARGUMENT]}}`"
        )


def _remarks(found: Survey) -> Iterator[str]:
    """The lacks of the shipped playbooks, and at the end which of our commands are not ours."""
    ours = set(found.offered)
    if theirs := _lacking(found, lambda command: command not in ours):
        yield f"{theirs}; they come with spec-kit (`specify init --here --integration claude`)"
    if found.completing:
        yield f"{_lacking(found, ours.__contains__)}; `playbook init --commands` installs them"
    if found.foreign:
        yield (
            f"{_not_ours(found)}. `playbook init --replace` installs ours and keeps the old files "
            "as *.old"
        )


def _not_ours(found: Survey) -> str:
    names = [f"/{name}" for name in found.foreign]
    said = f"{_and(names)} {'are' if len(names) > 1 else 'is'} not ours"
    return f"{said}, and would let a model supervise" if found.unsupervised else said


def _lacking(found: Survey, chosen: Callable[[str], bool]) -> str:
    """`auto-feature and auto-validate lack /qa.plan and /qa.run`, of the chosen commands."""
    lacking = {
        playbook: [command for command in missing if chosen(command)]
        for playbook, missing in found.lacking.items()
    }
    playbooks = [playbook for playbook, missing in lacking.items() if missing]
    commands = list(dict.fromkeys(command for missing in lacking.values() for command in missing))
    verb = "lack" if len(playbooks) > 1 else "lacks"
    return f"{_and(playbooks)} {verb} {_and(commands)}" if playbooks else ""


def _and(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
