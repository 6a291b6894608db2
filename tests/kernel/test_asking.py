"""A gate during a step: its agent asks a person, and goes on with the answer."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kernel.world import AGENT_FAILED, CALL, QUESTION, Scene, book, step
from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.directives import Ask, Asked, Cancellation, Outcome, Returned, Run
from playbook_supervisor.kernel.gates import question
from playbook_supervisor.kernel.machine import replay
from playbook_supervisor.kernel.state import ABORTED
from playbook_supervisor.kernel.tools import always_allowed
from playbook_supervisor.kernel.vocabulary import (
    Decision,
    EntryStatus,
    GateReason,
    Place,
    Resolution,
    SessionStatus,
)

A, B = step("a", pre=(), post=()), step("b", pre=(), post=())
GROUP = (step("a", pre=(), post=(), group="g"), step("b", pre=(), post=(), group="g"))


def asking(*, request: Mapping[str, object] = CALL) -> Scene:
    scene = Scene(book(A, B))
    scene.checked()
    scene.asks(request=request)
    return scene


def said_by(scene: Scene) -> str:
    return question(scene.gate, scene.last, "Run /do.a", done=0, total=2)


def test_a_permission_is_asked_while_the_step_runs() -> None:
    scene = asking()
    assert scene.gate == Ask(
        "a#1?1",
        scene.gate.member,
        GateReason.PERMISSION,
        Place.DURING,
        (Resolution.ALLOW, Resolution.ALWAYS, Resolution.DENY, Resolution.ABORT),
        CALL,
    )
    assert scene.last.status is EntryStatus.IN_PROGRESS
    assert scene.last.launched_at is not None
    assert said_by(scene) == (
        "Claude wants to run `npm test` (a#1): allow once, allow for this session, or deny? "
        "0/2 steps done."
    )


def test_a_question_of_the_agent_is_asked_as_it_stands() -> None:
    scene = asking(request=QUESTION)
    assert scene.gate.choices == (Resolution.ANSWER, Resolution.ABORT)
    assert said_by(scene) == "Claude asks (a#1): Which? 0/2 steps done."


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"tool": "Write", "subject": "a`b.md", "agent": "x"}, "write `a'b.md` in a subagent"),
        ({"tool": "mcp__db__query", "subject": "select"}, "use mcp__db__query: `select`"),
        ({"tool": "Bash", "subject": "x " * 100}, f"run `{'x ' * 79}x…`"),
        ({"tool": "Bash"}, "use Bash"),
        ({"tool": ["?"], "subject": 3}, "use a tool"),
    ],
)
def test_the_question_says_what_the_agent_wants(request_: dict[str, object], words: str) -> None:
    assert said_by(asking(request=request_)).startswith(f"The agent wants to {words} (a#1):")


@pytest.mark.parametrize("word", ["allow", "always", "deny"])
def test_the_attempt_goes_on_with_the_answer(word: str) -> None:
    scene = asking()
    scene.says(word, by="Ann", text=f"{word}: go")
    assert scene.asked == Run(scene.asked.members, continues=("a#1",))  # type: ignore[union-attr]
    gate = scene.last.gates[0]
    assert (gate.resolution, gate.text, gate.by) == (Resolution(word), f"{word}: go", "Ann")
    scene.returned()
    scene.checked()
    done = scene.entry("a#1")
    assert (done.status, done.decision, done.attempt) == (EntryStatus.DONE, Decision.GATE, 1)
    scene.checked()
    assert scene.asked == Run(scene.asked.members)  # type: ignore[union-attr]
    assert replay(scene.playbook, scene.journal) == scene.state


def test_an_attempt_asks_as_often_as_it_needs_one_gate_at_a_time() -> None:
    scene = asking()
    with pytest.raises(StateError, match="the gate a#1"):
        scene.sees(Asked(scene.tick(), "a#1", GateReason.PERMISSION, CALL))
    scene.says("deny")
    scene.asks(request=QUESTION)
    scene.says("answer", "the second one")
    assert [gate.id for gate in scene.last.gates] == ["a#1?1", "a#1?2"]


def test_what_is_allowed_for_the_session_outlasts_the_step() -> None:
    scene = asking()
    scene.says("always")
    assert always_allowed(scene.state) == ("Bash(npm test *)",)
    scene.returned()
    scene.checked()
    assert scene.state.past.phases == 1
    assert always_allowed(scene.state) == ("Bash(npm test *)",)


def test_what_is_allowed_once_is_not_kept() -> None:
    scene = asking()
    scene.says("allow")
    assert always_allowed(scene.state) == ()


def test_a_call_that_no_rule_describes_can_only_be_allowed_once() -> None:
    scene = asking(request={"tool": "Bash", "subject": "x"})
    assert scene.gate.choices == (Resolution.ALLOW, Resolution.DENY, Resolution.ABORT)
    asked = scene.gate
    assert question(asked, scene.last, "", done=0, total=1) == (
        "The agent wants to run `x` (a#1): allow or deny? 0/1 step done."
    )
    with pytest.raises(StateError, match="the gate a#1"):
        scene.says("always")


def test_the_others_of_a_group_go_on_and_are_judged_when_the_answer_is_there() -> None:
    scene = Scene(book(*GROUP))
    scene.checked()
    scene.asks("a#1")
    scene.returned("b#1")
    assert scene.gate.id == "a#1?1"
    scene.says("allow")
    assert scene.running == ("a#1",)
    scene.returned("a#1", error=AGENT_FAILED)
    scene.checked()
    assert scene.ended is SessionStatus.FAILED


def test_two_of_a_group_ask_one_after_the_other() -> None:
    scene = Scene(book(*GROUP))
    scene.checked()
    scene.asks("b#1")
    scene.sees(Asked(scene.tick(), "a#1", GateReason.QUESTION, QUESTION))
    assert scene.gate.id == "a#1?1"
    scene.says("answer", "1")
    assert scene.gate.id == "b#1?1"


def test_an_attempt_that_waits_neither_returns_nor_is_interrupted() -> None:
    scene = asking()
    for report in (Returned(scene.tick(), "a#1", Outcome()),):
        with pytest.raises(StateError, match="the gate a#1"):
            scene.sees(report)
    assert scene.cancelled(Cancellation.INTERRUPT) == ()
    assert scene.gate.id == "a#1?1"


def test_an_abort_at_the_gate_ends_the_session_and_closes_the_gate() -> None:
    scene = asking()
    scene.cancelled(Cancellation.ABORT, "enough")
    assert scene.ended is SessionStatus.ABORTED
    assert scene.last.gates[0].resolution is Resolution.ABORT
    assert (scene.last.status, scene.last.error_code) == (EntryStatus.FAILED, ABORTED)
    assert scene.last.error == "aborted while it waited for an answer"
