"""Tools that change something: a person allows them once a session."""

from __future__ import annotations

from typing import Any

import pytest

from kernel.world import Scene, book, missing, step
from playbook_supervisor.kernel.directives import Ask
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.gates import question
from playbook_supervisor.kernel.machine import directive, replay
from playbook_supervisor.kernel.model import Step
from playbook_supervisor.kernel.tools import lacking
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    Decision,
    EntryStatus,
    GateReason,
    Place,
    Resolution,
)

CONTINUE, SKIP, ABORT = Resolution.CONTINUE, Resolution.SKIP, Resolution.ABORT


def uses(name: str, *tools: str, **more: Any) -> Step:
    return step(name, pre=(), post=(), tools=tools, **more)


def scene(*steps: Step) -> Scene:
    begun = Scene(book(*steps))
    begun.checked()
    return begun


def allowed(*steps: Step) -> Scene:
    """The first step asked, was allowed its tools and is done; the second one is checked."""
    begun = scene(*steps)
    begun.says("continue")
    begun.worked()
    begun.checked()
    begun.checked()
    return begun


def test_a_step_that_changes_something_asks_before_it_runs() -> None:
    """cat FR-5.4, tyr 31."""
    begun = scene(uses("write", "Read", "Write"))
    gate = begun.gate
    assert (gate.reason, gate.place) == (GateReason.TOOLS, Place.BEFORE)
    assert gate.choices == (CONTINUE, SKIP, ABORT)
    assert (begun.last.decision, begun.last.launched_at) == (Decision.GATE, None)
    begun.says("continue")
    begun.checked()
    assert begun.running == ("write#1",)


@pytest.mark.parametrize("tools", [(), ("Read", "Grep", "Glob"), ("Read(src/**)",)])
def test_a_step_that_only_reads_does_not_ask(tools: tuple[str, ...]) -> None:
    assert scene(uses("look", *tools)).running == ("look#1",)


@pytest.mark.parametrize(
    ("allowed", "tools", "asked"),
    [
        ((), ("Write", "Read", "Bash(git diff *)", "Write"), ("Write", "Bash(git diff *)")),
        (("Bash",), ("Bash(git diff *)",), ()),
        (("Bash(git diff *)",), ("Bash(git diff *)", "Bash(git push *)"), ("Bash(git push *)",)),
        (("Bash(git diff *)",), ("Bash",), ("Bash",)),
        (("Write",), ("mcp__github__merge",), ("mcp__github__merge",)),
        (
            (),
            ("Read(a),Bash(rm *)", "read", "Read,Bash"),
            ("Read(a),Bash(rm *)", "read", "Read,Bash"),
        ),
    ],
)
def test_what_is_asked_about_is_what_no_allowed_rule_covers(
    allowed: tuple[str, ...], tools: tuple[str, ...], asked: tuple[str, ...]
) -> None:
    assert lacking(step(tools=tools), allowed) == asked


def test_a_later_step_with_no_further_tools_is_not_asked_about() -> None:
    after = allowed(uses("a", "Write", "Edit"), uses("b", "Read", "Edit"))
    assert after.running == ("b#1",)


def test_a_later_step_with_a_further_tool_is_asked_about_that_tool() -> None:
    after = allowed(uses("a", "Write"), uses("b", "Write", "Bash", "WebFetch"))
    tools = lacking(after.gate.member.step, {"Write"})
    said = question(after.gate, after.last, "Test it", done=1, total=2, tools=tools)
    assert said == (
        "b is going to use Bash and WebFetch (Test it): continue to allow this for the whole "
        "session, skip the step, or abort? 1/2 steps done."
    )


def test_what_was_allowed_is_read_from_the_journal() -> None:
    after = allowed(uses("a", "Write"), uses("b", "Write"), uses("c", "Bash"))
    rebuilt = replay(after.playbook, after.journal)
    assert rebuilt.past.passed == {"tools:Write"} == after.state.past.passed
    assert directive(rebuilt) == after.asked


def test_a_step_that_was_skipped_at_its_gate_allows_nothing() -> None:
    begun = scene(uses("a", "Write"), uses("b", "Write"))
    begun.says("skip")
    assert begun.entry("a#1").status is EntryStatus.SKIPPED
    begun.checked()
    assert (begun.gate.id, begun.gate.reason) == ("b#1?1", GateReason.TOOLS)


def test_gate_always_asks_where_the_tools_are_allowed_already() -> None:
    after = allowed(uses("a", "Write"), uses("b", "Write", autonomy=Autonomy.GATE_ALWAYS))
    assert after.gate.reason is GateReason.GATE_ALWAYS


def test_an_approval_covers_the_tools_of_its_step_alone() -> None:
    begun = scene(uses("a", "Write", approval=True), uses("b", "Write"))
    assert begun.last.gates[-1].reason is GateReason.APPROVAL
    begun.says("continue")
    begun.worked()
    begun.checked()
    begun.checked()
    assert begun.gate.reason is GateReason.TOOLS


def test_a_group_is_asked_once_about_the_tools_that_its_steps_share() -> None:
    begun = scene(uses("a", "Write", group="g"), uses("b", "Write", group="g"))
    assert [entry.id for entry in begun.journal] == ["a#1"]
    begun.says("continue")
    begun.checked()
    assert begun.running == ("a#1", "b#1")


def test_a_group_is_asked_again_about_what_only_the_second_step_needs() -> None:
    begun = scene(uses("a", "Write", group="g"), uses("b", "Bash", group="g"))
    begun.says("continue")
    begun.checked()
    assert isinstance(begun.asked, Ask)
    assert begun.gate.id == "b#1?1"
    begun.says("continue")
    begun.checked()
    assert begun.running == ("a#1", "b#1")


def test_a_precondition_that_fails_is_asked_about_before_the_tools() -> None:
    needs = step("a", post=(), tools=("Write",), policy=ErrorPolicy.GATE)
    begun = Scene(book(needs))
    begun.checked(a=missing("spec_exists"))
    assert begun.last.gates[-1].reason is GateReason.PRECONDITION_FAIL
    begun.says("continue")
    begun.checked()
    assert begun.gate.reason is GateReason.TOOLS
