"""Sessions as text: a few lines in a list, or every attempt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from playbook_supervisor.cli.render import text
from playbook_supervisor.commands.overview import ClientState, SessionOverview
from playbook_supervisor.formats.sanitize import first_line, last_words, one_line
from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.state import Entry, Gate
from playbook_supervisor.kernel.vocabulary import EntryStatus
from playbook_supervisor.project.session_policy import Effect
from playbook_supervisor.sessions import gate_text


def brief(seen: SessionOverview, now: int, context: Sequence[str] = ()) -> Iterator[str]:
    """One session in a line, and more lines if a human has to act.

    `context` helps to answer its gate.
    """
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
    if seen.code == "PB-STATE-NO-WORKTREE":
        yield f"  its worktree is gone; copy its journal here: playbook finish {seen.session_id}"
    elif seen.stale:
        yield from _stale(seen)
    elif seen.code == "PB-STATE-OLDER":
        yield f"  {first_line(seen.problem, 400)}; merge that branch or switch to it"
        yield f"  to go on from this copy instead: playbook repair {seen.session_id} --take"
    elif seen.problem:
        yield f"  {first_line(seen.problem, 400)}"
        yield f"  look at it: playbook repair {seen.session_id}"
    elif manifest.gate is not None:
        yield f"  {first_line(manifest.gate.question, 400)}"
        yield from (f"    {line}" for line in context)
        if seen.driver is None or seen.client is not None:
            yield f"  playbook answer {seen.session_id} …"
    elif seen.open and seen.driver is None and seen.client is None:
        yield f"  playbook resume {seen.session_id}"
    elif seen.failed:
        yield f"  playbook resume {seen.session_id} --retry"
    if seen.driver is not None:
        yield f"  driven by process {seen.driver.pid} (agent {first_line(seen.driver.agent)})"
    if seen.client is not None and seen.open:
        yield from _in_the_client(seen.client)


def _stale(seen: SessionOverview) -> Iterator[str]:
    """How to continue without running again what an older copy does not know."""
    from os.path import relpath
    from shlex import quote

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
    if manifest.gate is not None:
        waited = text.duration(max(now - manifest.gate.opened_at, 0))
        return f"WAITS FOR A HUMAN at {manifest.gate.id}, for {waited}"
    at = f" at {manifest.current_step}" if manifest.current_step and seen.open else ""
    if manifest.completed_at is not None:
        elapsed = text.duration(manifest.completed_at - manifest.started_at)
        return f"{manifest.ending} after {elapsed}"
    idle = "" if seen.driver is not None else ", no driver"
    return f"{manifest.status}{at}{idle}"


def _location(seen: SessionOverview) -> str:
    """The path to the session's worktree, unless it is the current one."""
    from os.path import relpath
    from pathlib import Path

    here = Path.cwd()
    return "" if here.is_relative_to(seen.root) else f"  in {relpath(seen.root, here)}"


def details(
    seen: SessionOverview,
    entries: Sequence[Entry],
    playbook: Playbook | None,
    now: int,
    effects: Sequence[Effect] = (),
) -> Iterator[str]:
    """Every attempt with its conditions, evidence and answers (kai FR39)."""
    yield from brief(seen, now, gate_text.lines(seen.gate_context()))
    if seen.manifest is not None:
        args = ", ".join(f"{key}={value}" for key, value in seen.manifest.args.items() if value)
        yield f"  began {text.stamp(seen.manifest.started_at)}" + (
            f" with {first_line(args)}" if args else ""
        )
    for effect in effects:
        yield f"  {first_line(f'policy {effect.policy}: {effect.step} {effect.summary}', 400)}"
    steps = {step.id: step for step in playbook.steps} if playbook else {}
    for entry in entries:
        yield ""
        yield from _attempt(entry, steps.get(entry.step_id))
    if cures := text.cures(entries, playbook):
        yield ""
        yield from cures
    if playbook is not None:
        begun = {entry.step_id for entry in entries}
        if left := [step.id for step in playbook.steps if step.id not in begun]:
            yield ""
            yield f"not begun: {', '.join(left)}"


def _attempt(entry: Entry, step: Step | None) -> Iterator[str]:
    words = [text.stamp(entry.started_at), entry.id, str(entry.status)]
    if entry.completed_at is not None and entry.status is not EntryStatus.SKIPPED:
        words.append(text.duration(entry.completed_at - entry.started_at))
    words.append(f"({entry.decision}{f': {entry.trigger}' if entry.trigger else ''})")
    words += [first_line(step.title)] if step and step.title else []
    yield "  ".join(words)
    if entry.recovered:
        yield "  recovered: its artifacts showed that it was finished"
    for line in entry.evidence:
        yield f"  {first_line(line, 400)}"
    if entry.waived:
        yield f"  waived: {', '.join(first_line(word) for word in entry.waived)}"
    if entry.error:
        code = f" [{first_line(entry.error_code)}]" if entry.error_code else ""
        yield f"  error: {first_line(entry.error, 400)}{code}"
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
    waited = text.duration(gate.answered_at - gate.opened_at)
    return f"{gate.resolution}{by} after {waited}: {one_line(gate.text)!r}"
