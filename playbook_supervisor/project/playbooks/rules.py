"""The rules of a playbook that its schema cannot express.

The data may violate the schema elsewhere, so that all problems are reported at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from playbook_supervisor.formats.located import Document, Path
from playbook_supervisor.formats.problems import Problem, problem_at
from playbook_supervisor.formats.sanitize import did_you_mean, first_line
from playbook_supervisor.kernel.model import CHECKPOINT, PLAYBOOK, Limits
from playbook_supervisor.kernel.tools import changing
from playbook_supervisor.kernel.vocabulary import ArgType, Autonomy, Condition, OutputFormat
from playbook_supervisor.project.commit_files import COMMIT
from playbook_supervisor.project.expressions import globs, namespaces
from playbook_supervisor.project.expressions.arguments import typed
from playbook_supervisor.project.expressions.references import names
from playbook_supervisor.project.expressions.requirement import (
    PARAMETERS,
    SINCE_LAUNCH,
    Parameter,
    flaw_of,
    stated_conditions,
)
from playbook_supervisor.project.playbooks import reference_rules
from playbook_supervisor.project.playbooks.format_version import (
    NEWEST,
    needs_newest,
    text_of,
    things,
)
from playbook_supervisor.project.playbooks.schema_problems import RULE, SCHEMA
from playbook_supervisor.records import fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Thing = Mapping[str, Any]

_DECISIONS = {"autonomy": tuple(Autonomy), "error_policy": ("stop", "retry_once", "gate")}
_MISPLACED = {
    "with": "Put the arguments of a slash command into `args`.",
    "stdin": "Only a program, a request or a prompt reads the output of another step.",
    "args": "Write what follows the namespace into `command`, and the rest under `with`.",
    "agent": "Remove it: no agent carries out this step.",
    "model": "Remove it: no model carries out this step.",
    "also": "Remove it: only a `commit` takes files that were there before.",
    "tools": "Remove it: only the agent of a `prompt` or `markdown` step has tools to choose.",
}
_NOTHING_RUNS = {
    "stdin": "Write the reference into `preview`, under `with`.",
    "agent": "Remove it: a checkpoint runs nothing.",
    "approval": "Remove it: a checkpoint asks a person in any case.",
    "checkpoint": "Remove it: the step is a checkpoint itself.",
    **dict.fromkeys(
        ("args", "model", "tools", "cwd", "output", "output_schema", "also", "undo", "on_fail"),
        "Remove it: a checkpoint runs nothing.",
    ),
}
_CHILD_RUNS = {
    "args": "Write the values of its args under `with`: `with: {args: {feature: …}}`.",
    "stdin": "A child sees nothing but its args; let an earlier step leave a file for it.",
    "cwd": "Remove it: a child runs at the top of the repository.",
    **dict.fromkeys(
        ("output", "output_schema"),
        "Remove it: `$id.json` has `session`, `status` and `output` in any case.",
    ),
    **dict.fromkeys(
        ("agent", "model", "tools", "also"), "Write it into the steps of that playbook."
    ),
    **dict.fromkeys(fields(Limits), "Write it into the steps or the `limits` of that playbook."),
}
_CHILD_REFERENCE = r"(?:[A-Za-z0-9._-]+/)*[A-Za-z0-9._-]+"
_NAMESPACE = r"[a-z][a-z0-9_-]{0,60}"
_AFTER = ("postconditions", "conditions")
_CACHED = ("cli", "http", "prompt")
_READING = ("GET", "HEAD")
_NEED_A_RUN = SINCE_LAUNCH | {
    Condition.VERDICT_PASS,
    Condition.AGREEMENT_PASS,
    Condition.QA_VERDICT_PASS,
}
"""The conditions that a run alone can fulfil: a verdict counts only if it was written by it."""
_NO_CACHE = "Remove `cache` from the step."
_CONTROL = "[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"


def violations(data: Any, document: Document) -> Iterator[Problem]:
    """Every broken rule."""
    if not isinstance(data, dict):
        return
    yield from _undecided(document, data)
    yield from _namespaces(document, data)
    yield from _misplaced(document, data)
    yield from _children(document, data)
    yield from _args(document, data)
    yield from _repeated(document, data, "args", "name", "arg")
    yield from _repeated(document, data, "steps", "id", "step")
    yield from reference_rules.violations(data, document)
    yield from _conditions(document, data)
    yield from _caches(document, data)
    yield from _scattered_groups(document, data)
    yield from _unprintable(document, data)


def _undecided(document: Document, data: Thing) -> Iterator[Problem]:
    if needs_newest(data):
        return
    defaults = data.get("defaults")
    for index, step in things(data, "steps"):
        for key, wanted in _DECISIONS.items():
            if key not in step and not (isinstance(defaults, dict) and key in defaults):
                guidance = f"Add `{key}:` with one of {', '.join(wanted)}, or write "
                guidance += f'`version: "{NEWEST}"`, where it need not be said.'
                path = ("steps", index)
                yield problem_at(document, path, SCHEMA, f"`{key}` is missing", guidance)


def _namespaces(document: Document, data: Thing) -> Iterator[Problem]:
    """The first word of a command that is no slash command must have a meaning here."""
    for index, step in things(data, "steps"):
        namespace = text_of(step, "command").split(" ")[0]
        if not re.fullmatch(_NAMESPACE, namespace) or namespaces.is_known(namespace):
            continue
        path = ("steps", index, "command")
        if namespace in namespaces.RESERVED:
            message = f"`{namespace}` steps need a package that provides them"
            guidance = "Install it beside playbook, or use `cli` with a program that does the work."
            yield problem_at(document, path, RULE, message, guidance)
        else:
            known = (
                *namespaces.AGENTS,
                *namespaces.KERNEL,
                *namespaces.EXECUTORS,
                *namespaces.installed(),
            )
            guidance = did_you_mean(namespace, known)
            guidance += "Write a slash command, as in `/speckit.plan`, or begin with one of "
            guidance += f"{', '.join(known)}."
            message = f"`{first_line(text_of(step, 'command'), 60)}` is not a valid `command`"
            yield problem_at(document, path, SCHEMA, f"{message} of a step", guidance)


def _misplaced(document: Document, data: Thing) -> Iterator[Problem]:
    for index, step in things(data, "steps"):
        namespace = text_of(step, "command").split(" ")[0]
        is_slash, is_prompt = namespace.startswith("/"), namespace in namespaces.AGENTS
        is_executor = not is_slash and not is_prompt and namespaces.is_known(namespace)
        misplaced = {
            "with": is_slash,
            "stdin": is_slash,
            "args": is_prompt or is_executor,
            "agent": is_executor,
            "model": is_executor,
            "tools": is_slash or is_executor,
            "also": namespace != COMMIT,
        }
        cures = {key: _MISPLACED[key] for key, wrong in misplaced.items() if wrong}
        if namespace == CHECKPOINT:
            cures = _NOTHING_RUNS
            if text_of(step, "command") != CHECKPOINT:
                message = "`checkpoint` takes no words behind it"
                guidance = "Write the sentence into `message`, under `with`."
                yield problem_at(document, ("steps", index, "command"), RULE, message, guidance)
        if namespace == PLAYBOOK:
            cures = _CHILD_RUNS
        kind = "a slash command" if is_slash else f"a `{first_line(namespace, 40)}` command"
        for key in (key for key in cures if key in step):
            path = ("steps", index, key)
            message = f"`{key}` has no meaning for {kind}"
            yield problem_at(document, path, RULE, message, cures[key], key=True)
        promises = namespace == CHECKPOINT or text_of(step, "output") == OutputFormat.JSON
        if "output_schema" in step and not promises:
            path = ("steps", index, "output_schema")
            message = "`output_schema` needs `output: json`"
            yield problem_at(document, path, RULE, message, "Add `output: json`.", key=True)


def _children(document: Document, data: Thing) -> Iterator[Problem]:
    for index, step in things(data, "steps"):
        namespace, _, reference = text_of(step, "command").partition(" ")
        if namespace != PLAYBOOK or re.fullmatch(_CHILD_REFERENCE, reference):
            continue
        if "{{" in reference:
            message = "`playbook` takes a fixed name: its child is checked before anything runs"
            guidance = "Write a step for each playbook, with a `when` that chooses."
        else:
            message = "`playbook` takes one word: the name of a playbook, or the path of its file"
            guidance = "Write `playbook NAME`; its args belong under `with`."
        yield problem_at(document, ("steps", index, "command"), RULE, message, guidance)


def _args(document: Document, data: Thing) -> Iterator[Problem]:
    for index, arg in things(data, "args"):
        path: Path = ("args", index)
        values, default = arg.get("values"), arg.get("default")
        if arg.get("type") == ArgType.ENUM and values is None:
            message, guidance = "an enum needs `values`", "Add `values:` with a list."
            yield problem_at(document, path, RULE, message, guidance)
        elif arg.get("type") != ArgType.ENUM and values is not None:
            message = "`values` belongs to an enum"
            guidance = "Write `type: enum`, or remove `values`."
            yield problem_at(document, (*path, "values"), RULE, message, guidance, key=True)
        elif fault := _fault_of_default(arg):
            guidance = "Change the default, or the type of the arg."
            yield problem_at(document, (*path, "default"), RULE, f"the default {fault}", guidance)
        kind = "secret" if arg.get("secret") is True else arg.get("type", ArgType.STRING)
        if "transform" in arg and kind in ("secret", *set(ArgType) - {ArgType.STRING}):
            message = f"`transform` is for text: it would change the value of this {kind} arg"
            guidance = "Remove it, or write `type: string`."
            yield problem_at(document, (*path, "transform"), RULE, message, guidance, key=True)
        if arg.get("required") is True and default is not None:
            message = "a required arg is always given, so its default has no effect"
            guidance = "Write `required: false`, or remove `default`."
            yield problem_at(document, (*path, "default"), RULE, message, guidance, key=True)


def _fault_of_default(arg: Thing) -> str:
    default, stated = text_of(arg, "default"), arg.get("values")
    values = [each for each in stated if isinstance(each, str)] if isinstance(stated, list) else []
    if not default.strip() or "{{" in default:
        return ""
    try:
        typed(default, str(arg.get("type", "")), values)
    except ValueError as fault:
        return str(fault)
    return ""


def _repeated(document: Document, data: Thing, key: str, name: str, kind: str) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for index, each in things(data, key):
        value = text_of(each, name)
        if value in seen:
            message = f"{kind} {seen[value] + 1} already has the {name} `{first_line(value, 60)}`"
            guidance = f"Give each {kind} a different {name}."
            yield problem_at(document, (key, index, name), RULE, message, guidance)
        elif value:
            seen[value] = index


def _scattered_groups(document: Document, data: Thing) -> Iterator[Problem]:
    """The steps of a parallel group must be next to each other."""
    closed: set[str] = set()
    former = ""
    for index, step in things(data, "steps"):
        group = text_of(step, "parallel_group")
        if group != former:
            closed.add(former)
            if group and group in closed:
                shown = first_line(group, 60)
                message = f"this step is separated from the rest of the group `{shown}`"
                guidance = "Put the steps of a group next to each other, or use two group names."
                at = ("steps", index, "parallel_group")
                yield problem_at(document, at, RULE, message, guidance)
        former = group


def _unprintable(document: Document, data: Thing) -> Iterator[Problem]:
    """Text for terminals and agents has no control characters except line ends and tabs."""
    for path, text in _free_texts(data):
        if found := re.search(_CONTROL, text):
            message = f"`{path[-1]}` contains the control character U+{ord(found[0]):04X}"
            yield problem_at(document, path, RULE, message, "Remove it.")


def _free_texts(data: Thing) -> Iterator[tuple[Path, str]]:
    yield ("description",), text_of(data, "description")
    yield ("owner",), text_of(data, "owner")
    reviewers = data.get("reviewers")
    for key, people in reviewers.items() if isinstance(reviewers, dict) else ():
        for index, name in enumerate(people if isinstance(people, list) else ()):
            yield ("reviewers", key, index), name if isinstance(name, str) else ""
    for index, arg in things(data, "args"):
        yield ("args", index, "description"), text_of(arg, "description")
    for index, step in things(data, "steps"):
        for key in ("args", "title", "command", "when"):
            yield ("steps", index, key), text_of(step, key)
        yield ("steps", index, "parallel_group"), text_of(step, "parallel_group")


# ── conditions ──────────────────────────────────────────────────────────────────────────────


def _conditions(document: Document, data: Thing) -> Iterator[Problem]:
    for index, step in things(data, "steps"):
        for path, stated in stated_conditions(step):
            yield from in_list(stated, document, ("steps", index, *path))
        yield from _outputs(step, document, ("steps", index))
    yield from _outputs(data, document, ())


def in_list(stated: object, document: Document, path: Path) -> Iterator[Problem]:
    """The rules about a list of conditions; `path` leads to it and ends with its key."""
    for number, each in enumerate(stated if isinstance(stated, list) else ()):
        at = (*path, number)
        for word, value in each.items() if isinstance(each, dict) else [(each, None)]:
            if isinstance(word, str) and word in set(Condition):
                if Condition(word) in SINCE_LAUNCH and path[-1] not in _AFTER:
                    message = f"`{word}` compares with the launch of its step"
                    yield problem_at(document, at, RULE, message, "Put it under `postconditions`.")
                yield from _flawed(document, at, Condition(word), value)


def _outputs(thing: Thing, document: Document, path: Path) -> Iterator[Problem]:
    stated = thing.get("outputs")
    for number, each in enumerate(stated if isinstance(stated, list) else ()):
        if isinstance(each, str) and "{{" not in each and (why := flaw_of(Parameter.PATH, each)):
            message = f"`outputs`: {first_line(each, 60)!r} {why}"
            yield problem_at(document, (*path, "outputs", number), RULE, message, "Correct it.")


def _flawed(
    document: Document, path: Path, condition: Condition, value: object
) -> Iterator[Problem]:
    if condition is Condition.PROVED and isinstance(value, dict):
        value = value.get("check")  # the schema knows all words of the others
    values = list(value.values()) if isinstance(value, dict) else value
    kinds = PARAMETERS.get(condition, ())
    texts = values if isinstance(values, list) else [values]
    if len(kinds) == 1:
        kinds = kinds * len(texts)
    for kind, text in zip(kinds, texts, strict=False):
        why = flaw_of(kind, text) if isinstance(text, str) and "{{" not in text else ""
        if why:
            message = f"`{condition}`: {first_line(text, 60)!r} {why}"
            yield problem_at(document, path, RULE, message, "Correct it.")


# ── caches ──────────────────────────────────────────────────────────────────────────────────


def _caches(document: Document, data: Thing) -> Iterator[Problem]:
    secret = {text_of(arg, "name") for _, arg in things(data, "args") if arg.get("secret") is True}
    for index, step in things(data, "steps"):
        if "cache" not in step:
            continue
        path: Path = ("steps", index, "cache")
        if why := _uncacheable(step, secret):
            yield problem_at(document, path, RULE, f"`cache`: {why}", _NO_CACHE, key=True)
        cache = step["cache"]
        files = cache.get("files") if isinstance(cache, dict) else None
        for number, each in enumerate(files if isinstance(files, list) else ()):
            why = globs.flaw(each) if isinstance(each, str) else ""
            if isinstance(each, str) and names(each):
                why = "names an arg, and only the words of a step can"
            if why:
                place = (*path, "files", number)
                message = f"`cache`: {first_line(each, 60)!r} {why}"
                yield problem_at(document, place, RULE, message, "Correct it.")


def _uncacheable(step: Thing, secret: set[str]) -> str:
    namespace, *words = text_of(step, "command").split() or [""]
    if namespace not in _CACHED:
        return f"only `{'`, `'.join(_CACHED)}` steps can have one"
    if namespace == "http" and words[:1] and words[0] not in _READING:
        return f"a {first_line(words[0], 20)} request does more than read"
    if "outputs" in step:
        return "the step makes `outputs`, which are not recorded"
    if "for_each" in step or "until" in step:
        return "a step that is repeated runs each time"
    tools = step.get("tools")
    rules = [each for each in tools if isinstance(each, str)] if isinstance(tools, list) else []
    if more := changing(rules):
        return f"the agent may do more than read: {first_line(', '.join(more), 60)}"
    stated = step.get("postconditions")
    for each in stated if isinstance(stated, list) else ():
        word = next(iter(each), "") if isinstance(each, dict) else each
        if word in _NEED_A_RUN:
            return f"`{word}` needs a run"
    text = json.dumps([step.get("command"), step.get("with")], default=str)
    if any(name in secret or name.startswith("secret:") for name in names(text)):
        return "the step is given a secret"
    return ""
