"""Who has the word, and how a step begins and ends as the client sees it.

A step ends with the result of its agent's call, or with the notification of its end; a receipt says
that the agent ran the very command. Everything is idempotent by the attempt's id.
"""

from __future__ import annotations

import re
from pathlib import Path

from playbook_supervisor.answers import read_answer
from playbook_supervisor.drivers.claude_code.binding import Worker
from playbook_supervisor.drivers.claude_code.desk import Desk, Reply
from playbook_supervisor.kernel.directives import Ask, Failure, Outcome, Run
from playbook_supervisor.plain_text import first_line
from playbook_supervisor.supervisor import Outlook

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

NOTIFICATION: Final = "<task-notification>"
_STILL: Final = "background work of its own still running"
_FIELD: Final = re.compile(r"<(task-id|status|result|tool-use-id)>(.*?)</\1>", re.DOTALL)
_INTERRUPTED: Final = "[Request interrupted by user"
_TAIL: Final = 65_536  # bytes of a transcript that are looked at for an interruption


def launch(desk: Desk, attempt_id: str) -> Reply:
    """Let an agent's call through, its whole input replaced: prompt, description, type, model."""
    outlook = desk.look()
    assert isinstance(outlook.directive, Run)  # noqa: S101 - a launch is of an outstanding run
    (member,) = (each for each in outlook.directive.members if each.id == attempt_id)
    work = desk.supervisor.work(outlook, member)
    desk.bound.workers[attempt_id] = Worker(work.skill, work.args, desk.text("tool_use_id"))
    desk.bound.progress()
    given: dict[str, str | bool] = {
        "description": f"{attempt_id} {work.command}",
        "prompt": work.prompt,
        "subagent_type": "general-purpose",
    }
    if member.step.model:
        given["model"] = member.step.model
    if desk.mapping("tool_input").get("run_in_background") is False:
        given["run_in_background"] = False
    return Reply("PreToolUse", decision="allow", reason=f"{attempt_id} is due", given=given)


def agent_said(desk: Desk) -> Reply | None:
    """The result of an agent's call: it was launched in the background, or it has ended."""
    attempt = desk.bound.worker_of(tool_use=desk.text("tool_use_id"))
    response = desk.mapping("tool_response")
    agent = str(response.get("agentId", ""))
    if not attempt:
        return None
    former = desk.bound.workers[attempt]
    desk.bound.workers[attempt] = Worker(former.skill, former.args, former.tool_use, agent)
    if response.get("status") == "async_launched":
        return None
    texts = [part.get("text", "") for part in response.get("content") or [] if part]
    model = str(response.get("resolvedModel", ""))
    ended_well = response.get("status") == "completed"
    return _ended(desk, attempt, ended_well, "\n".join(texts), model, "PostToolUse")


def agent_failed(desk: Desk) -> Reply | None:
    """The call of an agent failed, or a person interrupted it."""
    attempt = desk.bound.worker_of(tool_use=desk.text("tool_use_id"))
    if not attempt:
        return None
    if desk.payload.get("is_interrupt"):
        return None  # the prompt that follows says what the person wants
    return _ended(desk, attempt, False, desk.text("error"), "", "PostToolUseFailure")


def prompted(desk: Desk) -> Reply | None:
    """A prompt: a notification, a person's words, or something that only looks like them."""
    bound, prompt = desk.bound, desk.text("prompt")
    if prompt.startswith(NOTIFICATION):
        bound.at_work, bound.turn = True, "supervised"
        return _notified(desk, prompt)
    if prompt.lstrip().startswith(("<", "/playbook.")) or prompt in bound.crons:
        return None
    mid_turn = bound.at_work
    if mid_turn and _was_interrupted(desk):
        mid_turn = False
        bound.workers.clear()
        desk.supervisor.interrupt()
    bound.at_work = True
    if reply := _answered(desk, prompt):
        bound.turn = "supervised"
        return reply
    if not mid_turn:
        bound.turn = "human"
    return None


def _answered(desk: Desk, prompt: str) -> Reply | None:
    """The prompt as an answer to the open gate, if it is one (kai FR26)."""
    if not desk.interactive:
        return None
    outlook = desk.look()
    asked = outlook.directive
    if not isinstance(asked, Ask):
        return None
    reply = read_answer(prompt, asked.choices, typed_at_prompt=True)
    if reply.resolution is None:
        return None
    before = desk.supervisor.answer(asked.id, reply.resolution, prompt, "")
    desk.bound.progress()
    return Reply("UserPromptSubmit", tell=desk.outlook().after(before))


def _notified(desk: Desk, prompt: str) -> Reply | None:
    fields = dict(_FIELD.findall(prompt))
    attempt = desk.bound.worker_of(
        tool_use=fields.get("tool-use-id", ""), agent=fields.get("task-id", "")
    )
    if not attempt or _STILL in prompt:
        return None
    ended_well = fields.get("status") == "completed"
    return _ended(desk, attempt, ended_well, fields.get("result", ""), "", "UserPromptSubmit")


def _ended(desk: Desk, attempt: str, ended_well: bool, said: str, model: str, event: str) -> Reply:
    """Journal an attempt's return; what its agent claims counts for nothing."""
    worker = desk.bound.workers.pop(attempt)
    receipts = desk.bound.receipts.pop(worker.agent, [])
    words = first_line(said or desk.bound.said.pop(worker.agent, ""))
    agent: dict[str, str | int | float] = {"name": "claude-code"}
    if worker.agent:
        agent["id"] = worker.agent
    if model:
        agent["model"] = model
    error = None
    if not ended_well:
        error = Failure("PB-AGENT-FAILED", words or "the subagent did not end well")
    elif [worker.skill, worker.args] not in receipts:
        typed = f"/{worker.skill} {worker.args}".rstrip()
        error = Failure("PB-AGENT-NO-RECEIPT", f"the subagent ended without having run {typed}")
    outlook = desk.supervisor.report(attempt, Outcome(error, words, agent))
    desk.bound.progress()
    return Reply(event, tell=outlook, ring=_call_for(outlook))


def _call_for(outlook: Outlook) -> str:
    return outlook.question if isinstance(outlook.directive, Ask) else ""


def _was_interrupted(desk: Desk) -> bool:
    """Whether the transcript ends with the mark that Esc leaves; no hook tells of it."""
    try:
        with Path(desk.text("transcript_path")).open("rb") as transcript:
            transcript.seek(0, 2)
            transcript.seek(max(0, transcript.tell() - _TAIL))
            lines = transcript.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return False
    spoken = [line for line in lines if '"type":"user"' in line or '"type":"assistant"' in line]
    return any(_INTERRUPTED in line for line in spoken[-2:])
