"""`probe`: what conditions and triggers say now."""

from __future__ import annotations

from collections.abc import Sequence

from playbook_supervisor.cli import streams
from playbook_supervisor.cli.render import json_shapes, text
from playbook_supervisor.commands import view
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.directives import Answer

_SAID = {Answer.HELD: "held", Answer.NOT_HELD: "not held", Answer.ERROR: "cannot tell"}


def probe(names: Sequence[str], *, feature: str = "", session: str = "", json: bool = False) -> int:
    """Print each with its evidence; 0 if all hold, 2 if not."""
    probed = view.probe(names, feature=feature, session=session)
    if json:
        streams.put_json(json_shapes.conditions(probed))
    else:
        rows = [(each.name, _SAID[each.answer], printable(each.evidence)) for each in probed]
        for line in text.table(rows):
            streams.put(line)
    return 0 if all(each.held for each in probed) else 2
