"""Markdown files: the front matter is a playbook of one step, and the text is its prompt.

---
inputs: [{name: feature}]
tools: [Read, Write]
---
Write a changelog entry for {{feature}}.
"""

from __future__ import annotations

from pathlib import PurePath

from playbook_supervisor.formats.front_matter import BODY, FRONT
from playbook_supervisor.formats.located import Document
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.project.expressions.references import SECRET, places
from playbook_supervisor.project.playbooks.translation import (
    MISSING,
    NOT_ASKED,
    VERSION,
    Draft,
    Translation,
)

KIND = "a Markdown playbook"
STEP = "prompt"
"""The id of its only step, and the namespace of its command."""

_OF_PLAYBOOK = ("owner", "reviewers", "limits")
_OF_STEP = ("tools", "model", "outputs")
_ARGS = ("inputs", "args")
KEYS = ("name", "description", *_ARGS, *_OF_STEP, *_OF_PLAYBOOK)


def recognises(document: Document) -> bool:
    """The reader of Markdown files has found a front matter and a body."""
    data = document.data
    is_read = isinstance(data, dict) and data.keys() == {FRONT, BODY}
    return is_read and document.source.endswith(".md")


def translate(document: Document) -> Translation:
    """The playbook: the prompt of one step, and what the front matter says of the playbook."""
    draft = Draft(document)
    front, body = (FRONT,), draft.text((BODY,)).strip("\r\n")
    if not isinstance(draft.value(front), (dict, str)) or draft.text(front):
        draft.refuse(
            front, "the front matter is no mapping", "Write `key: value` lines.", key=False
        )
    draft.refuse_unknown(front, KEYS, "a front matter")
    stem = PurePath(document.source).stem
    draft.put(("name",), stem, ())
    title = next((line.strip("# \t") for line in body.splitlines() if line.strip("# \t")), stem)
    draft.put(("description",), first_line(title, 200), (BODY,))
    draft.put(("version",), VERSION, ())
    _args(draft)
    for key in ("name", "description", *_OF_PLAYBOOK):
        draft.copy((key,), (FRONT, key))
    step = ("steps", 0)
    draft.put((*step, "id"), STEP, (BODY,))
    draft.put((*step, "command"), STEP, (BODY,))
    draft.put((*step, "with", "text"), body, (BODY,))
    _check_prompt(draft, body)
    for key in _OF_STEP:
        draft.copy((*step, key), (FRONT, key))
    for key, value in NOT_ASKED.items():
        draft.put((*step, key), value, (BODY,))
    for key in ("name", "description"):
        if draft.value((FRONT, key)) is MISSING:
            stands = "that of the file" if key == "name" else "the first line of the text"
            draft.note(front, f"there is no `{key}`; {stands} is taken")
    return draft.done(KIND)


def _args(draft: Draft) -> None:
    inputs, args = ((FRONT, key) for key in _ARGS)
    if draft.value(inputs) is not MISSING and draft.value(args) is not MISSING:
        draft.refuse(inputs, "`inputs` and `args` are both there", "Write one of them.")
    draft.put_args(inputs if draft.value(args) is MISSING else args, asked=True)


def _check_prompt(draft: Draft, body: str) -> None:
    """Refuse a reference in the body that leads nowhere, at its own line."""
    at = (BODY,)
    if not body.strip():
        cure = "Write below the front matter what the agent is to do."
        draft.refuse(at, "there is no text", cure, key=False)
    stated = draft.text(at)
    first, _ = draft.original.position(at)
    declared = [draft.text((*each, "name")) for key in _ARGS for each in draft.items((FRONT, key))]
    for name, start in places(stated):
        if name not in declared and not name.startswith(SECRET):
            before = stated[:start].split("\n")
            shown = f"`{{{{{first_line(name, 60)}}}}}`"
            cure = f"Declare it under `inputs`: {', '.join(declared) or 'there are none'}."
            position = (first + len(before) - 1, len(before[-1]) + 1)
            draft.refuse_line(position, f"{shown} is not a declared input", cure)
