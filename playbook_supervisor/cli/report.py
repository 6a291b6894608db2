"""`report`: a client says that a worker came back."""

from __future__ import annotations

import json as json_format
from pathlib import Path

from playbook_supervisor.cli import streams
from playbook_supervisor.cli.directive_output import hand_out
from playbook_supervisor.commands import protocol
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.system.files import read_bytes

_LARGEST = 1_048_576


def report(
    attempt: str, *, error: str = "", output: str = "", session: str = "", json: bool = False
) -> int:
    """Take it in and print what is outstanding then. A repeated report changes nothing."""
    outcome = _outcome(Path(output)) if output else None
    outlook, enclosure = protocol.report(attempt, error=error, outcome=outcome, session=session)
    if enclosure.given is not None:
        streams.tell("the client's hooks report in this session: nothing was taken from you")
    return hand_out(outlook, enclosure, json=json)


def _outcome(file: Path) -> object:
    try:
        return json_format.loads(read_bytes(file, limit=_LARGEST))
    except FileNotFoundError:
        raise ArgumentError("PB-ARG-INVALID", f"there is no file {file}") from None
    except (ValueError, RecursionError) as error:
        raise ArgumentError(
            "PB-ARG-INVALID",
            f"what was to be reported is no JSON: {error}",
            where=str(file),
            guidance='Write a JSON object, as in {"output": "12 tests pass"}.',
        ) from None
