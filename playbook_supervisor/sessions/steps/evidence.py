"""Answers to a `Check`, from files, programs and what was recorded earlier.

The runtime state records what was on the disk at a launch, and what a human waived or answered. A
clone has the same from records.yaml, by digest. If both are lost, files that are there still count,
but no verdict does: nothing shows that it was written by the attempt.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import takewhile

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel import machine
from playbook_supervisor.kernel.directives import (
    Answer,
    Attempt,
    Check,
    Checked,
    Finding,
    Probed,
    Report,
    Standing,
)
from playbook_supervisor.kernel.model import Playbook, Step, base_of
from playbook_supervisor.kernel.phases import positions
from playbook_supervisor.kernel.recovery import finished
from playbook_supervisor.kernel.state import (
    ITEMS,
    OUTPUT,
    UNTIL,
    WITNESSES,
    Entry,
    Position,
    State,
)
from playbook_supervisor.kernel.steps import UNDO_REPORT
from playbook_supervisor.kernel.vocabulary import Autonomy, GateReason, Place, Resolution, Trigger
from playbook_supervisor.kernel.when import JSON, Facts, evaluate
from playbook_supervisor.project.conditions import conditions
from playbook_supervisor.project.conditions.conditions import REPORT_TRIGGERS, Workspace
from playbook_supervisor.project.conditions.probes import Since
from playbook_supervisor.project.expressions import loop_items
from playbook_supervisor.project.expressions.bound_conditions import must_exist
from playbook_supervisor.project.settings.checks import Checking
from playbook_supervisor.records import Record, field, replace
from playbook_supervisor.sessions.files.local_state import Launch, Runtime
from playbook_supervisor.sessions.steps import step_data
from playbook_supervisor.sessions.steps.attempt_log import secret_values
from playbook_supervisor.sessions.steps.beginnings import tree_of, wants
from playbook_supervisor.sessions.steps.open_session import OpenSession
from playbook_supervisor.system.disk.files import digest, rewritten
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.process.capture import redact

_Since = tuple[Since | None, int | None]

_PASSING = r" in [\d.]+ s(?:, \".*\")?, tree "  # what differs each time in a check's evidence
# enters what an attempt's condition needs to run a check of the project
RunsChecks = Callable[[Attempt], AbstractContextManager["Checking"]]


def runs_programs(check: Check) -> bool:
    """True if answering starts a program, for which the lock must not be held."""
    asked = _all_conditions(check)
    return check.undoes or conditions.need_network(asked) or conditions.run_checks(asked)


def runs_checks(check: Check) -> bool:
    """True if one of those programs is a check of the project, which may take an hour."""
    return conditions.run_checks(_all_conditions(check))


def asks_nothing(check: Check, playbook: Playbook) -> bool:
    """True if there is nothing to look at: no condition, no report and no output."""
    return (
        not check.undoes
        and not (_loop_due(check) or _outputs_due(check, playbook))
        and not any(
            _conditions(member.step, check.place)
            or _findings(member.step, check.place)
            or (
                check.place is Place.BEFORE
                and (member.step.stdin or _may_be_passed_over(member.step))
            )
            for member in check.members
        )
    )


def empty_answer(check: Check, at: int) -> Checked:
    """The answer to a check that `asks_nothing`."""
    reports = {each.step.id: Report(item=_shown_item(each.step)) for each in check.members}
    return Checked(at, check.id, reports)


class CheckInputs(Record):
    """Where to look for the answer to a check, and what is known from earlier. `began_at` is the
    session's beginning, in ms, where the runtime state has no record of it. `checking` is entered
    for each condition that runs a check of the project; None where none may run. `facts` of earlier
    steps decide about a `when`, `state` about the outputs at the playbook's end. `values` are those
    of the args. The session's time is `ahead` ms of that of the files."""

    workspace: Workspace
    runtime: Runtime
    began_at: int
    checking: RunsChecks | None
    state: State | None = None
    facts: Facts | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    ahead: int = 0

    @property
    def begun(self) -> Launch:
        return self.runtime.begun or Launch(self.began_at, "", {})


def answer(
    check: Check, inputs: CheckInputs, clock: Callable[[], int]
) -> tuple[Checked, dict[str, str]]:
    """The answer to a check, and digests of the evidence of what fails, by name. `clock` tells when
    the answer is known, in ms: that may be long after the question."""
    failing: dict[str, str] = {}
    asked, items, refused = _expanded(check, inputs)
    reports = refused or {
        member.step.id: _report(member, asked, inputs, failing) for member in asked.members
    }
    checked = Checked(clock(), check.id, reports, items)
    return _with_missing_outputs(asked, checked, inputs, failing), failing


