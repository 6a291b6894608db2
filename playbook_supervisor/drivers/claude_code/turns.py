"""Who has the word, and how a step begins and ends as the client sees it.

A step ends with the result of its agent's call, or with the notification of its end; a receipt says
that the agent ran the very command. Everything is idempotent by the attempt's id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from playbook_supervisor.drivers.claude_code import gates, request_limit
from playbook_supervisor.drivers.claude_code.binding import Binding, Subagent
from playbook_supervisor.drivers.claude_code.context import HookContext, HookReply
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Ask, Failure, Outcome, Run
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.snapshot import Snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NOTIFICATION = "<task-notification>"
DISMISSED = "This step was interrupted, and nobody waits for it: end your turn now."
_UNHEARD = "the client lists its agent no longer, and no hook has told of its end"
_STILL = "background work of its own still running"
_FIELD = r"(?s)<(task-id|tool-use-id|status|summary|note|result)>(.*?)</\1>"
_OURS = r"\s*/playbook\.(?:run|resume|pause|abort|status|list)(?:\s|\Z)"
_MARK = "[Request interrupted by user"
_WAKING = 3  # stops that are refused until an agent that waited is taken for lost
_INTERRUPTED = "interrupted"
_FAILED = "failed"
_TAIL = 65_536  # bytes of a transcript that are looked at for the end of a turn


def launch(desk: HookContext, attempt_id: str) -> HookReply:
    """Let an agent's call through, its whole input replaced: prompt, description, type, model."""
    outlook = desk.look()
    assert isinstance(outlook.directive, Run)  # noqa: S101 - a launch is of an outstanding run
    (member,) = (each for each in outlook.directive.members if each.id == attempt_id)
    work = desk.supervisor.work(outlook, member)
    desk.bound.workers[attempt_id] = Subagent(work.skill, work.args, desk.text("tool_use_id"))
    given: dict[str, str | bool] = {
        "description": f"{attempt_id} {work.command}",
        "prompt": work.prompt,
        "subagent_type": "general-purpose",
    }
    if member.step.model:
        given["model"] = member.step.model
    if desk.mapping("tool_input").get("run_in_background") is False:
        given["run_in_background"] = False
    return HookReply("PreToolUse", decision="allow", reason=f"{attempt_id} is due", given=given)


def to_launch(desk: HookContext, outlook: Snapshot) -> frozenset[str]:
    """The attempts that are due and that no agent has been given."""
    asked = outlook.directive
    due = {member.id for member in asked.members} if isinstance(asked, Run) else set()
    return frozenset(due - desk.bound.workers.keys())


def forget_refused(bound: Binding) -> None:
    """An agent that was let through and never launched is due again: no background work runs."""
    for attempt in [name for name, worker in bound.workers.items() if not worker.agent]:
        del bound.workers[attempt]


def agent_said(desk: HookContext) -> HookReply | None:
    """The result of an agent's call: it was launched in the background, or it has ended."""
    attempt = desk.bound.worker_of(tool_use=desk.text("tool_use_id"))
    response = desk.mapping("tool_response")
    if not attempt:
        return None
    desk.bound.workers[attempt] = replace(
        desk.bound.workers[attempt],
        agent=str(response.get("agentId", "")),
        model=str(response.get("resolvedModel", "")),
    )
    if response.get("status") == "async_launched":
        desk.progress()  # let through is not launched: the settings may forbid it, again and again
        return None
    ended_well = response.get("status") == "completed"
    return _ended(desk, attempt, ended_well, _last_text(response), "PostToolUse")


def _last_text(response: Mapping[str, Any]) -> str:
    parts = response.get("content")
    texts = [part["text"] for part in parts if "text" in part] if isinstance(parts, list) else []
    return str(texts[-1]) if texts else ""


def agent_failed(desk: HookContext) -> HookReply | None:
    """The call of an agent failed, or a person interrupted it."""
    attempt = desk.bound.worker_of(tool_use=desk.text("tool_use_id"))
    if not attempt:
        return None
    if desk.payload.get("is_interrupt"):
        return None  # the prompt that follows says what the person wants
    return _ended(desk, attempt, False, desk.text("error"), "PostToolUseFailure")


def prompted(desk: HookContext) -> HookReply | None:
    """A prompt: a notification, a person's words, or something that only looks like them."""
    bound, prompt = desk.bound, desk.text("prompt")
    bound.question = ""  # a dialog that was left by Esc is over
    ended = _unseen_end(desk)
    over = ended if bound.at_work else ""
    mid_turn = bound.at_work and not over
    if prompt.startswith(NOTIFICATION):
        if not mid_turn:
            bound.at_work, bound.turn = True, "supervised"
        return _notified(desk, prompt)
    if prompt.lstrip().startswith("<") or prompt in bound.crons:
        return None
    if over == _INTERRUPTED:
        desk.supervisor.interrupt()
        bound.dismiss()
    bound.at_work = True
    request_limit.reset(str(desk.private))
    if re.match(_OURS, prompt):
        if not mid_turn:
            bound.turn = "supervised"
        return None
    if reply := _answered(desk, prompt):
        if reply.tell is not None:
            bound.turn = "supervised"
        elif not mid_turn:
            bound.turn = "human"
        return reply
    if not mid_turn:
        bound.turn = "human"
    return _ask_back(desk, prompt)


