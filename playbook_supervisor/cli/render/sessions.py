"""Sessions as text: a few lines for each, or every attempt of one.

Loops, rounds and child sessions take one line until they matter. A child session is open unless it
is completed, a loop names what failed and shows what waits; with `every`, all is open
(docs/decisions/0199).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os.path import relpath
from pathlib import Path
from shlex import quote

from playbook_supervisor.cli.render import text
from playbook_supervisor.commands.overview import ClientState, SessionOverview
from playbook_supervisor.commands.views.progress import said_by
from playbook_supervisor.commands.views.queries import SessionView
from playbook_supervisor.formats.sanitize import counted, first_line, last_words, one_line
from playbook_supervisor.kernel import gates
from playbook_supervisor.kernel.model import Step, base_of
from playbook_supervisor.kernel.state import Entry, Gate
from playbook_supervisor.kernel.vocabulary import EntryStatus, SessionStatus
from playbook_supervisor.sessions.gate import gate_text
from playbook_supervisor.sessions.steps.step_runs import StepRun, is_round, step_runs, steps_settled


def brief(seen: SessionOverview, now: int, context: Sequence[str] = ()) -> Iterator[str]:
    """One session in a line; more if a human has to act, with the `context` of its gate."""
    manifest = seen.manifest
    if manifest is None:
        if seen.code == "PB-STATE-NO-WORKTREE":
            yield f"{seen.session_id}  {first_line(seen.problem, 400)}"
            yield f"  restore it: playbook repair {seen.session_id} --restore"
            return
        yield f"{seen.session_id}  unreadable: {first_line(seen.problem, 400)}"
        if seen.code != "PB-STATE-NEWER":
            yield f"  inspect it: playbook repair {seen.session_id}"
        return
    words = [seen.session_id, manifest.playbook, manifest.subject, _state(seen, now)]
    yield "  ".join(first_line(word) for word in words if word) + _location(seen)
    if seen.problem and not seen.code:
        yield f"  {first_line(seen.problem, 400)}"
    if seen.code == "PB-STATE-NO-WORKTREE":
        yield f"  its worktree is gone; copy its journal here: playbook finish {seen.session_id}"
    elif seen.stale:
        yield from _stale(seen)
    elif seen.code == "PB-STATE-OLDER":
        yield f"  {first_line(seen.problem, 400)}; merge that branch or switch to it"
        yield f"  to go on from this copy instead: playbook repair {seen.session_id} --take"
    elif seen.code == "PB-STATE-BRANCH":
        yield f"  it is {seen.problem.partition(' is ')[2] or seen.problem}"
    elif seen.code:
        yield f"  {first_line(seen.problem, 400)}"
        yield f"  look at it: playbook repair {seen.session_id}"
    elif seen.gate is not None:
        yield f"  {first_line(seen.gate.question, 400)}"
        yield from (f"    {line}" for line in context)
        if seen.driver is None or seen.client is not None:
            yield f"  playbook answer {seen.session_id} …"
    elif seen.open and seen.driver is None and seen.client is None:
        yield f"  playbook resume {seen.session_id}"
    elif seen.failed:
        yield f"  playbook resume {seen.session_id} --retry"
    if seen.driver is not None:
        yield f"  driven by process {seen.driver.pid} (agent {first_line(seen.driver.agent)})"
    if seen.open and seen.manifest is not None and seen.manifest.isolation:
        yield f"  {isolated(seen.manifest.isolation)}"
    if seen.client is not None and seen.open:
        yield from _in_the_client(seen.client)


def said(seen: SessionOverview) -> list[str]:
    """A line for each attempt whose worker or check has printed something."""
    return [f"  {text.path(each)}: {first_line(line)}" for each, line in said_by(seen).items()]


def isolated(isolation: str) -> str:
    """What isolated an attempt, for a person."""
    name = first_line(isolation, 40)
    return "not isolated" if name == "none" else f"isolated by {name}"


def _stale(seen: SessionOverview) -> Iterator[str]:
    manifest = seen.manifest
    assert manifest is not None  # noqa: S101 - a stale one was read
    place = relpath(seen.store.checkout.main_root / manifest.worktree)
    yield f"  its worktree {first_line(place)} is gone; this copy may lack what ran there last"
    yield f"  continue there: git worktree add {quote(place)} {quote(first_line(manifest.branch))}"
    yield f"  if it has ended there: playbook finish {seen.session_id}"
    yield f"  if that branch is gone, too: playbook abort {seen.session_id}"


def _in_the_client(client: ClientState) -> Iterator[str]:
    if client.dialog:
        yield f"  a permission dialog for {first_line(client.dialog)} waits for you in Claude Code"
    if client.stalled:
        yield "  STALLED: the model ignores the directive; type /playbook.resume in Claude Code"
    if client.lives and not client.hooked:
        yield "  its hooks no longer reach the session; type /playbook.resume in Claude Code"


def _state(seen: SessionOverview, now: int) -> str:
    manifest = seen.manifest
    assert manifest is not None  # noqa: S101 - the caller checked it
    if (gate := seen.gate) is not None:
        waited = text.duration(max(now - gate.opened_at, 0))
        return f"WAITS FOR A HUMAN at {text.path(gate.id)}, for {waited}"
    at = f" at {manifest.current_step}" if manifest.current_step and seen.open else ""
    if manifest.completed_at is not None:
        elapsed = text.duration(manifest.completed_at - manifest.started_at)
        return f"{manifest.ending} after {elapsed}"
    idle = "" if seen.driver is not None else ", no driver"
    return f"{manifest.status}{at}{idle}"


def _location(seen: SessionOverview) -> str:
    here = Path.cwd()
    return "" if here.is_relative_to(seen.root) else f"  in {relpath(seen.root, here)}"


# ── one session, step by step ─────────────────────────────────────────────────────────────────

_MOST_NAMED = 10
_LINE = 400
HINT = "`playbook show --all` shows every item, round and step of a child session."


def details(shown: SessionView, now: int, *, every: bool = False) -> Iterator[str]:
    """Every attempt with its conditions, evidence and answers."""
    seen = shown.seen
    yield from brief(seen, now, gate_text.lines(seen.gate_context()))
    yield from said(seen)
    if seen.manifest is not None:
        if seen.manifest.parent:
            yield f"  a child session of {first_line(seen.manifest.parent)}"
        args = ", ".join(f"{key}={value}" for key, value in seen.manifest.args.items() if value)
        yield f"  began {text.stamp(seen.manifest.started_at)}" + (
            f" with {first_line(args)}" if args else ""
        )
    if shown.playbook is not None:
        if owner := shown.playbook.owner:
            yield f"  owner: {first_line(owner, 60)}"
        if people := text.to_review(shown.playbook.reviewers):
            yield f"  {first_line(people, _LINE)}"
    for effect in shown.effects:
        yield f"  {first_line(f'policy {effect.policy}: {effect.step} {effect.summary}', _LINE)}"
    yield from _steps(shown, now, every=every)
    if not every and _closes(shown):
        yield ""
        yield HINT


def _steps(shown: SessionView, now: int, *, every: bool) -> Iterator[str]:
    entries, playbook = shown.entries, shown.playbook
    steps = {step.id: step for step in playbook.steps} if playbook else {}
    for run in step_runs(entries):
        yield ""
        yield from _run(run, steps, shown, now, every=every)
    if cures := text.cures(entries, playbook):
        yield ""
        yield from cures
    if left := text.not_begun(entries, playbook):
        yield ""
        yield f"not begun: {', '.join(left)}"


def _closes(shown: SessionView) -> bool:
    return any(run.loop or run.rounds for run in step_runs(shown.entries)) or any(
        not opens(child) or _closes(child) for child in shown.children.values()
    )


def opens(child: SessionView) -> bool:
    """True if the steps of a child session are shown: something runs or waits there, or failed."""
    manifest = child.seen.manifest
    return manifest is None or manifest.status is not SessionStatus.COMPLETED


# ── a step ──────────────────────────────────────────────────────────────────────────────────


def _run(
    run: StepRun, steps: Mapping[str, Step], shown: SessionView, now: int, *, every: bool
) -> Iterator[str]:
    step = steps.get(base_of(run.last.step_id))
    if run.loop:
        title = [first_line(step.title)] if step and step.title else []
        head = [text.stamp(run.entries[0].started_at), run.loop, items_line(run), *title]
        yield "  ".join(head)
        if not every:
            yield from (f"  {line}" for line in failed_items(run))
    elif run.rounds and not every:
        yield from _attempt(run.last, step)
        number = len([entry for entry in run.rounds if entry is not run.last])
        if number:
            why = first_line(run.entries[number - 1].error, _LINE)
            yield f"  {counted(number, 'round')} before it; the last one left: {why}"
        yield from _child(run.last, shown, now, every=every)
        return
    for entry in run.entries:
        if every or not run.loop or not entry.settled:
            indent = "  " if run.loop else ""
            yield from (f"{indent}{line}" for line in _attempt(entry, step))
            below = _child(entry, shown, now, every=every)
            yield from (f"{indent}{line}".rstrip() for line in below)


def items_line(run: StepRun) -> str:
    """`7/12 items, 1 failed, 4 min`."""
    parts = [f"{run.done}/{counted(run.total, 'item')}"]
    parts += [f"{len(run.failed)} failed"] if run.failed else []
    parts += [text.duration(run.lasted)]
    return ", ".join(parts)


def failed_items(run: StepRun) -> list[str]:
    """A line for each item whose last attempt failed: `✗ build[2] "chapter two": it broke`."""
    shown = [
        f"✗ {entry.id}{text.item_of(entry)}: {first_line(entry.error, _LINE)}"
        for entry in run.failed[:_MOST_NAMED]
    ]
    more = len(run.failed) - len(shown)
    return [*shown, f"… {more} more failed"] if more > 0 else shown


def _attempt(entry: Entry, step: Step | None) -> Iterator[str]:
    status = "another round follows" if is_round(entry) else str(entry.status)
    words = [text.stamp(entry.started_at), f"{entry.id}{text.item_of(entry)}", status]
    if entry.completed_at is not None and entry.status is not EntryStatus.SKIPPED:
        words.append(text.duration(entry.completed_at - entry.started_at))
    words.append(f"({entry.decision}{f': {entry.trigger}' if entry.trigger else ''})")
    words += [isolated(entry.isolation)] if entry.isolation else []
    words += [first_line(step.title)] if step and step.title and not entry.item else []
    yield "  ".join(words)
    if entry.recovered:
        yield "  recovered: its artifacts showed that it was finished"
    for line in entry.evidence:
        yield f"  {first_line(line, _LINE)}"
    if entry.waived:
        yield f"  waived: {', '.join(first_line(word) for word in entry.waived)}"
    if entry.error:
        code = f" [{first_line(entry.error_code)}]" if entry.error_code else ""
        label = "does not hold yet" if is_round(entry) else "error"
        yield f"  {label}: {first_line(entry.error, _LINE)}{code}"
    if entry.undone:
        yield f"  undone: {first_line(entry.undone, _LINE)}"
    if entry.back_to:
        yield f"  back to {first_line(entry.back_to)}, which runs again"
    if entry.error_lasts:
        yield "  not retried automatically: it would have failed again"
    for gate in entry.gates:
        yield f"  gate {gate.id} {gate.reason}, {gate.place} the step: {_answered(gate)}"
    if not entry.gates and entry.human_response:
        yield f"  human: {one_line(entry.human_response)!r} {entry.resolution or ''}".rstrip()
    if entry.output:
        worker = "output" if step and not step.needs_agent else "agent"
        said = last_words(entry.output).replace("\n", f"\n    {' ' * len(worker)}")
        yield f"  {worker}: {said}"


def _answered(gate: Gate) -> str:
    if gate.answered_at is None:
        return "waits for a human"
    by = f" by {first_line(gate.by)}" if gate.by else ""
    by += f" via {first_line(gate.via)}" if gate.via else ""
    by += f" as {first_line(gate.role)}" if gate.role else ""
    waited = text.duration(gate.answered_at - gate.opened_at)
    return f"{gate.resolution}{by} after {waited}: {one_line(gate.text)!r}"


# ── a child session ─────────────────────────────────────────────────────────────────────────


def _child(entry: Entry, shown: SessionView, now: int, *, every: bool) -> Iterator[str]:
    if not entry.session:
        return
    child = shown.children.get(entry.session)
    if child is None:
        yield f"  session {first_line(entry.session)} is not there"
        return
    yield f"  {child_line(child)}"
    if every or opens(child):
        yield from (f"    {line}".rstrip() for line in _steps(child, now, every=every))


def child_line(child: SessionView) -> str:
    """`session 20260219-c4d: ship, completed, 2/2 steps`."""
    manifest = child.seen.manifest
    if manifest is None:
        return f"session {child.seen.session_id}: {first_line(child.seen.problem, _LINE)}"
    parts = [first_line(manifest.playbook), manifest.ending]
    if child.playbook is not None:
        parts.append(gates.progress(steps_settled(child.entries), len(child.playbook.steps)))
    return f"session {child.seen.session_id}: {', '.join(parts)}"
