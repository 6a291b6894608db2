"""When a turn of the supervising model may end, and when it is ended.

No early stop: what is outstanding is said again. No busy loop: a model that stops all the same,
that is refused again and again, or that asks and reads and gets nowhere, is let go, its session
marked as stalled, and the person called.
"""

from __future__ import annotations

from playbook_supervisor.drivers.claude_code import gates, request_limit, turns
from playbook_supervisor.drivers.claude_code.context import HookContext, HookReply
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Ask, Check, Finish, Run
from playbook_supervisor.kernel.vocabulary import SessionStatus

_BLOCKS = 6  # Stop hooks since anything was accepted, after which it is let go
_REFUSALS = 20  # refused calls since then, after which its run is ended
_ERROR = 100  # characters of an error that a person is told


def refuse(desk: HookContext, reason: str) -> HookReply:
    """The call does not pass. Too many such calls in a row, and the model's run is ended."""
    if desk.worker:
        return HookReply("PreToolUse", decision="deny", reason=reason)
    desk.bound.refusals += 1
    if desk.bound.refusals >= _REFUSALS:
        said = _stalled(desk, f"{_REFUSALS} calls were refused, and nothing came of it")
        return HookReply("PreToolUse", decision="deny", reason=reason, end=said, ring=said)
    return HookReply("PreToolUse", decision="deny", reason=reason, tell=desk.look())


def round_over(desk: HookContext) -> HookReply | None:
    """All calls of one message are done. A model that gets nowhere is told so, and then ended."""
    private, bound = str(desk.private), desk.bound
    if desk.worker:
        if bound.workers and desk.text("agent_id") not in bound.dismissed:
            request_limit.reset(private)
        return None
    if bound.turn != "supervised":
        return None
    spent = request_limit.count(private, waiting=bool(bound.workers))
    if spent >= request_limit.ENDED:
        said = _stalled(desk, f"the model was asked {spent} times, and nothing came of it")
        return HookReply("PostToolBatch", end=said, ring=said)
    if spent < request_limit.WARNED:
        return None
    note = f"Nothing has come of your last {spent} requests: do what is outstanding, or stop."
    return HookReply("PostToolBatch", note=note, tell=desk.look())


def stop(desk: HookContext) -> HookReply | None:
    """No early stop, and no busy loop: what may end, waits or has ended is let through."""
    bound = desk.bound
    _remember_crons(desk)
    busy = bool(desk.payload.get("background_tasks"))
    if not busy:
        turns.forget_refused(bound)
    if late := turns.missed(desk):
        bound.turn = "supervised"
        return HookReply("Stop", decision="block", reason="A step's end went unheard.", tell=late)
    outlook = desk.outlook()
    match outlook.directive:
        case Run() if busy and not turns.to_launch(desk, outlook):
            bound.at_work = False
            return None
        case Ask():
            bound.at_work, bound.turn = False, "supervised"
            return HookReply("Stop", ring=outlook.question, shown=gates.reminder(outlook))
        case Finish(status=status):
            desk.release()
            said = f"{outlook.manifest.playbook}: {status}"
            shown = f"{said} ({outlook.done}/{outlook.total} steps)"
            if status is SessionStatus.FAILED:
                shown += "; /playbook.resume --retry takes it up again"
            return HookReply("Stop", ring=said, shown=shown)
        case _:
            bound.turn = "supervised"
    bound.blocks += 1
    if bound.blocks > _BLOCKS:
        known = bound.stalled
        said = _stalled(desk, f"its model was told {_BLOCKS} times what is outstanding, and stops")
        return None if known else HookReply("Stop", ring=said, shown=said)
    return HookReply("Stop", decision="block", reason="The playbook is not through.", tell=outlook)


def failed(desk: HookContext) -> HookReply | None:
    """An error has ended the turn, and no Stop hook is asked: nothing goes on by itself."""
    desk.bound.at_work = False
    if desk.worker or desk.bound.workers:
        return None  # its end begins another turn
    outlook = desk.look()
    if isinstance(outlook.directive, Run | Check):
        error = first_line(desk.text("last_assistant_message") or desk.text("error"), _ERROR)
        ring = _stalled(desk, f"an error ended Claude's turn ({error})")
    else:
        ring = outlook.question
    return HookReply("StopFailure", ring=ring)


def _stalled(desk: HookContext, why: str) -> str:
    """The model goes on no more: its turn ends here, and a person is told so."""
    desk.bound.stalled, desk.bound.at_work = True, False
    return (
        f"playbook: session {desk.bound.session} is stalled: {why}. /playbook.resume tries again."
    )


def _remember_crons(desk: HookContext) -> None:
    """Prompts that were scheduled before: they arrive like typed ones, and are no answer."""
    crons = desk.payload.get("session_crons")
    known = crons if isinstance(crons, list) else []
    desk.bound.crons = [str(cron.get("prompt", "")) for cron in known if isinstance(cron, dict)]
