"""The part of the journal that session.yaml repeats: status, step, gate, end, failures, waivers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from playbook_supervisor.kernel import gates, machine, phases, tools
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.kernel.state import State
from playbook_supervisor.kernel.vocabulary import ENDED, SessionStatus
from playbook_supervisor.project.expressions.references import shown
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files import integrity
from playbook_supervisor.sessions.files.local_state import JOURNAL, Runtime
from playbook_supervisor.sessions.files.manifest import (
    Manifest,
    Waiting,
    manifest_from_json,
    read_manifest,
    update_manifest,
)
from playbook_supervisor.system.disk.files import digest


def project(manifest: Manifest, state: State) -> Manifest:
    """The manifest with what it repeats of the journal. Sessions that kai's tools ended stay
    ended."""
    status = phases.status(state)
    if manifest.legacy and manifest.status in ENDED and status not in ENDED:
        return manifest
    asked = machine.directive(state)
    waiting = None
    if isinstance(asked, Ask):
        opened_at = state.last(asked.member.step.id).gates[-1].opened_at
        asks = question(state, asked, manifest.args)
        waiting = Waiting(asked.id, asked.reason.value, asks, opened_at)
    completed = status is SessionStatus.COMPLETED
    isolations = (entry.isolation for entry in reversed(state.entries))
    return replace(
        manifest,
        status=status,
        current_step=phases.current_step(state),
        completed_at=state.latest if status in ENDED else None,
        gate=waiting,
        failures=phases.failures(state) if completed else 0,
        waived=tuple(sorted(state.waived)) if completed else (),
        isolation=next((one for one in isolations if one), manifest.isolation),
    )


def question(state: State, asked: Ask, args: Mapping[str, str]) -> str:
    """The question of the open gate, with the values of the args."""
    step, total = asked.member.step, len(state.playbook.steps)
    values = state.playbook.values(args, step)
    if step.is_checkpoint:
        from playbook_supervisor.sessions.files.preview import message_of

        what = message_of(step, values)
    else:
        what = step.title.rstrip(".") or f"Run {shown(step.command, values)}"
    entry, done = state.last(step.id), phases.steps_done(state)
    asks_for = tools.lacking(step, tools.allowed(state))
    return gates.question(asked, entry, what, done=done, total=total, tools=asks_for)


def caught_up(runtime: Runtime, journal: bytes, stated: bytes) -> bytes:
    """session.yaml with what a crash after the journal's write left out; else unchanged."""
    written = digest(stated)
    ours, last = runtime.ours("session.yaml", written), runtime.latest("session.yaml", written)
    if not ours or last or not runtime.latest(JOURNAL, digest(journal)):
        return stated
    former = read_manifest(stated, "session.yaml")
    return update_manifest(stated, former, manifest_from_json(runtime.manifest))


def load_manifest(folder: Path, runtime: Runtime) -> tuple[Manifest, bytes]:
    """The manifest of session.yaml, which may lag behind the journal, and its text."""
    recorded = manifest_from_json(runtime.manifest)
    data = integrity.read_file(folder, "session.yaml")
    written = digest(data)
    if runtime.latest("session.yaml", written):
        return recorded, data
    source = integrity.shown(folder, "session.yaml")
    found = read_manifest(data, source)
    difference = integrity.manifest_difference(recorded, found)
    if difference and not runtime.ours("session.yaml", written):
        lagging = runtime.former and manifest_from_json(runtime.former["manifest"]) == found
        if not lagging:
            raise integrity.tampered(difference, source)
    runtime.digests["session.yaml"] = [written]
    return found, data
