"""The envelope of the Tyrum contract: what a program is told of how a request ended.

`run --json`, `resume --json` and `rpc` print it together with the other keys of `run.json`.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from playbook_supervisor.drivers.observers import DriveResult
from playbook_supervisor.errors import StateError, guidance
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.kernel.state import INTERRUPTED, Entry
from playbook_supervisor.kernel.vocabulary import EntryStatus
from playbook_supervisor.sessions.gate import gate_text, tokens
from playbook_supervisor.sessions.gate.gate_context import GateContext
from playbook_supervisor.sessions.steps import output_files
from playbook_supervisor.sessions.store.disk_store import DiskStore

Json = dict[str, Any]

DEADLINE = signal.SIGALRM
"""The signal of a drive that was interrupted because the time of its request was over."""
_STATUS = {"completed": "ok", "waiting": "needs_approval", "aborted": "cancelled"}


def envelope(result: DriveResult, context: GateContext | None = None) -> Json:
    """The end of a drive: `ok`, `status` or `error`, `output`, and what resumes the session.

    `context` helps to answer the open gate; by default it is that of the result. A token is made
    if the session is not over.
    """
    snapshot, ask = result.snapshot, result.snapshot.directive
    output = _output(result)
    if result.why == "waiting" and isinstance(ask, Ask):
        approval = {
            "prompt": snapshot.question,
            "items": gate_text.lines(context or result.context),
            "resumeToken": tokens.issue(snapshot.private, ask.id),
        }
        status = _STATUS[result.why]
        return {"ok": True, "status": status, "output": output, "requiresApproval": approval}
    if status := _STATUS.get(result.why, ""):
        return {"ok": True, "status": status, "output": output}
    token = tokens.issue(snapshot.private, ask.id if isinstance(ask, Ask) else "")
    return {"ok": False, "error": _error(result), "output": output, "resumeToken": token}


def _output(result: DriveResult) -> list[Any]:
    snapshot = result.snapshot
    if kept := output_files.read_last(_folders(snapshot.store, snapshot.session_id)):
        return kept
    said = next((each.output for each in reversed(result.entries) if each.output), "")
    return said.split("\n") if said else []


def _folders(store: DiskStore, session_id: str) -> Iterator[Path]:
    yield store.runtime(session_id)
    for entry in store.journal(session_id).entries:
        if entry.session:
            with suppress(StateError):  # it is still to be created
                yield from _folders(store, entry.session)


def _error(result: DriveResult) -> Json:
    if result.why == "failed":
        entries = reversed(result.entries)
        failed = next(each for each in entries if each.status is EntryStatus.FAILED)
        return error(failed, result.snapshot.session_id)
    if result.why == "paused":
        code, message = "PB-STATE-PAUSED", "a person has paused the run"
    elif result.signal == DEADLINE:
        code, message = "PB-STATE-DEADLINE", "the request took longer than its `timeoutMs`"
    else:
        name = signal.Signals(result.signal).name if result.signal else "a person"
        code, message = INTERRUPTED, f"{name} has interrupted the run"
    cure = guidance(code, result.snapshot.session_id)
    return {"code": code, "message": message, "guidance": cure}


def error(entry: Entry, session: str) -> Json:
    """Why an attempt of the session failed. Journals of the original tools hold no code."""
    code = entry.error_code or "PB-AGENT-FAILED"
    shape = {
        "code": code,
        "message": entry.error,
        "guidance": guidance(code, session, entry.error_guidance),
        "step": entry.step_id,
    }
    return shape | ({"cause": entry.error_cause} if entry.error_cause else {})