def _answered(desk: HookContext, prompt: str) -> HookReply | None:
    """The prompt as an answer to the open gate, if it is one (kai FR26)."""
    asked = desk.look().directive
    if not desk.interactive or not isinstance(asked, Ask):
        return None
    from playbook_supervisor.kernel.answers import read_answer

    reply = read_answer(prompt, asked.choices, typed_at_prompt=True)
    if reply.resolution is None:
        return None
    return gates.settle(desk, "UserPromptSubmit", asked, reply.resolution, prompt)


def _ask_back(desk: HookContext, prompt: str) -> HookReply | None:
    """What a bare "no" may mean; all else is talk."""
    asked = desk.look().directive
    if not desk.interactive or not isinstance(asked, Ask):
        return None
    from playbook_supervisor.kernel.answers import read_answer

    question = read_answer(prompt, asked.choices, typed_at_prompt=True).question
    if not question:
        return None
    note = gates.unanswered(asked, question)
    return HookReply("UserPromptSubmit", note=note, shown=note)


def _notified(desk: HookContext, prompt: str) -> HookReply | None:
    fields: dict[str, str] = {}
    for name, value in re.findall(_FIELD, prompt):
        fields.setdefault(name, value)  # what a result may hold comes last
    attempt = desk.bound.worker_of(
        tool_use=fields.get("tool-use-id", ""), agent=fields.get("task-id", "")
    )
    if not attempt:
        return None
    if _STILL in fields.get("note", ""):
        desk.bound.waited(desk.bound.workers[attempt].agent)
        return None
    ended_well = fields.get("status") == "completed"
    said = fields.get("result") or ("" if ended_well else fields.get("summary", ""))
    return _ended(desk, attempt, ended_well, said, "UserPromptSubmit")


def missed(desk: HookContext) -> Snapshot | None:
    """Take in the ends of agents that no hook has told of: a hook broke, or its report failed.

    The client does not list them any more. One that was heard to stop has come to its end, any
    other has not ended well. Where anything else runs in the background nobody can tell: it may
    be work that such an agent has left, and for which it will wake. Nor does the client list one
    that is just waking: it is looked for a few times. None: nothing was missed.
    """
    listed = desk.payload.get("background_tasks")
    if not isinstance(listed, list):
        return None
    bound, outlook = desk.bound, None
    agents = {worker.agent: attempt for attempt, worker in bound.workers.items() if worker.agent}
    there = {task.get("id") for task in listed if isinstance(task, dict)}
    if not there <= agents.keys():
        return None
    for agent, attempt in agents.items():
        if agent in there or (bound.stops.get(agent) == 0 and bound.blocks < _WAKING):
            continue
        last_words = bound.said.get(agent)
        now = _report(desk, attempt, last_words is not None, last_words or _UNHEARD)
        outlook = now if outlook is None else now.after(outlook)
    return outlook


def _ended(desk: HookContext, attempt: str, ended_well: bool, said: str, event: str) -> HookReply:
    """An attempt's agent came back, and the hook says so."""
    agent = desk.bound.workers[attempt].agent
    outlook = _report(desk, attempt, ended_well, said or desk.bound.said.get(agent, ""))
    return HookReply(event, tell=outlook, ring=_call_for(outlook))


def _report(desk: HookContext, attempt: str, ended_well: bool, said: str) -> Snapshot:
    """Journal an attempt's return; what its agent claims counts for nothing.

    Its agent is at work until that has succeeded: a report that fails is made when the turn ends.
    """
    bound = desk.bound
    worker, words = bound.workers[attempt], first_line(said)
    agent: dict[str, str | int | float] = {"name": "claude-code"}
    if worker.agent:
        agent["id"] = worker.agent
    if worker.model:
        agent["model"] = worker.model
    error = None
    if not ended_well:
        error = Failure("PB-AGENT-FAILED", words or "the subagent did not end well")
    elif [worker.skill, worker.args] not in bound.receipts.get(worker.agent, []):
        typed = f"/{worker.skill} {worker.args}".rstrip()
        error = Failure("PB-AGENT-NO-RECEIPT", f"the subagent ended without having run {typed}")
    outlook = desk.supervisor.report(attempt, Outcome(error, words, agent))
    del bound.workers[attempt]
    bound.forget(worker.agent)
    desk.progress()
    return outlook


def _call_for(outlook: Snapshot) -> str:
    return outlook.question if isinstance(outlook.directive, Ask) else ""


def _unseen_end(desk: HookContext) -> str:
    """How the turn has ended that no Stop hook has ended: by Esc, by an error, or not at all.

    The transcript says so in its last words, each time once; the prompt that is being submitted
    may stand behind them already.
    """
    try:
        with Path(desk.text("transcript_path")).open("rb") as transcript:
            transcript.seek(0, 2)
            transcript.seek(max(0, transcript.tell() - _TAIL))
            lines = transcript.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    spoken = [words for line in lines if (words := _spoken(line)) is not None]
    for end, name in reversed(spoken[-2:]):
        if end and name != desk.bound.heard:
            desk.bound.heard = name
            return end
    return ""


def _spoken(line: str) -> tuple[str, str] | None:
    """What end of a turn a line of the transcript tells of, and its id; None: nobody speaks."""
    if '"type":"user"' not in line and '"type":"assistant"' not in line:
        return None
    try:
        entry = json.loads(line)
        if entry["isSidechain"] or entry["type"] not in ("user", "assistant"):
            return None
        content, name = entry["message"]["content"], str(entry["uuid"])
        said = content if isinstance(content, str) else str(content[0].get("text", ""))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return None
    if entry["type"] == "assistant":
        return (_FAILED if entry.get("isApiErrorMessage") is True else ""), name
    return (_INTERRUPTED if said.startswith(_MARK) else ""), name
