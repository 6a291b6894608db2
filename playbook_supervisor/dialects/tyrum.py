"""Tyrum's workflow files: args as a map, and steps with the namespaces that 1.1 has, too.

name: inbox-triage
args: {tag: {default: family}}
steps: [{id: collect, command: cli inbox list --json, output: json}]
"""

from __future__ import annotations

import re

from playbook_supervisor.formats.located import Document, Path, Plain
from playbook_supervisor.project.playbooks.translation import (
    MISSING,
    VERSION,
    Draft,
    Translation,
    meant,
    plain,
    steps_of,
)

KIND = "a Tyrum workflow"

_TOP = ("name", "description", "args", "steps")
_ARG = ("default", "description", "required", "type", "values")
_STEP = ("id", "command", "stdin", "approval", "condition", "output", "output_schema")
_SHARED = ("cwd", "timeout_seconds", "max_output_bytes", "tools", "with")
_COPIED = (*(key for key in _STEP if key != "condition"), *_SHARED)
_LIMITS = {"timeoutMs": "timeout_seconds", "maxOutputBytes": "max_output_bytes"}
_NAMESPACED = r"(?:cli|http|web|mcp|node|llm|prompt)(?: |\Z)"


def recognises(document: Document) -> bool:
    """A map of args, or steps of namespaced commands without a list of args."""
    found = meant(document.data, ("args", "steps", "inputs", "owner"))
    if "steps" not in found or "inputs" in found or isinstance(found.get("args"), list):
        return False
    commands = [meant(step, ("command",)).get("command") for step in steps_of(document)]
    return isinstance(found.get("args"), dict) or any(
        re.match(_NAMESPACED, str(command)) for command in commands
    )


def translate(document: Document) -> Translation:
    """The playbook: a list of args, and what the format does not state."""
    draft = Draft(document)
    draft.refuse_unknown((), _TOP, KIND)
    draft.copy(("name",), ("name",))
    _description(draft)
    draft.put(("version",), VERSION, ())
    _args(draft)
    for index, at in enumerate(draft.items(("steps",))):
        _step(draft, ("steps", index), at)
    draft.put_defaults("as such files are run")
    return draft.done(KIND)


def _description(draft: Draft) -> None:
    if draft.text(("description",)):
        draft.copy(("description",), ("description",))
    else:
        draft.put(("description",), draft.text(("name",)) or KIND, ("name",))
        draft.note(("name",), "there is no `description`; the name stands for it")


def _args(draft: Draft) -> None:
    draft.put(("args",), [], ("args",))
    for index, name in enumerate(draft.keys(("args",))):
        at, to = ("args", name), ("args", index)
        draft.put(to, {}, at)
        draft.refuse_unknown(at, _ARG, "an arg")
        draft.put((*to, "name"), name, at)
        draft.put((*to, "description"), draft.text((*at, "description")), at)
        for key in ("type", "values", "default"):
            draft.copy((*to, key), (*at, key))
        if draft.value((*at, "required")) is MISSING:
            needed = draft.value((*at, "default")) is MISSING
            draft.put((*to, "required"), plain(needed), at)
        else:
            draft.copy((*to, "required"), (*at, "required"))
    if draft.keys(("args",)):
        said = "`args` is a map; an arg is required where it has no `default`"
        draft.note(("args",), said)


def _step(draft: Draft, to: Path, at: Path) -> None:
    draft.put(to, {}, at)
    draft.refuse_unknown(at, (*_STEP, *_SHARED, *_LIMITS), "a step")
    for key in _COPIED:
        draft.copy((*to, key), (*at, key))
    for key, ours in _LIMITS.items():
        value = draft.value((*at, key))
        if isinstance(value, Plain) and type(value.value) is int and key == "timeoutMs":
            draft.put((*to, ours), Plain(f"{value.value / 1000:g}"), (*at, key))
            draft.note((*at, key), f"`{key}` is read as `{ours}`")
        elif value is not MISSING:
            draft.copy((*to, ours), (*at, key))
            draft.note((*at, key), f"`{key}` is read as `{ours}`")
    if draft.value((*at, "condition")) is not MISSING:
        draft.copy((*to, "when"), (*at, "condition"))
        draft.note((*at, "condition"), "`condition` is read as `when`")
