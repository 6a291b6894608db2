"""What `playbook doctor` finds about a project's playbooks: checks, gh, and what cannot work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from playbook_supervisor.commands.diagnosis import Diagnosis, completed, program_path
from playbook_supervisor.drivers.preflight import findings
from playbook_supervisor.drivers.step_kinds import Site
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.project import config, library
from playbook_supervisor.project.checks import CLI
from playbook_supervisor.project.conditions import checks, need_network
from playbook_supervisor.project.playbook_file import PlaybookFile
from playbook_supervisor.system import checkout


def forge(here: checkout.Checkout) -> Iterator[Diagnosis]:
    """Whether gh runs, where a condition asks it."""
    needing = [each.name for each in library.playbooks(here.root) if _needs_gh(each)]
    if not needing:
        return
    done = completed(here.root, "gh", "auth", "status")
    why = f"needed by {', '.join(needing)} to find the pull request"
    if done is None:
        yield Diagnosis("gh", "wrong", f"does not run; {why}", "Install GitHub's gh.")
    elif done.returncode:
        said = first_line(done.stderr or done.stdout)
        yield Diagnosis("gh", "wrong", f"{said} ({why})", "Run `gh auth login`.")
    else:
        yield Diagnosis("gh", "fine", "runs and is logged in")


def _needs_gh(each: PlaybookFile) -> bool:
    return not each.problem and any(need_network(step.conditions) for step in each.playbook.steps)


def named_checks(here: checkout.Checkout) -> Iterator[Diagnosis]:
    """Whether each check that a playbook names is there and can be started; none is run."""
    defined = config.load(here.root).checks
    named = {check: playbook for playbook, check in _demanded(here.root)}
    if not (defined or named):
        return
    problems = [
        f"{first_line(named[name])} asks for the check `{first_line(name)}`, which is not there"
        for name in sorted(named.keys() - defined.keys())
    ] + [
        f"{first_line(spec.argv[0])}, the program of the check `{name}`, is not found"
        for name, spec in defined.items()
        if not program_path(here.root, spec.argv[0])
    ]
    if problems:
        cure = f"Correct `checks` in {config.FILE}, or install the program."
        yield Diagnosis("checks", "wrong", "; ".join(problems), cure)
    else:
        yield Diagnosis("checks", "fine", ", ".join(defined))


def playbooks(here: checkout.Checkout) -> Iterator[Diagnosis]:
    """What in the playbooks cannot work with these settings, or on this machine."""
    site = Site(here.root, config.load(here.root))
    for each in library.playbooks(here.root):
        for one in findings(each.playbook, site) if not each.problem else ():
            step = each.playbook.steps[one.step].id if one.step is not None else ""
            where = f"{each.name}, step {step}" if step else each.name
            state: Literal["wrong", "advice"] = "wrong" if one.fatal else "advice"
            yield Diagnosis("playbooks", state, f"{where}: {one.error.message}", one.error.guidance)


def _demanded(root: Path) -> Iterator[tuple[str, str]]:
    """Each playbook with a check that it demands; one that an arg names may be missing."""
    for each in library.playbooks(root):
        for step in () if each.problem else each.playbook.steps:
            for check in checks(step.conditions):
                if "{{" not in check and check.partition(" ")[0] != CLI:
                    yield each.name, check
