"""The versions of the playbook format: 1.0, kai's, and 1.1 and 1.2, which add to it.

A file that uses what came after its version is refused, so that a reader of that version never
silently ignores a condition or a limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from playbook_supervisor.formats.located import Path
from playbook_supervisor.formats.problems import Finding
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.model import FIRST_VERSION, Limits
from playbook_supervisor.project.expressions import namespaces
from playbook_supervisor.records import fields

Thing = Mapping[str, Any]

VERSION = "PB-CHECK-VERSION"
VERSIONS = FIRST, SECOND, NEWEST = FIRST_VERSION, "1.1", "1.2"
NEWEST_KEYS = frozenset({"agent", "also", "undo", "on_fail"})
"""The keys of steps that 1.2 adds."""
_NEWEST_FACT = r"\$[a-z0-9][a-z0-9-]*\.(failed|done)\b"

LATER_KEYS: Mapping[str, frozenset[str]] = {
    "playbook": frozenset({"owner", "reviewers", "outputs", "limits", "defaults"}),
    "arg": frozenset({"type", "values", "default", "transform", "secret"}),
    "step": frozenset(
        {"title", "with", "stdin", "output", "output_schema", "outputs", "when", "skip_if"}
        | {"cwd", "tools", "feedback", "approval", "checkpoint", *fields(Limits)}
        | {"for_each", "until", "cache", *NEWEST_KEYS}
    ),
}
"""The keys that 1.1 and 1.2 add, by the thing that has them."""

_NEWEST_CONDITION = "`proved`"
_NEWEST_WORDS = ("`where`", "`.failed`", "`.done`")
_MEANING = "it is the version of the playbook format, and not of your playbook"
_SHOWN = 120  # characters of what else needs it
_LATER_WORDS = ("tasks_done", "git_clean", "commits_made")
_LATER_POLICY = r"(?:continue|ignore|fail)\Z|retry:"
_CONDITIONS = ("preconditions", "postconditions")


def problems(data: Any) -> Iterator[Finding]:
    """A warning for a version that is not known, and what a file of an earlier one cannot use."""
    if not isinstance(data, dict):
        return
    version = data.get("version")
    if version in VERSIONS[:-1]:
        yield from _too_new(data, version)
    elif isinstance(version, str) and version not in ("", NEWEST):
        message = f"version `{first_line(version, 20)}` is not known; it is read as {NEWEST}"
        guidance = f'Write `version: "{NEWEST}"`: {_MEANING}.'
        yield Finding(("version",), message, guidance, severity="warning", code=VERSION)


def _too_new(data: Thing, version: str) -> Iterator[Finding]:
    uses = [(path, word, key, _needed(path, word)) for path, word, key in _uses(data)]
    newer = [use for use in uses if use[3] > version]
    if not newer:
        return
    needed = max(use[3] for use in newer)
    path, word, key, _ = next(use for use in newer if use[3] == needed)
    others = ", ".join(dict.fromkeys(use[1] for use in newer if use[1] != word))
    also = f"; so {'does' if ', ' not in others else 'do'} {others}" if others else ""
    message = f"{word} needs version {needed}{first_line(also, _SHOWN)}"
    guidance = f'Write `version: "{needed}"` at the top of the file: {_MEANING}.'
    yield Finding(path, message, guidance, key=key, code=VERSION)


def needs_newest(data: Thing) -> bool:
    """True if the file says that it is of the newest version, or uses what needs that."""
    return data.get("version") not in VERSIONS[:-1] or any(
        _needed(path, word) == NEWEST for path, word, _ in _uses(data)
    )


def _needed(path: Path, word: str) -> str:
    newest = path[-1] in NEWEST_KEYS or word in (_NEWEST_CONDITION, *_NEWEST_WORDS)
    return NEWEST if newest else SECOND


_Use = tuple[Path, str, bool]
"""A place, what is used there, and whether the place is a key."""


def _uses(data: Thing) -> Iterator[_Use]:
    yield from _keys("playbook", data, ())
    if "agent" in mapping_of(data, "defaults"):
        yield ("defaults", "agent"), "`agent`", True
    for index, arg in things(data, "args"):
        yield from _keys("arg", arg, ("args", index))
    for index, step in things(data, "steps"):
        path = ("steps", index)
        yield from _keys("step", step, path)
        namespace = text_of(step, "command").split(" ")[0]
        if namespaces.has_meaning(namespace):
            yield (*path, "command"), f"a `{namespace}` command", False
        policy, at = step.get("error_policy"), (*path, "error_policy")
        if isinstance(policy, dict):
            yield at, "an error policy for each code", False
        elif isinstance(policy, str) and re.match(_LATER_POLICY, policy):
            yield at, f"`{first_line(policy, 40)}`", False
        yield from _of_loop(step, path)
        for key in _CONDITIONS:
            for number, each in enumerate(listed(step, key)):
                word = next(iter(each), "") if isinstance(each, dict) else each
                if isinstance(each, dict) or word in _LATER_WORDS:
                    yield (*path, key, number), f"`{first_line(word, 40)}`", False


def _keys(kind: str, thing: Thing, path: Path) -> Iterator[_Use]:
    for key in thing:
        if key in LATER_KEYS[kind]:
            yield (*path, key), f"`{key}`", True


def _of_loop(step: Thing, path: Path) -> Iterator[_Use]:
    """What 1.2 adds below the keys of a step: to a loop, and to what an expression can ask."""
    loop = mapping_of(step, "for_each")
    if "where" in loop:
        yield (*path, "for_each", "where"), "`where`", True
    asked = {"when": text_of(step, "when"), "stdin": text_of(step, "stdin")}
    asked["for_each"] = text_of(loop, "in")
    for key, text in asked.items():
        for fact in re.findall(_NEWEST_FACT, text):
            yield (*path, key), f"`.{fact}`", False


def things(data: Thing, key: str) -> Iterator[tuple[int, Thing]]:
    """The mappings in the list under `key`, with their index; other items are skipped."""
    items = enumerate(listed(data, key))
    return ((index, each) for index, each in items if isinstance(each, dict))


def listed(each: Thing, key: str) -> list[Any]:
    """The list under `key`; empty if there is none."""
    value = each.get(key)
    return value if isinstance(value, list) else []


def mapping_of(each: Thing, key: str) -> Thing:
    """The mapping under `key`; empty if there is none."""
    value = each.get(key)
    return value if isinstance(value, dict) else {}


def text_of(each: Thing, key: str) -> str:
    """The text under `key`; empty if there is none."""
    value = each.get(key)
    return value if isinstance(value, str) else ""
