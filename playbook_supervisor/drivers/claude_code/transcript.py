"""What the client's transcript says that no hook does: how a turn ended, which prompts wait.

The client writes a line when it queues a notification and another when it delivers one. So a
notification that is on its way can be told from one that will never come.
"""

from __future__ import annotations

from playbook_supervisor.agents.claude_transcripts import json_object, tail
from playbook_supervisor.drivers.claude_code import notices
from playbook_supervisor.drivers.claude_code.notices import NOTIFICATION, Notice
from playbook_supervisor.records import Record

INTERRUPTED = "interrupted"
_FAILED = "failed"
_INTERRUPT_MARK = "[Request interrupted by user"
_TAIL = 65_536  # bytes that are searched for the end of a turn
_QUEUE_TAIL = 8_388_608  # bytes that are searched for notifications, which hold whole results
_QUEUE = '{"type":"queue-operation"'


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
    found = (notices.read(each) for each in prompts if each.startswith(NOTIFICATION))
    return {notice.agent: notice for notice in found}


def unseen_end(file: str, heard: str) -> tuple[str, str]:
    """How a turn without a Stop hook ended (by Esc, by an error, or not: empty), and its id.

    The last messages say so; `heard` is the last end that was found before. The prompt that is
    being submitted may already follow them.
    """
    messages = [found for line in tail(file, _TAIL) if (found := _message(line)) is not None]
    for end, name in reversed(messages[-2:]):
        if end and name != heard:
            return end, name
    return "", heard


def _message(line: str) -> tuple[str, str] | None:
    """How a transcript line ends its turn, if at all, and its id; None if it is no message."""
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
        return (_FAILED if entry.get("isApiErrorMessage") is True else ""), name
    return (INTERRUPTED if text.startswith(_INTERRUPT_MARK) else ""), name
