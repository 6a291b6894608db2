"""The kind of the running turn, and the begin and end of a step in the client.

A step ends with the result of its agent's call or with a notification; a receipt proves that the
agent ran exactly the step's command. Everything is idempotent by the attempt's id.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path

from playbook_supervisor.agents.claude_transcripts import Ending, ending, subagent_file
from playbook_supervisor.drivers.claude_code import gates, notices, request_limit, transcript
from playbook_supervisor.drivers.claude_code.binding import Binding, Subagent
from playbook_supervisor.drivers.claude_code.context import HookContext, HookReply
from playbook_supervisor.kernel.directives import Ask, Failure, Outcome, Run
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.snapshot import Snapshot, for_agents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DISMISSED = "This step was interrupted and its result is not needed: end your turn now."
_MISSED = "the client no longer lists its agent, and no hook reported its end"
_OUR_COMMANDS = r"\s*/playbook\.(?:run|resume|pause|abort|status|list)(?:\s|\Z)"
_CHANCES = 3  # blocked stops after which an agent that may still come back counts as lost
PATIENCE = 5.0  # seconds in which the client queues the notification of an agent that ended
_WRITTEN = 2.0  # seconds in which the client writes the last lines of a transcript
_INTERVAL = 0.2  # seconds between two looks at the transcript


def launch(hook: HookContext, snapshot: Snapshot, attempt_id: str) -> HookReply:
    """Allow an agent's call and replace its whole input: prompt, description, type, model."""
    assert isinstance(snapshot.directive, Run)  # noqa: S101 - only a member of a run is due
    (member,) = (each for each in snapshot.directive.members if each.id == attempt_id)
    hook.supervisor.require_branch()
    work = hook.supervisor.work(snapshot, member)
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
    if not attempt or hook.payload.get("is_interrupt"):
        return None  # after an interrupt, the next prompt says what the person wants
    return _ended(hook, attempt, hook.text("error") or notices.FAILED, "", "PostToolUseFailure")


def prompted(hook: HookContext) -> HookReply | None:
    """A prompt: a notification, typed by a person, or something that only looks typed."""
    bound, prompt = hook.bound, hook.text("prompt")
    ended, bound.heard = transcript.unseen_end(hook.text("transcript_path"), bound.heard)
    end = ended if bound.at_work else ""
    mid_turn = bound.at_work and not end
    if prompt.startswith(notices.NOTIFICATION):
        if not mid_turn:
            bound.at_work, bound.turn = True, "supervised"
        return _notified(hook, prompt)
    if notices.is_automatic(prompt) or prompt in bound.crons:
        return None
    if end == transcript.INTERRUPTED:
        hook.supervisor.interrupt()
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
    """Record an answer to the open gate (kai FR26), or ask back what a bare "no" means."""
    if not hook.interactive or prompt.lstrip().startswith("<"):
        return None
    if hook.bound.ended:
        hook.bound.told = True
        note, shown = gates.late_answer(hook.bound.ended, hook.bound.session, prompt)
        return HookReply("UserPromptSubmit", note=note, shown=shown)
    gate = hook.supervisor.look().directive
    if not isinstance(gate, Ask):
        return None
    from playbook_supervisor.kernel.answers import read_answer

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


def report_missed(hook: HookContext) -> tuple[Snapshot | None, bool]:
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
    queue = transcript.queue(hook.text("transcript_path"))
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
        queue = transcript.queue(str(payload.get("transcript_path", "")))
        missing -= queue.waiting.keys() | queue.delivered.keys()
        if missing:
            time.sleep(_INTERVAL)


def _agents(bound: Binding) -> dict[str, str]:
    """The agents that carry out an attempt, and the attempt of each."""
    return {worker.agent: attempt for attempt, worker in bound.workers.items() if worker.agent}


def _ended(hook: HookContext, attempt: str, reason: str, text: str, event: str) -> HookReply:
    agent = hook.bound.workers[attempt].agent
    snapshot = _report(hook, attempt, reason, text or hook.bound.said.get(agent, ""))
    return HookReply(event, snapshot=snapshot, ring=snapshot.question)


def _ending(hook: HookContext, agent: str) -> Ending:
    """How the agent ended. The client may still be writing its last lines."""
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
    from playbook_supervisor.agents.claude_verdict import stopped_by_hook, subagent_failure
    from playbook_supervisor.sessions.attempt_log import keep_words, secret_values

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
    if place := hook.supervisor.place_of(attempt):
        keep_words(*place, text or reason, secret_values(hook.environment))
    outcome = Outcome(error, text, agent, silent=ending.silent and not text.strip())
    snapshot = hook.supervisor.report(attempt, outcome)
    del bound.workers[attempt]
    bound.forget(worker.agent)
    hook.progress()
    return snapshot
