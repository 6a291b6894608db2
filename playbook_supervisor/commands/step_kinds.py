"""What the kinds of a playbook's steps need, seen before anything runs: executors, an agent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from playbook_supervisor.errors import CheckError
from playbook_supervisor.kernel.model import SLASH, Playbook, Step
from playbook_supervisor.kernel.vocabulary import Autonomy
from playbook_supervisor.project.references import split
from playbook_supervisor.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from playbook_supervisor.agents.protocol import Agent
    from playbook_supervisor.project.config import Config

_SCHEMA = "PB-CHECK-SCHEMA"
_CORRECT = "Correct it; `docs/executors.md` lists what each kind of step takes."


PROMPTS: Mapping[str, Mapping[str, Any]] = {
    "prompt": {
        "type": "object",
        "properties": {
            "text": {"type": "string", "minLength": 1, "description": "What the agent is to do."}
        },
        "required": ["text"],
        "additionalProperties": False,
    },
    "markdown": {
        "type": "object",
        "properties": {
            "inputs": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Further values for the references of the file, by name.",
            }
        },
        "additionalProperties": False,
    },
}
"""What the `with:` of a step contains whose prompt goes to an agent."""


class Fault(Record):
    """Something wrong with the value of `key` in the step at this index."""

    index: int
    key: str
    code: str
    message: str
    guidance: str


def faults(playbook: Playbook) -> Iterator[Fault]:
    """A namespace without an executor, words that cannot be split, a faulty `with:` or schema."""
    for index, step in enumerate(playbook.steps):
        for key, code, message, guidance in _faults(step):
            yield Fault(index, key, code, message, guidance)


def require_executors(playbook: Playbook) -> None:
    """The first fault as a CheckError, which names the step."""
    for fault in faults(playbook):
        step = playbook.steps[fault.index].id
        message = f"step {step}: {fault.message}"
        raise CheckError(fault.code, message, where=playbook.name, guidance=fault.guidance)


def needs_agent(playbook: Playbook, spec: str = "") -> bool:
    """Whether a run has to have an agent: one is named (`--agent`), or a step needs one."""
    runs = (step for step in playbook.steps if step.autonomy is not Autonomy.SKIP)
    return bool(spec) or any(step.needs_agent for step in runs)


def agent_for(playbook: Playbook, spec: str, config: Config, root: Path) -> Agent | None:
    """The chosen agent; None if none is needed. Errors as `agents.registry.choose`."""
    if not needs_agent(playbook, spec):
        return None
    from playbook_supervisor.agents.registry import choose

    return choose(spec, config, root)


def _faults(step: Step) -> Iterator[tuple[str, str, str, str]]:
    from playbook_supervisor.project.json_schemas import flaw, mismatch

    if step.output_schema and (wrong := flaw(json.loads(step.output_schema))):
        message = f"`output_schema` is not a JSON Schema: {wrong}"
        yield "output_schema", _SCHEMA, message, "Correct the schema there."
    if step.namespace == SLASH:
        return
    try:
        schema = _schema(step.namespace)
        split(step.command)
    except CheckError as error:
        yield "command", error.code, error.message, error.guidance
        return
    if wrong := mismatch(json.loads(step.options or "{}"), schema):
        yield "with", _SCHEMA, f"`with` of the {step.namespace} step: {wrong}", _CORRECT


def _schema(namespace: str) -> Mapping[str, Any]:
    """The JSON Schema of `with:`. CheckError PB-CHECK-NAMESPACE."""
    if namespace in PROMPTS:
        return PROMPTS[namespace]
    from playbook_supervisor.executors import registry

    return registry.find(namespace).with_schema
