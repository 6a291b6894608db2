"""The rules of a playbook that its schema cannot express.

The data may violate the schema elsewhere, so that all problems are reported at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from playbook_supervisor.formats.located import Path
from playbook_supervisor.formats.problems import Finding
from playbook_supervisor.formats.sanitize import did_you_mean, first_line
from playbook_supervisor.kernel.model import CHECKPOINT, PLAYBOOK, Limits
from playbook_supervisor.kernel.tools import changing
from playbook_supervisor.kernel.vocabulary import ArgType, Autonomy, Condition, OutputFormat
from playbook_supervisor.kernel.when import ARG, When, WhenError, parse
from playbook_supervisor.project.commit_files import COMMIT
from playbook_supervisor.project.expressions import globs, namespaces
from playbook_supervisor.project.expressions.arguments import typed
from playbook_supervisor.project.expressions.loop_items import arg_of
from playbook_supervisor.project.expressions.references import (
    OUTPUT,
    SECRET,
    SECRET_OPTIONS,
    is_reference,
    names,
)
from playbook_supervisor.project.expressions.requirement import (
    PARAMETERS,
    SINCE_LAUNCH,
    Parameter,
    flaw_of,
    stated_conditions,
)
from playbook_supervisor.project.playbooks.format_version import (
    NEWEST,
    listed,
    mapping_of,
    needs_newest,
    text_of,
    things,
)
from playbook_supervisor.project.playbooks.schema_problems import SCHEMA
from playbook_supervisor.records import fields

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


def violations(data: Any) -> Iterator[Finding]:
    """Every broken rule."""
    if not isinstance(data, dict):
        return
    secret = {text_of(arg, "name") for _, arg in things(data, "args") if arg.get("secret") is True}
    asked = {} if needs_newest(data) else _DECISIONS
    decided = mapping_of(data, "defaults")
    for index, step in things(data, "steps"):
        path: Path = ("steps", index)
        for key, wanted in asked.items():
            if key not in step and key not in decided:
                guidance = f"Add `{key}:` with one of {', '.join(wanted)}, or write "
                guidance += f'`version: "{NEWEST}"`, where it need not be said.'
                yield Finding(path, f"`{key}` is missing", guidance, code=SCHEMA)
        yield from _namespace(step, (*path, "command"))
        yield from _misplaced(step, path)
        for place, stated in stated_conditions(step):
            yield from in_list(stated, (*path, *place))
        yield from _outputs(step, path)
        if "cache" in step:
            yield from _cache(step, secret, (*path, "cache"))
    yield from _outputs(data, ())
    yield from _args(data)
    yield from _repeated(data, "args", "name", "arg")
    yield from _repeated(data, "steps", "id", "step")
    yield from _references(data)
    yield from _scattered_groups(data)
    for path, text in _free_texts(data):
        if found := re.search(_CONTROL, text):
            message = f"`{path[-1]}` contains the control character U+{ord(found[0]):04X}"
            yield Finding(path, message, "Remove it.")


def _namespace(step: Thing, path: Path) -> Iterator[Finding]:
    """The first word of a command that is no slash command must have a meaning here."""
    namespace, _, rest = text_of(step, "command").partition(" ")
    if namespace == CHECKPOINT and text_of(step, "command") != CHECKPOINT:
        guidance = "Write the sentence into `message`, under `with`."
        yield Finding(path, "`checkpoint` takes no words behind it", guidance)
    elif namespace == PLAYBOOK and "{{" in rest:
        message = "`playbook` takes a fixed name: its child is checked before anything runs"
        yield Finding(path, message, "Write a step for each playbook, with a `when` that chooses.")
    elif namespace == PLAYBOOK and not re.fullmatch(_CHILD_REFERENCE, rest):
        message = "`playbook` takes one word: the name of a playbook, or the path of its file"
        yield Finding(path, message, "Write `playbook NAME`; its args belong under `with`.")
    if not re.fullmatch(_NAMESPACE, namespace) or namespaces.is_known(namespace):
        return
    if namespace in namespaces.RESERVED:
        message = f"`{namespace}` steps need a package that provides them"
        guidance = "Install it beside playbook, or use `cli` with a program that does the work."
        yield Finding(path, message, guidance)
        return
    ours = (*namespaces.AGENTS, *namespaces.KERNEL, *namespaces.EXECUTORS)
    known = (*ours, *namespaces.installed())
    guidance = did_you_mean(namespace, known)
    guidance += "Write a slash command, as in `/speckit.plan`, or begin with one of "
    guidance += f"{', '.join(known)}."
    shown = first_line(text_of(step, "command"), 60)
    message = f"`{shown}` is not a valid `command` of a step"
    yield Finding(path, message, guidance, code=SCHEMA)


def _misplaced(step: Thing, path: Path) -> Iterator[Finding]:
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
    cures = {CHECKPOINT: _NOTHING_RUNS, PLAYBOOK: _CHILD_RUNS}.get(namespace, cures)
    kind = "a slash command" if is_slash else f"a `{first_line(namespace, 40)}` command"
    for key in (key for key in cures if key in step):
        yield Finding((*path, key), f"`{key}` has no meaning for {kind}", cures[key], key=True)
    promises = namespace == CHECKPOINT or text_of(step, "output") == OutputFormat.JSON
    if "output_schema" in step and not promises:
        message = "`output_schema` needs `output: json`"
        yield Finding((*path, "output_schema"), message, "Add `output: json`.", key=True)


def _args(data: Thing) -> Iterator[Finding]:
    for index, arg in things(data, "args"):
        path: Path = ("args", index)
        values, default = arg.get("values"), arg.get("default")
        if arg.get("type") == ArgType.ENUM and values is None:
            yield Finding(path, "an enum needs `values`", "Add `values:` with a list.")
        elif arg.get("type") != ArgType.ENUM and values is not None:
            guidance = "Write `type: enum`, or remove `values`."
            yield Finding((*path, "values"), "`values` belongs to an enum", guidance, key=True)
        elif fault := _fault_of_default(arg):
            guidance = "Change the default, or the type of the arg."
            yield Finding((*path, "default"), f"the default {fault}", guidance)
        kind = "secret" if arg.get("secret") is True else arg.get("type", ArgType.STRING)
        if "transform" in arg and kind in ("secret", *set(ArgType) - {ArgType.STRING}):
            message = f"`transform` is for text: it would change the value of this {kind} arg"
            guidance = "Remove it, or write `type: string`."
            yield Finding((*path, "transform"), message, guidance, key=True)
        if arg.get("required") is True and default is not None:
            message = "a required arg is always given, so its default has no effect"
            guidance = "Write `required: false`, or remove `default`."
            yield Finding((*path, "default"), message, guidance, key=True)


def _fault_of_default(arg: Thing) -> str:
    default = text_of(arg, "default")
    values = [each for each in listed(arg, "values") if isinstance(each, str)]
    if not default.strip() or "{{" in default:
        return ""
    try:
        typed(default, str(arg.get("type", "")), values)
    except ValueError as fault:
        return str(fault)
    return ""


def _repeated(data: Thing, key: str, name: str, kind: str) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for index, each in things(data, key):
        value = text_of(each, name)
        if value in seen:
            message = f"{kind} {seen[value] + 1} already has the {name} `{first_line(value, 60)}`"
            guidance = f"Give each {kind} a different {name}."
            yield Finding((key, index, name), message, guidance)
        elif value:
            seen[value] = index


def _scattered_groups(data: Thing) -> Iterator[Finding]:
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
                yield Finding(("steps", index, "parallel_group"), message, guidance)
        former = group


def _free_texts(data: Thing) -> Iterator[tuple[Path, str]]:
    yield ("description",), text_of(data, "description")
    yield ("owner",), text_of(data, "owner")
    reviewers = mapping_of(data, "reviewers")
    for key in reviewers:
        for index, name in enumerate(listed(reviewers, key)):
            yield ("reviewers", key, index), name if isinstance(name, str) else ""
    for index, arg in things(data, "args"):
        yield ("args", index, "description"), text_of(arg, "description")
    for index, step in things(data, "steps"):
        for key in ("args", "title", "command", "when", "parallel_group"):
            yield ("steps", index, key), text_of(step, key)


# ── conditions ──────────────────────────────────────────────────────────────────────────────


def in_list(stated: object, path: Path) -> Iterator[Finding]:
    """The rules about a list of conditions; `path` leads to it and ends with its key."""
    for number, each in enumerate(stated if isinstance(stated, list) else ()):
        at = (*path, number)
        for word, value in each.items() if isinstance(each, dict) else [(each, None)]:
            if isinstance(word, str) and word in set(Condition):
                if Condition(word) in SINCE_LAUNCH and path[-1] not in _AFTER:
                    message = f"`{word}` compares with the launch of its step"
                    yield Finding(at, message, "Put it under `postconditions`.")
                yield from _flawed(at, Condition(word), value)


def _outputs(thing: Thing, path: Path) -> Iterator[Finding]:
    for number, each in enumerate(listed(thing, "outputs")):
        if isinstance(each, str) and "{{" not in each and (why := flaw_of(Parameter.PATH, each)):
            message = f"`outputs`: {first_line(each, 60)!r} {why}"
            yield Finding((*path, "outputs", number), message, "Correct it.")


def _flawed(path: Path, condition: Condition, value: object) -> Iterator[Finding]:
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
            yield Finding(path, message, "Correct it.")


# ── caches ──────────────────────────────────────────────────────────────────────────────────


def _cache(step: Thing, secret: set[str], path: Path) -> Iterator[Finding]:
    if why := _uncacheable(step, secret):
        yield Finding(path, f"`cache`: {why}", _NO_CACHE, key=True)
    for number, each in enumerate(listed(mapping_of(step, "cache"), "files")):
        if isinstance(each, str):
            arg = "names an arg, and only the words of a step can" if names(each) else ""
            if why := arg or globs.flaw(each):
                message = f"`cache`: {first_line(each, 60)!r} {why}"
                yield Finding((*path, "files", number), message, "Correct it.")


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
    rules = [each for each in listed(step, "tools") if isinstance(each, str)]
    if more := changing(rules):
        return f"the agent may do more than read: {first_line(', '.join(more), 60)}"
    for each in listed(step, "postconditions"):
        word = next(iter(each), "") if isinstance(each, dict) else each
        if word in _NEED_A_RUN:
            return f"`{word}` needs a run"
    text = json.dumps([step.get("command"), step.get("with")], default=str)
    if any(name in secret or name.startswith("secret:") for name in names(text)):
        return "the step is given a secret"
    return ""


# ── references ──────────────────────────────────────────────────────────────────────────────

_INTERPOLATED = ("command", "args", "with", "cwd", "outputs")
_GRAMMAR = 'Write `$STEP.approved`, `!$STEP.skipped`, `$STEP.json.name == "x"` or `$ARG == "x"`.'
_SHOWN = 10  # declared args that a message lists


def _references(data: Thing) -> Iterator[Finding]:
    """Args, secrets, the output of earlier steps, loops."""
    args = {text_of(arg, "name"): arg.get("secret") is True for _, arg in things(data, "args")}
    yield from _defaults_of_args(data, args)
    for index, step in things(data, "steps"):
        path: Path = ("steps", index)
        loop = mapping_of(step, "for_each")
        item = text_of(loop, "as")
        for place, text in _texts(step, path):
            mapped = place[2:4] == ("with", "args") and _runs_child(step)
            passes = mapped and is_reference(text.strip())
            yield from _named_args(place, text, args, item=item, passes=passes)
        yield from _named_args((*path, "agent"), text_of(step, "agent"), args)
        yield from _outputs_in_words(data, step, (*path, "command"))
        yield from _list(data, index, (*path, "for_each", "in"), text_of(loop, "in"))
        yield from _earlier(data, index, (*path, "stdin"), text_of(step, "stdin"))
        if text_of(step, "command") == CHECKPOINT:
            shown = text_of(mapping_of(step, "with"), "preview")
            yield from _earlier(data, index, (*path, "with", "preview"), shown)
        if when := text_of(step, "when"):
            yield from _when(data, index, (*path, "when"), when, item)
        if where := text_of(loop, "where"):
            yield from _where((*path, "for_each", "where"), where, item)
        yield from _back(data, index)
        yield from _loop(step, loop, path, args)
    stated = text_of(mapping_of(data, "defaults"), "agent")
    yield from _named_args(("defaults", "agent"), stated, args)
    for place, text in _strings(data.get("outputs"), ("outputs",)):
        yield from _named_args(place, text, args)


def _outputs_in_words(data: Thing, step: Thing, path: Path) -> Iterator[Finding]:
    """`$step.json` in a word, where it would reach the program as it is written."""
    command = text_of(step, "command")
    ids = {text_of(each, "id") for _, each in things(data, "steps")}
    for found in re.finditer(rf"{OUTPUT}\b", command) if not command.startswith("/") else ():
        if found[1] in ids:
            message = f"`{found[0]}` is not replaced in a command: it would be passed on as it is"
            cure = f"Give the output as input, `stdin: {found[0]}`, and let the program read it."
            yield Finding(path, message, cure)


def _defaults_of_args(data: Thing, secret: Mapping[str, bool]) -> Iterator[Finding]:
    earlier: dict[str, bool] = {}
    for index, arg in things(data, "args"):
        yield from _named_args(("args", index, "default"), text_of(arg, "default"), earlier)
        earlier[text_of(arg, "name")] = secret.get(text_of(arg, "name"), False)


def _texts(step: Thing, path: Path) -> Iterator[tuple[Path, str]]:
    for key in _INTERPOLATED:
        if key != "command" or not text_of(step, key).startswith("/"):
            yield from _strings(step.get(key), (*path, key))
    for where, stated in stated_conditions(step):
        if isinstance(stated, list):
            mappings = [each if isinstance(each, dict) else {} for each in stated]
            yield from _strings(mappings, (*path, *where))


def _strings(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    match value:
        case str():
            yield path, value
        case dict():
            for key, each in value.items():
                yield from _strings(each, (*path, str(key)))
        case list():
            for index, each in enumerate(value):
                yield from _strings(each, (*path, index))


def _runs_child(step: Thing) -> bool:
    return text_of(step, "command").startswith(f"{PLAYBOOK} ")


def _has_data(step: Thing) -> bool:
    return _runs_child(step) or step.get("output") == OutputFormat.JSON


def _named_args(
    path: Path, text: str, declared: Mapping[str, bool], *, item: str = "", passes: bool = False
) -> Iterator[Finding]:
    """Names that are not declared, and secrets where they must not be; `passes`: to a child.

    `item` is the name of the item of the step's loop.
    """
    holds_secrets = len(path) > 3 and path[2] == "with" and path[3] in SECRET_OPTIONS
    for name in names(text):
        if item and name.partition(".")[0] == item:
            continue
        shown = f"`{{{{{first_line(name, 60)}}}}}`"
        if name.startswith(SECRET):
            if not holds_secrets:
                message = f"{shown} can only stand in `with.env` and `with.headers`"
                yield Finding(path, message, "Pass the secret there.")
            elif (arg := name.removeprefix(SECRET)) in declared:
                message = f"{shown} is a secret of that name, not the arg `{arg}`"
                yield Finding(path, message, f"Write `{{{{{arg}}}}}`.")
        elif name not in declared:
            message = f"{shown} is not a declared arg"
            yield Finding(path, message, _declare(name, declared))
        elif declared[name] and not holds_secrets and not passes:
            message = f"{shown} is secret and can only stand in `with.env` and `with.headers`"
            guidance = "Pass it there, alone to a secret arg of a child, or declare it without "
            guidance += "`secret`."
            yield Finding(path, message, guidance)


def _declare(name: str, declared: Mapping[str, bool]) -> str:
    some = ", ".join(list(declared)[:_SHOWN]) + (", …" if len(declared) > _SHOWN else "")
    guidance = did_you_mean(name, declared, "{{{{{}}}}}")
    return f"{guidance}Declare it under `args`. Declared: {first_line(some) or 'none'}."


def _when(data: Thing, index: int, path: Path, text: str, item: str) -> Iterator[Finding]:
    if item and re.search(rf"\${re.escape(item)}(?![A-Za-z0-9_-])", text):
        message = "`when` is asked once for the whole loop, and knows no item"
        guidance = f"Write it as `where`, under `for_each`: `where: {first_line(text, 60)}`."
        yield Finding(path, message, guidance)
        return
    try:
        when = parse(text)
    except WhenError as error:
        message = f"`when` is wrong at character {error.column}: {error}"
        yield Finding(path, message, _GRAMMAR)
        return
    if when.fact == ARG:
        yield from _compared_arg(data, path, when)
    else:
        yield from _earlier(data, index, path, f"${when.step}.{when.fact}")


def _where(path: Path, text: str, item: str) -> Iterator[Finding]:
    try:
        parse(text, item)
    except WhenError as error:
        message = f"`where` is wrong at character {error.column}: {error}"
        guidance = f'Write `${item}.kind == "x"`, `${item}.ok` or `!${item}.ok`.'
        yield Finding(path, message, guidance)


def _back(data: Thing, index: int) -> Iterator[Finding]:
    steps = dict(things(data, "steps"))
    step, group = steps[index], text_of(steps[index], "parallel_group")
    target = text_of(mapping_of(step, "on_fail"), "back_to")
    earlier = [
        text_of(each, "id")
        for number, each in steps.items()
        if number < index and not (group and text_of(each, "parallel_group") == group)
    ]
    if target and target not in earlier:
        guidance = f"{did_you_mean(target, earlier)}Earlier steps: {', '.join(earlier) or 'none'}."
        message = f"`{first_line(target, 60)}` is no earlier step"
        yield Finding(("steps", index, "on_fail", "back_to"), message, guidance)
    if step.get("undo") is True and (group or mapping_of(step, "for_each").get("at_once", 1) != 1):
        message = "`undo` needs a step that runs alone: it would undo the work of the others, too"
        guidance = f"Remove `{'parallel_group' if group else 'at_once'}`, or `undo`."
        yield Finding(("steps", index, "undo"), message, guidance, key=True)


def _compared_arg(data: Thing, path: Path, when: When) -> Iterator[Finding]:
    args = {text_of(arg, "name"): arg for _, arg in things(data, "args")}
    if (arg := args.get(when.step)) is None:
        guidance = did_you_mean(when.step, args, "${}")
        guidance += f"Declare it under `args`, or name what to ask of a step: {_GRAMMAR}"
        shown = first_line(when.step, 60)
        yield Finding(path, f"`${shown}` is not a declared arg", guidance)
    elif arg.get("secret") is True:
        message = f"`${when.step}` is secret, and the journal would show its value"
        yield Finding(path, message, "Compare an arg that is no secret.")
    elif fault := _misfit(arg, when):
        yield Finding(path, f"`${when.step}` {fault[0]}", fault[1])


def _misfit(arg: Thing, when: When) -> tuple[str, str] | None:
    kind, literal = text_of(arg, "type"), when.literal
    if not when.operator:
        fits, wanted = kind == ArgType.BOOLEAN, '== "x"' if kind != ArgType.NUMBER else "== 1"
        return None if fits else ("is neither true nor false", f"Compare it: `{wanted}`.")
    if kind == ArgType.BOOLEAN:
        fits = isinstance(literal, bool)
        return None if fits else ("is true or false", f"Write `${when.step}` by itself.")
    if kind == ArgType.NUMBER:
        fits = isinstance(literal, int | float) and not isinstance(literal, bool)
        return None if fits else ("is a number", "Compare it with a number, without quotes.")
    if not isinstance(literal, str):
        return "is text", "Put what it is compared with into double quotes."
    values = listed(arg, "values")
    if values and literal and literal not in values:
        return f"is never `{first_line(literal, 60)}`", "Compare it with one of its `values`."
    return None


def _list(data: Thing, index: int, path: Path, source: str) -> Iterator[Finding]:
    step, _, rest = source.partition(".")
    if rest.startswith(("json", "failed")):
        what = "json" if rest.startswith("json") else "failed"
        yield from _earlier(data, index, path, f"{step}.{what}")


def _earlier(data: Thing, index: int, path: Path, reference: str) -> Iterator[Finding]:
    name, dot, what = reference.removeprefix("$").partition(".")
    if not reference.startswith("$") or not dot:
        return
    earlier = {
        text_of(step, "id"): step for number, step in things(data, "steps") if number < index
    }
    if name not in earlier:
        guidance = did_you_mean(name, earlier, f"${{}}.{what}")
        guidance += f"Earlier steps: {', '.join(earlier) or 'none'}."
        message = f"`{first_line(name, 60)}` is no earlier step"
        yield Finding(path, message, guidance)
    elif what == "json" and not _has_data(earlier[name]):
        message = f"`{name}` promises no JSON"
        guidance = f"Write `output: json` in the step `{name}`, or use `${name}.stdout`."
        yield Finding(path, message, guidance)


# ── loops ───────────────────────────────────────────────────────────────────────────────────


def _loop(step: Thing, loop: Thing, path: Path, args: Mapping[str, bool]) -> Iterator[Finding]:
    source, name = text_of(loop, "in"), text_of(loop, "as")
    arg, at = arg_of(source), (*path, "for_each", "in")
    if arg and arg not in args:
        guidance = did_you_mean(arg, args, "${}")
        guidance += "Declare it under `args`, or write `$STEP.json` for what a step printed."
        yield Finding(at, f"`{first_line(source, 60)}` is not a declared arg", guidance)
    elif args.get(arg):
        message = f"`{first_line(source, 60)}` is secret, and items are journaled"
        yield Finding(at, message, "Declare the arg without `secret`.")
    if loop and name in args:
        message = f"the item has the name of the arg `{first_line(name, 60)}`"
        yield Finding((*path, "for_each", "as"), message, "Give the item another name.")
    if loop and text_of(step, "parallel_group"):
        message = "a step of a parallel group cannot be a loop"
        guidance = "Remove `parallel_group`: `at_once` says how many items run together."
        yield Finding((*path, "for_each"), message, guidance, key=True)
    for key in ("for_each", "until"):
        if key in step and text_of(step, "command") == CHECKPOINT:
            message = f"`{key}` has no meaning for a `checkpoint` command"
            guidance = "Remove it: a checkpoint runs nothing."
            yield Finding((*path, key), message, guidance, key=True)
