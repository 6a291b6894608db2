"""When a turn of the supervising model may end, and when it is made to end.

A model that stops early is told again what is outstanding. A model that makes no progress (it keeps
stopping, keeps being refused, or only reads) is stopped: its session is marked as stalled and the
person is called.
"""

from __future__ import annotations

from playbook_supervisor.drivers.claude_code import gates, request_limit, turns
from playbook_supervisor.drivers.claude_code.context import HookContext, HookReply, goes_on
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Ask, Check, Finish, Run
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.sessions.snapshot import Snapshot, for_us

_MAX_BLOCKS = 6  # blocked stops without progress, after which a stop is allowed
_MAX_REFUSALS = 20  # refused calls without progress, after which the run is ended
_ERROR_LENGTH = 100  # characters of an error in a notice


def refuse(hook: HookContext, reason: str, snapshot: Snapshot | None = None) -> HookReply:
    """Deny the call; too many denied calls in a row end the model's run."""
    if hook.worker:
        return HookReply("PreToolUse", decision="deny", reason=reason)
    hook.bound.refusals += 1
    if hook.bound.refusals >= _MAX_REFUSALS:
        message = _stalled(hook, f"{_MAX_REFUSALS} calls were refused, without progress")
        return HookReply("PreToolUse", decision="deny", reason=reason, end=message, ring=message)
    return HookReply(
        "PreToolUse", decision="deny", reason=reason, snapshot=snapshot or hook.supervisor.look()
    )


def round_over(hook: HookContext) -> HookReply | None:
    """A round of calls is over. A model without progress is warned, and later stopped."""
    private, bound = str(hook.private), hook.bound
    if hook.worker:
        if bound.workers and hook.text("agent_id") not in bound.dismissed:
            request_limit.reset(private)
        return None
    if bound.turn != "supervised":
        return None
    requests = request_limit.count(private, waiting=bool(bound.workers))
    if requests >= request_limit.ENDED:
        message = _stalled(hook, f"the model was asked {requests} times, without progress")
        return HookReply("PostToolBatch", end=message, ring=message)
    if requests < request_limit.WARNED:
        return None
    note = f"Your last {requests} requests made no progress: do what is outstanding, or stop."
    return HookReply("PostToolBatch", note=note, snapshot=hook.supervisor.look())


def stop(hook: HookContext) -> HookReply | None:
    """Allow the stop if the turn may end; otherwise block it, though not for ever."""
    bound = hook.bound
    _remember_crons(hook)
    busy = bool(hook.payload.get("background_tasks"))
    if not busy:  # an allowed agent that never started is due again
        bound.workers = {id_: each for id_, each in bound.workers.items() if each.agent}
    late, on_its_way = turns.report_missed(hook)
    snapshot = late or hook.supervisor.advance()
    expected = turns.not_launched(hook, snapshot) or for_us(snapshot)
    match snapshot.directive:
        case Run() if (busy or on_its_way) and not expected:
            bound.at_work = False
            return None
        case _ if late:
            bound.turn = "supervised"
            return _told(hook, snapshot)
        case Ask():
            bound.at_work, bound.turn = False, "supervised"
            return HookReply("Stop", ring=snapshot.question, shown=gates.reminder(snapshot))
        case Finish() if bound.ended and not bound.told:
            bound.at_work = False  # the turn of /playbook.abort itself
            return None
        case Finish(status=status):
            hook.release()
            message = f"{snapshot.manifest.playbook}: {snapshot.manifest.ending}"
            shown = f"{message} ({snapshot.progress})"
            if status is SessionStatus.FAILED:
                shown += "; /playbook.resume --retry resumes it"
            return HookReply("Stop", ring=message, shown=shown)
        case _:
            bound.turn = "supervised"
    bound.blocks += 1
    if bound.blocks > _MAX_BLOCKS:
        known = bound.stalled
        message = _stalled(hook, f"its model was told {_MAX_BLOCKS} times what is outstanding")
        return None if known else HookReply("Stop", ring=message, shown=message)
    return _told(hook, snapshot)


def _told(hook: HookContext, snapshot: Snapshot) -> HookReply:
    """Let the turn continue with what is due, without calling that a problem where possible."""
    return HookReply(
        "Stop",
        decision="go on" if goes_on(hook.environment) else "block",
        reason="The playbook continues.",
        snapshot=snapshot,
    )


def failed(hook: HookContext) -> HookReply | None:
    """An error has ended the turn without a Stop hook: nothing continues by itself."""
    hook.bound.at_work = False
    if hook.worker or hook.bound.workers:
        return None  # the end of an agent begins another turn
    snapshot = hook.supervisor.look()
    ring = snapshot.question
    if isinstance(snapshot.directive, Run | Check):
        error = first_line(hook.text("last_assistant_message") or hook.text("error"), _ERROR_LENGTH)
        ring = _stalled(hook, f"an error ended Claude's turn ({error})")
    return HookReply("StopFailure", ring=ring)


def _stalled(hook: HookContext, reason: str) -> str:
    """Mark the session as stalled, and return the notice for the person."""
    hook.bound.stalled, hook.bound.at_work = True, False
    session = hook.bound.session
    return f"playbook: session {session} is stalled: {reason}. /playbook.resume tries again."


def _remember_crons(hook: HookContext) -> None:
    """Scheduled prompts arrive like typed ones, but are never an answer."""
    crons = hook.payload.get("session_crons")
    listed = crons if isinstance(crons, list) else []
    hook.bound.crons = [str(cron.get("prompt", "")) for cron in listed if isinstance(cron, dict)]
