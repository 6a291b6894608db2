"""A condition as a step requires it: the word of the vocabulary and its parameters.

Everything else names it by its canonical text, which is also what `probe` accepts: `plan_exists`,
`command_succeeds=test`, `changes_within=src/** 'docs/a b/**'`.
"""

from __future__ import annotations

from functools import lru_cache

from playbook_supervisor.errors import ConditionError
from playbook_supervisor.formats.sanitize import first_line, suggestion
from playbook_supervisor.kernel.vocabulary import Condition
from playbook_supervisor.records import Record


class Requirement(Record):
    """`parameters` are those of the file, in order: a path and a text for `file_contains`."""

    condition: Condition
    parameters: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The canonical text."""
        import shlex

        if not self.parameters:
            return self.condition.value
        return f"{self.condition.value}={shlex.join(self.parameters)}"


@lru_cache(maxsize=1024)
def requirement(name: str) -> Requirement:
    """The requirement with this canonical text.

    ConditionError PB-COND-UNKNOWN for a word that is no condition, or quotes that do not close.
    """
    word, equals, rest = name.partition("=")
    if word not in set(Condition):
        near = suggestion(word, list(Condition))
        raise ConditionError("PB-COND-UNKNOWN", f"no condition {first_line(word, 60)!r}{near}")
    return Requirement(Condition(word), _parameters(rest) if equals else ())


def _parameters(text: str) -> tuple[str, ...]:
    import shlex

    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ConditionError("PB-COND-UNKNOWN", f"{first_line(text, 60)}: {error}") from error
