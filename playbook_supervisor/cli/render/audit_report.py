"""What an audit found, for programs, and in a line for people."""

from __future__ import annotations

from collections.abc import Sequence

from playbook_supervisor.formats.sanitize import counted, first_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from playbook_supervisor.audit.examination import AuditReport


def as_json(audited: Sequence[AuditReport]) -> dict[str, Any]:
    """The object of `audit --format json`."""
    return {"protocol": 1, "sessions": [_session(each) for each in audited]}


def _session(audited: AuditReport) -> dict[str, Any]:
    return {
        **({"session": audited.name} if audited.name else {}),
        "files": [file.file for file in audited.files],
        "ok": audited.ok,
        "findings": [
            {
                "file": file.file,
                "line": problem.line,
                "col": problem.col,
                "code": problem.code,
                "message": problem.message,
                "guidance": problem.guidance,
            }
            for file in audited.files
            for problem in file.problems
        ],
        "notes": list(audited.notes),
    }


def notes(audited: Sequence[AuditReport]) -> list[str]:
    """What could not be judged, and of which session."""
    return [
        f"{first_line(each.name or each.files[0].file)}: {note}"
        for each in audited
        for note in each.notes
    ]


def verdict(audited: Sequence[AuditReport]) -> str:
    """`3 sessions: 2 findings`."""
    found = sum(len(file.problems) for each in audited for file in each.files)
    return f"{counted(len(audited), 'session')}: {counted(found, 'finding') if found else 'fine'}"