def _expanded(check: Check, inputs: CheckInputs) -> tuple[Check, int, dict[str, Report]]:
    """The check of what is to run first, and of how many items; the answer if it is no item."""
    loop = _loop_due(check)
    if loop is None or inputs.state is None or inputs.facts is None:
        return check, 0, {}
    passed_over, missing = _passed_over(check.members[0], inputs, untried=True)
    items = 0
    if not (passed_over or missing):
        items, passed_over, missing = _count_items(loop, inputs.state, inputs.values, inputs.facts)
    if items:  # those that run first, under the id of the check of their loop
        members = tuple(Attempt(step, 1) for step in inputs.state.expanded(items).phase or ())
        untried = tuple(each.step.id for each in members)
        return replace(check, members=members, untried=untried), items, {}
    report = Report((missing,) if missing else (), passed_over=passed_over)
    return check, 0, {loop.id: report}


def had_finished(
    attempt: Attempt,
    workspace: Workspace,
    known: Launch | None,
    checking: RunsChecks | None,
    ahead: int = 0,
) -> bool:
    """True if a lost attempt's postconditions show that it had done its work (kai FR32): they hold
    as after any return, and something that they look at has changed since its launch. Without
    `checking` no check of the project can be run, and nothing shows that of an attempt which needs
    one."""
    step = attempt.step
    if checking is None and conditions.run_checks(step.judging):
        return False
    inputs = CheckInputs(workspace, Runtime(), 0, checking, ahead=ahead)
    return finished(
        (_asked(condition, attempt, known, inputs), _changed(condition, known, workspace))
        for condition in step.judging
    )


def undone(check: Check, opened: OpenSession, here: Checkout, at: int) -> Checked:
    """The files and the branch are put back to what they were at the launch; a report of ERROR says
    why they are not. Only while the session's lock is held: what runs next must not be undone."""
    from playbook_supervisor.system.git.undo import undo

    (member,) = check.members
    launch = opened.runtime.launches.get(member.id)
    before, head = (launch.tree, launch.head) if launch else ("", "")
    name = f"{opened.manifest.session_id}/{re.sub(r'[^A-Za-z0-9-]+', '-', member.id)}"
    try:
        said = undo(here.root, before, head, name, opened.runtime.pinned).said
        probed = Probed(UNDO_REPORT, Answer.HELD, said)
    except PlaybookError as error:
        why = f"{error.message}. {error.guidance}".rstrip(". ")
        probed = Probed(UNDO_REPORT, Answer.ERROR, why)
    return Checked(at, check.id, {member.step.id: Report((probed,))})


def answered(runtime: Runtime, entry: Entry, resolution: Resolution) -> None:
    """Record a human's decision about what was failing, by the digest of its evidence. A change of
    tests counts as accepted only where it was the question: elsewhere it is waived for a step."""
    about_tests = entry.gate is not None and entry.gate.reason is GateReason.WITNESSES
    failing = {name: runtime.failing[name] for name in entry.failing if name in runtime.failing}
    for name, evidence in failing.items():
        if name in REPORT_TRIGGERS:
            standing = Standing.ACCEPTED if resolution is Resolution.ACCEPT else Standing.ANSWERED
            if resolution is not Resolution.CONTINUE:
                runtime.findings[evidence] = standing.value
        elif resolution is Resolution.ACCEPT:
            runtime.waivers[name] = evidence
            if about_tests:
                runtime.findings[evidence] = Standing.ACCEPTED.value


def _report(member: Attempt, check: Check, inputs: CheckInputs, failing: dict[str, str]) -> Report:
    step, place = member.step, check.place
    launch = inputs.runtime.launches.get(member.id)
    missing = None
    if place is Place.BEFORE and _may_be_passed_over(step):
        untried = step.id in check.untried
        passed_over, missing = _passed_over(member, inputs, untried=untried)
        if passed_over:
            return Report(passed_over=passed_over, item=_shown_item(step))
    needed = _conditions(step, place)
    if place is Place.AFTER:
        found = (_asked(condition, member, launch, inputs) for condition in needed)
    else:
        found = (_asked_before(condition, member, inputs) for condition in needed)
    probed = [_judged(each, inputs, failing) for each in found]
    if place is Place.BEFORE and step.stdin and inputs.facts is not None:
        missing = missing or step_data.lacking_input(step, inputs.facts)
    probed += [missing] if missing else []
    findings = []
    for trigger in _findings(step, place):
        since = _basis(launch if trigger is Trigger.VERDICT_FAIL else inputs.begun, inputs)
        finding = _finding(trigger, since, inputs, failing)
        findings += [finding] if finding else []
    if place is Place.AFTER and step.until:
        repeating = set(step.until) - set(step.postconditions)
        probed = [
            replace(each, code=UNTIL) if each.name in repeating and each.code != WITNESSES else each
            for each in probed
        ]
    return Report(tuple(probed), tuple(findings), item=_shown_item(step))


