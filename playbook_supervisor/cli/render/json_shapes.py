"""The objects that `--json` prints; `project/schemas` holds their JSON Schemas.

Times are ISO 8601 in UTC. Keys without a value are left out. Keys are added, but never removed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from playbook_supervisor.cli.render import text
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.timestamps import to_time
from playbook_supervisor.formats.versions import PROTOCOL
from playbook_supervisor.kernel.directives import Ask, Check, Probed, Run
from playbook_supervisor.kernel.model import Arg, Playbook
from playbook_supervisor.kernel.state import Change, Entry
from playbook_supervisor.project.policies.session_policy import Effect
from playbook_supervisor.records import valued
from playbook_supervisor.sessions.files.journal import entry_mapping
from playbook_supervisor.sessions.files.manifest import exceptions
from playbook_supervisor.sessions.files.serialize import (
    SessionHeader,
    WorkItem,
    ask_to_json,
    finish_to_json,
    run_to_json,
    wait_to_json,
)
from playbook_supervisor.sessions.gate import gate_text
from playbook_supervisor.sessions.store.snapshot import Snapshot, for_agents, for_us

if TYPE_CHECKING:
    from playbook_supervisor.commands.install.changes import InstallPlan
    from playbook_supervisor.commands.isolation_report import Report
    from playbook_supervisor.commands.overview import SessionOverview
    from playbook_supervisor.commands.proving import Proved
    from playbook_supervisor.commands.views.queries import SessionView
    from playbook_supervisor.drivers.observers import DriveResult
    from playbook_supervisor.project.playbooks.playbook_file import PlaybookFile
    from playbook_supervisor.sessions.engine.proofs import Standing
    from playbook_supervisor.sessions.gate.gate_context import GateContext

Json = dict[str, Any]

WAIT = "playbook next --wait"
_LONGEST_LINE = 4_000  # bytes of a directive: a client cuts longer lines


def directive(
    snapshot: Snapshot,
    items: Mapping[str, WorkItem],
    context: GateContext | None,
    given: frozenset[str] | None = None,
) -> Json:
    """The outstanding directive, for a client (`next --json`).

    `given` holds the attempts that the client's agents have been given, if its hooks report.
    """
    manifest = snapshot.manifest
    header = SessionHeader(
        manifest.session_id, manifest.playbook, manifest.feature, snapshot.done, snapshot.total
    )
    directive = snapshot.directive
    if isinstance(directive, Run):
        return _run(snapshot, header, items, given)
    if isinstance(directive, Ask):
        opened = any(event.change is Change.GATE_OPENED for event in snapshot.events)
        return ask_to_json(
            directive, header, snapshot.question, gate_context(context), outstanding=not opened
        )
    if isinstance(directive, Check):
        ids, at = [member.id for member in directive.members], directive.not_before
        return wait_to_json(ids, header, WAIT, until="" if at is None else to_time(at))
    summary = f"{header.playbook} {snapshot.manifest.ending}: {snapshot.progress} done."
    return finish_to_json(directive, header, summary)


def _run(
    snapshot: Snapshot,
    header: SessionHeader,
    items: Mapping[str, WorkItem],
    given: frozenset[str] | None,
) -> Json:
    agents, own = for_agents(snapshot), for_us(snapshot)
    if left := tuple(member for member in agents if member.id not in (given or ())):
        repeated = given is None and snapshot.repeated
        run = Run(left, snapshot.directive.continues if isinstance(snapshot.directive, Run) else ())
        return run_to_json(run, header, items, outstanding=repeated)
    return wait_to_json([member.id for member in own or agents], header, WAIT if own else "")


def in_one_line(shape: Json) -> str:
    """The directive as a model reads it: without prompts and long text."""
    short = dict(shape)
    if short["directive"] == "run":
        short["steps"] = [_without(step, "prompt") for step in short["steps"]]
    if "gate" in short:
        short["gate"] = _without(_without(short["gate"], "context"), "details") | {
            "question": first_line(short["gate"]["question"], 600)
        }
    line = json.dumps(short, ensure_ascii=False, separators=(",", ":"))
    if len(line.encode()) > _LONGEST_LINE and short["directive"] == "run":
        short["steps"] = [_without(step, "args") for step in short["steps"]]
        line = json.dumps(short, ensure_ascii=False, separators=(",", ":"))
    return line


def _without(shape: Json, key: str) -> Json:
    return {name: value for name, value in shape.items() if name != key}


def result(
    result: DriveResult,
    envelope: Json,
    attempts: Mapping[str, Entry],
    context: GateContext | None = None,
) -> Json:
    """The end of a drive (`run --json`, `resume --json`, `rpc`), beside its envelope.

    `attempts` are those of the session and of its child sessions by their ids. The key is `ending`,
    because `status` belongs to the envelope of the Tyrum contract.
    """
    snapshot, manifest = result.snapshot, result.snapshot.manifest
    shape: Json = {
        "protocol": PROTOCOL,
        "session": manifest.session_id,
        **envelope,
        "playbook": manifest.playbook,
        "feature": manifest.feature,
        "ending": result.why,
        "exit_code": result.exit_code,
        "progress": {"done": snapshot.done, "total": snapshot.total},
        **exceptions(manifest),
        **_steps(attempts),
    }
    ask = snapshot.directive
    if isinstance(ask, Ask):
        shown = gate_context(context)
        shape["gate"] = ask_to_json(ask, _NO_HEADER, snapshot.question, shown)["gate"]
    return shape


def _steps(attempts: Mapping[str, Entry]) -> Json:
    below: dict[str, list[Json]] = {"": []}
    for id_, entry in attempts.items():
        below.setdefault(id_.rpartition("/")[0], []).append(attempt(entry))
    steps = below.pop("")
    children = [
        {"session": attempts[within].session, "attempt": within, "steps": tried}
        for within, tried in below.items()
    ]
    return {"steps": steps, **({"children": children} if children else {})}


_NO_HEADER = SessionHeader("", "", "", 0, 1)


def attempt(entry: Entry) -> Json:
    """An attempt: its id, and the keys of its journal entry."""
    return {"id": entry.id, **entry_mapping(entry)}


def gate_context(context: GateContext | None) -> Json:
    """The context of a gate: as lines for people, and as data."""
    if context is None:
        return {"context": []}
    said = {"attempt": context.said.attempt, "text": context.said.text}
    waived = [
        valued(names=list(each.names), attempt=each.attempt, by=each.by, text=each.text)
        for each in context.waivers
    ]
    steps = [
        valued(
            id=each.id,
            status=each.status,
            summary=gate_text.reason(each),
            evidence=list(each.evidence),
            waived=list(each.waived),
        )
        for each in context.settled
    ]
    details = valued(
        answered_by=list(context.people),
        said=said if context.said.text else None,
        waived=waived,
        verdicts=[condition(each) for each in context.verdicts],
        proved=[_proved(each) for each in context.proved],
        steps=steps,
        branch=context.branch,
        commits=list(context.commits),
        more_commits=context.more_commits or None,
        changes=list(context.changes),
    )
    return {"context": gate_text.lines(context), "details": details}


def condition(probed: Probed) -> Json:
    """The answer of one condition, as data."""
    return {"name": probed.name, "held": probed.held, "evidence": probed.evidence}


def _proved(standing: Standing) -> Json:
    proof = standing.proof
    known = {} if standing.changed is None else {"changed_files": len(standing.changed)}
    return {"check": proof.check, "tree": proof.tree, "by": proof.by, **known}


# ── listings ────────────────────────────────────────────────────────────────────────────────


def playbooks(files: Sequence[PlaybookFile]) -> Json:
    """`list --json`."""
    return {
        "protocol": PROTOCOL,
        "playbooks": [
            {
                "name": each.name,
                "file": str(each.file),
                "description": each.description,
                "steps": each.steps,
                "args": list(map(_arg, each.args)),
                **({"problem": each.problem} if each.problem else people(each.playbook)),
            }
            for each in files
        ],
    }


def people(playbook: Playbook) -> Json:
    """Who looks after a playbook and who reviews what it makes, where it says so."""
    named = playbook.reviewers
    asked = valued(required=list(named.required), optional=list(named.optional))
    return valued(owner=playbook.owner, reviewers=asked)


def _arg(arg: Arg) -> Json:
    return {
        "name": arg.name,
        "description": arg.description,
        "required": arg.required,
        "type": arg.type,
        **valued(
            values=list(arg.values),
            default=arg.default,
            transform=arg.transform,
            secret=arg.secret or None,
        ),
    }


def update(plan: InstallPlan, *, applied: bool) -> Json:
    """`update --json`."""
    return {
        "protocol": PROTOCOL,
        "up_to_date": not plan.changes,
        "applied": applied,
        "files": [
            {"path": each.path, "action": each.verb, "why": each.why} for each in plan.actions
        ],
    }


def tightening(effect: Effect) -> Json:
    """The effect of one policy on one step."""
    shape: Json = {"policy": effect.policy, "step": effect.step}
    if effect.autonomy != effect.was:
        shape |= {"autonomy": effect.autonomy, "was": effect.was}
    return shape | valued(
        postconditions=list(effect.postconditions),
        answered_by=list(effect.answered_by),
        reason=effect.reason,
        forbid=list(effect.forbid),
    )


def conditions(probed: Sequence[Probed]) -> Json:
    """`probe --json`."""
    return {"protocol": PROTOCOL, "conditions": [condition(each) for each in probed]}


def proved(checks: Sequence[Proved]) -> Json:
    """`prove --json`."""
    return {"protocol": PROTOCOL, "checks": [_check(each) for each in checks]}


def isolation(report: Report) -> Json:
    """`doctor --isolation --json`."""
    shape = {"protocol": PROTOCOL, "mode": report.mode, "network": report.network}
    if report.problem:
        shape |= {"problem": report.problem, "cure": report.cure}
    else:
        shape |= {"backend": report.backend}
    rows = [
        {"what": row.what, "expected": row.expected, "found": row.found, "state": row.state}
        for row in report.rows
    ]
    return {**shape, "rows": rows}


def _check(proved: Proved) -> Json:
    shape = {"check": proved.check, "held": proved.held, "evidence": proved.evidence}
    if (proof := proved.proof) is None:
        return shape
    return shape | {
        "status": proof.status,
        "seconds": round(proof.seconds, 3),
        "tree": proof.tree,
        "by": proof.by,
    }


# ── sessions, with their child sessions ──────────────────────────────────────────────────────


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
        isolation=manifest.isolation,
    )


def _child(seen: SessionOverview) -> Json:
    manifest = seen.manifest
    known = {} if manifest is None else {"playbook": manifest.playbook, "status": manifest.status}
    below = {"children": list(map(_child, seen.children))} if seen.children else {}
    return {"session": seen.session_id, "attempt": seen.place, **known, **below}


def session(shown: SessionView) -> Json:
    """`show --json`."""
    shape = {"protocol": PROTOCOL, **_session(shown.seen), **_own_steps(shown)}
    if shown.playbook is not None:
        shape |= people(shown.playbook)
    if effects := shown.effects:
        shape["policies"] = [tightening(effect) for effect in effects]
    return shape


def _own_steps(shown: SessionView) -> Json:
    shape: Json = {"steps": [attempt(entry) for entry in shown.entries]}
    if shown.playbook is not None:
        shape["not_begun"] = text.not_begun(shown.entries, shown.playbook)
    below = [_child(each.seen) | _own_steps(each) for each in shown.children.values()]
    return shape | ({"children": below} if below else {})
