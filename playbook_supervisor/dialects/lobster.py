"""Lobster's workflows, from which Tyrum's come: their steps are lines of shell. They are not read.

name: umbrella
args: {town: {default: Bern}}
steps: [{id: ask, run: "echo ${town}"}, {id: agree, approval: "Send it?"}]
"""

from __future__ import annotations

from playbook_supervisor.formats.located import Document
from playbook_supervisor.project.playbooks.translation import Draft, Translation, meant, steps_of

KIND = "a Lobster workflow"


def recognises(document: Document) -> bool:
    """Steps with a `run` or a `pipeline`, and none with a `type`."""
    others = meant(document.data, ("workflow", "schema_version", "inputs"))
    keys = {key for step in steps_of(document) for key in step}
    return not others and not keys.isdisjoint({"run", "pipeline"}) and "type" not in keys


def translate(document: Document) -> Translation:
    """One error: no shell reads a step here."""
    draft = Draft(document)
    first = next(
        (*at, key)
        for at in draft.items(("steps",))
        for key in draft.keys(at)
        if key in ("run", "pipeline")
    )
    said = f"this is {KIND}: `{first[-1]}` is a line of shell, and no step here has one"
    cure = "Write `command: cli PROGRAM WORDS` in its place, and `approval: required` for a gate."
    draft.refuse(first, said, cure)
    return draft.done(KIND)
