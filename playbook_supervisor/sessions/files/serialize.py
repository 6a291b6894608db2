"""Data ↔ JSON: runtime state, what a worker reports, and the directive for a client.

Times stay milliseconds since the epoch. Clients rely on its `PROTOCOL`.
Reading raises ValueError for data that do not fit; the caller says what that means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.fields import Fields, JsonFields, UnfitError
from playbook_supervisor.formats.sanitize import first_line, printable
from playbook_supervisor.formats.versions import PROTOCOL
from playbook_supervisor.kernel.directives import (
    Ask,
    Failure,
    Finish,
    Outcome,
    Run,
    impossible_figures,
)
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import Arg, Limits, Loop, OnFail, Playbook, Reviewers, Step
from playbook_supervisor.kernel.state import Entry, Past, State
from playbook_supervisor.kernel.vocabulary import (
    ArgType,
    Autonomy,
    OutputFormat,
    Transform,
    Trigger,
)
from playbook_supervisor.records import Record, as_mapping, valued
from playbook_supervisor.sessions.files.journal import entry_mapping, entry_of

Json = dict[str, Any]


def playbook_to_json(playbook: Playbook) -> Json:
    """A playbook without the fields that have their default."""
    shape = _stated(playbook)
    shape["args"] = [_stated(arg) for arg in playbook.args]
    shape["steps"] = [_stated(step) for step in playbook.steps]
    return shape


def _stated(record: Record) -> Json:
    defaults = type(record).__defaults__
    return {
        name: _shape(value)
        for name, value in as_mapping(record).items()
        if name not in defaults or value != defaults[name]
    }


def _shape(value: object) -> object:
    if isinstance(value, ErrorPolicy):
        return value.written
    return _stated(value) if isinstance(value, Limits | Reviewers | Loop | OnFail) else value


def playbook_from_json(shape: Json) -> Playbook:
    """The inverse of `playbook_to_json`, for its own output only: it must be fast, so no `Fields`.
    ValueError for an unknown word, KeyError and TypeError for another structure."""
    args = tuple(Arg(**_restored(arg)) for arg in shape["args"])
    steps = tuple(Step(**_restored(step)) for step in shape["steps"])
    return Playbook(**_restored(shape) | {"args": args, "steps": steps})


def _restored(shape: Json) -> Json:
    return {name: _KINDS[name](value) if name in _KINDS else value for name, value in shape.items()}


_KINDS: Mapping[str, Callable[[Any], object]] = {
    "type": ArgType,
    "values": tuple,
    "transform": Transform,
    "autonomy": Autonomy,
    "error_policy": ErrorPolicy.read,
    "preconditions": tuple,
    "postconditions": tuple,
    "skip_if": tuple,
    "until": tuple,
    "for_each": lambda shape: Loop(**shape),
    "on_fail": lambda shape: OnFail(**shape),
    "escalation_triggers": lambda words: tuple(map(Trigger, words)),
    "output": OutputFormat,
    "outputs": tuple,
    "cache": tuple,
    "tools": tuple,
    "limits": lambda shape: Limits(**shape),
    "reviewers": lambda shape: Reviewers(**{name: tuple(who) for name, who in shape.items()}),
}
"""The functions that restore a field; the other fields are as JSON has them."""


def entry_to_json(entry: Entry) -> Json:
    """An entry with the keys of the journal, without empty values; times in ms."""
    return entry_mapping(entry, time=int)


def entry_from_json(shape: Mapping[str, object]) -> Entry:
    """The inverse of `entry_to_json`."""
    return entry_of(JsonFields(shape))


def state_to_json(state: State) -> Json:
    """The summary of the settled phases and the entries of the due one, without the playbook."""
    past = state.past
    return {
        "past": as_mapping(past)
        | {"waived": sorted(past.waived), "passed": sorted(past.passed)}
        | {"failures": {str(phase): number for phase, number in past.failures.items()}}
        | {"sent_back": [entry_to_json(entry) for entry in past.sent_back]},
        "entries": [entry_to_json(entry) for entry in state.entries],
    }


def state_from_json(shape: Json, playbook: Playbook) -> State:
    """The inverse of `state_to_json`, for the playbook that the session runs."""
    fields = JsonFields(shape)
    past = Fields(fields.mapping("past"))
    retried, items = Fields(past.mapping("retried")), Fields(past.mapping("items"))
    failures = Fields(past.mapping("failures"))
    sent_back = JsonFields(fields.mapping("past")).each("sent_back")
    return State(
        playbook,
        Past(
            phases=past.integer("phases"),
            steps=past.integer("steps"),
            entries=past.integer("entries"),
            waived=frozenset(past.texts("waived")),
            latest=past.integer("latest"),
            retried={step: retried.integer(step) for step in past.mapping("retried")},
            failures={int(phase): failures.integer(phase) for phase in past.mapping("failures")},
            looped=past.maybe_integer("looped") or 0,
            items={loop: items.integer(loop) for loop in past.mapping("items")},
            passed=frozenset(past.texts("passed")),
            sent_back=tuple(entry_of(entry) for entry in sent_back),
        ),
        tuple(entry_of(entry) for entry in fields.each("entries")),
    )


_OUTCOME_KEYS = ("error", "output", "agent")
_WORKER_ERRORS = ("PB-AGENT-", "PB-STEP-", "PB-POLICY-DENIED", "PB-POLICY-ISOLATION")


def outcome_from_json(shape: object) -> Outcome:
    """The content of `report --output FILE`: `{"error": …, "output": "…", "agent": {…}}`, all
    optional. `error` is a sentence, or an error object with a worker's code (`PB-AGENT-…`,
    `PB-STEP-…`). Anything else is an ArgumentError `PB-ARG-INVALID`, so that a misspelt `error`
    never counts as success."""
    try:
        if not isinstance(shape, Mapping):
            raise UnfitError("outcome", "must be a JSON object")  # noqa: TRY301 - one way to say it
        for key in shape:
            if key not in _OUTCOME_KEYS:
                allowed = ", ".join(_OUTCOME_KEYS)
                raise UnfitError(printable(str(key))[:40], f"is not one of {allowed}")  # noqa: TRY301
        fields = Fields(shape)
        return Outcome(
            error=_failure(shape.get("error"), fields),
            output=printable(fields.text("output"), keep_newlines=True),
            agent=_usage(fields.record("agent")),
        )
    except UnfitError as unfit:
        cure = 'Write a JSON object, as in {"output": "12 tests pass"}.'
        said = f"the reported outcome is not valid: {unfit}"
        raise ArgumentError("PB-ARG-INVALID", said, guidance=cure) from None


def _failure(error: object, fields: Fields) -> Failure | None:
    if isinstance(error, str):
        return Failure("PB-AGENT-FAILED", printable(error).strip()) if error.strip() else None
    mapping = fields.mapping("error")
    if not mapping:
        return None
    inner = Fields(mapping)
    code = inner.required("code")
    if not code.startswith(_WORKER_ERRORS):
        raise UnfitError("code", "must begin with PB-AGENT- or PB-STEP-")
    said = inner.required("message"), inner.text("guidance"), inner.text("cause")
    message, guidance, cause = map(printable, said)
    return Failure(printable(code), message, guidance, cause)


def _usage(record: Mapping[str, str | int | float]) -> dict[str, str | int | float]:
    for key in impossible_figures(record):
        raise UnfitError(f"agent.{first_line(key, 40)}", f"cannot be {record[key]!r:.40}")
    return {
        first_line(key): first_line(value) if isinstance(value, str) else value
        for key, value in record.items()
    }


class WorkItem(Record):
    """The details for a client that runs one attempt.

    The installed command, its final arguments, and the subagent's whole prompt, if it has one.
    """

    command: str
    args: str
    prompt: str = ""


class SessionHeader(Record):
    """The session of a directive, and its progress: `done` of `total` steps are settled."""

    session: str
    playbook: str
    feature: str
    done: int
    total: int


def run_to_json(
    run: Run, scene: SessionHeader, handouts: Mapping[str, WorkItem], *, outstanding: bool = False
) -> Json:
    """The directive to run these attempts; `handouts` are their work items by attempt id."""
    steps = []
    for member in run.members:
        handout = handouts[member.id]
        known: Json = {"id": member.id, "step": member.step.id, "command": handout.command}
        known |= {"args": handout.args, **valued(model=member.step.model)}
        known["description"] = f"{member.id} {handout.command}"
        more = valued(prompt=handout.prompt, continues=member.id in run.continues or None)
        steps.append(known | more)
    return {**_opening("run", scene, outstanding=outstanding), "steps": steps}


def ask_to_json(
    ask: Ask, scene: SessionHeader, question: str, context: Json, *, outstanding: bool = False
) -> Json:
    """The directive to ask a human at this gate; `context` are the keys that help to answer."""
    gate: Json = {
        "id": ask.id,
        "step": ask.member.step.id,
        "reason": ask.reason,
        "question": question,
    }
    gate |= valued(request=dict(ask.request)) | context | {"choices": list(ask.words)}
    return {**_opening("ask", scene, outstanding=outstanding), "gate": gate}


def wait_to_json(
    steps: Sequence[str], scene: SessionHeader, command: str = "", *, until: str = ""
) -> Json:
    """The directive to wait for running work, with a `command` if any, or `until` a retry is
    due."""
    waited = valued(command=command, until=until)
    return {**_opening("wait", scene), "steps": list(steps), **waited}


def finish_to_json(finish: Finish, scene: SessionHeader, summary: str) -> Json:
    """The directive that says that the session has ended."""
    return {**_opening("finish", scene), "status": finish.status, "summary": summary}


def _opening(directive: str, scene: SessionHeader, *, outstanding: bool = False) -> Json:
    return {
        "protocol": PROTOCOL,
        "session": scene.session,
        "playbook": scene.playbook,
        "feature": scene.feature,
        "progress": {"done": scene.done, "total": scene.total},
        "directive": directive,
        **valued(outstanding=outstanding or None),
    }
