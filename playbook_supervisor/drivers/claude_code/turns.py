"""The kind of the running turn, and the begin and end of a step in the client.

A step ends with the result of its agent's call or with a notification; a receipt proves that the
agent ran exactly the step's command. Everything is idempotent by the attempt's id.

A model that stops early is told again what is outstanding. A model that makes no progress (it keeps
stopping, keeps being refused, or only reads) is stopped: its session is marked as stalled and the
person is called.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from playbook_supervisor.agents.claude.transcripts import Ending, ending, subagent_file
from playbook_supervisor.drivers.claude_code import gates, notices, request_limit
from playbook_supervisor.drivers.claude_code.binding import Binding, Subagent
from playbook_supervisor.drivers.claude_code.context import HookContext, HookReply, goes_on
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.answers import read_answer
from playbook_supervisor.kernel.directives import Ask, Check, Failure, Finish, Outcome, Run
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.store.snapshot import Snapshot, for_agents, for_us

DISMISSED = "This step was interrupted and its result is not needed: end your turn now."
_MISSED = "the client no longer lists its agent, and no hook reported its end"
_OUR_COMMANDS = r"\s*/playbook\.(?:run|resume|pause|abort|status|list)(?:\s|\Z)"
_CHANCES = 3  # blocked stops after which an agent that may still come back counts as lost
PATIENCE = 5.0  # seconds in which the client queues the notification of an agent that ended
_WRITTEN = 2.0  # seconds in which the client writes the last lines of a transcript
_INTERVAL = 0.2  # seconds between two looks at the transcript
_MAX_BLOCKS = 6  # blocked stops without progress, after which a stop is allowed
_MAX_REFUSALS = 20  # refused calls without progress, after which the run is ended
_ERROR_LENGTH = 100  # characters of an error in a notice


def launch(hook: HookContext, snapshot: Snapshot, attempt_id: str) -> HookReply:
    """Allow an agent's call and replace its whole input: prompt, description, type, model."""
    assert isinstance(snapshot.directive, Run)  # noqa: S101 - only a member of a run is due
    (member,) = (each for each in snapshot.directive.members if each.id == attempt_id)
    hook.tree.require_branch()
    work = hook.tree.work(snapshot, member)
    tools = None if work.tools is None else list(work.tools)
    hook.bound.workers[attempt_id] = Subagent(
        work.skill, work.args, hook.text("tool_use_id"), tools=tools
    )
    given: dict[str, str | bool] = {
        "description": f"{attempt_id} {work.command}",
        "prompt": work.prompt,
        "subagent_type": "general-purpose",
    }
    if member.step.model:
        given["model"] = member.step.model
    if hook.mapping("tool_input").get("run_in_background") is False:
        given["run_in_background"] = False
    return HookReply("PreToolUse", decision="allow", reason=f"{attempt_id} is due", given=given)


def not_launched(hook: HookContext, snapshot: Snapshot) -> frozenset[str]:
    """The attempts that are due and that no agent carries out yet."""
    due = {attempt.id for attempt in for_agents(snapshot)}
    return frozenset(due - hook.bound.workers.keys())


def agent_result(hook: HookContext) -> HookReply | None:
    """An agent's call returned: the agent was launched in the background, or it has ended."""
    attempt = hook.bound.worker_of(tool_use=hook.text("tool_use_id"))
    response = hook.mapping("tool_response")
    if not attempt:
        return None
    hook.bound.workers[attempt] = replace(
        hook.bound.workers[attempt],
        agent=str(response.get("agentId", "")),
        model=str(response.get("resolvedModel", "")),
    )
    if response.get("status") == "async_launched":
        hook.progress()  # only here: the settings may still forbid an allowed launch
        return None
    text = _last_text(response)
    reason = "" if response.get("status") == "completed" else text or notices.FAILED
    return _ended(hook, attempt, reason, text, "PostToolUse")


def _last_text(response: Mapping[str, Any]) -> str:
    parts = response.get("content")
    if not isinstance(parts, list):
        return ""
    texts = [part["text"] for part in parts if isinstance(part, dict) and "text" in part]
    return str(texts[-1]) if texts else ""


def agent_failed(hook: HookContext) -> HookReply | None:
    """The call of an agent failed, or a person interrupted it."""
    attempt = hook.bound.worker_of(tool_use=hook.text("tool_use_id"))
    if not attempt or hook.worker or hook.payload.get("is_interrupt"):
        return None  # after an interrupt, the next prompt says what the person wants
    return _ended(hook, attempt, hook.text("error") or notices.FAILED, "", "PostToolUseFailure")


