"""The end of an agent's process, judged: what each kind of failure is called, and what it means.

Pure, and the same for all agents; how each shows its failures is known to its own module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from playbook_supervisor.agents.tool_calls import described, rules_for
from playbook_supervisor.errors import CODES, LASTING
from playbook_supervisor.formats.sanitize import some
from playbook_supervisor.formats.timestamps import to_time
from playbook_supervisor.kernel.directives import Failure

_REQUEST = "Fix what the message names, then `playbook resume --retry`."
_GUIDANCE = {
    402: "Settle the payment with the model's provider, then `playbook resume --retry`.",
    404: "Correct the step's `model:` in the playbook, then begin anew: a session keeps its copy.",
}
"""The cure where a retry does not help, by the HTTP status of the model's server."""
SERVER_ERROR = 500
NOT_LOGGED_IN = frozenset({401, 403})
TOO_MANY = 429
_TRANSIENT = frozenset({408, 409})
"""HTTP statuses that may not recur, as all from 500 on."""
_STATUS = r"\b[Ee]rror: (\d{3})\b|\bHTTP (\d{3})\b|\A([45]\d\d) |\berror '(\d{3}) "
"""An HTTP status in a text of a client."""
_LOST = (
    r"(?i)unexpected EOF|disconnected|connection (?:error|reset|closed)|ECONN|fetch failed"
    r"|^terminated$"
)
"""The connection to the model's server broke off."""
_NO_KEY = r"(?i)(?:invalid|incorrect) api key|unauthori[sz]ed|not logged in"
_RATE = r"(?i)rate.?limit|too many requests"
_USAGE_LIMIT = r"usage.?limit|quota|insufficient.?(?:funds|balance|credits)"
_MAX_RULES = 6  # rules in the suggested line
CONTEXT = ("PB-AGENT-CONTEXT", "the conversation does not fit into the model's context")
OUTPUT = ("PB-AGENT-OUTPUT", "an answer of the model reached the limit on its length")
REFUSED = ("PB-AGENT-REFUSED", "the model refused the request")
"""The code and the message of ends that several agents have."""
RUN_AGAIN = "then run the step again: `playbook resume --retry --accept-config`."


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a call; `failure` is None if it succeeded.

    `transient`: the model's server failed, and a retry may succeed. `limit_ends` is when the usage
    limit ends, in seconds since the epoch; 0 if there is none or its end is unknown.
    """

    failure: Failure | None = None
    transient: bool = False
    limit_ends: int = 0


def failure(
    code: str, message: str, cause: str = "", *, guidance: str = "", lasts: bool = False
) -> Failure:
    """A failure with the usual guidance of its code, or its own."""
    return Failure(code, message, guidance or CODES[code], cause, lasts or code in LASTING)


def with_reason(message: str, reason: str) -> str:
    """The message, followed by the reason if there is one."""
    return f"{message}: {reason.removesuffix('.')}" if reason else message


def of_status(name: str, status: int, text: str, *, lost: bool = False) -> Verdict:
    """The verdict on an error of the model's server. `text` are the agent's words about it.

    `status` is the HTTP status, 0 if it is not known; `lost`: the connection failed.
    """
    if status in NOT_LOGGED_IN:
        message = with_reason(f"{name} is not logged in", text)
        return Verdict(failure("PB-AGENT-LOGIN", message))
    if status == TOO_MANY and not lost:
        message = with_reason("the model's server limits the rate of requests", text)
        return Verdict(failure("PB-AGENT-RATE", message), transient=True)
    transient = lost or status >= SERVER_ERROR or status in _TRANSIENT
    guidance = "" if transient or not status else _GUIDANCE.get(status, _REQUEST)
    message = with_reason("the model could not be reached", text)
    found = failure("PB-AGENT-API", message, guidance=guidance, lasts=bool(guidance))
    return Verdict(found, transient=transient)


def of_words(name: str, words: str, status: int = 0) -> Verdict:
    """The verdict on an error of which little more is known than the agent's words about it."""
    status = status or named_status(words)
    if re.search(_USAGE_LIMIT, words, re.IGNORECASE):
        return usage_limit(name, 0, words)
    if not status and re.search(_NO_KEY, words):
        status = min(NOT_LOGGED_IN)
    elif not status and re.search(_RATE, words):
        status = TOO_MANY
    return of_status(name, status, words, lost=not status and bool(re.search(_LOST, words)))


def usage_limit(name: str, ends: int, text: str) -> Verdict:
    """The verdict on a usage limit; `ends` is in seconds since the epoch, 0 if it is unknown."""
    until = f", which ends at {timestamp(ends)}" if ends else "; its end is unknown"
    message = f"{name} has reached its usage limit{until}{f' ({text})' if text else ''}"
    return Verdict(failure("PB-AGENT-LIMIT", message), limit_ends=ends)


def empty(name: str, reason: str = "") -> Verdict:
    """The verdict on a turn in which the model did nothing."""
    said = with_reason(f"{name} ended its turn without a word and without a tool call", reason)
    return Verdict(failure("PB-AGENT-EMPTY", said))


def timestamp(seconds: int) -> str:
    """`2026-02-19T10:20:26Z`"""
    return to_time(seconds * 1000).replace(".000", "")


def line_to_add(
    name: str, calls: Sequence[tuple[str, Mapping[str, Any]]], allowed: Sequence[str], root: str
) -> str:
    """The guidance that shows the line of the settings which allows the calls and `allowed`.

    Each call is a tool and its input. Empty if no rule can allow them.
    """
    rules = [rule for tool, given in calls for rule in rules_for(tool, given, root)]
    if not rules:
        return ""
    line = list(dict.fromkeys((*allowed, *rules)))[: len(allowed) + _MAX_RULES]
    return (
        f"In .playbooks/config.yaml, under `agents:`, `{name}:`, write "
        f"`allowed_tools: {json.dumps(line, ensure_ascii=False)}`; {RUN_AGAIN}"
    )


def not_permitted(
    name: str, calls: Sequence[tuple[str, Mapping[str, Any]]], allowed: Sequence[str], root: str
) -> Failure:
    """The failure of calls that no rule allows, with the line that would; `name` is the agent's."""
    shown = some([described(*each, root) for each in calls], 3, 400)
    return failure(
        "PB-AGENT-PERMISSION",
        f"{name} was not permitted: {shown}",
        guidance=line_to_add(name, calls, allowed, root),
        lasts=True,
    )


def named_status(text: str) -> int:
    """The HTTP status that an error message names, or 0."""
    found = re.search(_STATUS, text)
    return int(next(filter(None, found.groups()))) if found else 0
