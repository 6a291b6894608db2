"""What a tool call may do while a session is bound: one row of the contract each.

The supervising conversation is held by an allow-list; workers work freely, but for the journal and
for other ways to prompt the client. Pure: a call in, a ruling out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from playbook_supervisor.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final, Literal

READING: Final = frozenset(
    {
        "BashOutput",
        "Glob",
        "Grep",
        "LS",
        "ListMcpResourcesTool",
        "NotebookRead",
        "Read",
        "ReadMcpResourceTool",
        "TaskGet",
        "TaskList",
        "TaskOutput",
        "ToolSearch",
    }
)
"""Tools of the main thread that change nothing."""

DISPATCHING: Final = frozenset(
    {
        "CronCreate",
        "CronDelete",
        "EnterWorktree",
        "ExitWorktree",
        "RemoteTrigger",
        "ScheduleWakeup",
        "SendMessage",
        "TaskStop",
        "TeamCreate",
        "TeamDelete",
        "Workflow",
    }
)
"""Other ways to prompt, or to work around a supervisor: a scheduled `continue` looks typed."""

AGENTS: Final = frozenset({"Agent", "Task"})
_WRITING: Final = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Write"})
_OURS: Final = re.compile(
    r"playbook (?:begin|next|report|status|show|list|probe)(?: [^;&|`$()<>\n\\]*)?\Z"
)
_JOURNAL: Final = ".playbooks/sessions"
_PRIVATE: Final = re.compile(r"\.git(?:/worktrees/[^/\s]+)?/playbook\b|git-dir\)?\"?/playbook\b")


class Call(Record):
    """A tool call: whose it is, and what stands around it.

    `worker` is true inside a subagent; `supervised` of a turn of the main thread that our own
    words began. `due` maps the prompts that may be given to an agent now to their attempts.
    """

    tool: str
    given: Mapping[str, Any]
    worker: bool
    supervised: bool
    due: frozenset[str] = frozenset()
    at_work: frozenset[str] = frozenset()
    gate_open: bool = False


class Ruling(Record):
    """`launch` is the attempt that an agent call is let through for; `ask` puts the gate."""

    verdict: Literal["pass", "deny", "launch", "ask"]
    reason: str = ""
    attempt: str = ""


PASS: Final = Ruling("pass")


def rule(call: Call) -> Ruling:
    """Whether the call passes (chapter by chapter: the journal, other prompts, then the turn)."""
    if reason := _touches_the_record(call):
        return Ruling("deny", reason)
    if call.tool in DISPATCHING and not (call.tool == "TaskStop" and not call.supervised):
        return Ruling(
            "deny", f"{call.tool} is not for a session that playbook drives: the program prompts."
        )
    if call.worker or not call.supervised:
        return PASS
    if call.tool in AGENTS:
        return _dispatch(call)
    if call.tool == "AskUserQuestion":
        if call.gate_open:
            return Ruling("ask")
        return Ruling("deny", "No gate is open: there is nothing to ask.")
    if call.tool in READING:
        return PASS
    if call.tool == "Bash" and _OURS.match(str(call.given.get("command", "")).strip()):
        return PASS
    return Ruling(
        "deny", f"{call.tool} is not yours here: the steps' own agents do the work. {_due(call)}"
    )


def _dispatch(call: Call) -> Ruling:
    prompt = str(call.given.get("prompt", "")).strip()
    if prompt in call.due:
        return Ruling("launch", attempt=prompt)
    if prompt in call.at_work:
        return Ruling("deny", f"{prompt} is at work already: wait for it.")
    return Ruling("deny", f"An agent's prompt is the id of a step that is due. {_due(call)}")


def _due(call: Call) -> str:
    if call.due:
        names = " and ".join(
            f"Agent(description={id_!r}, prompt={id_!r})" for id_ in sorted(call.due)
        )
        return f"Expected now: {names}."
    if call.gate_open:
        return "Expected now: the gate's question to the person, or nothing."
    return "Expected now: nothing; stop and wait."


def _touches_the_record(call: Call) -> str:
    """Why a call may not touch sessions and runtime state, or nothing."""
    said = "The journal is written by playbook alone."
    if call.tool in _WRITING:
        path = str(call.given.get("file_path") or call.given.get("notebook_path") or "")
        plain = re.sub(r"/+(?:\./+)*", "/", path)
        return said if _JOURNAL in plain or _PRIVATE.search(plain) else ""
    if call.tool == "Bash":
        command = str(call.given.get("command", ""))
        if _OURS.match(command.strip()):
            return ""
        return said if _JOURNAL in command or _PRIVATE.search(command) else ""
    return ""
