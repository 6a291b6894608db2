"""Sessions as text: a few lines for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os.path import relpath
from pathlib import Path
from shlex import quote

from playbook_supervisor.cli.render import text
from playbook_supervisor.commands.overview import ClientState, SessionOverview
from playbook_supervisor.commands.views.progress import said_by
from playbook_supervisor.formats.sanitize import first_line


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
    if seen.client is not None and seen.open:
        yield from _in_the_client(seen.client)


def said(seen: SessionOverview) -> list[str]:
    """A line for each attempt whose worker or check has printed something."""
    return [f"  {text.path(each)}: {first_line(line)}" for each, line in said_by(seen).items()]


def _stale(seen: SessionOverview) -> Iterator[str]:
    """The ways to continue without running again what an older copy does not know."""
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
    """The path to the session's worktree, unless it is the current one."""
    here = Path.cwd()
    return "" if here.is_relative_to(seen.root) else f"  in {relpath(seen.root, here)}"
