"""The script of the embedded agent as text: every fault of it at once, each with its place.

    steps:
      plan:                                    # a deed, the same for every attempt
        write:
          specs/{{feature}}/plan.md: |         # whole files, inside the working directory
            # Plan of {{feature}}
        say: the plan is written               # a text or a list of lines
      implement:                               # deeds, one for each attempt; the last one repeats
        - fail: two tests are red
        - {seconds: 0.5, write: {greet.py: "print('hello')"}}
      qa-run: {hang: true}                     # or {die: true}: by SIGKILL, as a crash would be
    default: {say: nothing to do}              # for steps that are not listed

A deed says its lines, waits, writes, and then ends well, fails, hangs or dies. `{{feature}}`,
`{{step}}`, `{{attempt}}` and `{{args}}` stand for what the call brings, in texts and in paths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from playbook_supervisor.agents.script_worker import ScriptAction
from playbook_supervisor.errors import AgentError, CheckError, StorageError
from playbook_supervisor.formats import strict_yaml
from playbook_supervisor.formats.located import Data, Document, Plain
from playbook_supervisor.formats.sanitize import did_you_mean, printable
from playbook_supervisor.project import references
from playbook_supervisor.records import Record, field
from playbook_supervisor.system.files import read_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

NAMES = ("feature", "step", "attempt", "args")
"""What may stand between double braces."""

LONGEST = 86_400.0
"""Seconds that a deed may take; for ever is `hang`."""

ENDS = ("fail", "hang", "die")
KEYS = ("say", "seconds", "write", *ENDS)

Place = tuple[str | int, ...]


class Script(Record):
    """Deeds by step, one for each attempt, and those of every other step."""

    steps: Mapping[str, tuple[ScriptAction, ...]] = field(default_factory=dict)
    default: tuple[ScriptAction, ...] = (ScriptAction(),)

    def deed(self, step: str, attempt: int) -> ScriptAction:
        """What the attempt (from 1) does, not yet interpolated."""
        deeds = self.steps.get(step, self.default)
        return deeds[min(attempt, len(deeds)) - 1]


def read(path: Path) -> Script:
    """The script in that file. AgentError PB-AGENT-SCRIPT names every fault in `details`."""
    source = str(path)
    try:
        document = strict_yaml.load(read_bytes(path, limit=strict_yaml.MAX_BYTES + 1), source)
    except FileNotFoundError:
        _refuse([(source, "there is no such file")])
    except StorageError as error:
        _refuse([(source, error.message)])
    except CheckError as error:
        _refuse([(error.where, error.message)])
    return _Reading(document).script()


class _Reading:
    """Goes through the document once and notes what is wrong with it."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._faults: list[tuple[str, str]] = []

    def script(self) -> Script:
        data = self._mapping((), self._document.data, ("steps", "default"))
        steps = self._mapping(("steps",), data.get("steps", {}))
        script = Script(
            {step: self._deeds(("steps", step), deeds) for step, deeds in steps.items()},
            self._deeds(("default",), data.get("default", {})),
        )
        if self._faults:
            _refuse(self._faults)
        return script

    def _deeds(self, at: Place, data: Data) -> tuple[ScriptAction, ...]:
        if not isinstance(data, list):
            return (self._deed(at, data),)
        if not data:
            self._fault(at, "an attempt needs a deed; `{}` does nothing")
        return tuple(self._deed((*at, index), deed) for index, deed in enumerate(data))

    def _deed(self, at: Place, data: Data) -> ScriptAction:
        deed = self._mapping(at, data, KEYS)
        ends = [key for key in ENDS if key in deed]
        if len(ends) > 1:
            self._fault((*at, ends[1]), f"a deed has one end: {' or '.join(ends)}", key=True)
        return ScriptAction(
            say=self._lines((*at, "say"), deed.get("say", [])),
            seconds=self._seconds((*at, "seconds"), deed["seconds"]) if "seconds" in deed else 0.0,
            write=self._files((*at, "write"), deed.get("write", {})),
            fail=self._reason((*at, "fail"), deed["fail"]) if "fail" in deed else "",
            hang=self._flag((*at, "hang"), deed["hang"]) if "hang" in deed else False,
            die=self._flag((*at, "die"), deed["die"]) if "die" in deed else False,
        )

    def _files(self, at: Place, data: Data) -> tuple[tuple[str, str], ...]:
        files = []
        for path, text in self._mapping(at, data).items():
            place = (*at, path)
            pure = PurePosixPath(path)
            if pure.is_absolute() or ".." in pure.parts or not pure.parts:
                said = f"{printable(path)!r} is no path inside the working directory"
                self._fault(place, said, key=True)
            self._names(place, path, key=True)
            files.append((path, self._text(place, text)))
        return tuple(files)

    def _reason(self, at: Place, data: Data) -> str:
        text = self._text(at, data)
        if not text.strip():
            self._fault(at, "a failure needs its reason, as a text")
        return text

    def _lines(self, at: Place, data: Data) -> tuple[str, ...]:
        if isinstance(data, list):
            return tuple(self._text((*at, index), line) for index, line in enumerate(data))
        return tuple(self._text(at, data).splitlines())

    def _text(self, at: Place, data: Data) -> str:
        if not isinstance(data, str):
            self._fault(at, "this must be a text")
            return ""
        self._names(at, data)
        return str(data)

    def _names(self, at: Place, text: str, *, key: bool = False) -> None:
        allowed = ", ".join(f"{{{{{name}}}}}" for name in NAMES)
        for name in references.names(text):
            if name not in NAMES:
                unknown = f"{{{{{printable(name)}}}}}"
                self._fault(at, f"{unknown} stands for nothing; there are {allowed}", key=key)

    def _seconds(self, at: Place, data: Data) -> float:
        value = data.value if isinstance(data, Plain) else None
        if isinstance(value, bool) or not isinstance(value, int | float):
            value = -1.0
        if not 0 <= value <= LONGEST:
            self._fault(at, f"this must be a number of seconds, 0 to {LONGEST:.0f}")
        return float(value)

    def _flag(self, at: Place, data: Data) -> bool:
        value = data.value if isinstance(data, Plain) else None
        if not isinstance(value, bool):
            self._fault(at, "this must be true or false")
        return value is True

    def _mapping(
        self, at: Place, data: Data, allowed: Sequence[str] | None = None
    ) -> dict[str, Data]:
        if isinstance(data, Plain) and data.value is None:
            return {}
        if not isinstance(data, dict):
            self._fault(at, "this must be a mapping" + _keys(allowed))
            return {}
        for key in data:
            if allowed is not None and key not in allowed:
                near = did_you_mean(key, allowed)
                hint = f", did you mean {near}?" if near else ""
                self._fault(
                    (*at, key), f"unknown key {printable(key)!r}{hint}{_keys(allowed)}", key=True
                )
        return data

    def _fault(self, at: Place, message: str, *, key: bool = False) -> None:
        line, column = self._document.key_position(at) if key else self._document.position(at)
        self._faults.append((f"{self._document.source}:{line}:{column}", message))


def _keys(allowed: Sequence[str] | None) -> str:
    return f" ({', '.join(allowed)})" if allowed else ""


def _refuse(faults: Sequence[tuple[str, str]]) -> NoReturn:
    where, message = faults[0]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    raise AgentError(
        "PB-AGENT-SCRIPT",
        message + more,
        where=where,
        details=tuple(f"{place}: {said}" for place, said in faults),
    )
