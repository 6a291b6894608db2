"""Which tool calls are allowed while a session is bound. Pure.

The supervising conversation may only make the calls of an allow-list. Workers are restricted in two
ways: they may not touch the journal, nor prompt the client.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from playbook_supervisor.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    Worker = tuple[str, Sequence[str] | None]  # the id of a subagent, if it is known, and its tools

READING = frozenset(
    {
        *("BashOutput", "CronList", "Glob", "Grep", "LS", "ListAgents", "ListMcpResourcesTool"),
        *("NotebookRead", "Read", "ReadMcpResourceTool", "TaskGet", "TaskList", "TaskOutput"),
        "ToolSearch",
    }
)
"""Tools that change nothing."""

DISPATCHING = frozenset(
    {
        *("CronCreate", "CronDelete", "EnterWorktree", "ExitWorktree", "RemoteTrigger"),
        *("ScheduleWakeup", "SendMessage", "TeamCreate", "TeamDelete", "Workflow"),
    }
)
"""Other ways to prompt the client or to bypass us: a scheduled `continue` looks typed."""

_FINDING = "ToolSearch"  # loads the descriptions of tools that the client has left out
AGENTS = frozenset({"Agent", "Task"})
_FILE_KEYS = ("file_path", "notebook_path", "path")
_OURS = r"playbook (?:begin|next|report|status|show|list|probe|prove)(?: [^;&|`$()<>\n\\]*)?\Z"
_JOURNAL = ".playbooks/sessions"
_SCRIPT = ".claude/hooks/playbook.sh"
_PRIVATE = (
    r"\.git(?:/(?:worktrees|modules)/[^\s]{1,200}?)?/playbook\b"
    r"|git-(?:common-)?dir\)?/playbook\b|git-path\s{1,9}playbook\b"
)
_HOOKS_STAY = "The script of the hooks stays as it is while playbook drives the session."
_HOOK = r"playbook(?:_supervisor)?\s{1,9}hook\b"
_QUOTING = str.maketrans("", "", "'\"\\")
_SLASHES = r"/(?:\./|/)+"


class ToolCall(Record):
    """A tool call and its context.

    `worker`: it is made by a subagent. `supervised`: it is made in a turn of the main thread that
    we began. `due` are the attempts that may be launched now, `at_work` those that have been.
    `asks_gate`: it asks the open gate's question. `permitted` are the only tools of the step that
    the worker carries out, None if it may use all. `kept` are the folders that only playbook may
    write, `file` the file that the call names, both absolute and without symbolic links; `file` is
    empty if there is none.
    """

    tool: str
    given: Mapping[str, Any]
    worker: bool
    supervised: bool
    due: frozenset[str] = frozenset()
    at_work: frozenset[str] = frozenset()
    gate_open: bool = False
    asks_gate: bool = False
    permitted: frozenset[str] | None = None
    file: str = ""
    kept: tuple[str, ...] = ()


class ToolDecision(Record):
    """`launch` allows the agent call of `attempt`; `ask` allows the gate's dialog."""

    verdict: Literal["pass", "deny", "launch", "ask"]
    reason: str = ""
    attempt: str = ""


PASS = ToolDecision("pass")


def rule(call: ToolCall) -> ToolDecision:
    """True if the call is allowed: first the journal, then other prompts, then the turn's rules."""
    if reason := _touches_records(call):
        return ToolDecision("deny", reason)
    if call.tool in DISPATCHING:
        return ToolDecision(
            "deny",
            f"{call.tool} is not allowed while playbook drives the session: it does the prompting.",
        )
    if call.worker and call.permitted is not None and call.tool not in call.permitted:
        tools = ", ".join(sorted(call.permitted - {_FINDING})) or "none"
        return ToolDecision("deny", f"{call.tool} is not among the tools of this step: {tools}.")
    if call.worker or not (call.supervised or _names_a_step(call) or _asks_gate(call)):
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
        "deny", f"{call.tool} is not allowed here: the steps' agents do the work. {_expected(call)}"
    )


def permitted(workers: Iterable[Worker], agent: str) -> frozenset[str] | None:
    """The names of the tools that this subagent may use, None for all.

    A subagent whose id is not known yet may be any of those that were launched without one.
    """
    known = list(workers)
    candidates = [tools for id_, tools in known if id_ == agent] or [
        tools for id_, tools in known if not id_
    ]
    names: set[str] = set()
    for tools in candidates:
        if tools is None:
            return None
        names |= {rule.partition("(")[0].strip() for rule in tools}
    return frozenset({*names, _FINDING}) if candidates else None


def _names_a_step(call: ToolCall) -> bool:
    """In a human turn, too, a step that is due may be launched, and only as its directive says."""
    return call.tool in AGENTS and _prompt(call) in call.due | call.at_work


def _asks_gate(call: ToolCall) -> bool:
    """In a human turn, too, what a person chooses at the gate's question must be the answer."""
    return call.tool == "AskUserQuestion" and call.gate_open and call.asks_gate


def _prompt(call: ToolCall) -> str:
    return str(call.given.get("prompt", "")).strip()


def _dispatch(call: ToolCall) -> ToolDecision:
    prompt = _prompt(call)
    if prompt in call.due:
        return ToolDecision("launch", attempt=prompt)
    if prompt in call.at_work:
        return ToolDecision("deny", f"{prompt} is already running: wait for it.")
    return ToolDecision(
        "deny", f"An agent's prompt must be the id of a step that is due. {_expected(call)}"
    )


def _expected(call: ToolCall) -> str:
    if call.due:
        return f"Expected now: {calls(sorted(call.due))}."
    if call.gate_open:
        return "Expected now: the gate's question to the person, or nothing."
    return "Expected now: nothing; stop and wait."


def calls(due: Sequence[str]) -> str:
    """The calls that launch the agents of these attempts."""
    return " and ".join(f"Agent(description={id_!r}, prompt={id_!r})" for id_ in due)


def named_file(given: Mapping[str, Any]) -> str:
    """The file that a call names, as given; empty if there is none."""
    for key in _FILE_KEYS:
        if isinstance(value := given.get(key), str) and value:
            return value
    return ""


def _touches_records(call: ToolCall) -> str:
    """Why the call may not touch what it names of sessions and local state, or nothing.

    The effect of a shell command cannot be foreseen here; hidden changes are found by the digests.
    """
    if call.tool in READING:
        return ""
    reason = "Only playbook writes the journal; `playbook show` reads it."
    if call.file and any(_within(call.file, folder) for folder in call.kept):
        return _HOOKS_STAY if call.file.casefold().endswith(_SCRIPT) else reason
    command = str(call.given.get("command", ""))
    plain = command.translate(_QUOTING).casefold()
    if "playbook" not in plain or re.match(_OURS, command.strip()):
        return ""
    plain = re.sub(_SLASHES, "/", plain)
    if _SCRIPT in plain:
        return _HOOKS_STAY
    if _JOURNAL in plain or re.search(_PRIVATE, plain):
        return reason
    if re.search(_HOOK, plain):
        return "Only the client calls `playbook hook`."
    return ""


def _within(file: str, folder: str) -> bool:
    """Ignores case, because the file system may."""
    inner, outer = file.casefold(), folder.casefold()
    return inner == outer or inner.startswith(f"{outer}/")
