"""The rules of a call as a policy of Gemini CLI, which decides without asking anyone. Pure.

The policy knows tools, exact commands, and how a command begins; for several commands on one line,
it decides each. A narrower rule (`Edit(/docs/**)`, `Bash(npm * test)`) allows nothing there, and
forbids more than it says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from playbook_supervisor.agents.protocol import Call

Rule = Mapping[str, object]

_TOOLS = {
    "run_shell_command": "Bash",
    "replace": "Edit",
    "write_file": "Write",
    "read_file": "Read",
    "read_many_files": "Read",
    "list_directory": "LS",
    "glob": "Glob",
    "grep_search": "Grep",
    "web_fetch": "WebFetch",
    "google_web_search": "WebSearch",
    "activate_skill": "Skill",
    "invoke_agent": "Task",
}
"""Its tools → those of Claude Code in whose terms rules speak of them."""
_SHELL = "run_shell_command"
_ASKED = (_SHELL, "web_fetch", "activate_skill", "mcp_*")
"""The tools that need a rule. Others read, or edit the repository."""
_EDITING = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Write"})
_READING = frozenset({"Read", "Glob", "Grep", "LS"})
_FORBIDDEN, _ALLOWED, _UNRULED, _UNNAMED = 900, 500, 100, 1
"""The order of the rules, the first of which wins."""
_NOT_ALLOWED = "The settings do not allow this call."
_NEVER = "$^"  # a regular expression that nothing matches


def as_tool(name: str, given: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """A call of one of its tools, in the terms of Claude Code's."""
    if name.startswith("mcp_"):
        return "mcp__" + name.removeprefix("mcp_").replace("_", "__", 1), given
    return _TOOLS.get(name, name), given


def policy(call: Call, allowed: Iterable[str]) -> str:
    """The policy file, in TOML; `allowed` are the rules of the settings.

    A step's `tools` are all that it has. Else a tool that needs a rule is there also without one:
    the model shall try, and not make do without.
    """
    rules = [_forbidding(rule) for rule in call.forbidden_rules]
    rules += map(_allowing, (*allowed, *(call.tools or ()), *call.allowed_rules))
    if call.tools is None:
        told = {"argsPattern": ".", "denyMessage": _NOT_ALLOWED}
        rules.append({"toolName": _ASKED, **told, "decision": "deny", "priority": _UNRULED})
        shown = {"toolName": _ASKED, "argsPattern": _NEVER}
        rules.append({**shown, "decision": "allow", "priority": _ALLOWED})
    else:
        rules.append({"toolName": "*", "decision": "deny", "priority": _UNNAMED})
    return "\n".join(f"[[rule]]\n{_toml(rule)}" for rule in rules if rule)


def _toml(rule: Rule) -> str:
    return "".join(f"{key} = {_json(value)}\n" for key, value in rule.items())


def _allowing(rule: str) -> Rule:
    """Empty if the policy cannot mean the rule."""
    tool, pattern = _parsed(rule)
    decision = {"decision": "allow", "priority": _ALLOWED}
    if tool == "Bash" and pattern:
        beginning = re.sub(r"(?: |:)\*$", "", pattern)
        if "*" in beginning:
            return {}
        if beginning != pattern:
            return {"toolName": _SHELL, "commandPrefix": beginning, **decision}
        return {"toolName": _SHELL, "commandRegex": f'{_literal(pattern)}"', **decision}
    return {} if pattern and tool not in _READING else {"toolName": _names(tool), **decision}


def _forbidding(rule: str) -> Rule:
    tool, pattern = _parsed(rule)
    decision = {"decision": "deny", "priority": _FORBIDDEN}
    if tool == "Bash" and pattern:
        beginning = pattern.partition("*")[0].rstrip(" :")
        return {"toolName": _SHELL, "commandRegex": _literal(beginning), **decision}
    return {"toolName": _names(tool), **decision}


def _parsed(rule: str) -> tuple[str, str]:
    tool, _, pattern = rule.strip().partition("(")
    pattern = pattern.removesuffix(")")
    return tool, "" if pattern == "*" else pattern


def _literal(words: str) -> str:
    """A regular expression for these words in JSON, which is what the client searches."""
    return re.sub(r"([\\^$.|?*+()\[\]{}])", r"\\\1", _json(words)[1:-1])


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _names(tool: str) -> list[str]:
    """Its tools that the tool of a rule stands for."""
    if tool.startswith("mcp__"):
        server, _, own = tool.removeprefix("mcp__").partition("__")
        return [f"mcp_{server}_{own or '*'}"]
    alike = next((kind for kind in (_EDITING, _READING) if tool in kind), {tool})
    return [name for name, theirs in _TOOLS.items() if theirs in alike] or [tool]
