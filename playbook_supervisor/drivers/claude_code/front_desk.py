"""Calls of tools that are answered without opening the session: most hooks are of this kind.

What a worker does, and what the main thread only reads. The rules are the same as ever, followed
with next to nothing imported; whatever is not plain here (another process, the command of a step,
a dialog that waits) is left to those who look at it all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from os.path import exists, expanduser, join, realpath

from playbook_supervisor.drivers.claude_code import allowlist
from playbook_supervisor.drivers.claude_code.marker import git_directory, marked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from playbook_supervisor.drivers.claude_code.allowlist import Ruling

_LONGEST: Final = 10_000  # characters of a path
_SESSIONS: Final = ".playbooks/sessions"
_LOOKED_AT: Final = frozenset({*allowlist.AGENTS, "AskUserQuestion", "Skill"})
"""Tools whose calls begin or end something."""
_UNHEARD: Final = frozenset({"PreCompact", "SessionEnd", "SubagentStart"})
"""Events of which nothing follows."""


def at_once(payload: Mapping[str, Any], environment: Mapping[str, str]) -> Ruling | None:
    """Whether the call passes; None where that has to be looked at properly."""
    tool, given = payload.get("tool_name"), payload.get("tool_input")
    agent, cwd = payload.get("agent_id"), payload.get("cwd")
    event = payload.get("hook_event_name")
    if isinstance(event, str) and event in _UNHEARD:
        return allowlist.PASS
    if event != "PreToolUse" or not isinstance(tool, str):
        return None
    worker = isinstance(agent, str) and agent != "" and tool not in _LOOKED_AT
    if not isinstance(given, dict) or not (worker or (not agent and tool in allowlist.READING)):
        return None
    root = environment.get("CLAUDE_PROJECT_DIR") or (cwd if isinstance(cwd, str) else "")
    git_dir = git_directory(root)
    session, client = marked(git_dir)
    private = join(git_dir, "playbook", session)
    if not session.replace("-", "").isalnum() or client != payload.get("session_id"):
        return None
    if not _plainly_ours(private, str(agent), environment) or exists(join(private, "dialog")):
        return None
    return allowlist.rule(
        allowlist.Call(
            tool,
            given,
            worker=worker,
            supervised=False,
            file=named_file(cwd if isinstance(cwd, str) and cwd else root, given),
            kept=kept_folders(root, git_dir),
        )
    )


def _plainly_ours(private: str, agent: str, environment: Mapping[str, str]) -> bool:
    """Whether it is of the process that drives, and of an agent that is waited for."""
    try:
        with open(join(private, "claude.json"), "rb") as file:
            bound = json.load(file)
        return (
            str(bound["pid"]) == environment.get("CLAUDE_PID") and agent not in bound["dismissed"]
        )
    except (OSError, ValueError, TypeError, KeyError):
        return False


def named_file(folder: str, given: Mapping[str, Any]) -> str:
    """The file that the call names, wherever symbolic links lead."""
    named = allowlist.named_file(given)
    try:
        return realpath(join(folder, expanduser(named))) if named else ""
    except (OSError, ValueError):
        return named  # no file can have that name


def kept_folders(root: str, git_dir: str) -> tuple[str, ...]:
    """The folders that only playbook writes."""
    shared = git_dir
    if exists(pointer := join(git_dir, "commondir")):
        with open(pointer, encoding="utf-8", errors="surrogateescape") as file:
            shared = join(git_dir, file.readline(_LONGEST).strip())
    folders = (join(root, _SESSIONS), join(git_dir, "playbook"), join(shared, "playbook"))
    return tuple(map(realpath, folders))