def _may_be_passed_over(step: Step) -> bool:
    asked = bool(step.when or step.skip_if or step.passed_over)
    return asked and step.autonomy is not Autonomy.SKIP


def _passed_over(
    member: Attempt, inputs: CheckInputs, *, untried: bool
) -> tuple[str, Probed | None]:
    """Why a step is not to run, or nothing; and its `when`, if that has no answer. All of `skip_if`
    must hold. Once a step was tried, what it made may be why they hold."""
    step, missing = member.step, None
    if step.passed_over and untried:
        return step.passed_over, None
    if step.when and inputs.facts is not None:
        probed = evaluate(step.when, inputs.facts)
        if probed.answer is Answer.NOT_HELD and untried:
            return f"when: {probed.evidence}", None
        missing = probed if probed.answer is Answer.ERROR else None
    if not untried:
        return "", missing
    skips = () if step.for_each else step.skip_if  # it is asked for each item
    asked = (_asked_before(condition, member, inputs) for condition in skips)
    held = list(takewhile(lambda probed: probed.held, asked))
    if skips and len(held) == len(skips):
        return "; ".join(probed.line for probed in held), missing
    return "", missing


def _basis(launch: Launch | None, inputs: CheckInputs) -> _Since:
    """The moment that files are compared with; without a record no report counts as newer."""
    return (launch.artifacts, launch.at - inputs.ahead) if launch else ({}, None)


def _asked(
    condition: str, attempt: Attempt, launched: Launch | None, inputs: CheckInputs
) -> Probed:
    if conditions.spans_attempts(condition):
        launched = inputs.runtime.first_launch(attempt.step.id) or launched
    since, since_ms = _basis(launched, inputs)
    tree, head = (launched.tree, launched.head) if launched else ("", None)
    with _room(condition, attempt, inputs) as workspace:
        return conditions.probe(
            condition, workspace, since=since, since_ms=since_ms, tree=tree, head=head
        )


def _asked_before(condition: str, attempt: Attempt, inputs: CheckInputs) -> Probed:
    with _room(condition, attempt, inputs) as workspace:
        return conditions.probe(condition, workspace)


@contextmanager
def _room(condition: str, attempt: Attempt, inputs: CheckInputs) -> Iterator[Workspace]:
    if inputs.checking is None or not conditions.run_checks([condition]):
        yield inputs.workspace
        return
    with inputs.checking(attempt) as checking:
        yield replace(inputs.workspace, checking=checking)


def _judged(probed: Probed, inputs: CheckInputs, failing: dict[str, str]) -> Probed:
    if probed.held:
        return probed
    runtime = inputs.runtime
    if probed.code == WITNESSES and _accepted(probed, runtime):
        return probed.accepted()
    evidence = probed.asked or _evidence_digest(probed, inputs.workspace)
    failing[probed.name] = evidence
    return replace(probed, as_waived=runtime.waivers.get(probed.name, evidence) == evidence)


def _accepted(probed: Probed, runtime: Runtime) -> bool:
    """True if a person was asked about this very change, for this condition, and accepted it."""
    if not probed.asked or runtime.waivers.get(probed.name) != probed.asked:
        return False
    return runtime.findings.get(probed.asked) == Standing.ACCEPTED


def _evidence_digest(probed: Probed, workspace: Workspace) -> str:
    """Of the content of the condition's files, not their times; without files, of the answer. How
    long a check took and what it said is not part of that: its exit status and its tree are."""
    stamps = conditions.record([probed.name], workspace)
    contents = [f"{path} {stamp.digest if stamp else ''}" for path, stamp in stamps.items()]
    said = re.sub(_PASSING, ", tree ", probed.evidence)
    return digest("\n".join(contents or [said]).encode())


def _finding(
    trigger: Trigger, basis: _Since, inputs: CheckInputs, failing: dict[str, str]
) -> Finding | None:
    since, since_ms = basis
    found = conditions.finding(trigger, inputs.workspace, since=since, since_ms=since_ms)
    if found is None:
        return None
    evidence, report = found
    failing[trigger] = report
    said = inputs.runtime.findings.get(report, Standing.NEW.value)
    return Finding(trigger, evidence, Standing(said))


