"""The rules about what a step refers to: args, secrets, the output of earlier steps, loops.

The data may violate the schema elsewhere, so that all problems are reported at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from playbook_supervisor.formats.located import Document, Path
from playbook_supervisor.formats.problems import Problem, problem_at
from playbook_supervisor.formats.sanitize import did_you_mean, first_line
from playbook_supervisor.kernel.model import CHECKPOINT, PLAYBOOK
from playbook_supervisor.kernel.vocabulary import ArgType, OutputFormat
from playbook_supervisor.kernel.when import ARG, When, WhenError, parse
from playbook_supervisor.project.expressions.loop_items import arg_of
from playbook_supervisor.project.expressions.references import (
    OUTPUT,
    SECRET,
    SECRET_OPTIONS,
    is_reference,
    names,
)
from playbook_supervisor.project.expressions.requirement import stated_conditions
from playbook_supervisor.project.playbooks.format_version import text_of, things
from playbook_supervisor.project.playbooks.schema_problems import RULE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Thing = Mapping[str, Any]

_INTERPOLATED = ("command", "args", "with", "cwd", "outputs")
_GRAMMAR = 'Write `$STEP.approved`, `!$STEP.skipped`, `$STEP.json.name == "x"` or `$ARG == "x"`.'
_SHOWN = 10  # declared args that a message lists


def violations(data: Thing, document: Document) -> Iterator[Problem]:
    """Every reference that leads nowhere, or where it must not."""
    args = {text_of(arg, "name"): arg.get("secret") is True for _, arg in things(data, "args")}
    yield from _defaults(document, data, args)
    for index, step in things(data, "steps"):
        path: Path = ("steps", index)
        loop = _loop_of(step)
        for place, text in _texts(step, path):
            mapped = place[2:4] == ("with", "args") and _runs_child(step)
            passes = mapped and is_reference(text.strip())
            yield from _args(document, place, text, args, item=text_of(loop, "as"), passes=passes)
        yield from _args(document, (*path, "agent"), text_of(step, "agent"), args)
        yield from _outputs_in_words(document, data, step, (*path, "command"))
        yield from _list(document, data, index, (*path, "for_each", "in"), text_of(loop, "in"))
        yield from _earlier(document, data, index, (*path, "stdin"), text_of(step, "stdin"))
        if text_of(step, "command") == CHECKPOINT and isinstance(step.get("with"), dict):
            shown = text_of(step["with"], "preview")
            yield from _earlier(document, data, index, (*path, "with", "preview"), shown)
        if when := text_of(step, "when"):
            yield from _when(document, data, index, (*path, "when"), when, text_of(loop, "as"))
        if where := text_of(loop, "where"):
            yield from _where(document, (*path, "for_each", "where"), where, text_of(loop, "as"))
        yield from _back(document, data, index)
    if isinstance(data.get("defaults"), dict):
        stated = text_of(data["defaults"], "agent")
        yield from _args(document, ("defaults", "agent"), stated, args)
    for place, text in _strings(data.get("outputs"), ("outputs",)):
        yield from _args(document, place, text, args)
    yield from _loops(document, data, args)


def _outputs_in_words(
    document: Document, data: Thing, step: Thing, path: Path
) -> Iterator[Problem]:
    """`$step.json` in a word, where it would reach the program as it is written."""
    command = text_of(step, "command")
    ids = {text_of(each, "id") for _, each in things(data, "steps")}
    for found in re.finditer(rf"{OUTPUT}\b", command) if not command.startswith("/") else ():
        if found[1] in ids:
            message = f"`{found[0]}` is not replaced in a command: it would be passed on as it is"
            cure = f"Give the output as input, `stdin: {found[0]}`, and let the program read it."
            yield problem_at(document, path, RULE, message, cure)


def _defaults(document: Document, data: Thing, secret: Mapping[str, bool]) -> Iterator[Problem]:
    earlier: dict[str, bool] = {}
    for index, arg in things(data, "args"):
        yield from _args(document, ("args", index, "default"), text_of(arg, "default"), earlier)
        earlier[text_of(arg, "name")] = secret.get(text_of(arg, "name"), False)


def _texts(step: Thing, path: Path) -> Iterator[tuple[Path, str]]:
    for key in _INTERPOLATED:
        if key != "command" or not text_of(step, key).startswith("/"):
            yield from _strings(step.get(key), (*path, key))
    for where, stated in stated_conditions(step):
        for index, each in enumerate(stated if isinstance(stated, list) else ()):
            if isinstance(each, dict):
                yield from _strings(each, (*path, *where, index))


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


def _args(
    document: Document,
    path: Path,
    text: str,
    declared: Mapping[str, bool],
    *,
    item: str = "",
    passes: bool = False,
) -> Iterator[Problem]:
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
                yield problem_at(document, path, RULE, message, "Pass the secret there.")
            elif (arg := name.removeprefix(SECRET)) in declared:
                message = f"{shown} is a secret of that name, not the arg `{arg}`"
                yield problem_at(document, path, RULE, message, f"Write `{{{{{arg}}}}}`.")
        elif name not in declared:
            message = f"{shown} is not a declared arg"
            yield problem_at(document, path, RULE, message, _declare(name, declared))
        elif declared[name] and not holds_secrets and not passes:
            message = f"{shown} is secret and can only stand in `with.env` and `with.headers`"
            guidance = "Pass it there, alone to a secret arg of a child, or declare it without "
            guidance += "`secret`."
            yield problem_at(document, path, RULE, message, guidance)


def _declare(name: str, declared: Mapping[str, bool]) -> str:
    some = ", ".join(list(declared)[:_SHOWN]) + (", …" if len(declared) > _SHOWN else "")
    guidance = did_you_mean(name, declared, "{{{{{}}}}}")
    return f"{guidance}Declare it under `args`. Declared: {first_line(some) or 'none'}."


def _when(
    document: Document, data: Thing, index: int, path: Path, text: str, item: str
) -> Iterator[Problem]:
    if item and re.search(rf"\${re.escape(item)}(?![A-Za-z0-9_-])", text):
        message = "`when` is asked once for the whole loop, and knows no item"
        guidance = f"Write it as `where`, under `for_each`: `where: {first_line(text, 60)}`."
        yield problem_at(document, path, RULE, message, guidance)
        return
    try:
        when = parse(text)
    except WhenError as error:
        message = f"`when` is wrong at character {error.column}: {error}"
        yield problem_at(document, path, RULE, message, _GRAMMAR)
        return
    if when.fact == ARG:
        yield from _compared_arg(document, data, path, when)
    else:
        yield from _earlier(document, data, index, path, f"${when.step}.{when.fact}")


def _where(document: Document, path: Path, text: str, item: str) -> Iterator[Problem]:
    try:
        parse(text, item)
    except WhenError as error:
        message = f"`where` is wrong at character {error.column}: {error}"
        guidance = f'Write `${item}.kind == "x"`, `${item}.ok` or `!${item}.ok`.'
        yield problem_at(document, path, RULE, message, guidance)


def _back(document: Document, data: Thing, index: int) -> Iterator[Problem]:
    steps = dict(things(data, "steps"))
    step, group = steps[index], text_of(steps[index], "parallel_group")
    on_fail = step.get("on_fail")
    target = text_of(on_fail, "back_to") if isinstance(on_fail, dict) else ""
    earlier = [
        text_of(each, "id")
        for number, each in steps.items()
        if number < index and not (group and text_of(each, "parallel_group") == group)
    ]
    if target and target not in earlier:
        guidance = f"{did_you_mean(target, earlier)}Earlier steps: {', '.join(earlier) or 'none'}."
        message = f"`{first_line(target, 60)}` is no earlier step"
        at = ("steps", index, "on_fail", "back_to")
        yield problem_at(document, at, RULE, message, guidance)
    if step.get("undo") is True and (group or _loop_of(step).get("at_once", 1) != 1):
        message = "`undo` needs a step that runs alone: it would undo the work of the others, too"
        guidance = f"Remove `{'parallel_group' if group else 'at_once'}`, or `undo`."
        yield problem_at(document, ("steps", index, "undo"), RULE, message, guidance, key=True)


def _compared_arg(document: Document, data: Thing, path: Path, when: When) -> Iterator[Problem]:
    args = {text_of(arg, "name"): arg for _, arg in things(data, "args")}
    if (arg := args.get(when.step)) is None:
        guidance = did_you_mean(when.step, args, "${}")
        guidance += f"Declare it under `args`, or name what to ask of a step: {_GRAMMAR}"
        shown = first_line(when.step, 60)
        yield problem_at(document, path, RULE, f"`${shown}` is not a declared arg", guidance)
    elif arg.get("secret") is True:
        message = f"`${when.step}` is secret, and the journal would show its value"
        yield problem_at(document, path, RULE, message, "Compare an arg that is no secret.")
    elif fault := _misfit(arg, when):
        message = f"`${when.step}` {fault[0]}"
        yield problem_at(document, path, RULE, message, fault[1])


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
    values = arg.get("values")
    if isinstance(values, list) and literal and literal not in values:
        return f"is never `{first_line(literal, 60)}`", "Compare it with one of its `values`."
    return None


def _list(
    document: Document, data: Thing, index: int, path: Path, source: str
) -> Iterator[Problem]:
    step, _, rest = source.partition(".")
    if rest.startswith(("json", "failed")):
        what = "json" if rest.startswith("json") else "failed"
        yield from _earlier(document, data, index, path, f"{step}.{what}")


def _earlier(
    document: Document, data: Thing, index: int, path: Path, reference: str
) -> Iterator[Problem]:
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
        yield problem_at(document, path, RULE, message, guidance)
    elif what == "json" and not _has_data(earlier[name]):
        message = f"`{name}` promises no JSON"
        guidance = f"Write `output: json` in the step `{name}`, or use `${name}.stdout`."
        yield problem_at(document, path, RULE, message, guidance)


# ── loops ───────────────────────────────────────────────────────────────────────────────────


def _loop_of(step: Thing) -> Thing:
    loop = step.get("for_each")
    return loop if isinstance(loop, dict) else {}


def _loops(document: Document, data: Thing, args: Mapping[str, bool]) -> Iterator[Problem]:
    for index, step in things(data, "steps"):
        path: Path = ("steps", index)
        if loop := _loop_of(step):
            yield from _loop_source(document, (*path, "for_each", "in"), text_of(loop, "in"), args)
            yield from _item_name(document, (*path, "for_each", "as"), text_of(loop, "as"), args)
        if loop and text_of(step, "parallel_group"):
            message = "a step of a parallel group cannot be a loop"
            guidance = "Remove `parallel_group`: `at_once` says how many items run together."
            yield problem_at(document, (*path, "for_each"), RULE, message, guidance, key=True)
        for key in ("for_each", "until"):
            if key in step and text_of(step, "command") == CHECKPOINT:
                message = f"`{key}` has no meaning for a `checkpoint` command"
                guidance = "Remove it: a checkpoint runs nothing."
                yield problem_at(document, (*path, key), RULE, message, guidance, key=True)


def _loop_source(
    document: Document, path: Path, source: str, args: Mapping[str, bool]
) -> Iterator[Problem]:
    arg = arg_of(source)
    if arg and arg not in args:
        guidance = did_you_mean(arg, args, "${}")
        guidance += "Declare it under `args`, or write `$STEP.json` for what a step printed."
        message = f"`{first_line(source, 60)}` is not a declared arg"
        yield problem_at(document, path, RULE, message, guidance)
    elif args.get(arg):
        message = f"`{first_line(source, 60)}` is secret, and items are journaled"
        yield problem_at(document, path, RULE, message, "Declare the arg without `secret`.")


def _item_name(
    document: Document, path: Path, name: str, args: Mapping[str, bool]
) -> Iterator[Problem]:
    if name in args:
        message = f"the item has the name of the arg `{first_line(name, 60)}`"
        yield problem_at(document, path, RULE, message, "Give the item another name.")
