"""Judges the result of a headless client; a zero exit status and a confident text prove nothing.

Pure. Causes are checked in order: first those that kept the model from working at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from playbook_supervisor.agents.claude.stream import Denial, Stream
from playbook_supervisor.agents.protocol import Budget
from playbook_supervisor.agents.tool_calls import described
from playbook_supervisor.agents.verdicts import (
    CONTEXT,
    NOT_LOGGED_IN,
    OUTPUT,
    REFUSED,
    RUN_AGAIN,
    SERVER_ERROR,
    TOO_MANY,
    Verdict,
    failure,
    line_to_add,
    named_status,
    of_status,
    usage_limit,
    with_reason,
)
from playbook_supervisor.formats.sanitize import first_line, some
from playbook_supervisor.kernel.directives import Failure
from playbook_supervisor.records import as_mapping

_LIMITS = {
    "max_turns": ("turns", "--max-turns N"),
    "max_tool_calls": ("tool calls", "--max-tool-calls N"),
    "max_cost_usd": ("cost in USD", "--max-cost-usd USD"),
    "max_tokens": ("tokens", "--max-tokens N"),
}
_BUDGET_SUBTYPES = {"error_max_turns": "max_turns", "error_max_budget_usd": "max_cost_usd"}
_ENDS = {
    "hook_stopped": ("PB-AGENT-HOOK", "a hook stopped claude in the middle of its work"),
    "tool_deferred": ("PB-AGENT-HOOK", "claude ended because a hook put off one of its calls"),
    "max_tokens": OUTPUT,
    "blocking_limit": CONTEXT,
    "model_context_window_exceeded": CONTEXT,
    "prompt_too_long": CONTEXT,
    "rapid_refill_breaker": CONTEXT,
}
"""The meaning of a `terminal_reason` or `stop_reason` that is neither normal nor an error itself;
for any other there is PB-AGENT-ENDED."""
_TERMINAL = frozenset({"completed", "stop_hook_prevented"})
_STOPS = frozenset({"end_turn", "stop_sequence"})
"""The normal ends. A Stop hook may end a conversation whose work is done."""
_OUTPUT_LIMIT = r"output token maximum|max_output_tokens"
_CONTEXT_LIMIT = "context window limit"


def exhausted(left: Budget) -> Failure | None:
    """The failure if nothing is left of the budget."""
    for name, number in as_mapping(left).items():
        if number is not None and number <= 0:
            what = _LIMITS[name][0]
            return _over(name, f"claude was not started: nothing is left of its limit on {what}")
    return None


def budget_failure(name: str, budget: Budget, spent: Mapping[str, float]) -> Failure:
    """The failure of a call that reached that limit of its budget; `spent` is by the same names."""
    what, most, used = _LIMITS[name][0], getattr(budget, name), spent.get(name)
    figures = "" if used is None or most is None else f": {used:,.10g} of {most:,.10g}"
    return _over(name, f"claude was stopped: it reached its limit on {what}{figures}")


def _over(name: str, message: str) -> Failure:
    option = _LIMITS[name][1]
    guidance = f"Raise the limit: `playbook resume --retry {option}`."
    return failure("PB-AGENT-BUDGET", message, guidance=guidance)


def unknown_command(stream: Stream, command: str) -> Failure | None:
    """The failure if the client lacks the command: it would send it to the model as text."""
    known = stream.commands
    if known is None or not command.startswith("/") or command.removeprefix("/") in known:
        return None
    message = f"Claude Code offers no command {command} here"
    return failure("PB-AGENT-COMMAND", f"{message}, or not to people (user-invocable: false)")


def judge(
    stream: Stream,
    allowed: Sequence[str],
    budget: Budget = Budget(),  # noqa: B008 - immutable
    spent: Mapping[str, float] = MappingProxyType({}),
) -> Verdict | None:
    """The verdict on the client's result under these permission rules; None without a result."""
    if not stream.finished:
        return None
    result = stream.result
    text = first_line(str(result.get("result") or ""))
    subtype = str(result.get("subtype") or "success")
    if subtype in _BUDGET_SUBTYPES:
        return Verdict(budget_failure(_BUDGET_SUBTYPES[subtype], budget, spent))
    if result.get("stop_reason") == "refusal":
        return Verdict(failure(*REFUSED, text))
    if result.get("is_error") is not False or subtype != "success" or stream.fork_failed:
        return _error_verdict(stream, text)
    if stream.hook:
        return Verdict(_ended("hook_stopped", stream.hook))
    if end := _unusual_end(result):
        return Verdict(_ended(end, text))
    if not stream.has_worked:
        return Verdict(failure("PB-AGENT-EMPTY", with_reason("claude never asked the model", text)))
    denied = [denial for denial in stream.denials if not is_project_rule(denial)]
    return Verdict(permission_failure(denied, allowed, stream.root) if denied else None)


