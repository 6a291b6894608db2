"""The client's notifications: an agent has come to its end, or only stopped to wait. Pure."""

from __future__ import annotations

import re

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
"""How a prompt begins that the client, or another agent, has written."""


class Notice(Record):
    """What a notification says of an agent. `waits`: it has stopped and is going to resume.

    `text` are the agent's own words, `reason` the client's for an agent that has not completed.
    """

    agent: str
    tool_use: str
    completed: bool
    waits: bool
    text: str
    reason: str


def is_automatic(prompt: str) -> bool:
    """Whether no person has typed this prompt, by the tag that it begins with."""
    return re.match(_AUTOMATIC, prompt) is not None


def read(prompt: str) -> Notice:
    """The notification in `prompt`.

    The fields stand before the result, which is the agent's own text and may contain anything.
    """
    head, _, rest = prompt.partition(_RESULT)
    fields: dict[str, str] = dict(reversed(re.findall(_FIELD, head)))  # the first of each name
    result = rest.rpartition("</result>")[0]
    completed = fields.get("status") == "completed"
    return Notice(
        agent=fields.get("task-id", ""),
        tool_use=fields.get("tool-use-id", ""),
        completed=completed,
        waits=completed and _STILL_WORKING in fields.get("note", ""),
        text=result,
        reason="" if completed else fields.get("summary", "") or result or FAILED,
    )
