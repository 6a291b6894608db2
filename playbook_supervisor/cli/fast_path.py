"""`next`, `report` and `check` without click, which takes longer to import than they take to run.

A client calls `next` and `report` at every step, and an editor calls `check` on every save. Only
plain spellings are parsed here: anything else, and every mistake, goes to click.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from playbook_supervisor.cli.output import inform, write, write_json
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.system.disk.files import read_bytes

_LARGEST_REPORT = 1_048_576  # bytes

# Command → its options (and whether each takes a value), the fewest and the most operands.
_PLAIN: dict[str, tuple[dict[str, bool], int, int]] = {
    "next": ({"--json": False, "--wait": False, "--session": True}, 0, 0),
    "report": ({"--json": False, "--error": True, "--output": True, "--session": True}, 1, 1),
    "check": ({"--strict": False}, 0, 1_000_000),
}
COMMANDS = frozenset(_PLAIN)


def parse(argv: Sequence[str]) -> Callable[[], int] | None:
    """The call that a plainly spelled command means; None if click has to parse it."""
    if "" in argv or not argv or argv[0] not in _PLAIN or "_PLAYBOOK_COMPLETE" in os.environ:
        return None
    known, fewest, most = _PLAIN[argv[0]]
    options: dict[str, str | bool] = {}
    operands: list[str] = []
    words = iter(argv[1:])
    for word in words:
        if not word.startswith("-"):
            operands.append(word)
            continue
        value = next(words, "-") if known.get(word) else True
        if word not in known or str(value).startswith("-"):
            return None
        options[word[2:]] = value
    if not fewest <= len(operands) <= most:
        return None
    if argv[0] == "check":
        return lambda: run_check(operands, **options)  # type: ignore[arg-type]
    run: Callable[..., int] = run_report if argv[0] == "report" else run_next
    return lambda: run(*operands, **options)


def run_next(*, session: str = "", wait: bool = False, json: bool = False) -> int:
    """Print the outstanding directive."""
    from playbook_supervisor.cli.directive_output import print_directive
    from playbook_supervisor.commands.driving import protocol

    return print_directive(*protocol.next_directive(session, wait=wait), json=json)


def run_report(
    attempt: str, *, error: str = "", output: str = "", session: str = "", json: bool = False
) -> int:
    """Record the outcome of an attempt and print the next directive."""
    from playbook_supervisor.cli.directive_output import print_directive
    from playbook_supervisor.commands.driving import protocol

    outcome = _read_outcome(output) if output else None
    snapshot, details = protocol.report(attempt, error=error, outcome=outcome, session=session)
    if details.given is not None:
        inform("this report was ignored: the client's hooks report in this session")
    return print_directive(snapshot, details, json=json)


def _read_outcome(file: str) -> object:
    try:
        return json.loads(read_bytes(Path(file), limit=_LARGEST_REPORT))
    except FileNotFoundError:
        raise ArgumentError("PB-ARG-INVALID", f"the file {file} does not exist") from None
    except (ValueError, RecursionError) as error:
        raise ArgumentError(
            "PB-ARG-INVALID",
            f"the reported output is not valid JSON: {error}",
            where=file,
            guidance='Write a JSON object, for example {"output": "12 tests pass"}.',
        ) from None


def run_check(names: Sequence[str], *, format: str = "text", strict: bool = False) -> int:
    """Print every problem of what is named; 1 if there is an error, or with `strict` a warning."""
    from playbook_supervisor.cli.render import findings
    from playbook_supervisor.commands.checking import checking

    checked = checking.check(names)
    if format == "json":
        write_json(findings.as_json(checked))
    else:
        lines = findings.as_github(checked) if format == "github" else findings.as_text(checked)
        write(*lines)
        if format == "text":
            inform(findings.verdict(checked))
    fine = all(each.clean if strict else each.ok for each in checked)
    return 0 if fine else 1
