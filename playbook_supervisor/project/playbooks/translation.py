"""A playbook of version 1.1 that a dialect makes of another system's file, value by value.

Every value has the place in the file that it came from, so that whatever is wrong with it is
reported there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Protocol

from playbook_supervisor import plugins
from playbook_supervisor.errors import TextPosition
from playbook_supervisor.formats.located import Data, Document, Path, Plain
from playbook_supervisor.formats.problems import Problem, problem_at
from playbook_supervisor.formats.sanitize import did_you_mean, first_line, nearest, printable
from playbook_supervisor.formats.strict_yaml import load
from playbook_supervisor.formats.yaml_writer import yaml_text
from playbook_supervisor.records import Record


class Dialect(Protocol):
    """Another system's format. Each is a module with these three names."""

    KIND: str
    """The name for a file of it, as in `a Tyrum workflow`."""

    def recognises(self, document: Document) -> bool:
        """True if the file has the shape of this format; never true of a playbook of ours."""

    def translate(self, document: Document) -> Translation:
        """The file in version 1.1; nothing of it is dropped without a problem."""


REFUSED = "PB-CHECK-DIALECT"
TRANSLATED = "PB-CHECK-TRANSLATED"
VERSION = "1.1"
NOT_ASKED = {"autonomy": "auto", "error_policy": "stop"}
"""The keys that version 1.1 asks of a step and other systems do not know: as they behave."""

_TOP = (
    *("name", "description", "version", "owner", "reviewers", "args", "limits", "defaults"),
    *("outputs", "steps"),
)
_STEP = ("id", "title", "command", "with", "stdin")
"""The first keys of a playbook and of a step, in the order of people."""

ARG = ("name", "description", "type", "required", "default", "values", "transform")
"""The keys of an arg that mean in other systems what they mean here."""

MISSING: Data = Plain("")
"""A value that is not there."""


class Translation(Record):
    """The reading of a file: its data in version 1.1, with the places of the file.

    `problems` are notes of what was translated, and an error for each thing that cannot be. With
    an error the data are incomplete: they are no playbook, and nothing else is said about them.
    `kind` is what the file is, as in `a Tyrum workflow`; empty for a playbook of ours.
    """

    document: Document
    problems: tuple[Problem, ...] = ()
    kind: str = ""

    @property
    def refused(self) -> bool:
        """True if something cannot be translated."""
        return any(problem.severity == "error" for problem in self.problems)

    @property
    def text(self) -> str:
        """The playbook as YAML, with a comment that names the file."""
        data = self.document.data
        origin = f"# Translated from {self.kind}: {printable(self.document.source)}\n"
        return origin + (yaml_text(data) if isinstance(data, dict) else "")


class Draft:
    """A translation in the making; paths `to` are those of the playbook, `at` those of the file."""

    def __init__(self, document: Document) -> None:
        self.original = document
        self._data: dict[str, Data] = {}
        self._origins: dict[Path, Path] = {}
        self._problems: dict[str, Problem] = {}
        self._meant: dict[Path, str] = {}

    def put(self, to: Path, value: Data, at: Path) -> None:
        """Write a value. What leads to it is made; an item of a list follows the one before it."""
        self._origins[to] = self._written(at)
        holder: Data = self._data
        for part, following in zip(to, (*to[1:], None), strict=True):
            inner: Data = value
            if following is not None:
                inner = _within(holder, part)
                if inner is MISSING:
                    inner = [] if isinstance(following, int) else {}
            _set(holder, part, inner)
            holder = inner

    def copy(self, to: Path, at: Path) -> None:
        """Write the value of the file at `at`, if it has one."""
        value = self.value(at)
        if value is not MISSING:
            self.put(to, value, at)

    def value(self, at: Path) -> Data:
        """The value of the file at this path; `MISSING` if there is none.

        A misspelt key that was refused stands for the one that is meant: it is reported once.
        """
        value = self.original.data
        for part in self._written(at):
            value = _within(value, part)
        return value

    def _written(self, at: Path) -> Path:
        written: Path = ()
        for end, part in enumerate(at, 1):
            written = (*written, self._meant.get(at[:end], part))
        return written

    def text(self, at: Path) -> str:
        """The text at this path; empty if there is none, or something else than text."""
        value = self.value(at)
        return str(value) if isinstance(value, str) else ""

    def keys(self, at: Path) -> tuple[str, ...]:
        """The keys of the mapping at this path; none if there is no mapping."""
        value = self.value(at)
        return tuple(value) if isinstance(value, dict) else ()

    def items(self, at: Path) -> tuple[Path, ...]:
        """The paths of the items of the list at this path; none if there is no list."""
        value = self.value(at)
        return tuple((*at, index) for index in range(len(value) if isinstance(value, list) else 0))

    def note(self, at: Path, message: str, guidance: str = "") -> None:
        """Say what something was read as. A note that is made again keeps its first place."""
        place = self._written(at)
        problem = problem_at(
            self.original, place, TRANSLATED, message, guidance, key=True, severity="note"
        )
        self._problems.setdefault(message, problem)

    def refuse(self, at: Path, message: str, guidance: str, *, key: bool = True) -> None:
        """Report what cannot be translated, at its place: its key, or its value."""
        problem = problem_at(self.original, self._written(at), REFUSED, message, guidance, key=key)
        self._problems[f"{problem.place} {message}"] = problem

    @property
    def refused(self) -> bool:
        """True if something was refused, so that the translation will not run."""
        return any(problem.severity == "error" for problem in self._problems.values())

    def refuse_line(self, position: TextPosition, message: str, guidance: str) -> None:
        """Report what cannot be translated, at a place inside of a text."""
        problem = Problem(self.original.source, position, "error", REFUSED, message, guidance)
        self._problems[f"{problem.place} {message}"] = problem

    def put_args(self, at: Path, *, asked: bool) -> None:
        """Write the list of args at this path.

        `asked`: one that does not say whether it is required is, if it has no default.
        """
        self.put(("args",), [], at)
        for index, each in enumerate(self.items(at)):
            to: Path = ("args", index)
            needed = asked and self.value((*each, "default")) is MISSING
            self.put(to, {}, each)
            self.refuse_unknown(each, ARG, f"one of `{at[-1]}`")
            self.copy((*to, "name"), (*each, "name"))
            self.put((*to, "description"), "", each)
            self.put((*to, "required"), plain(needed), each)
            for key in ARG:
                self.copy((*to, key), (*each, key))

    def put_defaults(self, why: str = "") -> None:
        """Write what other systems do not know of their steps, with a note if there is a reason."""
        for key, value in NOT_ASKED.items():
            self.put(("defaults", key), value, ("steps",))
        if why:
            stated = ", ".join(f"`{key}: {value}`" for key, value in NOT_ASKED.items())
            self.note(("steps",), f"every step has {stated}, {why}")

    def refuse_unknown(self, at: Path, known: Collection[str], what: str) -> tuple[str, ...]:
        """Refuse each key of the mapping at this path that the format does not have.

        The keys that are there. A misspelt one stands for what is meant, if that is not there.
        """
        keys = self.keys(at)
        for key in keys:
            if key not in known:
                near = nearest(key, known)
                if near and near not in keys:
                    self._meant[(*at, near)] = key
                guidance = did_you_mean(key, known)
                guidance += f"The keys of {what} are {', '.join(known)}."
                shown = first_line(key, 60)
                self.refuse((*at, key), f"`{shown}` is not a known key of {what}", guidance)
        return tuple(key for key in known if self.value((*at, key)) is not MISSING)

    def done(self, kind: str) -> Translation:
        """The translation of a file of this kind."""
        said = f"read as {kind}: translated to version {VERSION}"
        cure = f"`playbook import {self.original.source}` writes the playbook that it is read as."
        first = problem_at(self.original, (), TRANSLATED, said, cure, severity="note")
        data = _ordered(self._data, _TOP)
        if isinstance(steps := data.get("steps"), list):
            data["steps"] = [
                _ordered(step, _STEP) if isinstance(step, dict) else step for step in steps
            ]
        document = self.original.translated(data, self._origins)
        return Translation(document, (first, *self._problems.values()), kind)


