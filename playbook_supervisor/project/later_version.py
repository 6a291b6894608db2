"""The words of playbook 1.1, so that a file that uses one hears which version it needs."""

from __future__ import annotations

from collections.abc import Mapping

READ_VERSION = "1.0"
"""The newest version of the format that is read."""
LATER_VERSION = "1.1"

KEYS: Mapping[str, frozenset[str]] = {
    "playbook": frozenset({"owner", "reviewers", "outputs", "limits", "defaults"}),
    "arg": frozenset({"type", "values", "default", "transform", "secret"}),
    "step": frozenset(
        {"title", "with", "stdin", "output", "output_schema", "outputs", "when", "approval"}
        | {"checkpoint", "cwd", "tools", "cache", "timeout_seconds", "max_output_bytes"}
        | {"max_depth", "max_cost_usd", "max_turns", "max_tool_calls"}
    ),
}
"""New keys, by the thing that has them."""

_CONDITIONS = frozenset(
    {"tasks_done", "file_exists", "file_contains", "git_clean", "branch_exists"}
    | {"verdict_pass", "command_succeeds"}
)
_POLICIES = frozenset({"continue", "ignore", "fail"})
_NAMESPACES = frozenset(
    {"markdown", "prompt", "checkpoint", "branch", "commit", "pr", "issue", "playbook"}
    | {"cli", "http", "mcp", "web", "node"}
)


def is_value(key: str, value: object) -> bool:
    """Whether 1.1 knows this value of a step's key (or of an item of its list)."""
    match key, value:
        case "command", str(text):
            return not _NAMESPACES.isdisjoint(text.split(maxsplit=1)[:1])
        case "error_policy", str(text):
            return text in _POLICIES or text.startswith("retry:")
        case "error_policy", dict():
            return True
        case "preconditions" | "postconditions", str(text):
            return text in _CONDITIONS
        case "preconditions" | "postconditions", dict(mapping):
            return len(mapping) == 1 and next(iter(mapping)) in _CONDITIONS
        case _:
            return False