def prompted(hook: HookContext) -> HookReply | None:
    """A prompt: a notification, typed by a person, or something that only looks typed."""
    bound, prompt = hook.bound, hook.text("prompt")
    ended, bound.heard = notices.unseen_end(hook.text("transcript_path"), bound.heard)
    end = ended if bound.at_work else ""
    mid_turn = bound.at_work and not end
    if prompt.startswith(notices.NOTIFICATION):
        if not mid_turn:
            bound.at_work, bound.turn = True, "supervised"
        return _notified(hook, prompt)
    if notices.is_automatic(prompt) or prompt in bound.crons:
        return None
    if end == notices.INTERRUPTED:
        hook.tree.interrupt()
        bound.dismiss()
    bound.at_work = True
    request_limit.reset(str(hook.private))
    if re.match(_OUR_COMMANDS, prompt):
        if not mid_turn:
            bound.turn = "supervised"
        return None
    if not mid_turn:
        bound.turn = "human"
    return _answered(hook, prompt)


def _answered(hook: HookContext, prompt: str) -> HookReply | None:
    if not hook.interactive or prompt.lstrip().startswith("<"):
        return None
    if hook.bound.ended:
        hook.bound.told = True
        note, shown = gates.late_answer(hook.bound.ended, hook.bound.session, prompt)
        return HookReply("UserPromptSubmit", note=note, shown=shown)
    gate = hook.tree.look().directive
    if not isinstance(gate, Ask):
        return None
    reply = read_answer(prompt, gate.choices, typed_at_prompt=True)
    if reply.resolution is not None:
        return gates.record_answer(hook, "UserPromptSubmit", gate, reply, prompt)
    if not reply.question:
        return None
    note = gates.unanswered(gate, reply.question)
    return HookReply("UserPromptSubmit", note=note, shown=note)


def _notified(hook: HookContext, prompt: str) -> HookReply | None:
    notice = notices.read(prompt)
    attempt = hook.bound.worker_of(tool_use=notice.tool_use, agent=notice.agent)
    if not attempt:
        return None
    if notice.waits:
        hook.bound.waited(hook.bound.workers[attempt].agent)
        return None
    return _ended(hook, attempt, notice.reason, notice.text, "UserPromptSubmit")


def _report_missed(hook: HookContext) -> tuple[Snapshot | None, bool]:
    """Report the agents whose end no hook reported; and whether a notification is on its way.

    These are agents that the client no longer lists. A notification that still waits in its queue
    comes by itself. One that was delivered, though no hook of ours took it, says how the agent
    ended. Without any, an agent that has stopped counts as completed and any other as failed, but
    only after a few chances: the client does not list an agent that is just resuming, either. If
    anything else runs in the background, nothing is reported: it may be work that such an agent
    left behind and will resume for.
    """
    listed = hook.payload.get("background_tasks")
    if not isinstance(listed, list):
        return None, False
    bound, snapshot = hook.bound, None
    running = {task.get("id") for task in listed if isinstance(task, dict)}
    if not running <= _agents(bound).keys():
        return None, False
    queue = notices.queue(hook.text("transcript_path"))
    for agent, attempt in _agents(bound).items():
        if agent in running or agent in queue.waiting:
            continue
        notice, stopped = queue.delivered.get(agent), bound.stops.get(agent, 0) > 0
        if notice is not None and not notice.waits:
            reason, text = notice.reason, notice.text
        elif stopped or bound.blocks >= _CHANCES:
            reason, text = "" if stopped else _MISSED, bound.said.get(agent, "")
        else:
            continue
        latest = _report(hook, attempt, reason, text)
        snapshot = latest if snapshot is None else latest.after(snapshot)
    return snapshot, not _agents(bound).keys().isdisjoint(queue.waiting)


def await_notices(payload: Mapping[str, Any], bound: Binding | None) -> None:
    """Give the client time to queue the notification of an agent that it has just delisted.

    Called without the binding's lock: the client may be waiting for another hook of ours.
    """
    listed = payload.get("background_tasks")
    if bound is None or bound.client != payload.get("session_id") or not isinstance(listed, list):
        return
    running = {task.get("id") for task in listed if isinstance(task, dict)}
    missing = {
        agent for agent in _agents(bound) if agent not in running and bound.stops.get(agent) != 0
    }
    deadline = time.monotonic() + PATIENCE
    while missing and time.monotonic() < deadline:
        queue = notices.queue(str(payload.get("transcript_path", "")))
        missing -= queue.waiting.keys() | queue.delivered.keys()
        if missing:
            time.sleep(_INTERVAL)


