"""Sentences about a project's setup: what `init` found and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence

from playbook_supervisor.commands.install import test_check
from playbook_supervisor.commands.install.shipped import CHANGE
from playbook_supervisor.formats.sanitize import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.commands.install.survey import Survey
    from playbook_supervisor.project.test_command import Proposal


def next_steps(found: Survey, *, fresh: bool) -> Iterator[str]:
    """What to type now. `fresh`: files were installed just now."""
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


def without_tests(found: Survey) -> Iterator[str]:
    """How to add the test command that `init` did not find, if there is none."""
    if found.untested:
        yield (
            "no file names a command that runs the tests; add it to .playbooks/config.yaml: "
            "`checks: {test: {run: [PROGRAM, ARGUMENT]}}`"
        )


def remarks(found: Survey) -> Iterator[str]:
    """What the shipped playbooks lack, and at the end which of our commands are not ours."""
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


def offer(found: Survey) -> str:
    """Which commands are missing that we can install, and for which playbooks."""
    return f"{_lacking(found, set(found.offered).__contains__)}."


def tests(proposal: Proposal) -> str:
    """How the project runs its tests, and what that is good for."""
    command, source = printable(shlex.join(proposal.run)), printable(proposal.source)
    return f"The tests run with `{command}`, says {source}. Playbooks can prove changes by them."


def ask_for_tests(proposal: Proposal) -> str:
    """The question whether to add the check to the settings."""
    return f"Add `{printable(test_check.line(proposal))}` to the checks in .playbooks/config.yaml?"


def foreign(found: Survey) -> Iterator[str]:
    """Which of our commands are not ours, and what that means."""
    yield f"{_not_ours(found)}: {', '.join(map(printable, found.foreign.values()))}"
    if found.unsupervised:
        yield "A model that follows such a prompt judges conditions and writes the journal itself."


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
