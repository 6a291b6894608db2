"""What the result of a headless client means: an exit status and good words prove nothing.

Pure. The order is that of the causes: what kept the model from working at all comes first.
"""

from __future__ import annotations

from collections.abc import Sequence

from playbook_supervisor.agents.claude_permissions import lacking, refusal
from playbook_supervisor.agents.claude_stream import Stream
from playbook_supervisor.agents.protocol import Budget
from playbook_supervisor.errors import CODES
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.formats.timestamps import to_time
from playbook_supervisor.kernel.directives import Failure
from playbook_supervisor.records import Record, as_mapping

_LOG_IN = "Log in (`claude`, then /login), or mend the key that it is given."
_REQUEST = "Mend what the message names, then `playbook resume --retry`."
_CURES = {
    401: _LOG_IN,
    402: "Settle what the message says with the model's provider; then `playbook resume --retry`.",
    403: _LOG_IN,
    404: "Correct the step's `model:` in the playbook, then begin anew: a session keeps its copy.",
}
"""What helps where asking again does not, by the status of the model's server."""
_SPENT = {
    "max_turns": "it has taken all turns that it may take",
    "max_tool_calls": "it has made all calls of tools that it may make",
    "max_cost_usd": "it has spent all that it may spend",
}
_RAISED = {
    "max_turns": "--max-turns N",
    "max_tool_calls": "--max-tool-calls N",
    "max_cost_usd": "--max-cost-usd USD",
}
_BUDGETS = {"error_max_turns": "max_turns", "error_max_budget_usd": "max_cost_usd"}
_LASTING = frozenset({"PB-AGENT-BUDGET", "PB-AGENT-COMMAND", "PB-AGENT-LIMIT"})
"""What another attempt would end with, too, having cost as much."""
_SERVERS_OWN = 500
_TRANSIENT = frozenset({408, 409, 429})
"""Statuses of the model's server that say nothing of the request, as all from 500 on."""


class Verdict(Record):
    """How a call went: `failure` None where it ended well.

    `transient`: the model's server failed, and might not the next time. `limit_ends` is when the
    usage limit that ended it is over, in seconds since the epoch; 0 for none, and where it is not
    known.
    """

    failure: Failure | None = None
    transient: bool = False
    limit_ends: int = 0


def exhausted(left: Budget) -> Failure | None:
    """Why nothing may be done any more, where that little is left of a budget."""
    for name, number in as_mapping(left).items():
        if number is not None and number <= 0:
            return spent(name)
    return None


def spent(name: str) -> Failure:
    """That limit of a `Budget` is reached."""
    raised = f"Raise the limit: `playbook resume --retry {_RAISED[name]}`."
    return _failure("PB-AGENT-BUDGET", f"claude was stopped: {_SPENT[name]}", guidance=raised)


def unknown(stream: Stream, command: str) -> Failure | None:
    """The client has said which commands it has, and this is none of them: it would be passed on
    to the model as words."""
    if stream.commands is None or command.removeprefix("/") in stream.commands:
        return None
    return _failure("PB-AGENT-COMMAND", f"Claude Code has no command {command} here")


def judge(stream: Stream, allowed: Sequence[str]) -> Verdict | None:
    """What the client's last word says; None where it never came to say one.

    `allowed` are the rules that the config gives.
    """
    if not stream.last_word:
        return None
    result = stream.result
    said = first_line(str(result.get("result") or ""))
    subtype = result.get("subtype")
    if subtype in _BUDGETS:
        return Verdict(spent(_BUDGETS[subtype]))
    if result.get("stop_reason") == "refusal":
        return Verdict(_failure("PB-AGENT-REFUSED", "the model refused the request", said))
    if result.get("is_error") is not False:
        return _broken(stream, said)
    if not stream.turns:
        why = f": {said}" if said else ""
        return Verdict(_failure("PB-AGENT-EMPTY", f"claude never asked the model{why}"))
    wanting = [denial for denial in stream.denials if not refusal(denial)]
    return Verdict(lacking(wanting, allowed, stream.root) if wanting else None)


def _broken(stream: Stream, said: str) -> Verdict:
    """The client says that it went wrong: the model's server did, or it did itself."""
    result = stream.result
    status, error = result.get("api_error_status"), result.get("api_error")
    lost = error == "connection_failed"
    named = stream.limit_ends and status in (429, None) and not lost
    if error == "usage_limit_reached" or named:
        return _limited(stream, said)
    if result.get("terminal_reason") == "api_error" or isinstance(status, int):
        number = status if isinstance(status, int) else 0
        transient = lost or number >= _SERVERS_OWN or number in _TRANSIENT
        told = f"the model could not be asked: {said.removesuffix('.')}"
        guidance = "" if transient else _cure(number, stream.api_error)
        broken = _failure("PB-AGENT-API", told, guidance=guidance, lasts=bool(guidance))
        return Verdict(broken, transient=transient)
    errors = result.get("errors")
    cause = "\n".join(str(each) for each in errors) if isinstance(errors, list) else ""
    why = said or first_line(cause)
    ended = f"claude ended with {first_line(str(result.get('subtype')))}"
    return Verdict(_failure("PB-AGENT-FAILED", f"{ended}: {why}" if why else ended, cause))


def _cure(status: int, error: str) -> str:
    """What helps; nothing where only time does. Without a key nobody is asked: no status then."""
    if error == "authentication_failed":
        return _LOG_IN
    return _CURES.get(status, _REQUEST if status else "")


def _limited(stream: Stream, said: str) -> Verdict:
    """Wherever the end is known, the message names it: nobody wants to look it up."""
    ends = stream.limit_ends
    until = f"until {second(ends)}" if ends else "for a time that it does not name"
    message = f"claude has reached its usage limit {until}{f' ({said})' if said else ''}"
    return Verdict(_failure("PB-AGENT-LIMIT", message), limit_ends=ends)


def second(since_epoch: int) -> str:
    """`2026-02-19T10:20:26Z`"""
    return to_time(since_epoch * 1000).replace(".000", "")


def _failure(
    code: str, message: str, cause: str = "", *, guidance: str = "", lasts: bool = False
) -> Failure:
    return Failure(code, message, guidance or CODES[code], cause, lasts or code in _LASTING)
