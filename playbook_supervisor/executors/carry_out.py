"""Carries out one task to its end, whatever the executor does, and makes its outcome safe to keep.

Deadlines, exceptions, control characters, secrets and caps are handled here, so that no executor
needs to (cat FR-4.11; tyr 25, 28).
"""

from __future__ import annotations

import threading
from typing import Any

from playbook_supervisor.errors import LASTING, PlaybookError
from playbook_supervisor.executors.context import Context, Stopped
from playbook_supervisor.executors.protocol import Executor, Task, failed
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.records import replace
from playbook_supervisor.system.capture import capped, harmless, redact

GRACE = 15.0
"""Seconds that a stopped executor may take to return; then its thread is abandoned."""
_FAMILIES = ("PB-STEP-", "PB-POLICY-")


def carry_out(executor: Executor, task: Task, context: Context) -> Outcome:
    """The outcome of the task, within its deadline even if the executor ignores that.

    An executor that raises has failed with PB-STEP-CRASHED. One that succeeded a moment before it
    was stopped has succeeded.
    """
    outcomes: list[Outcome] = []
    ended, over = threading.Event(), threading.Event()

    def execute() -> None:
        try:
            outcomes.append(_executed(executor, task, context))
        finally:
            ended.set()
            over.set()

    context.on_stop(over.set)
    threading.Thread(target=execute, daemon=True).start()
    over.wait(context.remaining)
    if not ended.is_set():
        context.stop("wall")
        ended.wait(GRACE)
    outcome = outcomes[0] if outcomes else failed("PB-STEP-CRASHED", "it ended without an outcome")
    if context.stopped and not outcome.ok:
        outcome = _ended_early(context, task.namespace, outcome.output)
    return _harmless(outcome, task, context)


def _executed(executor: Executor, task: Task, context: Context) -> Outcome:
    name = task.namespace
    try:
        outcome: object = executor.execute(task, context)
    except Stopped:
        return failed("PB-STEP-CRASHED", f"{name} was stopped before it ended")
    except PlaybookError as error:
        return of_error(error)
    except (Exception, SystemExit) as error:  # a plugin's fault is a failed step, never more
        message = f"the executor {name} raised {type(error).__name__}: {error}"
        return failed("PB-STEP-CRASHED", message)
    if not isinstance(outcome, Outcome):
        return failed("PB-STEP-CRASHED", f"the executor {name} returned no outcome")
    return outcome


def of_error(error: PlaybookError) -> Outcome:
    """The failed outcome of an error that was raised; its code is one of a step's."""
    code, cause = error.code, error.cause
    if code == "PB-IO-PROGRAM":
        code = "PB-STEP-PROGRAM"
    elif not code.startswith(_FAMILIES):
        code, cause = "PB-STEP-FAILED", f"{code}: {cause}" if cause else code
    lasts = code in LASTING
    return failed(code, error.message, guidance=error.guidance, cause=cause, lasts=lasts)


def _ended_early(context: Context, name: str, output: str) -> Outcome:
    wall, idle = context.place.wall or 0, context.place.idle or 0
    if context.why == "wall":
        message = f"{name} ran for more than {wall:g} s"
    elif context.why == "idle":
        message = f"{name} printed nothing for {idle:g} s"
    else:
        message, cure = f"{name} was stopped before it ended", "`playbook resume` runs it again."
        return failed("PB-STEP-CRASHED", message, guidance=cure, output=output)
    return failed("PB-STEP-TIMEOUT", message, output=output)


# ── what an outcome may contain ─────────────────────────────────────────────────────────────


def _harmless(outcome: Outcome, task: Task, context: Context) -> Outcome:
    secrets = (*context.secrets, *task.secrets)
    error = outcome.error
    if error is not None:
        error = replace(
            error,
            message=redact(printable(error.message), secrets),
            guidance=redact(printable(error.guidance), secrets),
            cause=harmless(error.cause, secrets),
        )
    return replace(
        outcome,
        error=error,
        output=capped(harmless(outcome.output, secrets), context.cap),
        data=_redacted(outcome.data, secrets),
        files=tuple(redact(printable(file), secrets) for file in outcome.files),
    )


def _redacted(data: Any, secrets: tuple[str, ...]) -> Any:
    if not secrets:
        return data
    if isinstance(data, str):
        return redact(data, secrets)
    if isinstance(data, dict):
        return {redact(str(key), secrets): _redacted(each, secrets) for key, each in data.items()}
    if isinstance(data, list | tuple):
        return [_redacted(each, secrets) for each in data]
    return data
