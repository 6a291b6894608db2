"""Problems of files as text, as JSON, and as annotations on GitHub."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from playbook_supervisor.formats.problems import FileReport
from playbook_supervisor.formats.sanitize import counted, printable


def as_text(checked: Sequence[FileReport]) -> Iterator[str]:
    """`file:line:col: severity: what. How to fix it. [code]`, a line each."""
    for each in checked:
        for problem in each.problems:
            said = f"{problem.severity}: {problem.sentences} [{problem.code}]"
            yield printable(f"{problem.place}: {said}")


def verdict(checked: Sequence[FileReport]) -> str:
    """`2 files: 1 error, 3 warnings`."""
    problems = [problem for each in checked for problem in each.problems]
    errors, warnings = (
        sum(problem.severity == severity for problem in problems)
        for severity in ("error", "warning")
    )
    counts = f"{counted(errors, 'error')}, {counted(warnings, 'warning')}"
    return f"{counted(len(checked), 'file')}: {counts if errors or warnings else 'fine'}"


def as_json(checked: Sequence[FileReport]) -> dict[str, Any]:
    """`check --format json`."""
    return {
        "protocol": 1,
        "files": [
            {
                "file": each.file,
                "ok": each.ok,
                "problems": [
                    {
                        "line": problem.line,
                        "col": problem.col,
                        "severity": problem.severity,
                        "code": problem.code,
                        "message": problem.message,
                        "guidance": problem.guidance,
                    }
                    for problem in each.problems
                ],
            }
            for each in checked
        ],
    }


def as_github(checked: Sequence[FileReport]) -> Iterator[str]:
    """Workflow commands that GitHub shows as annotations of the lines."""
    for each in checked:
        for problem in each.problems:
            properties = {
                "file": each.file,
                "line": str(problem.line),
                "col": str(problem.col),
                "title": problem.code,
            }
            parameters = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
            message = _data(problem.sentences)
            severity = "notice" if problem.severity == "note" else problem.severity
            yield f"::{severity} {parameters}::{message}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