def _changed(condition: str, known: Launch | None, workspace: Workspace) -> bool:
    """A condition that looks at no file counts as changed, a check if the tree has changed. Without
    a record of the launch, existing artifacts decide, as kai asks."""
    if known is not None and known.tree and conditions.run_checks([condition]):
        return tree_of(workspace) != known.tree
    now = conditions.record([condition], workspace)
    if known is None or not now:
        return True
    return any(rewritten(known.artifacts.get(path), stamp) for path, stamp in now.items())


def _all_conditions(check: Check) -> list[str]:
    names: list[str] = []
    for step in (member.step for member in check.members):
        names += _conditions(step, check.place)
        if step.id in check.untried and _may_be_passed_over(step):
            names += step.skip_if
    return names


def _conditions(step: Step, place: Place) -> tuple[str, ...]:
    if step.autonomy is Autonomy.SKIP:
        return ()
    return step.preconditions if place is Place.BEFORE else step.judging


def _findings(step: Step, place: Place) -> tuple[Trigger, ...]:
    asked = REPORT_TRIGGERS if place is Place.AFTER else (Trigger.AGREEMENT_BREAKING,)
    if step.autonomy is Autonomy.SKIP:
        return ()
    return tuple(trigger for trigger in asked if wants(step, trigger))


# ── the outputs of a playbook ─────────────────────────────────────────────────────────────────────

_SETTLING = frozenset({Position.DONE, Position.TOLERATED, Position.SKIPPED, Position.HELD})


def _outputs_due(check: Check, playbook: Playbook) -> bool:
    last = playbook.phase_of[base_of(check.members[-1].step.id)] == len(playbook.phases) - 1
    return last and bool(playbook.outputs)


def _with_missing_outputs(
    check: Check, checked: Checked, inputs: CheckInputs, failing: dict[str, str]
) -> Checked:
    state = inputs.state
    if state is None or not _outputs_due(check, state.playbook):
        return checked
    if not (last := _settles_last(check, checked, state)):
        return checked
    outputs = must_exist(state.playbook.outputs)
    needed = (conditions.probe(name, inputs.workspace) for name in outputs)
    probed = (_judged(each, inputs, failing) for each in needed)
    missing = tuple(replace(each, code=OUTPUT) for each in probed if not each.held)
    report = checked.reports[last]
    answering = replace(report, conditions=(*report.conditions, *missing))
    return replace(checked, reports={**checked.reports, last: answering})


def _settles_last(check: Check, checked: Checked, state: State) -> str:
    """The step after which nothing is left to check; empty while another one may run again. A step
    at a gate settles after all others: a person may accept what has failed of it, and then accepts
    that outputs are missing, too."""
    for event in machine.decide(state, checked):
        state = machine.evolve(state, event)
    members = [member.step.id for member in check.members]
    if state.phase is None:
        return members[-1]
    where = positions(state)
    if any(position not in _SETTLING for position in where.values()):
        return ""
    return next((name for name in reversed(members) if where[name] is Position.HELD), "")


# ── the check of a loop ─────────────────────────────────────────────────────────────────────

_SHOWN = 200  # characters of an item in the journal


def _loop_due(check: Check) -> Step | None:
    step = check.members[0].step
    return step if step.for_each and step.autonomy is not Autonomy.SKIP else None


def _count_items(
    step: Step, state: State, values: Mapping[str, str], facts: Facts
) -> tuple[int, str, Probed | None]:
    loop = step.for_each
    assert loop is not None  # noqa: S101 - see `_loop_due`
    try:
        listed = loop_items.items(loop, values, facts)
        name, _, what = loop.source.removeprefix("$").partition(".")
        # the list is that of an earlier loop, whose failed items have left no value
        holes = what == JSON and name in state.playbook and bool(state.playbook.step(name).for_each)
        wrong = loop_items.fault(loop, step, listed, holes=holes)
    except LookupError as missing:
        listed, wrong = [], str(missing.args[0])
    if wrong:
        return 0, "", Probed("for_each", Answer.ERROR, wrong, code=ITEMS)
    return len(listed), "" if listed else f"for_each: no items in {loop.source}", None


def _shown_item(step: Step) -> str:
    """The journal's name of an item: its first line, without secrets; empty for other steps."""
    if not step.item:
        return ""
    (_, text), *_ = step.item
    return first_line(redact(text, secret_values(os.environ)), _SHOWN)
