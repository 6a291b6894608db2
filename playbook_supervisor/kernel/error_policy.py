"""The handling of a step that fails while no trigger fires.

In a file, a policy is a word, or a map from error code to word; its `default` is `stop`:

    error_policy: retry_once
    error_policy: {default: stop, PB-STEP-TIMEOUT: "retry:3", PB-STEP-FAILED: continue}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from playbook_supervisor.records import Record

MOST_RETRIES = 10
DEFAULT = "default"  # the key of a map that is no error code

_FIRST_WAIT = 1000  # ms before the first retry with backoff; each further wait is twice as long
_CODE = "PB(-[A-Z0-9]+)+"


class Reaction(StrEnum):
    STOP = "stop"  # the session fails
    RETRY = "retry"  # the step runs again; after its last retry as `stop`
    GATE = "gate"  # a human decides
    CONTINUE = "continue"  # the step has failed, and the run goes on
    IGNORE = "ignore"  # the step counts as done, and the error as waived


class Handling(Record):
    """The reaction to an error, and the most retries; with `backoff` after 1 s, 2 s, 4 s, …."""

    reaction: Reaction
    retries: int = 0
    backoff: bool = False

    @property
    def word(self) -> str:
        if self.reaction is not Reaction.RETRY:
            return self.reaction.value
        return f"retry:{self.retries}" if self.backoff else "retry_once"

    def wait(self, retry: int) -> int:
        """The wait of the retry with this number, from 1, after the failure, in ms."""
        return _FIRST_WAIT << (retry - 1) if self.backoff else 0


_WORDS: Mapping[str, Handling] = {
    "stop": Handling(Reaction.STOP),
    "fail": Handling(Reaction.STOP),
    "retry_once": Handling(Reaction.RETRY, 1),
    "gate": Handling(Reaction.GATE),
    "continue": Handling(Reaction.CONTINUE),
    "ignore": Handling(Reaction.IGNORE),
}
WORDS = (*_WORDS, "retry:N")  # all words of a file


class ErrorPolicy(Record):
    """The handling of each error code, and of every other error. A code is named once."""

    default: Handling
    by_code: tuple[tuple[str, Handling], ...] = ()

    STOP: ClassVar[ErrorPolicy]
    RETRY_ONCE: ClassVar[ErrorPolicy]
    GATE: ClassVar[ErrorPolicy]
    CONTINUE: ClassVar[ErrorPolicy]
    IGNORE: ClassVar[ErrorPolicy]

    @classmethod
    def read(cls, value: object) -> ErrorPolicy:
        """The policy that a file states. ValueError, a sentence, for anything else."""
        if not isinstance(value, Mapping):
            return cls(_handling(value))
        if not value:
            raise ValueError("an error policy for each code names at least one")
        for code in value:
            if code != DEFAULT and not (isinstance(code, str) and re.fullmatch(_CODE, code)):
                raise ValueError(f"{code!r} is not an error code such as `PB-STEP-FAILED`")
        by_code = ((code, _handling(word)) for code, word in value.items() if code != DEFAULT)
        return cls(_handling(value.get(DEFAULT, "stop")), tuple(by_code))

    @property
    def written(self) -> str | dict[str, str]:
        """The policy as a file states it; `stop` for `fail`."""
        if not self.by_code:
            return self.default.word
        return {DEFAULT: self.default.word, **{code: each.word for code, each in self.by_code}}

    @property
    def handlings(self) -> tuple[Handling, ...]:
        return (self.default, *(each for _, each in self.by_code))

    def handling(self, *codes: str) -> Handling:
        """The handling of an error with these codes; the first one that is named decides."""
        handlings = dict(self.by_code)
        return next((handlings[code] for code in codes if code in handlings), self.default)

    def reacts(self, reaction: Reaction) -> bool:
        return any(each.reaction is reaction for each in self.handlings)


ErrorPolicy.STOP = ErrorPolicy(_WORDS["stop"])
ErrorPolicy.RETRY_ONCE = ErrorPolicy(_WORDS["retry_once"])
ErrorPolicy.GATE = ErrorPolicy(_WORDS["gate"])
ErrorPolicy.CONTINUE = ErrorPolicy(_WORDS["continue"])
ErrorPolicy.IGNORE = ErrorPolicy(_WORDS["ignore"])


def _handling(word: object) -> Handling:
    if isinstance(word, str):
        if known := _WORDS.get(word):
            return known
        found = re.fullmatch("retry:([1-9][0-9]?)", word)
        if found and int(found[1]) <= MOST_RETRIES:
            return Handling(Reaction.RETRY, int(found[1]), backoff=True)
    raise ValueError(
        f"{word!r} is not an error policy; allowed: {', '.join(WORDS)} (N from 1 to {MOST_RETRIES})"
    )