def meant(data: Data | Mapping[str, Data], names: Collection[str]) -> dict[str, Data]:
    """Of a mapping the values of these keys, which may be misspelt: what a file is told by."""
    stated = data if isinstance(data, Mapping) else {}
    found = {name: stated[name] for name in names if name in stated}
    for key in stated:
        if key not in found and (near := nearest(key, names)):
            found.setdefault(near, stated[key])
    return found


def steps_of(document: Document) -> list[Mapping[str, Data]]:
    """The mappings in the list of steps."""
    steps = meant(document.data, ("steps",)).get("steps")
    return [each for each in steps if isinstance(each, dict)] if isinstance(steps, list) else []


def _within(holder: Data, part: str | int) -> Data:
    if isinstance(holder, dict):
        return holder.get(str(part), MISSING)
    if isinstance(holder, list) and part in range(len(holder)):
        return holder[int(part)]
    return MISSING


def _set(holder: Data, part: str | int, value: Data) -> None:
    if isinstance(holder, dict):
        holder[str(part)] = value
    elif isinstance(holder, list):
        holder[int(part) : int(part) + 1] = [value]


def _ordered(data: dict[str, Data], first: tuple[str, ...]) -> dict[str, Data]:
    return {key: data[key] for key in (*first, *data) if key in data}


def plain(value: bool | float) -> Plain:
    """A boolean or a number as data of a document."""
    return Plain(str(value).lower())


# ── the dialects that are installed ───────────────────────────────────────────────────────────

_OURS = frozenset({"autonomy", "error_policy", "preconditions", "postconditions"})
"""Keys of a step that no other system has."""


def translate(data: bytes, source: str) -> Translation:
    """A playbook of any format that is known, as data of our own.

    A file that no dialect recognises is one of ours, and left as it is. CheckError PB-CHECK-YAML
    or PB-CHECK-HOSTILE if the text cannot be read.
    """
    if source.endswith(".md"):
        from playbook_supervisor.formats.front_matter import load_markdown

        document = load_markdown(data, source)
    else:
        document = load(data, source)
    if not _is_ours(document):
        for dialect in _dialects():
            if dialect.recognises(document):
                return dialect.translate(document)
    return Translation(document)


@cache
def _dialects() -> tuple[Dialect, ...]:
    """All that are installed. No two recognise the same file.

    Each goes by the shape of a file, so that one wrong word does not make it one of ours.
    """
    return tuple(each.load() for each in plugins.offered(plugins.DIALECTS).values())


def _is_ours(document: Document) -> bool:
    """True if it surely is: then no dialect is imported."""
    data = document.data
    if not isinstance(data, dict) or "workflow" in data or "schema_version" in data:
        return False
    steps = data.get("steps")
    return ("name" in data and "version" in data) or any(
        isinstance(step, dict) and not _OURS.isdisjoint(step)
        for step in (steps if isinstance(steps, list) else ())
    )
