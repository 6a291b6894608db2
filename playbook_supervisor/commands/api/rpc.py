"""`rpc`: serves one request of the Tyrum contract."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace

from playbook_supervisor.commands import locate
from playbook_supervisor.commands.api.envelope import DEADLINE
from playbook_supervisor.commands.api.rpc_request import Request
from playbook_supervisor.commands.driving import driving, resume_token
from playbook_supervisor.commands.driving.driving import DriveOptions
from playbook_supervisor.drivers.drive_result import DriveResult
from playbook_supervisor.drivers.observers import Observer
from playbook_supervisor.errors import CheckError, PlaybookError, StateError
from playbook_supervisor.kernel.state import INTERRUPTED
from playbook_supervisor.project.playbooks import playbook_file
from playbook_supervisor.sessions.gate import tokens
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.system.process.cancellation import Interrupted
from playbook_supervisor.system.process.request_deadline import Deadline, within


def serve(request: Request, observer: Observer) -> DriveResult:
    """Carry out the request, in its folder, within its time.

    Raises PlaybookErrors as `run` and `resume` do. StateError PB-STATE-DEADLINE or -INTERRUPTED if
    its time was over, or a signal ended it, before or after the session was driven.
    """
    os.chdir(request.folder)
    store = locate.store()
    begun = store.driven()
    with within(request.timeout) as deadline:
        try:
            result = _carried_out(request, store, observer)
        except Interrupted as error:
            raise _unserved(request, store, begun, deadline) from error
    expired = result.why == "interrupted" and deadline.passed
    return replace(result, signal=DEADLINE) if expired else result


def _carried_out(request: Request, store: DiskStore, observer: Observer) -> DriveResult:
    drive = DriveOptions(max_output_bytes=request.max_output_bytes)
    if request.token:
        return resume_token.resume(
            request.token, approve=request.approve, drive=drive, observer=observer
        )
    if not request.is_text:
        return driving.run(request.pipeline, request.args, drive=drive, observer=observer)
    pipeline = playbook_file.of_text(store.checkout.root, request.pipeline)
    try:
        return driving.run(pipeline, request.args, drive=drive, observer=observer)
    except CheckError as error:
        if error.code != "PB-CHECK-INVALID":
            raise
        cure = "Correct what `details` lists."  # there is no file to check
        raise CheckError(
            error.code, error.message, where=error.where, guidance=cure, details=error.details
        ) from error


def _unserved(
    request: Request, store: DiskStore, begun: list[str], deadline: Deadline
) -> StateError:
    """The error of a request that was ended while no session was being driven."""
    if deadline.passed:
        error = StateError("PB-STATE-DEADLINE", "the request took longer than its `timeoutMs`")
    else:
        error = StateError(INTERRUPTED, "a signal has ended the request")
    with suppress(PlaybookError):
        new = [each for each in store.driven() if each not in begun]
        if request.token:
            error.session, error.resume_token = tokens.session_of(request.token), request.token
        elif new:
            error.session, error.resume_token = new[0], tokens.issue(store.runtime(new[0]))
    return error
