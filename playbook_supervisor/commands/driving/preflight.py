"""The needs of playbooks that are looked at before a run, in the same words for each command.

The network is asked only if a step pushes or asks the forge. A push is tried by `run` and `start`
alone, since it runs programs that the repository's own settings name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from playbook_supervisor.errors import CheckError, PlaybookError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.project.conditions.conditions import need_network
from playbook_supervisor.project.playbooks.step_needs import (
    Lack,
    lacking,
    named_checks,
    pushes,
    running,
)
from playbook_supervisor.project.settings.bounds import where_is
from playbook_supervisor.project.settings.checks import find_check
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.system.git import github
from playbook_supervisor.system.git.git_programs import Runs, command, environment
from playbook_supervisor.system.git.git_unattended import PUSH, push_remote, quiet_ssh, refusal
from playbook_supervisor.system.process.processes import Completed, run

_DEADLINE = 5.0  # seconds for each question over the network
_TRIED = "refs/heads/playbook-preflight"  # a dry run of a push creates nothing
_FORGE = frozenset({"pr", "issue"})
_NETWORK = "Look at the network, or go on if it is back by then."


def preflight(
    playbooks: Sequence[Playbook],
    root: Path,
    config: Config,
    start: str = "",
    *,
    forge: bool = True,
    push: bool = False,
) -> tuple[str, ...]:
    """What the steps need and do not find here, as sentences with the cure.

    The first playbook begins at the step `start`; the others are its children. With `forge`, it is
    asked who is logged in there, and with `push`, whether the remote would take a push.
    """
    found: list[Lack] = []
    steps: dict[str, Step] = {}
    for number, playbook in enumerate(playbooks):
        first = "" if number else start
        found += lacking(playbook, root, first)
        within = f"{playbook.name}/" if number else ""
        steps |= {f"{within}{step.id}": step for _, step in running(playbook, first)}
    found += _checks(steps, root, config)
    name = next((name for name, step in steps.items() if pushes(step)), "")
    if push and name and (lack := _push(name, root)):
        found.append(lack)
    found += without_forge(steps, root) if forge else ()
    return tuple(dict.fromkeys(lack.sentence for lack in found))


def without_forge(steps: Mapping[str, Step], root: Path) -> Iterator[Lack]:
    """The forge that one of these steps, by name, needs and cannot use."""
    name = next((name for name, step in steps.items() if asks_forge(step)), "")
    if name and (lack := _login(name, root)):
        yield lack


def asks_forge(step: Step) -> bool:
    """True if the step or one of its conditions runs `gh`."""
    return step.namespace in _FORGE or need_network(step.conditions)


def _checks(steps: Mapping[str, Step], root: Path, config: Config) -> Iterator[Lack]:
    for name, step in steps.items():
        for _, parameter in named_checks(step):
            try:
                check = find_check(parameter, config)
            except CheckError:  # the run itself refuses this
                continue
            program = check.argv[0]
            path = str(root / program) if "/" in program else program
            if not check.setup and where_is(path) is None:
                shown = first_line(program, 80)
                message = f"{name} needs the check {parameter}, whose program {shown} is not here"
                yield Lack(0, message, "Install it, or correct `checks` in the settings.", False)


def _push(name: str, root: Path) -> Lack | None:

    def git(*arguments: str, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> Completed:
        around = {**environment(Runs.ALL), **(env or {})}
        argv = [*command(root, Runs.ALL), *arguments]
        return run(argv, cwd=root, env=around, stdin=stdin, timeout=_DEADLINE)

    branch = git("symbolic-ref", "--quiet", "--short", "HEAD").stdout.strip()
    remote = push_remote(git, branch)
    if not remote or git("rev-parse", "--verify", "--quiet", "HEAD").returncode:
        return None
    options = (*PUSH, "--dry-run", "--no-verify", "--", remote, f"HEAD:{_TRIED}")
    done = git(*options, env=quiet_ssh(git))
    shown = first_line(remote, 80)
    if done.timed_out:
        message = f"{name} needs to push to {shown}, which did not answer within {_DEADLINE:g} s"
        return Lack(0, message, _NETWORK, False)
    if done.returncode == 0:
        return None
    message = f"{name} needs to push to {shown}, which refuses it: {refusal(done).words}"
    return Lack(0, message, "Correct the remote's address or your rights to push.", False)


def _login(name: str, root: Path) -> Lack | None:
    try:
        env = {**os.environ, **github.QUIET}
        done = run(["gh", "auth", "status"], cwd=root, env=env, timeout=_DEADLINE)
    except PlaybookError:
        message = f"{name} needs gh, which is not on PATH here"
        return Lack(0, message, "Install it, or put it on PATH.", False)
    if done.timed_out or github.is_offline(done):
        return Lack(0, f"{name} needs the forge, which gh does not reach", _NETWORK, False)
    if done.returncode == 0:
        return None
    said = first_line(done.stderr or done.stdout, 120)
    return Lack(0, f"{name} needs gh to be logged in: {said}", "Run `gh auth login`.", False)
