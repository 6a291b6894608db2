"""Turns data into a `Playbook`, or reports all violations with their places.

A generated validator only says yes or no; jsonschema is imported to explain a "no". `check`, `run`
and editors use the same schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path as FilePath
from typing import Any

from playbook_supervisor.errors import ArgumentError, CheckError
from playbook_supervisor.formats.located import Data, Document, Path, Plain, yaml_values
from playbook_supervisor.formats.problems import (
    MAX_PROBLEMS,
    Finding,
    Problem,
    once,
    problem_of,
    refusal,
)
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import (
    AGENT_NAMESPACES,
    CHECKPOINT,
    MAX_DEPTH,
    MOST_ITEMS,
    PLAYBOOK,
    Arg,
    Limits,
    Loop,
    OnFail,
    Playbook,
    Reviewers,
    Step,
)
from playbook_supervisor.kernel.vocabulary import (
    ArgType,
    Autonomy,
    Condition,
    OutputFormat,
    Transform,
    Trigger,
)
from playbook_supervisor.project.expressions.requirement import Requirement, requirement
from playbook_supervisor.project.playbooks import format_version, rules
from playbook_supervisor.project.playbooks.schema_problems import RULE, SCHEMA, explain
from playbook_supervisor.project.playbooks.translation import Translation, translate
from playbook_supervisor.records import fields

_SCHEMAS = FilePath(__file__).parent.parent / "schemas"
_BOOLEANS = frozenset({"required", "secret", "feedback", "checkpoint", "undo"})
_NUMBERS = frozenset({*fields(Limits), "max_depth", "max", "at_once", "times"})
_FREE = frozenset({"with", "output_schema"})
"""Keys whose values are any data, with the types of YAML."""
_LEAST = {"name": "a", "description": "a", "version": "1.1", "args": []}
"""A valid playbook but for its steps."""
_UNSAID = {"autonomy": "auto", "error_policy": "gate"}
"""The step's keys that a file of version 1.2 need not say."""
_NAMES = frozenset(
    {"name", "id", "command", "agent", "model", "parallel_group", "version", "stdin", "in", "as"}
    | {"back_to"}
)
Examined = tuple[Playbook | None, tuple[Problem, ...], Document | None]


def examine(data: bytes, source: str) -> Examined:
    """The playbook (None if there is an error), all problems by place, and the document.

    The document is what the file is read as; None if the text cannot be read. Never raises.
    """
    try:
        translation = translate(data, source)
    except CheckError as error:
        return None, (problem_of(error, source),), None
    return *examine_translation(translation), translation.document


def examine_translation(translation: Translation) -> tuple[Playbook | None, tuple[Problem, ...]]:
    """The playbook (None if there is an error), and all problems by place."""
    document = translation.document
    if translation.refused:
        return None, _by_place(translation.problems, document)
    typed = _typed("", document.data)
    conforming = _conforms(typed)
    findings: Iterable[Finding] = chain(format_version.problems(typed), rules.violations(typed))
    if not conforming:
        findings = chain(findings, _violations(typed, _schema()))
    found: Iterable[Problem] = (each.within(document) for each in findings)
    found = once(found, RULE) if translation.kind else found
    problems = _by_place(chain(translation.problems, found), document)
    if any(problem.severity == "error" for problem in problems):
        return None, problems
    return _playbook(typed), problems


def examine_conditions(
    stated: Data, document: Document, path: Path
) -> tuple[tuple[str, ...], tuple[Problem, ...]]:
    """The canonical texts of the list of conditions at `path`, and all problems by place.

    It is read like the `postconditions` of a step. The text of an item with a problem is empty.
    """
    typed = _typed("", stated)
    found = rules.in_list(typed, path)
    items = typed if isinstance(typed, list) else []
    texts = [_text_of(each) if _conforms(_stating([each])) else "" for each in items]
    if not _conforms(_stating(typed)):
        schema = {**_schema(), "$ref": "#/definitions/step/properties/postconditions"}
        found = chain(found, _violations(typed, schema, path))
    return tuple(texts), _by_place((each.within(document) for each in found), document)


def _stating(conditions: object) -> dict[str, Any]:
    step = {"id": "a", "command": "/a", "autonomy": "auto", "error_policy": "stop"}
    return {**_LEAST, "steps": [{**step, "postconditions": conditions}]}


def _text_of(stated: str | dict[str, Any]) -> str:
    text = _condition(stated)
    return "" if requirement(text).flaw else text


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
    return tuple(sorted(_schema_files()))


def schema_text(name: str) -> str:
    """The text of a JSON Schema (draft-07). ArgumentError PB-ARG-USAGE."""
    if name not in (files := _schema_files()):
        said = f"there is no schema of that name; there are {', '.join(sorted(files))}"
        cure = "`playbook schema NAME` prints a schema."
        raise ArgumentError("PB-ARG-USAGE", said, guidance=cure)
    return files[name].read_text("utf-8")


def _schema_files() -> dict[str, FilePath]:
    return {path.stem: path for path in _SCHEMAS.glob("*/*.json")}


def _typed(key: str, value: Any) -> Any:
    """The data with the types of the schema: text as it was written, booleans, and numbers.

    A key without a value is null, and so is a `null` in place of a name.
    """
    if key in _FREE:
        return yaml_values(value)
    if isinstance(value, dict):
        child = str(value.get("command")).startswith(f"{PLAYBOOK} ")
        return {
            inner: _texts(each) if child and inner == "with" else _typed(inner, each)
            for inner, each in value.items()
        }
    if isinstance(value, list):
        return [_typed(key, each) for each in value]
    if isinstance(value, Plain):
        if value == "" or (key in _NAMES and value.value is None):
            return None
        if key in _BOOLEANS and isinstance(value.value, bool):
            return value.value
        if key in _NUMBERS and type(value.value) in (int, float):
            return value.value
    return str(value)


