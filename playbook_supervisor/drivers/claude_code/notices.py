"""The client's news of agents and turns, from its notifications and its transcript.

A notification says that an agent has come to its end, or only stopped to wait. The client writes a
line into the transcript when it queues one and another when it delivers it. So a notification that
is on its way can be told from one that will never come.
"""

from __future__ import annotations

import re

from playbook_supervisor.agents.claude.transcripts import tail
from playbook_supervisor.formats.fields import json_object
from playbook_supervisor.records import Record

NOTIFICATION = "<task-notification>"
FAILED = "the subagent failed"
_RESULT = "<result>"
_FIELD = r"(?s)<(task-id|tool-use-id|status|summary|note)>(.*?)</\1>"
_STILL_WORKING = "background work of its own still running"
_AUTOMATIC = (
    r"\s*<(?:task-notification|(?:agent|teammate|cross-session|slack-tag|command|other-user)-message"
    r"|system-reminder|slack-ping|(?:artifact-room-)?event|channel|wake|webhook-payload"
    r"|(?:bash|local-command)-(?:input|stdout|stderr|caveat))[\s>]"
)
"""The beginning of a prompt that the client, or another agent, has written."""
INTERRUPTED = "interrupted"
_ERROR = "failed"
_INTERRUPT_MARK = "[Request interrupted by user"
_TAIL = 65_536  # bytes that are searched for the end of a turn
_QUEUE_TAIL = 8_388_608  # bytes that are searched for notifications, which hold whole results
_QUEUE = '{"type":"queue-operation"'


class Notice(Record):
    """The content of a notification about an agent. `waits`: it has stopped and is going to resume.

    `text` are the agent's own words, `reason` the client's for an agent that has not completed.
    """

    agent: str
    tool_use: str
    waits: bool
    text: str
    reason: str


def is_automatic(prompt: str) -> bool:
    """True if no person has typed this prompt, by the tag that it begins with."""
    return re.match(_AUTOMATIC, prompt) is not None


def read(prompt: str) -> Notice:
    """The notification in `prompt`; behind its fields, the agent's text may contain anything."""
    head, _, rest = prompt.partition(_RESULT)
    fields: dict[str, str] = dict(reversed(re.findall(_FIELD, head)))  # the first of each name
    result = rest.rpartition("</result>")[0]
    completed = fields.get("status") == "completed"
    return Notice(
        agent=fields.get("task-id", ""),
        tool_use=fields.get("tool-use-id", ""),
        waits=completed and _STILL_WORKING in fields.get("note", ""),
        text=result,
        reason="" if completed else fields.get("summary", "") or result or FAILED,
    )


# ── the transcript ──────────────────────────────────────────────────────────────────────────


class Queue(Record):
    """The last notification of each agent: those that wait in the queue, and those delivered."""

    waiting: dict[str, Notice]
    delivered: dict[str, Notice]


def queue(file: str) -> Queue:
    """The notifications in that transcript; none if it cannot be read."""
    waiting: list[str] = []
    delivered: list[str] = []
    for line in tail(file, _QUEUE_TAIL):
        entry = json_object(line) if line.startswith(_QUEUE) else {}
        content = entry.get("content")
        if entry.get("operation") == "enqueue":
            waiting.append(content if isinstance(content, str) else "")
        elif entry.get("operation") and waiting:
            taken = waiting.index(content) if content in waiting else 0
            delivered.append(waiting.pop(taken))
    return Queue(_by_agent(waiting), _by_agent(delivered))


def _by_agent(prompts: list[str]) -> dict[str, Notice]:
    found = (read(each) for each in prompts if each.startswith(NOTIFICATION))
    return {notice.agent: notice for notice in found}


def unseen_end(file: str, heard: str) -> tuple[str, str]:
    """The end of a turn without a Stop hook (by Esc, by an error, or none: empty), and its id.

    The last messages say so; `heard` is the last end that was found before. The prompt that is
    being submitted may already follow them.
    """
    messages = [found for line in tail(file, _TAIL) if (found := _message(line)) is not None]
    for end, name in reversed(messages[-2:]):
        if end and name != heard:
            return end, name
    return "", heard


def _message(line: str) -> tuple[str, str] | None:
    """The end that a transcript line makes of its turn, if any, and its id; None for no message."""
    if '"type":"user"' not in line and '"type":"assistant"' not in line:
        return None
    entry = json_object(line)
    try:
        if entry["isSidechain"] or entry["type"] not in ("user", "assistant"):
            return None
        content, name = entry["message"]["content"], str(entry["uuid"])
        text = content if isinstance(content, str) else str(content[0].get("text", ""))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return None
    if entry["type"] == "assistant":
        return (_ERROR if entry.get("isApiErrorMessage") is True else ""), name
    return (INTERRUPTED if text.startswith(_INTERRUPT_MARK) else ""), name
