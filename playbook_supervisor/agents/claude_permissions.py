"""Tool calls that a headless client denied, and the config line that would allow them. Pure.

There is no person to ask, so the client denies what its rules do not allow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from playbook_supervisor.agents.claude_stream import Denial
from playbook_supervisor.agents.tool_calls import described, rules_for
from playbook_supervisor.formats.sanitize import first_line, some
from playbook_supervisor.kernel.directives import Failure

_MAX_CALLS = 3  # denied calls in a message
_MAX_RULES = 6  # rules in the suggested line
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
_RUN_AGAIN = "then run the step again: `playbook resume --retry --accept-config`."
_LEAVE_PLAN_MODE = (
    "In .playbooks/config.yaml, remove `permission_mode: plan`, which forbids every change; "
    + _RUN_AGAIN
)
_NO_RULE = "No rule of the config can allow this; change the step so that it does not need it."


def is_project_rule(denial: Denial) -> bool:
    """Whether the project itself forbids the call, so that no permission is missing."""
    return re.match(_REFUSAL, denial.reason) is not None


def permission_failure(denials: Sequence[Denial], allowed: Sequence[str], root: str) -> Failure:
    """The failure that names the denied calls and shows the line that allows them and `allowed`."""
    calls = [described(denial.tool, denial.input, root) for denial in denials]
    message = f"claude was not permitted: {some(calls, _MAX_CALLS, 400)}"
    cause = "\n".join(first_line(denial.reason) for denial in denials[:_MAX_CALLS])
    if any(_PLAN_MODE in denial.reason for denial in denials):
        guidance = _LEAVE_PLAN_MODE
    elif rules := [rule for denial in denials for rule in _rules(denial, root)]:
        line = list(dict.fromkeys((*allowed, *rules)))[: len(allowed) + _MAX_RULES]
        guidance = (
            "In .playbooks/config.yaml, under `agents:`, `claude:`, write "
            f"`allowed_tools: {json.dumps(line, ensure_ascii=False)}`; {_RUN_AGAIN}"
        )
    else:
        guidance = _NO_RULE
    return Failure("PB-AGENT-PERMISSION", message, guidance, cause, lasts=True)


def _rules(denial: Denial, root: str) -> Iterable[str]:
    return () if _PROTECTED in denial.reason else rules_for(denial.tool, denial.input, root)
