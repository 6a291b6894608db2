"""The kind of the running turn, and the begin and end of a step in the client.

A step ends with the result of its agent's call or with a notification; a receipt proves that the
agent ran exactly the step's command. Everything is idempotent by the attempt's id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from playbook_supervisor.drivers.claude_code import gates, request_limit
from playbook_supervisor.drivers.claude_code.binding import Subagent
from playbook_supervisor.drivers.claude_code.context import HookContext, HookReply
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Ask, Failure, Outcome, Run
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.snapshot import Snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NOTIFICATION = "<task-notification>"
DISMISSED = "This step was interrupted and its result is not needed: end your turn now."
_MISSED = "the client no longer lists its agent, and no hook reported its end"
_STILL_WORKING = "background work of its own still running"
_FIELD = r"(?s)<(task-id|tool-use-id|status|summary|note|result)>(.*?)</\1>"
_OUR_COMMANDS = r"\s*/playbook\.(?:run|resume|pause|abort|status|list)(?:\s|\Z)"
_INTERRUPT_MARK = "[Request interrupted by user"
_WAKING = 3  # blocked stops after which an agent that waited counts as lost
_INTERRUPTED = "interrupted"
_FAILED = "failed"
_TAIL = 65_536  # bytes of a transcript that are searched for the end of a turn


def launch(hook: HookContext, snapshot: Snapshot, attempt_id: str) -> HookReply:
    """Allow an agent's call and replace its whole input: prompt, description, type, model."""
    assert isinstance(snapshot.directive, Run)  # noqa: S101 - only a member of a run is due
    (member,) = (each for each in snapshot.directive.members if each.id == attempt_id)
    work = hook.supervisor.work(snapshot, member)
    hook.bound.workers[attempt_id] = Subagent(work.skill, work.args, hook.text("tool_use_id"))
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
    directive = snapshot.directive
    due = {member.id for member in directive.members} if isinstance(directive, Run) else set()
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
    completed = response.get("status") == "completed"
    return _ended(hook, attempt, completed, _last_text(response), "PostToolUse")


def _last_text(response: Mapping[str, Any]) -> str:
    parts = response.get("content")
    texts = [part["text"] for part in parts if "text" in part] if isinstance(parts, list) else []
    return str(texts[-1]) if texts else ""


def agent_failed(hook: HookContext) -> HookReply | None:
    """The call of an agent failed, or a person interrupted it."""
    attempt = hook.bound.worker_of(tool_use=hook.text("tool_use_id"))
    if not attempt or hook.payload.get("is_interrupt"):
        return None  # after an interrupt, the next prompt says what the person wants
    return _ended(hook, attempt, False, hook.text("error"), "PostToolUseFailure")


def prompted(hook: HookContext) -> HookReply | None:
    """A prompt: a notification, typed by a person, or something that only looks typed."""
    bound, prompt = hook.bound, hook.text("prompt")
    bound.question = ""  # Esc closes a dialog
    ended = _unseen_end(hook)
    end = ended if bound.at_work else ""
    mid_turn = bound.at_work and not end
    if prompt.startswith(NOTIFICATION):
        if not mid_turn:
            bound.at_work, bound.turn = True, "supervised"
        return _notified(hook, prompt)
    if prompt.lstrip().startswith("<") or prompt in bound.crons:
        return None
    if end == _INTERRUPTED:
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
    gate = hook.supervisor.look().directive
    if not hook.interactive or not isinstance(gate, Ask):
        return None
    from playbook_supervisor.kernel.answers import read_answer

    reply = read_answer(prompt, gate.choices, typed_at_prompt=True)
    if reply.resolution is not None:
        recorded = gates.record_answer(hook, "UserPromptSubmit", gate, reply.resolution, prompt)
        if recorded.snapshot is not None:
            hook.bound.turn = "supervised"
        return recorded
    if not reply.question:
        return None
    note = gates.unanswered(gate, reply.question)
    return HookReply("UserPromptSubmit", note=note, shown=note)