def _agents(bound: Binding) -> dict[str, str]:
    return {worker.agent: attempt for attempt, worker in bound.workers.items() if worker.agent}


def _ended(hook: HookContext, attempt: str, reason: str, text: str, event: str) -> HookReply:
    agent = hook.bound.workers[attempt].agent
    snapshot = _report(hook, attempt, reason, text or hook.bound.said.get(agent, ""))
    return HookReply(event, snapshot=snapshot, ring=snapshot.question)


def _ending(hook: HookContext, agent: str) -> Ending:
    """The end of the agent. The client may still be writing its last lines."""
    if not agent.isalnum() or not (conversation := hook.text("transcript_path")):
        return Ending()
    file, deadline = subagent_file(Path(conversation), agent), time.monotonic() + _WRITTEN
    while (found := ending(file)).unsettled and time.monotonic() < deadline:
        time.sleep(_INTERVAL)
    return found


def _report(hook: HookContext, attempt: str, reason: str, text: str) -> Snapshot:
    """Journal an attempt's return: `reason` says why it failed. What its agent claims is nothing.

    Until that succeeds the agent counts as working; a failed report is repeated at the turn's end.
    """
    bound = hook.bound
    worker = bound.workers[attempt]
    from playbook_supervisor.agents.claude.verdict import stopped_by_hook, subagent_failure
    from playbook_supervisor.sessions.steps.attempt_log import keep_words, secret_values

    known = {"name": "claude-code", "id": worker.agent, "model": worker.model}
    error = None
    ending = _ending(hook, worker.agent)
    if reason:
        error = subagent_failure(reason)
    elif ending.hook:
        error = stopped_by_hook(ending.hook)
    elif worker.skill and [worker.skill, worker.args] not in bound.receipts.get(worker.agent, []):
        typed = f"/{worker.skill} {worker.args}".rstrip()
        error = Failure("PB-AGENT-NO-RECEIPT", f"the subagent ended without running {typed}")
    agent = {key: value for key, value in known.items() if value}
    if place := hook.tree.place_of(attempt):
        keep_words(*place, text or reason, secret_values(hook.environment))
    outcome = Outcome(error, text, agent, silent=ending.silent and not text.strip())
    snapshot = hook.tree.report(attempt, outcome)
    del bound.workers[attempt]
    bound.forget(worker.agent)
    hook.progress()
    return snapshot


# ── the end of a turn ───────────────────────────────────────────────────────────────────────


def refuse(hook: HookContext, reason: str, snapshot: Snapshot | None = None) -> HookReply:
    """Deny the call; too many denied calls in a row end the model's run."""
    if hook.worker:
        return HookReply("PreToolUse", decision="deny", reason=reason)
    hook.bound.refusals += 1
    if hook.bound.refusals >= _MAX_REFUSALS:
        message = _stalled(hook, f"{_MAX_REFUSALS} calls were refused, without progress")
        return HookReply("PreToolUse", decision="deny", reason=reason, end=message, ring=message)
    return HookReply(
        "PreToolUse", decision="deny", reason=reason, snapshot=snapshot or hook.tree.look()
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
    return HookReply("PostToolBatch", note=note, snapshot=hook.tree.look())


def stop(hook: HookContext) -> HookReply | None:
    """Allow the stop if the turn may end; otherwise block it, though not for ever."""
    bound = hook.bound
    _remember_crons(hook)
    busy = bool(hook.payload.get("background_tasks"))
    if not busy:  # an allowed agent that never started is due again
        bound.workers = {id_: each for id_, each in bound.workers.items() if each.agent}
    late, on_its_way = _report_missed(hook)
    snapshot = late or hook.tree.advance()
    expected = not_launched(hook, snapshot) or for_us(snapshot)
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
    snapshot = hook.tree.look()
    ring = snapshot.question
    if isinstance(snapshot.directive, Run | Check):
        error = first_line(hook.text("last_assistant_message") or hook.text("error"), _ERROR_LENGTH)
        ring = _stalled(hook, f"an error ended Claude's turn ({error})")
    return HookReply("StopFailure", ring=ring)


def _stalled(hook: HookContext, reason: str) -> str:
    hook.bound.stalled, hook.bound.at_work = True, False
    session = hook.bound.session
    return f"playbook: session {session} is stalled: {reason}. /playbook.resume tries again."


def _remember_crons(hook: HookContext) -> None:
    """Scheduled prompts arrive like typed ones, but are never an answer."""
    crons = hook.payload.get("session_crons")
    listed = crons if isinstance(crons, list) else []
    hook.bound.crons = [str(cron.get("prompt", "")) for cron in listed if isinstance(cron, dict)]
