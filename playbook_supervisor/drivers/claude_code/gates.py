"""A gate in the client's own dialog: the question and the choices are the kernel's."""

from __future__ import annotations

from collections.abc import Mapping

from playbook_supervisor.answers import read_answer
from playbook_supervisor.drivers.claude_code.desk import Desk, Reply
from playbook_supervisor.kernel.directives import Ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

_HEADER: Final = 12  # characters that the client shows of a header
_MEANS: Final = {
    "continue": "go on (after a failure: mended, check again)",
    "retry": "run the step again",
    "accept": "go on although it is so",
    "skip": "leave the step out, journaled",
    "abort": "end the session",
}


def put(desk: Desk) -> Reply:
    """Let the dialog through, with an explicit `ask`: an `allow` would suppress it."""
    outlook = desk.look()
    asked = outlook.directive
    assert isinstance(asked, Ask)  # noqa: S101 - the ruling is made for an open gate
    if not desk.interactive:
        reason = "Nobody can be asked here: stop; the gate stays open."
        return Reply("PreToolUse", decision="deny", reason=reason)
    desk.bound.question = asked.id
    question = {
        "question": outlook.question,
        "header": asked.member.step.id[:_HEADER],
        "multiSelect": False,
        "options": [
            {"label": choice.value, "description": _MEANS[choice.value]} for choice in asked.choices
        ],
    }
    return Reply(
        "PreToolUse",
        decision="ask",
        reason="a gate of the playbook",
        given={"questions": [question]},
        ring=outlook.question,
    )


def answered_in_dialog(desk: Desk) -> Reply | None:
    """What the person chose or typed there; nothing is no answer."""
    gate, desk.bound.question = desk.bound.question, ""
    outlook = desk.look()
    asked = outlook.directive
    if not isinstance(asked, Ask) or asked.id != gate or not desk.interactive:
        return None
    answers: Mapping[str, Any] = desk.mapping("tool_response").get("answers") or {}
    text = str(answers.get(outlook.question, ""))
    reply = read_answer(text, asked.choices)
    if reply.resolution is None:
        return Reply("PostToolUse", tell=outlook)
    before = desk.supervisor.answer(asked.id, reply.resolution, text, "")
    desk.bound.progress()
    return Reply("PostToolUse", tell=desk.outlook().after(before))
