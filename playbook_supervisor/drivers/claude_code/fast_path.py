"""Decides most tool calls without opening the session, and imports next to nothing.

These are the calls of workers, the reading calls of the main thread, and rounds of calls, which are
only counted. The rules are those of `allowlist`. Every other case (another process, a step's
command, an open dialog) is left to `hooks`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from os.path import exists, expanduser, join, realpath

from playbook_supervisor.drivers.claude_code import allowlist, request_limit
from playbook_supervisor.drivers.claude_code.marker import SCRIPT, git_directory, marked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from playbook_supervisor.drivers.claude_code.allowlist import ToolDecision

_MAX_PATH = 10_000  # characters of a path
_SESSIONS = ".playbooks/sessions"
_FULL_HOOK = frozenset({*allowlist.AGENTS, "AskUserQuestion", "Skill"})
"""Tools whose calls change the session's state."""
_IGNORED = frozenset({"SessionEnd", "SubagentStart"})  # events that need no reply
_ROUND = "PostToolBatch"
CALLS = ("PreToolUse", "PreSkillShellCommand")
"""A call of a tool, and a line of shell in the text of a command, which is judged like a call."""


def at_once(payload: Mapping[str, Any], environment: Mapping[str, str]) -> ToolDecision | None:
    """The decision on the call, or None if the whole hook has to run."""
    tool, given = payload.get("tool_name"), payload.get("tool_input")
    agent, cwd = payload.get("agent_id"), payload.get("cwd")
    event = payload.get("hook_event_name")
    if isinstance(event, str) and event in _IGNORED:
        return allowlist.PASS
    root = environment.get("CLAUDE_PROJECT_DIR") or (cwd if isinstance(cwd, str) else "")
    if event == _ROUND:
        return _round(payload, root, environment)
    if event not in CALLS or not isinstance(tool, str):
        return None
    worker = isinstance(agent, str) and agent != "" and tool not in _FULL_HOOK
    if not isinstance(given, dict) or not (worker or (not agent and tool in allowlist.READING)):
        return None
    git_dir, private = _private(payload, root)
    bound = _binding(private, str(agent), environment)
    if bound is None:
        return None
    return allowlist.rule(
        allowlist.ToolCall(
            tool,
            given,
            worker=worker,
            supervised=False,
            permitted=_permitted(bound, str(agent)) if worker else None,
            file=named_file(cwd if isinstance(cwd, str) and cwd else root, given),
            kept=kept_folders(root, git_dir),
        )
    )


def _round(
    payload: Mapping[str, Any], root: str, environment: Mapping[str, str]
) -> ToolDecision | None:
    """Count a finished round of calls; None if the count leads to a reply."""
    agent = payload.get("agent_id")
    _, private = _private(payload, root)
    bound = _binding(private, str(agent), environment)
    if bound is None:
        return None
    if agent:
        if bound["workers"]:
            request_limit.reset(private)
    elif bound["turn"] == "supervised":
        if request_limit.counted(private) + 1 >= request_limit.WARNED:
            return None
        request_limit.count(private, waiting=bool(bound["workers"]))
    return allowlist.PASS


def _private(payload: Mapping[str, Any], root: str) -> tuple[str, str]:
    git_dir = git_directory(root)
    session, client = marked(git_dir)
    ours = session.replace("-", "").isalnum() and client == payload.get("session_id")
    return git_dir, join(git_dir, "playbook", session) if ours else ""


def _binding(private: str, agent: str, environment: Mapping[str, str]) -> Mapping[str, Any] | None:
    if not private or exists(join(private, "dialog")):
        return None
    try:
        with open(join(private, "claude.json"), "rb") as file:
            bound = json.load(file)
        pid, dismissed = str(bound["pid"]), bound["dismissed"]
        ours = pid == environment.get("CLAUDE_PID") and agent not in dismissed
        return bound if ours and {"turn", "workers"} <= bound.keys() else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _permitted(bound: Mapping[str, Any], agent: str) -> frozenset[str] | None:
    workers = bound["workers"].values()
    return allowlist.permitted(((each["agent"], each.get("tools")) for each in workers), agent)


def named_file(folder: str, given: Mapping[str, Any]) -> str:
    """The file that the call names, with symbolic links resolved."""
    named = allowlist.named_file(given)
    try:
        return realpath(join(folder, expanduser(named))) if named else ""
    except (OSError, ValueError):
        return named  # no file can have this name


def kept_folders(root: str, git_dir: str) -> tuple[str, ...]:
    """The folders, and the script of the hooks, that only playbook may write."""
    shared = git_dir
    if exists(pointer := join(git_dir, "commondir")):
        with open(pointer, encoding="utf-8", errors="surrogateescape") as file:
            shared = join(git_dir, file.readline(_MAX_PATH).strip())
    folders = (
        join(root, _SESSIONS),
        join(root, SCRIPT),
        join(git_dir, "playbook"),
        join(shared, "playbook"),
    )
    return tuple(map(realpath, folders))