def _texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _texts(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_texts(each) for each in value]
    return None if isinstance(value, Plain) and value == "" else str(value)


def _schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(schema_text("playbook"))
    return schema


def _conforms(typed: Any) -> bool:
    """True if data are a playbook; slower where the package was not built, as in a source tree."""
    try:
        from playbook_supervisor.project.schemas.playbook_validator import conforms
    except ModuleNotFoundError:
        from jsonschema import Draft7Validator

        return Draft7Validator(_schema()).is_valid(typed)
    return bool(conforms(typed))


def _violations(typed: Any, schema: dict[str, Any], at: Path = ()) -> Iterator[Finding]:
    from jsonschema import Draft7Validator

    for error in Draft7Validator(schema).iter_errors(typed):
        path = (*at, *error.absolute_path)
        yield from explain(str(error.validator), path, error.instance, dict(error.schema))


def _by_place(found: Iterable[Problem], document: Document) -> tuple[Problem, ...]:
    left = iter(found)
    first = set(islice(left, MAX_PROBLEMS))
    if next(left, None):
        message = f"there are more than {MAX_PROBLEMS} problems; these are the first"
        guidance = "Fix them, then check again."
        first.add(Problem(document.source, (1, 1), "error", SCHEMA, message, guidance))
    return tuple(sorted(first, key=lambda each: (each.position, each.message)))


def _playbook(data: dict[str, Any]) -> Playbook:
    defaults, people = data.get("defaults", {}), data.get("reviewers", {})
    return Playbook(
        name=data["name"],
        description=data["description"],
        version=data["version"],
        args=tuple(map(_arg, data["args"])),
        steps=tuple(_step({**_UNSAID, **defaults, **step}) for step in data["steps"]),
        owner=data.get("owner", ""),
        reviewers=Reviewers(tuple(people.get("required", ())), tuple(people.get("optional", ()))),
        outputs=tuple(data.get("outputs", ())),
        limits=_limits(data.get("limits", {})),
        max_depth=data.get("limits", {}).get("max_depth", MAX_DEPTH),
    )


def _arg(data: dict[str, Any]) -> Arg:
    return Arg(
        name=data["name"],
        description=data["description"],
        required=data["required"],
        type=ArgType(data.get("type", ArgType.STRING)),
        values=tuple(data.get("values", ())),
        default=data.get("default"),
        transform=Transform(data["transform"]) if "transform" in data else None,
        secret=data.get("secret", False),
    )


def _step(data: dict[str, Any]) -> Step:
    return Step(
        id=data["id"],
        command=data["command"],
        autonomy=Autonomy(data["autonomy"]),
        error_policy=ErrorPolicy.read(data["error_policy"]),
        args=data.get("args", ""),
        agent=data.get("agent", "") if _has_agent(data["command"]) else "",
        model=data.get("model", ""),
        preconditions=_conditions(data, "preconditions"),
        postconditions=_conditions(data, "postconditions"),
        escalation_triggers=tuple(map(Trigger, data.get("escalation_triggers", ()))),
        parallel_group=data.get("parallel_group", ""),
        title=data.get("title", ""),
        options=_json(data.get("with")),
        stdin=data.get("stdin", _preview(data)),
        output=OutputFormat(data.get("output", OutputFormat.TEXT)),
        output_schema=_json(data.get("output_schema")),
        when=data.get("when", ""),
        skip_if=_conditions(data, "skip_if"),
        outputs=tuple(data.get("outputs", ())),
        cwd=data.get("cwd", ""),
        tools=tuple(data.get("tools", ())),
        limits=_limits(data),
        feedback=data.get("feedback", True),
        approval="approval" in data,
        checkpoint=data.get("checkpoint", False),
        also=data.get("also", ""),
        undo=data.get("undo", False),
        on_fail=OnFail(**data["on_fail"]) if "on_fail" in data else None,
        for_each=_loop(data.get("for_each")),
        until=_conditions(until := data.get("until", {}), "conditions"),
        rounds=until.get("max", 0),
        cache=tuple(data["cache"]["files"]) if "cache" in data else None,
    )


def _has_agent(command: str) -> bool:
    return command.startswith("/") or command.split(" ")[0] in AGENT_NAMESPACES


def _loop(data: dict[str, Any] | None) -> Loop | None:
    if data is None:
        return None
    at_once = data.get("at_once", 1)
    return Loop(data["in"], data["as"], data.get("max", MOST_ITEMS), at_once, data.get("where", ""))


def _preview(data: dict[str, Any]) -> str:
    """The output that a checkpoint shows: it reads it as others read their input."""
    if data["command"] != CHECKPOINT:
        return ""
    shown = data.get("with", {}).get("preview", "")
    return shown if isinstance(shown, str) else ""


def _limits(data: dict[str, Any]) -> Limits:
    return Limits(**{name: data[name] for name in fields(Limits) if name in data})


def _json(value: object) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)


_PROVED = ("new_tests", "red")


def _conditions(data: dict[str, Any], key: str) -> tuple[str, ...]:
    return tuple(map(_condition, data.get(key, ())))


def _condition(stated: str | dict[str, Any]) -> str:
    if isinstance(stated, str):
        return stated
    ((word, value),) = stated.items()
    return Requirement(Condition(word), _parameters(value)).name


def _parameters(value: Any) -> tuple[str, ...]:
    match value:
        case str():
            return (value,)
        case {"check": check}:
            without = ",".join(value.get("without", ()))
            options = {"without": without, **{key: value.get(key, "") for key in _PROVED}}
            return (check, *(f"{key}={word}" for key, word in options.items() if word))
        case dict():
            return (value["path"], value["text"])
        case _:
            return tuple(value)