def _error_verdict(stream: Stream, text: str) -> Verdict:
    result = stream.result
    status, error = result.get("api_error_status"), result.get("api_error")
    disconnected = error == "connection_failed"
    limited = stream.limit_ends and status in (429, None) and not disconnected
    if error == "usage_limit_reached" or limited:
        return usage_limit("claude", stream.limit_ends, text)
    if limit := _output_limit(f"{error} {text}"):
        return Verdict(limit)
    number = status if isinstance(status, int) else named_status(text)
    if stream.api_error == "authentication_failed":
        number = min(NOT_LOGGED_IN)
    end = _unusual_end(result)
    of_request = number in NOT_LOGGED_IN or (number == TOO_MANY and not disconnected)
    if end in _ENDS and not of_request:
        return Verdict(_ended(end, text))
    if end == "api_error" or number:
        return of_status("claude", number, text, lost=disconnected)
    errors = result.get("errors")
    cause = "\n".join(str(each) for each in errors) if isinstance(errors, list) else ""
    reason = text or first_line(cause)
    if end:
        return Verdict(_ended(end, reason, cause))
    ended = f"claude ended with {first_line(str(result.get('subtype')))}"
    return Verdict(failure("PB-AGENT-FAILED", f"{ended}: {reason}" if reason else ended, cause))


def _output_limit(text: str) -> Failure | None:
    """The failure if the client's words say that an answer reached its greatest length."""
    if _CONTEXT_LIMIT in text:
        return _ended("prompt_too_long", "")
    return _ended("max_tokens", "") if re.search(_OUTPUT_LIMIT, text) else None


def subagent_failure(reason: str) -> Failure:
    """The failure of a subagent that, in the client's words, did not complete."""
    code = "PB-AGENT-API" if named_status(reason) >= SERVER_ERROR else "PB-AGENT-FAILED"
    return _output_limit(reason) or failure(code, first_line(reason))


def stopped_by_hook(hook: str) -> Failure:
    """The failure of an agent that this hook stopped; `hook` is its name and its reason."""
    return _ended("hook_stopped", hook)


def _unusual_end(result: Mapping[str, object]) -> str:
    """The client's name for an end that is not normal. Older clients name none."""
    terminal, stop = (str(result.get(name) or "") for name in ("terminal_reason", "stop_reason"))
    if terminal and terminal not in _TERMINAL:
        return terminal
    # A call may itself end the turn, and then the client says that it has completed.
    normal = not stop or stop in _STOPS or (stop == "tool_use" and terminal == "completed")
    return "" if normal else stop


def _ended(end: str, reason: str, cause: str = "") -> Failure:
    named = f"claude ended before its work was done ({first_line(end)})"
    code, message = _ENDS.get(end, ("PB-AGENT-ENDED", named))
    return failure(code, with_reason(message, reason), cause)


# ── calls that the client denied ────────────────────────────────────────────────────────────
#
# There is no person to ask, so a headless client denies what its rules do not allow.

_MAX_CALLS = 3  # denied calls in a message
_REFUSAL = (
    r"\w+:\w+ hook error"
    r"|Permission to use (?s:.*) has been denied\.\Z"
    r"|(?:<tool_use_error>)?File is in a directory that is denied by your permission settings"
)
"""The client's reason where the project itself refuses: a hook, or a deny rule."""
_PROTECTED = "sensitive file"
"""The reason for files that no rule can open: the client's settings, and git's."""
_PLAN_MODE = "while in plan mode"
"""The reason in plan mode, which forbids every change, even one that a rule allows."""
_LEAVE_PLAN_MODE = (
    "In .playbooks/config.yaml, remove `permission_mode: plan`, which forbids every change; "
    + RUN_AGAIN
)
_NO_RULE = "No rule of the config can allow this; change the step so that it does not need it."


def is_project_rule(denial: Denial) -> bool:
    """True if the project itself forbids the call, so that no permission is missing."""
    return re.match(_REFUSAL, denial.reason) is not None


def permission_failure(denials: Sequence[Denial], allowed: Sequence[str], root: str) -> Failure:
    """The failure that names the denied calls and shows the line that allows them and `allowed`."""
    calls = [described(denial.tool, denial.input, root) for denial in denials]
    message = f"claude was not permitted: {some(calls, _MAX_CALLS, 400)}"
    cause = "\n".join(first_line(denial.reason) for denial in denials[:_MAX_CALLS])
    if any(_PLAN_MODE in denial.reason for denial in denials):
        guidance = _LEAVE_PLAN_MODE
    else:
        open_ = [(each.tool, each.input) for each in denials if _PROTECTED not in each.reason]
        guidance = line_to_add("claude", open_, allowed, root) or _NO_RULE
    return Failure("PB-AGENT-PERMISSION", message, guidance, cause, lasts=True)
