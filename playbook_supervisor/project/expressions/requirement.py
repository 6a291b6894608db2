"""A condition as a step requires it: the word of the vocabulary and its parameters.

Everything else names it by its canonical text, which is also what `probe` accepts: `plan_exists`,
`command_succeeds=test`, `changes_within=src/** 'docs/a b/**'`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any

from playbook_supervisor.errors import ConditionError
from playbook_supervisor.formats.sanitize import first_line, suggestion
from playbook_supervisor.kernel.vocabulary import Condition
from playbook_supervisor.project.expressions import globs
from playbook_supervisor.records import Record


class Parameter(StrEnum):
    """The kinds of parameters, by the word that stands for them in messages."""

    CHECK = "CHECK"
    GLOBS = "GLOB…"
    NAME = "NAME"
    OPTIONS = "KEY=WORD…"
    PATH = "PATH"
    TEXT = "TEXT"


PARAMETERS: Mapping[Condition, tuple[Parameter, ...]] = {
    Condition.COMMAND_SUCCEEDS: (Parameter.CHECK,),
    Condition.COMMAND_FAILS: (Parameter.CHECK,),
    Condition.PROVED: (Parameter.CHECK, Parameter.OPTIONS),
    Condition.CHANGES_MADE: (Parameter.GLOBS,),
    Condition.CHANGES_WITHIN: (Parameter.GLOBS,),
    Condition.FILE_EXISTS: (Parameter.PATH,),
    Condition.FILE_CONTAINS: (Parameter.PATH, Parameter.TEXT),
    Condition.BRANCH_EXISTS: (Parameter.NAME,),
    Condition.TAG_EXISTS: (Parameter.NAME,),
    Condition.VERDICT_PASS: (Parameter.PATH,),
}
"""The parameters of conditions; the others have none. `GLOBS` are one or more, `OPTIONS` any."""

_OPTION = r"""(?x)
    without=(?:old_tests|as_many|alarm|runner)(?:,(?:old_tests|as_many|alarm|runner))*
    | new_tests=required | red=allowed
"""

SINCE_LAUNCH = frozenset({Condition.CHANGES_MADE, Condition.CHANGES_WITHIN, Condition.COMMITS_MADE})
"""The conditions that compare with the launch of their step."""
LISTS = ("preconditions", "postconditions", "skip_if")
"""The keys of a step that have a list of conditions."""


def stated_conditions(step: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], object]]:
    """Every list of conditions in the data of a step, by its path there."""
    for key in LISTS:
        yield (key,), step.get(key)
    until = step.get("until")
    if isinstance(until, dict):
        yield ("until", "conditions"), until.get("conditions")


PLAIN = tuple(condition for condition in Condition if condition not in PARAMETERS)
"""The conditions that need no parameters."""

_NEEDS_QUOTES = r"[\s'\"\\]"
_NO_REF = r"""(?x)
    \A[-./@]?\Z | \A[-/.] | /\. | // | \.\. | @\{ | [\ ~^:?*\[\\\x7f] | \.lock(?:/|\Z) | [./]\Z
"""
"""Names of a branch or a tag that `git check-ref-format` refuses."""


class Requirement(Record):
    """`parameters` are those of the file, in order: a path and a text for `file_contains`."""

    condition: Condition
    parameters: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The canonical text."""
        if not self.parameters:
            return self.condition.value
        return f"{self.condition.value}={joined(self.parameters)}"

    @property
    def flaw(self) -> str:
        """The fault of the parameters, in a sentence; empty if there is none."""
        wanted = PARAMETERS.get(self.condition, ())
        given = self.parameters
        if Parameter.GLOBS in wanted and given:
            wanted = wanted * len(given)
        if Parameter.OPTIONS in wanted and given:
            wanted = (*wanted[:-1], *(Parameter.OPTIONS for _ in given[1:]))
        if len(given) != len(wanted):
            return f"write `{usage(self.condition)}`"
        for kind, value in zip(wanted, given, strict=True):
            if why := flaw_of(kind, value):
                return f"{first_line(value, 60)!r} {why}"
        return ""


@lru_cache(maxsize=1024)
def requirement(name: str) -> Requirement:
    """The requirement with this canonical text. ConditionError PB-COND-UNKNOWN."""
    word, equals, rest = name.partition("=")
    if word not in set(Condition):
        near = suggestion(word, list(Condition))
        raise ConditionError("PB-COND-UNKNOWN", f"no condition {first_line(word, 60)!r}{near}")
    return Requirement(Condition(word), _parameters(Condition(word), rest) if equals else ())


def joined(parameters: Iterable[str]) -> str:
    """The parameters as one text for people, quoted only where it could not be taken apart."""
    return " ".join(
        shlex.quote(each) if not each or re.search(_NEEDS_QUOTES, each) else each
        for each in parameters
    )


def usage(condition: Condition) -> str:
    """The condition as it is written: `file_contains=PATH TEXT`."""
    wanted = " ".join(PARAMETERS.get(condition, ()))
    return f"{condition}={wanted}" if wanted else str(condition)


def _parameters(condition: Condition, text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ConditionError("PB-COND-UNKNOWN", f"{first_line(text, 60)}: {error}") from error
    if condition is Condition.PROVED:
        options = [word for word in words if re.fullmatch(_OPTION, word)]
        check = [word for word in words if word not in options]
        return (*([check[0] if len(check) == 1 else shlex.join(check)] if check else []), *options)
    if len(words) > 1 and PARAMETERS.get(condition) == (Parameter.CHECK,):
        return (shlex.join(words),)  # the shell has taken the quotes around `cli make test`
    return words


def flaw_of(kind: Parameter, value: str) -> str:
    """Why the value cannot be a parameter of that kind; empty if it can."""
    if kind in (Parameter.PATH, Parameter.GLOBS):
        return globs.flaw(value)
    if not value.strip():
        return "is empty"
    if kind is Parameter.OPTIONS:
        return "" if re.fullmatch(_OPTION, value) else "is no option of `proved`"
    if kind is Parameter.NAME and re.search(_NO_REF, value):
        return "is not a name that git allows"
    return "" if kind is Parameter.TEXT or value.isprintable() else "contains a control character"
