"""The requests of an agent to a person in the middle of its step, in words. Pure.

A request is plain data that the gate keeps: of a permission the `tool` and the `subject` of the
call and the `rule` that would allow it for good; of a question its `questions`.
"""

from __future__ import annotations

from collections.abc import Mapping

from playbook_supervisor.kernel.vocabulary import GateReason

Request = Mapping[str, object]

LONGEST_SUBJECT = 160  # characters of a call in the question; the gate's context has all of it

_VERBS = {
    "Bash": "run",
    "Edit": "edit",
    "NotebookEdit": "edit",
    "Read": "read",
    "WebFetch": "fetch",
    "WebSearch": "search for",
    "Write": "write",
}


def question(request: Request, reason: GateReason, step: str) -> str:
    """The question to the person; `step` is the attempt, as in `implement#1`."""
    who = _line(request, "who") or "The agent"
    if reason is GateReason.QUESTION:
        return f"{who} asks ({step}): {_subject(request) or 'a question without words'}"
    where = " in a subagent" if request.get("agent") else ""
    call = described(request)
    choices = "allow once, allow for this session, or deny" if rule_of(request) else "allow or deny"
    return f"{who} wants to {call}{where} ({step}): {choices}?"


def described(request: Request) -> str:
    """The call in a few words: `run `npm test``, `use mcp__db__query`."""
    tool, subject = _line(request, "tool"), _subject(request)
    if (verb := _VERBS.get(tool)) and subject:
        return f"{verb} `{subject}`"
    return f"use {tool or 'a tool'}" + (f": `{subject}`" if subject else "")


def questions(request: Request) -> tuple[str, ...]:
    """The questions of a request, in order; none for a permission."""
    asked = request.get("questions")
    found = asked if isinstance(asked, list | tuple) else ()
    return tuple(_line(each, "question") for each in found if isinstance(each, Mapping))


def rule_of(request: Request) -> str:
    """The rule that allows such calls for good; empty if there is none."""
    return _line(request, "rule")


def _subject(request: Request) -> str:
    subject = _line(request, "subject").replace("`", "'")
    if len(subject) <= LONGEST_SUBJECT:
        return subject
    return f"{subject[: LONGEST_SUBJECT - 1].rstrip()}…"


def _line(request: Request, key: str) -> str:
    value = request.get(key)
    return " ".join(value.split()) if isinstance(value, str) else ""
