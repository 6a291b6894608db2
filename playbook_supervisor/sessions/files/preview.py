"""Previews for a person: a step's input, a checkpoint's message, an agent's request.

The values of args are filled in; a secret is shown by the name that the playbook gives it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from playbook_supervisor.formats.sanitize import counted, one_line, printable
from playbook_supervisor.kernel.model import SLASH, Playbook, Step
from playbook_supervisor.project.expressions.references import fill, interpolate, secret_names

MOST_LINES = 12
_BRIEF = 140  # characters, for a preview that does not decide
_ENDS = tuple(".?!…:")


def template_of(step: Step) -> str:
    """The message of a checkpoint, as the playbook has it."""
    return str(json.loads(step.options or "{}").get("message", "")) or step.id


def message_of(step: Step, values: Mapping[str, str]) -> str:
    """The sentence with which a checkpoint asks."""
    text = one_line(interpolate(template_of(step), values), 500)
    return text if text.endswith(_ENDS) else f"{text}."


def requested(request: Mapping[str, Any]) -> tuple[str, ...]:
    """The request of an agent in the middle of its step: the exact call, or the options."""
    return tuple(_call(request) if "questions" not in request else _options(request))


def _call(request: Mapping[str, Any]) -> Iterator[str]:
    tool, given = request.get("tool"), str(request.get("input", ""))
    try:
        arguments = json.loads(given)
    except (ValueError, RecursionError):
        arguments = given  # it is cut
    if not isinstance(arguments, dict):
        arguments = {"arguments": arguments}
    yield f"the call: {tool}"
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines = printable(text, keep_newlines=True).splitlines() or [""]
        yield f"  {name}: {lines[0]}"
        yield from (f"    {line}" for line in lines[1:MOST_LINES])
        if len(lines) > MOST_LINES:
            yield f"    … {counted(len(lines) - MOST_LINES, 'more line')}"
    for key, words in (("description", "it says"), ("path", "it touches"), ("agent", "subagent")):
        if said := request.get(key):
            yield f"{words}: {said}"
    if rule := request.get("rule"):
        yield f"always allows, for this session: {rule}"
        yield f"to allow it for good, add {json.dumps(rule, ensure_ascii=False)} to `allowed_tools`"


def _options(request: Mapping[str, Any]) -> Iterator[str]:
    questions = request["questions"]
    for number, each in enumerate(questions, 1):
        if len(questions) > 1:
            yield f"{number}/{len(questions)}: {each.get('question', '')}"
        for place, option in enumerate(each.get("options") or (), 1):
            what = option.get("description")
            yield f"  {place}. {option.get('label', '')}{f': {what}' if what else ''}"
        if each.get("multiple"):
            yield "  (more than one may be chosen: 1, 3)"
    several = "a line for each question: " if len(questions) > 1 else ""
    yield f"answer with {several}the number of an option, or words of your own"


def preview(
    playbook: Playbook, step: Step, values: Mapping[str, str], stdin: str, *, brief: bool = False
) -> tuple[str, ...]:
    """The step's args, options and standard input, at most `MOST_LINES` lines.

    `brief` cuts each of them to two lines of a terminal.
    """
    lines = list(_lines(playbook, step, values, stdin))
    if brief:
        tops = [number for number, line in enumerate(lines) if not line.startswith(" ")]
        lines = [
            one_line(" ".join(lines[top:end]), _BRIEF)
            for top, end in zip(tops, [*tops[1:], len(lines)], strict=True)
        ]
    if len(lines) > MOST_LINES:
        lines[MOST_LINES - 1 :] = [f"  … {counted(len(lines) - MOST_LINES + 1, 'more line')}"]
    return tuple(lines)


def _lines(playbook: Playbook, step: Step, values: Mapping[str, str], stdin: str) -> Iterator[str]:
    if step.namespace == SLASH and step.args:
        yield from _labelled("args", interpolate(step.args, values))
    if step.tools:
        yield from _labelled("tools", ", ".join(step.tools))
    if not step.is_checkpoint:
        names = secret_names(step.options, playbook.args)
        options = json.loads(step.options or "{}")
        filled = fill(options, values, {name: f"{{{{{name}}}}}" for name in names})
        for key, value in filled.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield from _labelled(key, text)
    if stdin:
        yield from _labelled(step.stdin, stdin)


def _labelled(label: str, text: str) -> Iterator[str]:
    """`label: text`; a text of several lines stands below its label."""
    lines = printable(text, keep_newlines=True).strip("\n").split("\n")
    if len(lines) == 1:
        yield f"{label}: {lines[0]}"
    else:
        yield f"{label}:"
        yield from (f"  {line}" for line in lines)