def _notified(hook: HookContext, prompt: str) -> HookReply | None:
    # the first field of each name, for a result comes last and may contain anything
    fields: dict[str, str] = dict(reversed(re.findall(_FIELD, prompt)))
    attempt = hook.bound.worker_of(
        tool_use=fields.get("tool-use-id", ""), agent=fields.get("task-id", "")
    )
    if not attempt:
        return None
    if _STILL_WORKING in fields.get("note", ""):
        hook.bound.waited(hook.bound.workers[attempt].agent)
        return None
    completed = fields.get("status") == "completed"
    text = fields.get("result") or ("" if completed else fields.get("summary", ""))
    return _ended(hook, attempt, completed, text, "UserPromptSubmit")


def report_missed(hook: HookContext) -> Snapshot | None:
    """Report the agents whose end no hook reported, because a hook or its report failed.

    The client no longer lists them. One that has stopped before has completed; any other has
    failed. If anything else runs in the background, nothing is reported: it may be work that such
    an agent left behind and will resume for. The client does not list an agent that is just
    resuming either, so such an agent is given a few chances. None if nothing was missed.
    """
    listed = hook.payload.get("background_tasks")
    if not isinstance(listed, list):
        return None
    bound, snapshot = hook.bound, None
    agents = {worker.agent: attempt for attempt, worker in bound.workers.items() if worker.agent}
    running = {task.get("id") for task in listed if isinstance(task, dict)}
    if not running <= agents.keys():
        return None
    for agent, attempt in agents.items():
        if agent in running or (bound.stops.get(agent) == 0 and bound.blocks < _WAKING):
            continue
        message = bound.said.get(agent)
        latest = _report(hook, attempt, message is not None, message or _MISSED)
        snapshot = latest if snapshot is None else latest.after(snapshot)
    return snapshot


def _ended(hook: HookContext, attempt: str, completed: bool, text: str, event: str) -> HookReply:
    agent = hook.bound.workers[attempt].agent
    snapshot = _report(hook, attempt, completed, text or hook.bound.said.get(agent, ""))
    return HookReply(event, snapshot=snapshot, ring=snapshot.question)


def _report(hook: HookContext, attempt: str, completed: bool, text: str) -> Snapshot:
    """Journal an attempt's return, whatever its agent claims.

    Until that succeeds the agent counts as working; a failed report is repeated at the turn's end.
    """
    bound = hook.bound
    worker = bound.workers[attempt]
    known = {"name": "claude-code", "id": worker.agent, "model": worker.model}
    error = None
    if not completed:
        error = Failure("PB-AGENT-FAILED", first_line(text) or "the subagent failed")
    elif [worker.skill, worker.args] not in bound.receipts.get(worker.agent, []):
        typed = f"/{worker.skill} {worker.args}".rstrip()
        error = Failure("PB-AGENT-NO-RECEIPT", f"the subagent ended without running {typed}")
    agent = {key: value for key, value in known.items() if value}
    snapshot = hook.supervisor.report(attempt, Outcome(error, text, agent))
    del bound.workers[attempt]
    bound.forget(worker.agent)
    hook.progress()
    return snapshot


def _unseen_end(hook: HookContext) -> str:
    """How a turn without a Stop hook ended: by Esc, by an error, or not at all.

    The transcript's last messages say so, each end counting once; the prompt that is being
    submitted may already follow them.
    """
    try:
        with Path(hook.text("transcript_path")).open("rb") as transcript:
            transcript.seek(0, 2)
            transcript.seek(max(0, transcript.tell() - _TAIL))
            lines = transcript.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    messages = [found for line in lines if (found := _message(line)) is not None]
    for end, name in reversed(messages[-2:]):
        if end and name != hook.bound.heard:
            hook.bound.heard = name
            return end
    return ""


def _message(line: str) -> tuple[str, str] | None:
    """How a transcript line ends its turn, if at all, and its id; None if it is no message."""
    if '"type":"user"' not in line and '"type":"assistant"' not in line:
        return None
    try:
        entry = json.loads(line)
        if entry["isSidechain"] or entry["type"] not in ("user", "assistant"):
            return None
        content, name = entry["message"]["content"], str(entry["uuid"])
        text = content if isinstance(content, str) else str(content[0].get("text", ""))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return None
    if entry["type"] == "assistant":
        return (_FAILED if entry.get("isApiErrorMessage") is True else ""), name
    return (_INTERRUPTED if text.startswith(_INTERRUPT_MARK) else ""), name
