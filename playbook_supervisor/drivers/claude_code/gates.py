"""Gates in the client's own dialog, with the kernel's question and choices."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from playbook_supervisor.drivers.claude_code.context import HookContext, HookReply, mark_of
from playbook_supervisor.errors import (
    ArgumentError,
    CheckError,
    PolicyError,
    StateError,
)
from playbook_supervisor.formats.directive_line import defused, sentence
from playbook_supervisor.kernel.answers import ParsedAnswer, meanings_of, read_answer
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.kernel.vocabulary import GateReason, Place, Resolution, SessionStatus
from playbook_supervisor.sessions.files import principal
from playbook_supervisor.sessions.gate import gate_text
from playbook_supervisor.sessions.store.snapshot import Snapshot

_NOT_SEEN = (ArgumentError, CheckError, StateError)
"""The errors of an answer that is not taken."""
NO_PERSON = "There is no person here to answer: stop. The gate stays open."
_MAX_REFUSALS = 5  # in a row, after which no further dialog is shown
_UNSEEN = 14  # lines of context in the dialog of a gate that nothing else has shown
_HEADER = 12  # characters of a header that the client shows
_MOST_OPTIONS = 4  # of a question that the client shows


def asked_in(snapshot: Snapshot) -> list[str]:
    """The open gate: its id, its question and its choices; empty if none is open."""
    gate = snapshot.directive
    return [gate.id, snapshot.question, *gate.words] if isinstance(gate, Ask) else []


def asks_gate(given: Mapping[str, Any], gate: Sequence[str]) -> bool:
    """True if a dialog of the model asks the gate's question, or offers several of its choices."""
    for question in _mappings(given.get("questions")) if gate else []:
        if _plain(gate[1]) in _plain(question.get("question")):
            return True
        labels = " ".join(str(each.get("label")) for each in _mappings(question.get("options")))
        if len(set(re.findall(r"\w+", labels.casefold())) & set(gate[2:])) > 1:
            return True
    return False


def has_ended(gate: Sequence[str], session: str) -> str:
    """The words for the model, and a person who answers, about a gate of an aborted session."""
    return f"playbook: session {session} was aborted, and its gate {gate[0]} has ended."


def late_answer(gate: Sequence[str], session: str, prompt: str) -> tuple[str, str]:
    """The words for the model and the person about a prompt after the session's end."""
    ended = has_ended(gate, session)
    choices = tuple(Resolution(word.partition(" ")[0]) for word in gate[2:])
    reply = read_answer(prompt, choices, typed_at_prompt=True)
    answered = reply.resolution is not None or reply.question
    return f"{ended} Do not ask it again.", f"{ended} No answer counts." if answered else ""


