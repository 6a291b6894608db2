"""Sessions as `status --json` and `show --json` print them, with their child sessions."""

from __future__ import annotations

from collections.abc import Sequence

from playbook_supervisor.cli.render.json_shapes import attempt, gate_context, people, tightening
from playbook_supervisor.cli.render.timeline import not_begun
from playbook_supervisor.formats.timestamps import to_time
from playbook_supervisor.sessions.journal import valued
from playbook_supervisor.sessions.manifest import exceptions
from playbook_supervisor.sessions.serialize import PROTOCOL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from playbook_supervisor.commands.overview import SessionOverview
    from playbook_supervisor.commands.view import SessionView

    Json = dict[str, Any]


def sessions(seen: Sequence[SessionOverview]) -> Json:
    """`status --json`."""
    return {"protocol": PROTOCOL, "sessions": [_session(each) for each in seen]}


def _session(seen: SessionOverview) -> Json:
    shape: Json = {"session": seen.session_id, "root": str(seen.root)}
    manifest = seen.manifest
    if manifest is None:
        return shape | {"problem": seen.problem}
    shape |= {
        "playbook": manifest.playbook,
        "feature": manifest.feature,
        "args": dict(manifest.args),
        "status": manifest.status,
        **exceptions(manifest),
        "started_at": to_time(manifest.started_at),
        "current_step": manifest.current_step,
        "branch": manifest.branch,
    }
    ended, gate, client = manifest.completed_at, seen.gate, seen.client
    return shape | valued(
        problem=seen.problem,
        completed_at=None if ended is None else to_time(ended),
        gate=gate
        and {
            "id": gate.id,
            "reason": gate.reason,
            "question": gate.question,
            "opened_at": to_time(gate.opened_at),
            **gate_context(seen.gate_context()),
        },
        parent=manifest.parent,
        children=[_child(each) for each in seen.children],
        driver=seen.driver and {"pid": seen.driver.pid, "agent": seen.driver.agent},
        stalled=(client is not None and client.stalled) or None,
        dialog=client and client.dialog,
    )


def _child(seen: SessionOverview) -> Json:
    """A child session in a line; `show` has its steps."""
    manifest = seen.manifest
    known = {} if manifest is None else {"playbook": manifest.playbook, "status": manifest.status}
    below = {"children": list(map(_child, seen.children))} if seen.children else {}
    return {"session": seen.session_id, "attempt": seen.place, **known, **below}


def session(shown: SessionView) -> Json:
    """`show --json`."""
    shape = {"protocol": PROTOCOL, **_session(shown.seen), **_steps(shown)}
    if shown.playbook is not None:
        shape |= people(shown.playbook)
    if effects := shown.effects:
        shape["policies"] = [tightening(effect) for effect in effects]
    return shape


def _steps(shown: SessionView) -> Json:
    shape: Json = {"steps": [attempt(entry) for entry in shown.entries]}
    if shown.playbook is not None:
        shape["not_begun"] = not_begun(shown.entries, shown.playbook)
    below = [_child(each.seen) | _steps(each) for each in shown.children.values()]
    return shape | ({"children": below} if below else {})
