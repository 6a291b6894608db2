"""`audit`: say what cannot be true of a journal, each finding with its place."""

from __future__ import annotations

from collections.abc import Sequence

from playbook_supervisor.cli import streams
from playbook_supervisor.cli.render import audit_report, findings
from playbook_supervisor.commands import auditing


def audit(names: Sequence[str], *, every: bool = False, format: str = "text") -> int:
    """Audit the sessions that are meant; 1 if anything is found."""
    audited = auditing.audit(names, every=every)
    files = [file for each in audited for file in each.files]
    if format == "json":
        streams.put_json(audit_report.as_json(audited))
    else:
        for line in findings.as_github(files) if format == "github" else findings.as_text(files):
            streams.put(line)
    if format == "text":
        streams.tell_notices(audit_report.notes(audited))
        streams.tell(audit_report.verdict(audited))
    return 0 if all(each.ok for each in audited) else 1
