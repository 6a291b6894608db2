"""`init` and `update`: set up playbooks in a project, and bring them up to date."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.cli.render import json_shapes, text
from playbook_supervisor.commands.install import init as install
from playbook_supervisor.commands.install import shipped
from playbook_supervisor.commands.install import update as upgrade
from playbook_supervisor.commands.install.proposals import TEST, Proposal, given
from playbook_supervisor.commands.install.shipped import CHANGE
from playbook_supervisor.commands.install.survey import Survey, needs
from playbook_supervisor.commands.install.trials import Outcome, Trial, settle, settled, trials
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.project.command_layouts import CLAUDE
from playbook_supervisor.project.settings import config
from playbook_supervisor.project.settings.config import CLEAN
from playbook_supervisor.records import replace as changed

_WRITE = "y writes what is listed above, n writes nothing."
_ADD = f"y lets playbooks prove their work by it, n adds no check `{TEST}`."
_UNSUPERVISED = (
    "A model that follows such a prompt judges conditions and writes the journal itself."
)


@options.command
@click.option("--yes", is_flag=True, help="Write without asking.")
@click.option(
    "--commands",
    is_flag=True,
    help="Install the commands that the shipped playbooks need and the project lacks.",
)
@click.option(
    "--agent",
    metavar="NAME",
    default="",
    help="Look for the commands of this agent, and write ours for it.",
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
@click.option(
    "--check", metavar="COMMAND", default="", help="The command of the check `test`; it is tried."
)
@click.option(
    "--no-check", is_flag=True, help="Do not run the project's tests, and add no check for them."
)
@click.option("--dry-run", is_flag=True, help="Show the plan and write nothing.")
def init(
    *,
    yes: bool,
    commands: bool,
    agent: str,
    replace: bool,
    restore: tuple[str, ...],
    no_hooks: bool | None,
    check: str,
    no_check: bool,
    dry_run: bool,
) -> int:
    """Set up playbooks in this project.

    Shows for each file whether it will be written, kept, merged or is in conflict, then asks.
    Installs the playbooks whose commands the project has: those of the agent that the settings or
    --agent name, else of Claude Code, or of another agent if only that one is found. Finds out how
    the project runs its tests, tries it, and adds what works to .playbooks/config.yaml as the check
    `test`. Files that are not ours are not overwritten unless you say so, deleted files stay
    deleted, and other settings are not changed. Running it again writes nothing, and tries the
    tests again only if files changed.

    \b
    Examples:
      playbook init
      playbook init --dry-run
      playbook init --yes --commands
      playbook init --yes --commands --agent codex
      playbook init --yes --replace
      playbook init --yes --check "make test"
      playbook init --yes --no-check
      playbook init --restore .playbooks/playbooks/auto-speckit.yaml
    """
    choices = install.Choices(no_hooks, replace, commands, restore, agent=agent)
    plan = install.plan(choices=choices)
    found = install.look(plan)
    asks = output.is_interactive() and not (yes or dry_run)
    if check and no_check:
        raise click.UsageError("--check and --no-check exclude each other")
    if asks:
        choices = _asked(choices, found)
    tests = _Tests(plan.root, found, runs=asks or (yes and not dry_run))
    if check:
        choices = changed(choices, check=tests.given(check))
    elif not no_check:
        choices = changed(choices, check=tests.proposed(asks=asks))
        if tests.declined:
            choices = _asked_without_check(choices, found)
    plan = install.plan(choices=choices)
    found = install.look(plan)
    rows = text.table([(each.verb, each.path, each.why) for each in plan.actions])
    output.write(*rows, width=output.terminal_width())
    if dry_run:
        output.inform(*_remarks(found, tests.why))
        return 0
    changes = bool(plan.changes)
    if changes and not yes:
        if not output.is_interactive():
            raise ArgumentError(
                "PB-ARG-USAGE",
                "there is no terminal to ask at",
                guidance="Run `playbook init --yes`; `--dry-run` only shows the plan.",
            )
        if not output.confirmed("Write these files?", _WRITE, default=True):
            output.inform("nothing was written")
            return 1
    install.apply(plan)
    output.inform(f"{'installed' if changes else 'nothing to do'} in {plan.root}")
    output.inform(*_next_steps(found, fresh=changes), *_remarks(found, tests.why))
    output.inform(*needs(found, plan.root))
    return 0


def _asked(choices: install.Choices, found: Survey) -> install.Choices:
    if found.foreign:
        files = ", ".join(map(printable, found.foreign.values()))
        output.inform(f"{_not_ours(found)}: {files}")
        if found.unsupervised:
            output.inform(_UNSUPERVISED)
        question = "Replace them? The old ones are kept as *.old."
        answer = output.confirmed(question, "y installs ours, n keeps these.", default=True)
        choices = changed(choices, replace=answer)
    if found.completing:
        output.inform(f"{_lacking(found, set(found.offered).__contains__)}.")
        meaning = "y adds these commands and the playbooks, n leaves both out."
        answer = output.confirmed("Install ours?", meaning, default=True)
        choices = changed(choices, commands=answer)
    return choices


def _asked_without_check(choices: install.Choices, found: Survey) -> install.Choices:
    """A person may want a playbook before its check is there."""
    for name in found.waiting:
        question = f"Install {name} now? It begins only once there is a check `{TEST}`."
        meaning = "y installs it, n leaves it out."
        if output.confirmed(question, meaning, default=False):
            restored = (*choices.restore, shipped.playbook_file(name))
            choices = changed(choices, restore=restored)
    return choices


# ── the project's tests ─────────────────────────────────────────────────────────────────────


def _trying(proposal: Proposal) -> None:
    after = f", after {' and '.join(map(_command, proposal.setup))}" if proposal.setup else ""
    source = printable(proposal.source)
    output.inform(f"trying {_command(proposal.run)} {proposal.where}, as {source} says{after}")


class _Tests:
    """The check to add. `why` says why there is none, where the settings have no checks."""

    def __init__(self, root: Path, found: Survey, *, runs: bool) -> None:
        self._root, self._found, self._runs = root, found, runs
        self.declined, self.why = False, "no check for the tests was added"
        if not found.proposals:
            self.why = "no file names a command that runs the tests"

    def proposed(self, *, asks: bool) -> Proposal | None:
        """The best that was tried, or without trials the first."""
        proposals = self._found.proposals
        if not (proposals and self._runs):
            return next(iter(proposals), None)
        if said := settled(self._root, proposals):
            self.why = f"{said}, and no file has changed since"
            return None
        best = self._tried(proposals)
        if best.outcome is Outcome.NO_TESTS:
            self.why = f"{_command(best.proposal.run)} ran no tests"
        else:
            question = f"Add `{printable(best.proposal.line)}` to the checks in {config.FILE}?"
            self.declined = asks and not output.confirmed(question, _ADD, default=True)
            if not self.declined:
                return best.proposal
        settle(self._root, proposals, self.why)
        return None

    def given(self, line: str) -> Proposal | None:
        proposals = given(self._root, line)
        defined = config.load(self._root).checks.get(TEST)
        if defined is not None and defined.argv in [each.run for each in proposals]:
            return None
        if not self._runs:
            return proposals[0]
        best = self._tried(proposals)
        if best.outcome is Outcome.NO_TESTS:
            raise ArgumentError(
                "PB-ARG-USAGE",
                f"{_command(best.proposal.run)} runs no tests: {printable(best.said)}",
                guidance="Correct --check; nothing was written.",
            )
        return best.proposal

    def _tried(self, proposals: Sequence[Proposal]) -> Trial:
        tried = trials(self._root, proposals, _trying)
        output.inform(*_results(tried))
        return tried[0]


def _results(tried: Sequence[Trial]) -> Iterator[str]:
    for each in reversed(tried):
        yield f"{_command(each.proposal.run)} {each.proposal.where}: {printable(each.said)}"
    best = tried[0]
    if best.outcome is Outcome.SOME_FAIL:
        yield "these tests fail already: playbooks that ask for them stop until they pass"
    if best.outcome and best.proposal.room != CLEAN:
        yield (
            "they need files that git ignores, or programs that no set-up installed: name the "
            "programs that make them in `setup`, with `room: clean`, and proofs are stronger"
        )


def _command(argv: Sequence[str]) -> str:
    return f"`{printable(shlex.join(argv))}`"


# ── what was found, and what to do next ──────────────────────────────────────────────────────


def _next_steps(found: Survey, *, fresh: bool) -> Iterator[str]:
    if not found.runnable:
        if CHANGE in found.unproved:
            yield f"next: add the check; {CHANGE} needs it"
        else:
            yield "next: write a playbook of your own; /playbook.create in Claude Code drafts one"
        return
    is_change = found.runnable == CHANGE
    what = '"WHAT TO CHANGE"' if is_change else printable(found.feature) or "FEATURE"
    run = f"{found.runnable} {what}" + f" --agent {found.agent}" * bool(found.agent)
    if not (found.feature or is_change):
        agent = "Claude Code" if found.layout == CLAUDE else found.layout
        how = f"type {found.specify} in {agent}" if found.specify else "specs/FEATURE/spec.md"
        yield f"first: write the specification of a feature ({how})"
    if is_change and fresh:
        yield "first: commit and push the installed files, or they become part of the change"
    yield f"next: playbook run {run}"
    if found.inside:
        yield f"or, inside Claude Code: /playbook.run {run}"


def _remarks(found: Survey, untested: str) -> Iterator[str]:
    if found.untested or found.waiting:
        left = f"{_and(found.waiting)} left out: " if found.waiting else ""
        why = untested if found.untested else f"there is no check `{TEST}`"
        yield f'{left}{why}; `playbook init --check "PROGRAM ARGUMENT"` adds the check'
    ours = set(found.offered)
    if theirs := _lacking(found, lambda command: command not in ours):
        specify = f"specify init --here --integration {found.layout}"
        yield f"{theirs}; they come with spec-kit (`{specify}`)"
    if found.completing:
        install = "playbook init --commands" + f" --agent {found.agent}" * bool(found.agent)
        yield f"{_lacking(found, ours.__contains__)}; `{install}` installs them"
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


@options.command
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file is out of date.")
@click.option("--dry-run", is_flag=True, help="Show the plan and write nothing.")
@options.json
def update(*, check: bool, dry_run: bool, json: bool) -> int:
    """Update what `playbook init` installed.

    Files that you have not edited are replaced. An edited file stays, and its new version is
    written beside it as *.new. Deleted files stay deleted. Your own playbooks and sessions are
    not touched.

    \b
    Examples:
      playbook update
      playbook update --dry-run
      playbook update --check
    """
    plan = upgrade.plan()
    applies = not (check or dry_run)
    if applies:
        upgrade.apply(plan)
    if json:
        output.write_json(json_shapes.update(plan, applied=applies))
    else:
        shown = plan.changes if check else plan.notable
        rows = [(action.verb, action.path, action.why) for action in shown]
        output.write(*map(printable, text.table(rows)))
    stale = len(plan.changes)
    if not stale:
        output.inform("everything is up to date")
    elif applies:
        output.inform(f"updated in {plan.root}")
    else:
        output.inform("out of date; run `playbook update`")
    return 1 if check and stale else 0
