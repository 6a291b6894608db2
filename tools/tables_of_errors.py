"""Error codes by family, and an example of each warning of `check`."""

from __future__ import annotations

from collections.abc import Mapping

from tables import table

from playbook_supervisor import errors
from playbook_supervisor.errors import CODES, PlaybookError
from playbook_supervisor.formats.problems import Problem
from playbook_supervisor.project.playbooks.lint import lint
from playbook_supervisor.project.playbooks.schema import examine
from playbook_supervisor.project.slash_commands import InstalledCommand

FAMILIES: Mapping[str, tuple[str, type[PlaybookError]]] = {
    "CHECK": ("Files that people write", errors.CheckError),
    "ARG": ("Arguments", errors.ArgumentError),
    "STATE": ("Sessions", errors.StateError),
    "COND": ("Conditions", errors.ConditionError),
    "AGENT": ("Agents", errors.AgentError),
    "STEP": ("Steps without an agent", errors.StepError),
    "POLICY": ("Policies", errors.PolicyError),
    "IO": ("Files and programs", errors.StorageError),
    "GIT": ("Git", errors.GitError),
    "FLEET": ("The fleet", errors.FleetError),
    "BUG": ("Bugs", PlaybookError),
}


def family(name: str) -> str:
    return name.split("-")[1]


def codes() -> str:
    """Every code by family, with its guidance."""
    unknown = {family(name) for name in CODES} - set(FAMILIES)
    if unknown:
        raise SystemExit(f"FAMILIES lacks {', '.join(sorted(unknown))}")
    parts = []
    for key, (title, kind) in FAMILIES.items():
        rows = [(f"`{name}`", cure) for name, cure in CODES.items() if family(name) == key]
        exits = f"Exit code {kind.exit_code}."
        parts.append(f"### {title}\n\n{exits}\n\n{table(('code', 'guidance'), rows)}")
    return "\n".join(parts)


# ── warnings ────────────────────────────────────────────────────────────────────────────────

_TOP = "name: sample\ndescription: A sample\nversion: '1.1'\nargs: {args}\nsteps:\n{steps}"
_ARG = "[{name: feature, description: The feature, required: true}]"
_STEP = (
    "  - {{id: {id}, command: {command}, autonomy: {autonomy}, error_policy: {policy}, {more}}}\n"
)
_PLAN = "postconditions: [plan_exists]"


def step(
    id: str = "plan",  # noqa: A002 - as the format calls it
    more: str = _PLAN,
    *,
    command: str = "/speckit.plan",
    autonomy: str = "auto",
    policy: str = "stop",
) -> str:
    return _STEP.format(id=id, command=command, autonomy=autonomy, policy=policy, more=more)


def _command(name: str) -> InstalledCommand | None:
    known = {
        "/deploy": InstalledCommand("/deploy", closed=True),
        "/review": InstalledCommand("/review", builtin=True),
        "/speckit.plann": None,
    }
    return known.get(name, InstalledCommand(name))


SAMPLES = (
    step("implement", "postconditions: []", command="/speckit.implement"),
    step(more="escalation_triggers: [postcondition_fail]"),
    step(
        policy="retry_once",
        more=f"{_PLAN}, escalation_triggers: [subagent_error, postcondition_fail]",
    ),
    step("tasks", "preconditions: [plan_exists], postconditions: [tasks_exists]") + step(),
    step("pr", "postconditions: [pr_created]", command="/feature.pr")
    + step(autonomy="gate_always"),
    step(policy="{default: stop, PB-STEP-TIMEOUT: gate}"),
    step(command="/speckit.clarify"),
    step("review", "postconditions: [{verdict_pass: docs/report.md}]", command="/qa.run"),
    step(command="/speckit.plann"),
    step(command="/deploy"),
    step(command="/review"),
)
"""Playbooks that cause at least one warning each."""


def warnings() -> str:
    """Every warning of `check`, each for a sample."""
    found: dict[str, Problem] = {}
    for steps in SAMPLES:
        _collect(found, steps, args=_ARG)
    _collect(found, step(), args="[]")
    _collect(found, step(), args=_ARG, stem="other")
    rows = ((f"`{each.code}`", f"{each.message}. {each.guidance}") for each in found.values())
    return table(("code", "example"), sorted(rows))


def _collect(found: dict[str, Problem], steps: str, *, args: str, stem: str = "sample") -> None:
    text = _TOP.format(args=args, steps=steps)
    playbook, problems, document = examine(text.encode(), "sample")
    if playbook is None or document is None:
        raise SystemExit(f"a sample is not a valid playbook: {problems}")
    for problem in lint(playbook, document, command=_command, stem=stem):
        kind = problem.message.split("`")[-1] if problem.code.endswith("-COMMAND") else ""
        found.setdefault(problem.code + kind, problem)
