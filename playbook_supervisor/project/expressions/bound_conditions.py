"""The conditions of a playbook with the values of its args: `file_exists=docs/{{feature}}.md`.

So are the names of its steps' agents.

A condition with a parameter that is nothing but an arg without a value is not asked; of a list of
patterns only that one is dropped. So an optional arg can name the check that a project may lack.
The `outputs` of a step are postconditions: each is a `file_exists`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping

from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.state import merged
from playbook_supervisor.kernel.vocabulary import Condition
from playbook_supervisor.project.expressions.references import interpolate, words
from playbook_supervisor.project.expressions.requirement import joined
from playbook_supervisor.records import replace

_CHECKS = frozenset({"command_succeeds", "command_fails", "proved"})
_LISTS = frozenset({"changes_made", "changes_within"})
_PROGRAM = "cli "
_BRACES = "{{"
_ONE_ARG = r"\{\{\s*([^{}\s]*)\s*\}\}\Z"


def bound(playbook: Playbook, values: Mapping[str, str]) -> Playbook:
    """The playbook with every `{{arg}}` in its conditions, outputs and agents replaced.

    CheckError PB-CHECK-RULE for an arg that is not declared, or quotes in `cli …` that do not
    close.
    """
    made = (*playbook.outputs, *(each for step in playbook.steps for each in step.outputs))
    named = (*_of(playbook), *(step.agent for step in playbook.steps))
    if not made and not any(_BRACES in name for name in named):
        return playbook
    values = {**{arg.name: "" for arg in playbook.args}, **values}
    steps = tuple(
        replace(
            step if step.for_each else bound_step(step, values),
            agent=interpolate(step.agent, values).strip(),
        )
        for step in playbook.steps
    )
    return replace(playbook, steps=steps, outputs=_paths(playbook.outputs, values))


def bound_step(step: Step, values: Mapping[str, str]) -> Step:
    """The step with its conditions and outputs bound; a loop stays as it is. CheckError."""
    made = must_exist(_paths(step.outputs, values))
    return replace(
        step,
        preconditions=_bound(step.preconditions, values),
        postconditions=merged(_bound(step.postconditions, values), made),
        skip_if=_bound(step.skip_if, values),
        until=_bound(step.until, values),
    )


def must_exist(paths: Iterable[str]) -> tuple[str, ...]:
    """The conditions that these files exist and are not empty."""
    return tuple(f"{Condition.FILE_EXISTS}={joined([path])}" for path in paths)


def _paths(outputs: tuple[str, ...], values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(path for output in outputs if (path := interpolate(output, values)))


def without_absent_checks(
    playbook: Playbook, values: Mapping[str, str], checks: Collection[str]
) -> dict[str, str]:
    """The values, with none for an arg whose default names a check that the project lacks.

    That is an optional arg that is the whole CHECK of a condition. Any other value stays, so that
    a misspelt check is an error.
    """
    naming = {match[1] for name in _of(playbook) if (match := _naming(name))}
    absent = {
        arg.name: ""
        for arg in playbook.args
        if arg.name in naming
        and arg.default
        and values.get(arg.name) == arg.default
        and arg.default not in checks
        and not arg.default.startswith(_PROGRAM)
    }
    return {**values, **absent}


def _of(playbook: Playbook) -> Iterator[str]:
    for step in playbook.steps:
        yield from step.conditions


def _naming(name: str) -> re.Match[str] | None:
    word, _, rest = name.partition("=")
    return re.match(_ONE_ARG, shlex.split(rest)[0]) if word in _CHECKS and rest else None


def _bound(names: tuple[str, ...], values: Mapping[str, str]) -> tuple[str, ...]:
    filled = (_filled(name, values) if _BRACES in name else name for name in names)
    return tuple(name for name in filled if name)


def _filled(name: str, values: Mapping[str, str]) -> str:
    word, _, rest = name.partition("=")
    texts = [
        _program(parameter, values)
        if word in _CHECKS and parameter.startswith(_PROGRAM)
        else interpolate(parameter, values)
        for parameter in shlex.split(rest)
    ]
    asked = [text for text in texts if text]
    is_complete = bool(asked) if word in _LISTS else len(asked) == len(texts)
    return f"{word}={joined(asked)}" if is_complete else ""


def _program(parameter: str, values: Mapping[str, str]) -> str:
    """`cli …` in which a value fills exactly one word, whatever it contains."""
    argv = words(parameter, values)
    return f"{_PROGRAM}{shlex.join(argv)}" if argv else ""
