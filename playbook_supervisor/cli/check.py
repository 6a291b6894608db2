"""`check`: say everything that is wrong with what people wrote, with its place and its cure."""

from __future__ import annotations

from collections.abc import Sequence

from playbook_supervisor.cli import streams
from playbook_supervisor.cli.render import findings
from playbook_supervisor.commands import checking


def check(files: Sequence[str], *, format: str = "text", strict: bool = False) -> int:
    """Check them all; 1 if one cannot run, with `strict` also if one probably is not as meant."""
    checked = checking.check(files)
    if format == "json":
        streams.put_json(findings.as_json(checked))
    else:
        lines = findings.as_github(checked) if format == "github" else findings.as_text(checked)
        for line in lines:
            streams.put(line)
        if format == "text":
            streams.tell(findings.verdict(checked))
    fine = all(each.clean if strict else each.ok for each in checked)
    return 0 if fine else 1
