"""Judges a failed turn of Codex, by its own names for what went wrong. Pure."""

from __future__ import annotations

from playbook_supervisor.agents.json_rpc import Object, mapping, text
from playbook_supervisor.agents.verdicts import (
    Verdict,
    failure,
    of_status,
    usage_limit,
    with_reason,
)
from playbook_supervisor.formats.fields import json_object
from playbook_supervisor.formats.sanitize import first_line, one_line, printable

_FULL = 100  # per cent of a limit
_BAD_REQUEST = 400
_STATUSES = {
    "badRequest": _BAD_REQUEST,
    "unauthorized": 401,
    "modelNotFound": 404,
    "rateLimitExceeded": 429,
    "internalServerError": 500,
    "flexUnavailable": 503,
    "policyCapacityUnavailable": 503,
    "serverOverloaded": 503,
}
"""Its names of the model server's failures → the HTTP status that means the same."""
_REFUSED = ("PB-AGENT-REFUSED", "the model refused the request")
_CONTEXT = ("PB-AGENT-CONTEXT", "the conversation does not fit into the model's context")
_ENDS = {
    "contextWindowExceeded": _CONTEXT,
    "cyberPolicy": _REFUSED,
    "inferenceHookDenied": _REFUSED,
    "misalignmentPolicyViolation": _REFUSED,
}
_CUTS = {
    "reason: max_output_tokens": (
        "PB-AGENT-OUTPUT",
        "an answer of the model reached the limit on its length",
    ),
    "reason: content_filter": _REFUSED,
}
_CUT = "stream disconnected"
_MOST_WORDS = 400  # characters


def judged(name: str, error: Object, limits: Object) -> Verdict:
    """The verdict on a failed turn: its `error`, and what was last told of the usage limits."""
    info, said = error.get("codexErrorInfo"), text(error, "message")
    kind = next(iter(info), "") if isinstance(info, dict) else str(info or "other")
    words = words_of(said)
    if kind == "usageLimitExceeded":
        return usage_limit(name, _reset(limits), words)
    if kind in _ENDS:
        code, message = _ENDS[kind]
        return Verdict(failure(code, with_reason(message, words)))
    for found, end in _CUTS.items():
        if found in said:
            return Verdict(failure(*end))
    status = mapping(info, kind).get("httpStatusCode")
    if type(status) is int:
        return of_status(name, status, words)
    if isinstance(info, dict) or _CUT in said:
        return of_status(name, 0, words, lost=True)
    if kind in _STATUSES:
        return of_status(name, _STATUSES[kind], words)
    if kind == "other":  # JSON is the answer of a server that found a fault in the request
        return of_status(name, _BAD_REQUEST if json_object(said) else 0, words)
    message = with_reason(f"{name} ended with {first_line(kind, 60)}", words)
    return Verdict(failure("PB-AGENT-FAILED", message))


def words_of(said: str) -> str:
    """The message of an error, on one line; it may be the JSON of the model's server."""
    inner = json_object(said)
    told = text(inner, "error", "message") or text(inner, "detail") or said
    return one_line(printable(told), _MOST_WORDS)


def _reset(limits: Object) -> int:
    """When the limits that are used up end, in seconds since the epoch; 0 if that is unknown."""
    windows = [mapping(limits, name) for name in ("primary", "secondary")]
    full = [each for each in windows if _used(each) >= _FULL]
    ends = [each.get("resetsAt") for each in full]
    return max((each for each in ends if type(each) is int), default=0)


def _used(window: Object) -> float:
    used = window.get("usedPercent")
    return used if isinstance(used, int | float) else 0