def _mappings(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _plain(text: object) -> str:
    return " ".join(str(text).casefold().split())


def show_dialog(hook: HookContext, snapshot: Snapshot) -> HookReply | None:
    """Allow the dialog with an explicit `ask`, for an `allow` would suppress it.

    None if there is no person to ask, or if the dialog has come back empty several times.
    """
    from playbook_supervisor.sessions.gate.gate_context import gate_context

    gate = snapshot.directive
    assert isinstance(gate, Ask)  # noqa: S101 - the allow-list asks only at an open gate
    if not hook.interactive or hook.bound.refusals >= _MAX_REFUSALS:
        return None
    context = gate_context(snapshot)
    # Nothing has shown a gate that opened behind `next --wait`: the client folds its output away.
    unseen = hook.bound.unseen
    lines = gate_text.lines(context, most=_UNSEEN) if unseen else gate_text.short(context)
    mark = mark_of(hook.private)  # the model reads the question in the answer
    question = {
        "question": sentence("\n".join([snapshot.question, *lines]), mark),
        "header": gate.member.step.id[:_HEADER],
        "multiSelect": False,
        "options": [
            {"label": defused(label, mark), "description": defused(description, mark)}
            for label, description in _options(gate)
        ],
    }
    hook.bound.asked(hook.text("tool_use_id"), gate.id, str(question["question"]))
    return HookReply(
        "PreToolUse",
        decision="ask",
        reason="a gate of the playbook",
        given={"questions": [question]},
        ring=snapshot.question,
    )


def _options(gate: Ask) -> list[tuple[str, str]]:
    """The options of a gate's dialog, with what each means: at least two, as the client wants it.

    The only question of an agent offers its own options, as far as there is room. Several are
    answered in words, a line for each.
    """
    if gate.reason is not GateReason.QUESTION:
        meanings = meanings_of(gate.reason)
        named = zip(gate.choices, gate.words, strict=True)
        ways = [(word, meanings[choice]) for choice, word in named]
        return ways[:_MOST_OPTIONS]  # the question names the last one, `abort`, which can be typed
    questions = _mappings(gate.request.get("questions"))
    own = _mappings(questions[0].get("options")) if len(questions) == 1 else []
    shown = [(str(each["label"]), str(each.get("description", ""))) for each in own]
    shown = shown[: _MOST_OPTIONS - 1] or [("You decide", "leave it to the agent")]
    return [*shown, (Resolution.ABORT.value, meanings_of(gate.reason)[Resolution.ABORT])]


def dialog_answer(hook: HookContext) -> HookReply | None:
    """Record what the person chose or typed; an empty result and other text are no answer."""
    shown, question = hook.bound.dialogs.pop(hook.text("tool_use_id"), ("", ""))
    if not shown or not hook.interactive:
        return None
    snapshot = hook.tree.look()
    gate = snapshot.directive
    if not isinstance(gate, Ask) or gate.id != shown:
        aborted = snapshot.manifest.status is SessionStatus.ABORTED
        late = f"playbook: the gate {shown} was answered elsewhere; this answer does not count."
        if aborted:
            late = has_ended([shown], snapshot.session_id)
        return HookReply("PostToolUse", snapshot=snapshot, note=late, shown=late)
    answers = hook.mapping("tool_response").get("answers")
    text = str(answers.get(question, "")) if isinstance(answers, dict) else ""
    reply = read_answer(text, gate.choices)
    if reply.resolution is not None:
        recorded = record_answer(hook, "PostToolUse", gate, reply, text)
        hook.bound.refusals += recorded.snapshot is None
        return recorded
    if text:
        hook.bound.turn = "human"
    else:
        hook.bound.refusals += 1
    return HookReply("PostToolUse", note=unanswered(gate, reply.question))


def record_answer(
    hook: HookContext, event: str, gate: Ask, reply: ParsedAnswer, text: str
) -> HookReply:
    """Journal the person's decision with their words and git identity, and reply what follows.

    If a policy does not let them answer, or they have not seen the settings that they take over,
    they are told so and nothing is journaled. An agent
    that asked worked for another driver, which has gone: its attempt is lost, and another one
    follows, unless the step names an agent, which goes on behind `next --wait`.
    """
    from playbook_supervisor.drivers import gate_answer

    by = principal.local(hook.here.root)
    try:
        before = gate_answer.record(hook.tree, gate, reply, text, by)
    except (PolicyError, ArgumentError, *_NOT_SEEN) as refused:
        if reply.settings is None and not isinstance(refused, PolicyError | ArgumentError):
            raise
        message = f"playbook: {refused.message} [{refused.code}]. {refused.guidance}"
        return HookReply(event, note=message, shown=message)
    lost = gate.place is Place.DURING and gate.member.step.by_client
    if lost and reply.resolution is not Resolution.ABORT:
        before = hook.tree.lose(gate.member).after(before)
    hook.progress()
    hook.bound.turn = "supervised"
    return HookReply(event, snapshot=hook.tree.advance().after(before))


def reminder(snapshot: Snapshot) -> str:
    """The words for the person when a turn ends while the gate is open."""
    gate = snapshot.directive
    how = "Type your answer here"
    if isinstance(gate, Ask) and gate.reason is GateReason.QUESTION:
        how = f"{how}, as `answer: your words`"
    return f"{snapshot.question} {how}."


def unanswered(gate: Ask, question: str) -> str:
    """Says that nothing was decided, followed by a question to ask back, if any."""
    message = f"playbook: that is not an answer to the gate {gate.id}; it stays open."
    return f"{message} {question}".rstrip()
