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
    from typing import Any, Literal

READING = frozenset(
    {
        "BashOutput",
        "CronList",
        "Glob",
        "Grep",
        "LS",
        "ListAgents",
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

DISPATCHING = frozenset(
    {
        "CronCreate",
        "CronDelete",
        "EnterWorktree",
        "ExitWorktree",
        "RemoteTrigger",
        "ScheduleWakeup",
        "SendMessage",
        "TeamCreate",
        "TeamDelete",
        "Workflow",
    }
)
"""Other ways to prompt, or to work around a supervisor: a scheduled `continue` looks typed."""

AGENTS = frozenset({"Agent", "Task"})
_FILE_KEYS = ("file_path", "notebook_path", "path")
_OURS = r"playbook (?:begin|next|report|status|show|list|probe)(?: [^;&|`$()<>\n\\]*)?\Z"
_JOURNAL = ".playbooks/sessions"
_PRIVATE = (
    r"\.git(?:/(?:worktrees|modules)/[^\s]{1,200}?)?/playbook\b"
    r"|git-(?:common-)?dir\)?/playbook\b|git-path\s{1,9}playbook\b"
)
_HOOK = r"playbook(?:_supervisor)?\s{1,9}hook\b"
_QUOTING = str.maketrans("", "", "'\"\\")
_SLASHES = r"/(?:\./|/)+"


class ToolCall(Record):
    """A tool call: whose it is, and what stands around it.

    `worker` is true inside a subagent; `supervised` of a turn of the main thread that our own
    words began. `due` are the attempts that may be given to an agent now, `at_work` those that
    have been. `kept` are the folders that only playbook writes, and `file` the one that the call
    names: absolute, without symbolic links; empty where it names none.
    """

    tool: str
    given: Mapping[str, Any]
    worker: bool
    supervised: bool
    due: frozenset[str] = frozenset()
    at_work: frozenset[str] = frozenset()
    gate_open: bool = False
    file: str = ""
    kept: tuple[str, ...] = ()


class ToolDecision(Record):
    """`launch` is the attempt that an agent call is let through for; `ask` puts the gate."""

    verdict: Literal["pass", "deny", "launch", "ask"]
    reason: str = ""
    attempt: str = ""


PASS = ToolDecision("pass")


def rule(call: ToolCall) -> ToolDecision:
    """Whether the call passes (chapter by chapter: the journal, other prompts, then the turn)."""
    if reason := _touches_the_record(call):
        return ToolDecision("deny", reason)
    if call.tool in DISPATCHING:
        return ToolDecision(
            "deny", f"{call.tool} is not for a session that playbook drives: the program prompts."
        )
    if call.worker or not (call.supervised or _names_a_step(call)):
        return PASS
    if call.tool in AGENTS:
        return _dispatch(call)
    if call.tool == "AskUserQuestion":
        if call.gate_open:
            return ToolDecision("ask")
        return ToolDecision("deny", "No gate is open: there is nothing to ask.")
    if call.tool in READING:
        return PASS
    if call.tool == "Bash" and re.match(_OURS, str(call.given.get("command", "")).strip()):
        return PASS
    return ToolDecision(
        "deny", f"{call.tool} is not yours here: the steps' own agents do the work. {_due(call)}"
    )


def _names_a_step(call: ToolCall) -> bool:
    """A step that is due may be given to its agent in a person's turn, too, and in no other way."""
    return call.tool in AGENTS and _prompt(call) in call.due | call.at_work


def _prompt(call: ToolCall) -> str:
    return str(call.given.get("prompt", "")).strip()


def _dispatch(call: ToolCall) -> ToolDecision:
    prompt = _prompt(call)
    if prompt in call.due:
        return ToolDecision("launch", attempt=prompt)
    if prompt in call.at_work:
        return ToolDecision("deny", f"{prompt} is at work already: wait for it.")
    return ToolDecision("deny", f"An agent's prompt is the id of a step that is due. {_due(call)}")


def _due(call: ToolCall) -> str:
    if call.due:
        names = " and ".join(
            f"Agent(description={id_!r}, prompt={id_!r})" for id_ in sorted(call.due)
        )
        return f"Expected now: {names}."
    if call.gate_open:
        return "Expected now: the gate's question to the person, or nothing."
    return "Expected now: nothing; stop and wait."


def named_file(given: Mapping[str, Any]) -> str:
    """The file that a call names, as it names it; empty where it names none."""
    for key in _FILE_KEYS:
        if isinstance(value := given.get(key), str) and value:
            return value
    return ""


def _touches_the_record(call: ToolCall) -> str:
    """Why a call may not touch sessions and runtime state, or nothing.

    What a shell's command comes to in the end is not to be seen here: whoever hides it from us is
    found out by the digests.
    """
    if call.tool in READING:
        return ""
    said = "The journal is written by playbook alone; `playbook show` reads it."
    if call.file and any(_within(call.file, folder) for folder in call.kept):
        return said
    command = str(call.given.get("command", ""))
    plain = command.translate(_QUOTING).casefold()
    if "playbook" not in plain or re.match(_OURS, command.strip()):
        return ""
    plain = re.sub(_SLASHES, "/", plain)
    if _JOURNAL in plain or re.search(_PRIVATE, plain):
        return said
    if re.search(_HOOK, plain):
        return "`playbook hook` is called by the client alone."
    return ""


def _within(file: str, folder: str) -> bool:
    """Also where the file system takes capitals for small letters: then they are the same."""
    inner, outer = file.casefold(), folder.casefold()
    return inner == outer or inner.startswith(f"{outer}/")
