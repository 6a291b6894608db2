"""A gate in the client's own dialog: the question and the choices are the kernel's."""

from __future__ import annotations

from playbook_supervisor.answers import read_answer
from playbook_supervisor.drivers.claude_code.desk import Desk, Reply
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.outlook import Outlook
from playbook_supervisor.vocabulary import Resolution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

NOBODY: Final = "Nobody answers a question here: stop; the gate stays open."
_UNHEARD: Final = 5  # refusals in a row after which no further dialog is put
_HEADER: Final = 12  # characters that the client shows of a header
_MEANS: Final = {
    "continue": "go on (after a failure: mended, check again)",
    "retry": "run the step again",
    "accept": "go on although it is so",
    "skip": "leave the step out, journaled",
    "abort": "end the session",
}


def put(desk: Desk) -> Reply | None:
    """Let the dialog through, with an explicit `ask`: an `allow` would suppress it.

    None where nobody can be asked, or where a dialog has come back empty again and again.
    """
    outlook = desk.look()
    asked = outlook.directive
    assert isinstance(asked, Ask)  # noqa: S101 - the ruling is made for an open gate
    if not desk.interactive or desk.bound.refusals >= _UNHEARD:
        return None
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
    """What the person chose or typed there; nothing is no answer, and other words are talk."""
    gate, desk.bound.question = desk.bound.question, ""
    outlook = desk.look()
    asked = outlook.directive
    if not isinstance(asked, Ask) or asked.id != gate or not desk.interactive:
        return None
    answers = desk.mapping("tool_response").get("answers")
    text = str(answers.get(outlook.question, "")) if isinstance(answers, dict) else ""
    reply = read_answer(text, asked.choices)
    if reply.resolution is not None:
        return Reply("PostToolUse", tell=settle(desk, asked, reply.resolution, text))
    if text:
        desk.bound.turn = "human"
        return Reply("PostToolUse", note=unanswered(asked, reply.question))
    desk.bound.refusals += 1
    return Reply("PostToolUse", note=unanswered(asked, ""))


def settle(desk: Desk, asked: Ask, resolution: Resolution, text: str) -> Outlook:
    """Journal the person's decision, in their words and their name; what follows from it.

    Who it is, git knows: a program is started for it, for a person has just been waited for.
    """
    from playbook_supervisor.repository import identity

    by = identity(desk.here.root)
    before = desk.supervisor.answer(asked.id, resolution, text, by)
    desk.bound.progress()
    return desk.outlook().after(before)


def unanswered(asked: Ask, question: str) -> str:
    """The fact that nothing was decided, and what to ask back where that helps."""
    said = f"playbook: that is no answer to the gate {asked.id}; it stays open."
    return f"{said} {question}".rstrip()
