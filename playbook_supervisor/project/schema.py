"""Turns data into a `Playbook`, or reports all violations with their places (kai FR8, NFR3).

A generated validator only says yes or no; jsonschema is imported to explain a "no". `check`, `run`
and editors use the same schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from playbook_supervisor.errors import ArgumentError, CheckError
from playbook_supervisor.formats.problems import MAX_PROBLEMS, Problem, problem_of, refusal
from playbook_supervisor.formats.strict_yaml import Document, Plain, load
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import Arg, Playbook, Step
from playbook_supervisor.kernel.vocabulary import Autonomy, Condition, Trigger
from playbook_supervisor.project import rules
from playbook_supervisor.project.schema_problems import SCHEMA, explain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SCHEMAS = Path(__file__).parent / "schemas"
_BOOLEANS = frozenset({"required"})
_NAMES = frozenset({"name", "id", "command", "model", "parallel_group", "version"})


Examined = tuple[Playbook | None, tuple[Problem, ...], Document | None]


def examine(data: bytes, source: str) -> Examined:
    """The playbook (None if there is an error), all problems by place, and the document.

    The document is None if the text cannot be read. Never raises.
    """
    try:
        document = load(data, source)
    except CheckError as error:
        return None, (problem_of(error, source),), None
    return *examine_document(document), document


def examine_document(document: Document) -> tuple[Playbook | None, tuple[Problem, ...]]:
    """The playbook (None if there is an error), and all problems by place."""
    from playbook_supervisor.project.schemas.playbook_validator import conforms

    typed = _typed("", document.data)
    conforming = conforms(typed)
    found: Iterable[Problem] = rules.violations(typed, document)
    if not conforming:
        found = chain(found, _schema_violations(typed, document))
    first = set(_first(found, document.source))
    problems = tuple(sorted(first, key=lambda each: (each.position, each.message)))
    if any(problem.severity == "error" for problem in problems):
        return None, problems
    return _playbook(typed), problems


def read_playbook(data: bytes, source: str) -> Playbook:
    """The playbook. CheckError PB-CHECK-INVALID names its first error and lists all."""
    playbook, problems, _ = examine(data, source)
    return required(playbook, problems)


def required(playbook: Playbook | None, problems: Iterable[Problem]) -> Playbook:
    """The playbook that was examined, or the CheckError as in `read_playbook`."""
    if playbook is None:
        raise refusal("PB-CHECK-INVALID", [each for each in problems if each.severity == "error"])
    return playbook


def schema_names() -> tuple[str, ...]:
    """The names of all JSON Schemas: `playbook`, `session`, `journal`, `config`, …"""
    return tuple(sorted(path.stem for path in _SCHEMAS.glob("*.json")))


def schema_text(name: str) -> str:
    """The text of a JSON Schema (draft-07). ArgumentError PB-ARG-USAGE."""
    if name not in (known := schema_names()):
        raise ArgumentError(
            "PB-ARG-USAGE",
            f"there is no schema of that name; there are {', '.join(known)}",
            guidance="`playbook schema NAME` prints a schema.",
        )
    return (_SCHEMAS / f"{name}.json").read_text("utf-8")


def _typed(key: str, value: Any) -> Any:
    """The data with the types of the schema: text as it was written, and booleans.

    A key without a value is null, and so is a `null` in place of a name.
    """
    if isinstance(value, dict):
        return {inner: _typed(inner, each) for inner, each in value.items()}
    if isinstance(value, list):
        return [_typed(key, each) for each in value]
    if isinstance(value, Plain):
        if value == "" or (key in _NAMES and value.value is None):
            return None
        if key in _BOOLEANS and isinstance(value.value, bool):
            return value.value
    return str(value)


def _schema_violations(typed: Any, document: Document) -> Iterator[Problem]:
    import json

    from jsonschema import Draft7Validator

    for error in Draft7Validator(json.loads(schema_text("playbook"))).iter_errors(typed):
        keyword, path, schema = error.validator, tuple(error.absolute_path), error.schema
        yield from explain(str(keyword), document, path, error.instance, dict(schema))


def _first(found: Iterable[Problem], source: str) -> Iterator[Problem]:
    """At most MAX_PROBLEMS of them, and one that says that there are more."""
    for number, problem in enumerate(found):
        if number == MAX_PROBLEMS:
            message = f"there are more than {MAX_PROBLEMS} problems; these are the first"
            guidance = "Fix them, then check again."
            yield Problem(source, (1, 1), "error", SCHEMA, message, guidance)
            return
        yield problem


def _playbook(data: dict[str, Any]) -> Playbook:
    return Playbook(
        name=data["name"],
        description=data["description"],
        version=data["version"],
        args=tuple(Arg(arg["name"], arg["description"], arg["required"]) for arg in data["args"]),
        steps=tuple(_step(step) for step in data["steps"]),
    )


def _step(data: dict[str, Any]) -> Step:
    return Step(
        id=data["id"],
        command=data["command"],
        autonomy=Autonomy(data["autonomy"]),
        error_policy=ErrorPolicy.read(data["error_policy"]),
        args=data.get("args", ""),
        model=data.get("model", ""),
        preconditions=tuple(map(Condition, data.get("preconditions", ()))),
        postconditions=tuple(map(Condition, data.get("postconditions", ()))),
        escalation_triggers=tuple(map(Trigger, data.get("escalation_triggers", ()))),
        parallel_group=data.get("parallel_group", ""),
    )
