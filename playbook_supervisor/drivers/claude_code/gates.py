"""A gate in the client's own dialog: the question and the choices are the kernel's."""

from __future__ import annotations

from playbook_supervisor.drivers.claude_code.context import HookContext, HookReply
from playbook_supervisor.errors import PolicyError
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.kernel.vocabulary import GateReason, Resolution
from playbook_supervisor.sessions import principal
from playbook_supervisor.sessions.snapshot import Snapshot

NOBODY = "Nobody answers a question here: stop; the gate stays open."
_UNHEARD = 5  # refusals in a row after which no further dialog is put
_HEADER = 12  # characters that the client shows of a header
_MEANS = {
    "continue": "it is mended: check again",
    "retry": "run the step again",
    "accept": "go on although it fails",
    "skip": "leave the step out",
    "abort": "end the session",
}
_MEANS_HERE: dict[str, dict[str, str]] = {
    GateReason.GATE_ALWAYS: {"continue": "run the step now"},
    GateReason.PRECONDITION_FAIL: {"accept": "run the step all the same"},
    GateReason.AGREEMENT_BREAKING: {
        "continue": "check again",
        "accept": "accept the breaking change and go on",
    },
}
"""Where a gate of that kind gives a choice another meaning."""


def put(desk: HookContext) -> HookReply | None:
    """Let the dialog through, with an explicit `ask`: an `allow` would suppress it.

    None where nobody can be asked, or where a dialog has come back empty again and again.
    """
    outlook = desk.look()
    asked = outlook.directive
    assert isinstance(asked, Ask)  # noqa: S101 - the ruling is made for an open gate
    if not desk.interactive or desk.bound.refusals >= _UNHEARD:
        return None
    desk.bound.question = asked.id
    means = _MEANS | _MEANS_HERE.get(asked.reason, {})
    question = {
        "question": outlook.question,
        "header": asked.member.step.id[:_HEADER],
        "multiSelect": False,
        "options": [
            {"label": choice.value, "description": means[choice.value]} for choice in asked.choices
        ],
    }
    return HookReply(
        "PreToolUse",
        decision="ask",
        reason="a gate of the playbook",
        given={"questions": [question]},
        ring=outlook.question,
    )


def answered_in_dialog(desk: HookContext) -> HookReply | None:
    """What the person chose or typed there; nothing is no answer, and other words are talk."""
    from playbook_supervisor.kernel.answers import read_answer

    gate, desk.bound.question = desk.bound.question, ""
    outlook = desk.look()
    asked = outlook.directive
    if not gate or not desk.interactive:
        return None
    if not isinstance(asked, Ask) or asked.id != gate:
        return HookReply("PostToolUse", tell=outlook, note=_late(gate), shown=_late(gate))
    answers = desk.mapping("tool_response").get("answers")
    text = str(answers.get(outlook.question, "")) if isinstance(answers, dict) else ""
    reply = read_answer(text, asked.choices)
    if reply.resolution is not None:
        settled = settle(desk, "PostToolUse", asked, reply.resolution, text)
        desk.bound.refusals += settled.tell is None
        return settled
    if text:
        desk.bound.turn = "human"
        return HookReply("PostToolUse", note=unanswered(asked, reply.question))
    desk.bound.refusals += 1
    return HookReply("PostToolUse", note=unanswered(asked, ""))


def settle(
    desk: HookContext, event: str, asked: Ask, resolution: Resolution, text: str
) -> HookReply:
    """Journal the person's decision, in their words and their name, and tell what follows from it.

    Git says who it is. A person whom a policy does not let answer is told so, and nothing follows.
    """
    by = principal.local(desk.here.root, "Claude Code")
    try:
        before = desk.supervisor.answer(asked.id, resolution, text, by)
    except PolicyError as refused:
        said = f"playbook: {refused.message} [{refused.code}]. {refused.guidance}"
        return HookReply(event, note=said, shown=said)
    desk.progress()
    return HookReply(event, tell=desk.outlook().after(before))


def _late(gate: str) -> str:
    """What a person is told whose dialog was still open: it looks as if they had been heard."""
    return f"playbook: the gate {gate} had been settled elsewhere; this answer does not count."


def reminder(outlook: Snapshot) -> str:
    """What a person reads where a turn ends and the gate is still open."""
    return f"{outlook.question} Type your answer here."


def unanswered(asked: Ask, question: str) -> str:
    """The fact that nothing was decided, and what to ask back where that helps."""
    said = f"playbook: that is no answer to the gate {asked.id}; it stays open."
    return f"{said} {question}".rstrip()
