"""The conditions and triggers, what each of them looks at, and what it says now.

The answer depends on the files, the record of the launch and nothing else; only a condition that
needs the network asks more. What cannot be checked is an error, never a "no".
A new condition also needs its word in `kernel/vocabulary.py` and `schemas/written/playbook.json`,
and its parameters in `requirement.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from playbook_supervisor.errors import CheckError, PlaybookError, StorageError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Answer, Probed
from playbook_supervisor.kernel.vocabulary import Condition, Trigger
from playbook_supervisor.project.conditions import probes
from playbook_supervisor.project.conditions.features import of_branch
from playbook_supervisor.project.conditions.probes import (
    Asked,
    LaunchRecord,
    Probe,
    Since,
    UncheckedError,
)
from playbook_supervisor.project.conditions.probes import Workspace as Workspace
from playbook_supervisor.project.expressions.requirement import SINCE_LAUNCH, requirement
from playbook_supervisor.project.settings.checks import find_check
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import Record, replace
from playbook_supervisor.system.disk.files import Stamp, contained, digest, stamp

if TYPE_CHECKING:
    from playbook_supervisor.project.conditions.verdicts import Reading


# ── the registry ────────────────────────────────────────────────────────────────────────────


class ConditionTraits(Record):
    """The traits of a condition: its probe, and its needs.

    `artifacts` are paths with the folders of the config, `{feature}` and the first parameter,
    `{path}`, in braces. `runs_checks`: it starts a check of the project, which may take an hour.
    `publishes`: a step that has it as a postcondition makes its work public.
    """

    probe: Probe
    artifacts: tuple[str, ...] = ()
    needs_feature: bool = True
    needs_network: bool = False
    runs_checks: bool = False
    publishes: bool = False


class TriggerTraits(Record):
    """Which reports a trigger looks at, and what in a report fires it ("" if nothing does)."""

    artifacts: tuple[str, ...] = ()
    fires: Callable[[Reading], str] = lambda _: ""


_CHECK_REPORT = ("{agreements}/{feature}/check-report.md",)
_AGREEMENT = ("{agreements}/{feature}/agreement.yaml",)
_QA_PLANS = ("{qa}/{feature}/test-plan.md", "{qa}/{feature}/_index.yaml")
_QA_VERDICTS = ("{qa}/{feature}/verdict.md", "{qa}/{feature}/verdict.yaml")

CONDITIONS: Mapping[Condition, ConditionTraits] = {
    Condition.SPEC_EXISTS: ConditionTraits(probes.exists, ("{specs}/{feature}/spec.md",)),
    Condition.PLAN_EXISTS: ConditionTraits(probes.exists, ("{specs}/{feature}/plan.md",)),
    Condition.TASKS_EXISTS: ConditionTraits(probes.exists, ("{specs}/{feature}/tasks.md",)),
    Condition.AGREEMENT_EXISTS: ConditionTraits(probes.exists, _AGREEMENT),
    Condition.AGREEMENT_PASS: ConditionTraits(probes.passes, _CHECK_REPORT),
    Condition.QA_PLAN_EXISTS: ConditionTraits(probes.exists, _QA_PLANS),
    Condition.QA_VERDICT_PASS: ConditionTraits(probes.passes, _QA_VERDICTS),
    Condition.PR_CREATED: ConditionTraits(
        probes.pull_request, needs_feature=False, needs_network=True, publishes=True
    ),
    Condition.TASKS_DONE: ConditionTraits(probes.tasks_done, ("{specs}/{feature}/tasks.md",)),
    Condition.FILE_EXISTS: ConditionTraits(probes.exists, ("{path}",), needs_feature=False),
    Condition.FILE_CONTAINS: ConditionTraits(probes.contains, ("{path}",), needs_feature=False),
    Condition.GIT_CLEAN: ConditionTraits(probes.git_clean, needs_feature=False),
    Condition.BRANCH_EXISTS: ConditionTraits(probes.branch_exists, needs_feature=False),
    Condition.TAG_EXISTS: ConditionTraits(probes.tag_exists, needs_feature=False),
    Condition.VERDICT_PASS: ConditionTraits(probes.passes, ("{path}",), needs_feature=False),
    Condition.COMMAND_SUCCEEDS: ConditionTraits(
        probes.check_succeeds, needs_feature=False, runs_checks=True
    ),
    Condition.COMMAND_FAILS: ConditionTraits(
        probes.check_fails, needs_feature=False, runs_checks=True
    ),
    Condition.PROVED: ConditionTraits(probes.proved, needs_feature=False, runs_checks=True),
    Condition.CHANGES_MADE: ConditionTraits(probes.changes_made, needs_feature=False),
    Condition.CHANGES_WITHIN: ConditionTraits(probes.changes_within, needs_feature=False),
    Condition.COMMITS_MADE: ConditionTraits(probes.commits_made, needs_feature=False),
}
TRIGGERS: Mapping[Trigger, TriggerTraits] = {
    Trigger.AGREEMENT_BREAKING: TriggerTraits(_CHECK_REPORT, lambda report: report.breaking),
    Trigger.VERDICT_FAIL: TriggerTraits(
        _QA_VERDICTS, lambda report: "" if report.verdict in ("", "PASS") else report.said
    ),
    Trigger.SUBAGENT_ERROR: TriggerTraits(),
    Trigger.POSTCONDITION_FAIL: TriggerTraits(),
}
REPORT_TRIGGERS = tuple(trigger for trigger, traits in TRIGGERS.items() if traits.artifacts)
"""The triggers that look at reports."""


def traits(name: str) -> ConditionTraits:
    """Those of the condition with this canonical text; ConditionError PB-COND-UNKNOWN."""
    return CONDITIONS[requirement(name).condition]


def needs_feature(name: str) -> bool:
    """True if a condition or trigger looks into the folders of a feature."""
    return name in REPORT_TRIGGERS if name in TRIGGERS else traits(name).needs_feature


def publishes(names: Iterable[str]) -> bool:
    """True if a step with these postconditions makes its work public."""
    return any(traits(name).publishes for name in names)


def verdicts(names: Iterable[str]) -> tuple[str, ...]:
    """Those of the conditions that read the verdict of a report, each once."""
    return tuple(dict.fromkeys(name for name in names if traits(name).probe is probes.passes))


def need_tree(names: Iterable[str]) -> bool:
    """True if one of the conditions compares with the tree or the commit at the launch."""
    return any(requirement(name).condition in SINCE_LAUNCH for name in names)


def file_of(name: str) -> str:
    """The file that a condition names as its parameter; empty if it names none."""
    required = requirement(name)
    named = CONDITIONS[required.condition].artifacts == ("{path}",)
    return next(iter(required.parameters), "") if named else ""


def spans_attempts(name: str) -> bool:
    """True if what earlier attempts of the step have left counts as well (decision 0162)."""
    return requirement(name).condition is Condition.CHANGES_WITHIN


def is_lasting(name: str) -> bool:
    """True if what a step has provided is still there for later ones, unless it is undone."""
    required = requirement(name)
    passing = required.condition in SINCE_LAUNCH or required.condition is Condition.GIT_CLEAN
    return not passing and not CONDITIONS[required.condition].runs_checks


def checks(names: Iterable[str]) -> tuple[str, ...]:
    """The checks that the conditions run, as `find_check` reads them, each once."""
    required = (requirement(name) for name in names)
    running = (each for each in required if CONDITIONS[each.condition].runs_checks)
    return tuple(dict.fromkeys(check for each in running for check in each.parameters[:1]))


def require_answerable(names: Iterable[str], config: Config) -> None:
    """CheckError PB-CHECK-RULE for parameters that can mean nothing, PB-CHECK-UNDEFINED for a check
    that the settings do not define."""
    asked = tuple(names)
    for name in asked:
        if flaw := requirement(name).flaw:
            raise CheckError("PB-CHECK-RULE", f"{first_line(name, 60)}: {flaw}")
    for parameter in checks(asked):
        find_check(parameter, config)


def need_network(names: Iterable[str]) -> bool:
    """True if one of the conditions has to ask a program that uses the network."""
    return any(traits(name).needs_network for name in names)


def run_checks(names: Iterable[str]) -> bool:
    """True if one of the conditions starts a check of the project."""
    return any(traits(name).runs_checks for name in names)


# ── asking ──────────────────────────────────────────────────────────────────────────────────


def artifacts(name: str, workspace: Workspace) -> tuple[str, ...]:
    """The paths that a condition or trigger looks at. ConditionError PB-COND-UNKNOWN."""
    config = workspace.config
    names = {"specs": config.specs, "agreements": config.agreements, "qa": config.qa}
    names["feature"] = workspace.feature
    if name in TRIGGERS:
        paths = TRIGGERS[Trigger(name)].artifacts
    else:
        required = requirement(name)
        paths = CONDITIONS[required.condition].artifacts
        names["path"] = next(iter(required.parameters), "")
    return tuple(path.format_map(names) for path in paths)


def probe(
    name: str,
    workspace: Workspace,
    *,
    since: Since | None = None,
    since_ms: int | None = None,
    tree: str = "",
    head: str | None = None,
) -> Probed:
    """The answer of a condition now, with one line of evidence.

    `since` and `since_ms` (milliseconds since the epoch) describe the launch, and so do `tree` and
    `head`, as in `LaunchRecord`. With either of the first two a *verdict* counts only if its report
    was written since, and the evidence of a file that merely *exists* says so if it was not. If the
    record does not know a file, its modification time decides.
    """
    required = requirement(name)
    known = CONDITIONS[required.condition]
    if required.flaw:
        return Probed(required.name, Answer.ERROR, f"could not be checked: {required.flaw}")
    if known.needs_feature and not of_branch(workspace.feature):
        shown = first_line(workspace.feature, 60)
        what = f"{shown!r} is no feature" if shown else "no feature is named"
        return Probed(name, Answer.ERROR, f"{what}: give one, or be on a feature's branch")
    launch = LaunchRecord(since, since_ms, tree, head)
    asked = Asked(required, artifacts(name, workspace), workspace, launch)
    try:
        probed = known.probe(asked)
    except UncheckedError as reason:
        return asked.unknown(f"could not be checked: {reason}")
    except PlaybookError as error:
        return asked.unknown(f"could not be checked: {first_line(error.message)}")
    fails = probed.answer is Answer.NOT_HELD and not probed.code
    return replace(probed, blames=True) if fails and known.runs_checks else probed


def finding(
    trigger: Trigger,
    workspace: Workspace,
    *,
    since: Since | None = None,
    since_ms: int | None = None,
) -> tuple[str, str] | None:
    """Evidence and digest of the report, written since then, that fires the trigger; else None."""
    launch = LaunchRecord(since, since_ms)
    for path in artifacts(trigger, workspace):
        report = probes.look(path, workspace.root)
        if report.flaw or not launch.changed(report):
            continue
        if stated := TRIGGERS[trigger].fires(probes.reading_of(report)):
            return f"{path}: {stated}", digest(report.data)
    return None


def record(names: Iterable[str], workspace: Workspace) -> dict[str, Stamp | None]:
    """A stamp of each artifact that they look at, to compare with later; None if there is none."""
    paths = dict.fromkeys(path for name in names for path in artifacts(name, workspace))
    return {path: _stamp(path, workspace.root) for path in paths}


def _stamp(path: str, root: Path) -> Stamp | None:
    try:
        return stamp(contained(root, path))
    except StorageError:
        return None
