"""JSON: what goes to runtime state comes back, what clients see has its schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hypothesis_strategies import entries, pasts, playbooks

import playbook_supervisor
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.kernel.directives import (
    Ask,
    Attempt,
    Failure,
    Finish,
    Outcome,
    Run,
    as_typed,
)
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.state import Entry, Past, State
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    GateReason,
    Place,
    Resolution,
    SessionStatus,
)
from playbook_supervisor.sessions.files.serialize import (
    SessionHeader,
    WorkItem,
    ask_to_json,
    entry_from_json,
    entry_to_json,
    finish_to_json,
    outcome_from_json,
    playbook_from_json,
    playbook_to_json,
    run_to_json,
    state_from_json,
    state_to_json,
)

SCHEMA = json.loads(
    (
        Path(playbook_supervisor.__file__).parent / "project/schemas/printed/directive.json"
    ).read_text()
)
SCENE = SessionHeader("20260219-a7k", "auto-feature", "013-playbook-create", 3, 8)
STEP = Step("implement", "/speckit.implement", Autonomy.AUTO, ErrorPolicy.STOP, model="opus")


def through_json(shape: object) -> Any:
    return json.loads(json.dumps(shape))


def valid(shape: object) -> Any:
    """The shape as a client sees it, if it is what the schema says."""
    seen = through_json(shape)
    jsonschema.Draft7Validator(SCHEMA).validate(seen)
    return seen


# ── runtime state ───────────────────────────────────────────────────────────────────────────


@given(playbooks())
def test_a_playbook_comes_back_as_it_was(playbook: Playbook) -> None:
    assert playbook_from_json(through_json(playbook_to_json(playbook))) == playbook


@given(entries())
def test_an_entry_comes_back_as_it_was(entry: Entry) -> None:
    assert entry_from_json(through_json(entry_to_json(entry))) == entry


@given(playbooks(), pasts(), st.lists(entries(), max_size=3))
def test_a_state_comes_back_as_it_was(playbook: Playbook, past: Past, due: list[Entry]) -> None:
    """cat E-5."""
    state = State(playbook, past, tuple(due))
    assert state_from_json(through_json(state_to_json(state)), playbook) == state


@pytest.mark.parametrize(
    "change",
    [
        {"started_at": "1970-01-01T00:00:00Z"},
        {"started_at": None},
        {"completed_at": True},
        {"status": "over"},
        {"step_id": 3},
        {"gates": [{}]},
        {"gates": "none"},
        {"attempt": 0},
        {"recovered": "yes"},
        {"agent": {"a": None}},
        {"failing": [3]},
    ],
)
def test_an_entry_that_does_not_fit_is_a_value_error(change: dict[str, object]) -> None:
    shape = {"step_id": "a", "status": "done", "decision": "auto", "started_at": 7}
    with pytest.raises(ValueError, match=next(iter(change))):
        entry_from_json({**shape, **change})


def test_a_playbook_whose_words_are_not_ours_is_a_value_error() -> None:
    shape = playbook_to_json(Playbook("x", "", "1.0", (), (STEP,)))
    shape["steps"][0]["autonomy"] = "sun_shines"
    with pytest.raises(ValueError, match="sun_shines"):
        playbook_from_json(shape)


# ── outcomes ────────────────────────────────────────────────────────────────────────────────


def test_an_outcome_may_be_empty_or_say_much() -> None:
    """cat E-6: output, error, usage."""
    assert outcome_from_json({}) == Outcome()
    assert outcome_from_json({"error": None, "output": "", "agent": {}}) == Outcome()
    assert outcome_from_json({"error": " "}) == Outcome()
    said = outcome_from_json(
        {"output": "\n12 tests pass\nmore", "agent": {"turns": 3, "name": "x"}}
    )
    assert said == Outcome(output="\n12 tests pass\nmore", agent={"turns": 3, "name": "x"})


def test_an_error_is_a_sentence_or_a_shape() -> None:
    """cat E-7."""
    assert outcome_from_json({"error": "out of memory"}).error == Failure(
        "PB-AGENT-FAILED", "out of memory"
    )
    shape = {"code": "PB-STEP-FAILED", "message": "no", "guidance": "mend", "cause": "disk"}
    assert outcome_from_json({"error": shape}).error == Failure(
        "PB-STEP-FAILED", "no", "mend", "disk"
    )


def test_what_an_agent_says_is_made_printable() -> None:
    outcome = outcome_from_json(
        {"error": "\x1b[31mred\x1b[0m", "output": "a\x07b", "agent": {"\x1b[1mname": "x\x08"}}
    )
    assert outcome == Outcome(Failure("PB-AGENT-FAILED", "red"), "ab", {"name": "x"})


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ([], "must be a JSON object"),
        ("done", "must be a JSON object"),
        ({"eror": "typo"}, "eror: is not one of error, output, agent"),
        ({"error": 3}, "error: must be a mapping"),
        ({"error": {"message": "no"}}, "code: is missing"),
        ({"error": {"code": "PB-COND-TRIGGER", "message": "no"}}, "PB-AGENT- or PB-STEP-"),
        ({"error": {"code": "PB-STEP-FAILED"}}, "message: is missing"),
        ({"output": ["a"]}, "output: must be text, not a list"),
        ({"agent": {"turns": True}}, "text or a number for turns"),
    ],
)
def test_what_is_no_outcome_is_refused_and_never_a_success(shape: object, why: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        outcome_from_json(shape)
    assert caught.value.code == "PB-ARG-INVALID"
    assert why in caught.value.message


# ── directives ──────────────────────────────────────────────────────────────────────────────


def test_a_run_says_what_to_run_and_how() -> None:
    run = Run((Attempt(STEP, 1),))
    handouts = {"implement#1": WorkItem("/speckit-implement", "", "Run the Skill …")}
    assert valid(run_to_json(run, SCENE, handouts)) == {
        "protocol": 1,
        "session": "20260219-a7k",
        "playbook": "auto-feature",
        "feature": "013-playbook-create",
        "progress": {"done": 3, "total": 8},
        "directive": "run",
        "steps": [
            {
                "id": "implement#1",
                "step": "implement",
                "command": "/speckit-implement",
                "args": "",
                "model": "opus",
                "description": "implement#1 /speckit-implement",
                "prompt": "Run the Skill …",
            }
        ],
    }


def test_a_run_of_a_group_hands_out_every_member_and_omits_empty_values() -> None:
    plain = Step("qa", "/qa.run", Autonomy.AUTO, ErrorPolicy.STOP, args="{{feature}}")
    run = Run((Attempt(STEP, 2), Attempt(plain, 1)))
    handouts = {
        "implement#2": WorkItem("/speckit.implement", ""),
        "qa#1": WorkItem("/qa.run", "013-playbook-create"),
    }
    shape = valid(run_to_json(run, SCENE, handouts, outstanding=True))
    assert shape["outstanding"] is True
    assert [step["id"] for step in shape["steps"]] == ["implement#2", "qa#1"]
    assert set(shape["steps"][1]) == {"id", "step", "command", "args", "description"}
    assert shape["steps"][1]["args"] == "013-playbook-create"


def test_an_ask_shows_its_gate_with_evidence_and_choices() -> None:
    choices = (Resolution.CONTINUE, Resolution.SKIP, Resolution.ABORT)
    ask = Ask("pr#1?1", Attempt(STEP, 1), GateReason.GATE_ALWAYS, Place.BEFORE, choices)
    shape = valid(ask_to_json(ask, SCENE, "Create PR?", {"context": ["3 files changed"]}))
    assert shape["directive"] == "ask"
    assert shape["gate"] == {
        "id": "pr#1?1",
        "step": "implement",
        "reason": "gate_always",
        "question": "Create PR?",
        "context": ["3 files changed"],
        "choices": ["continue", "skip", "abort"],
    }
    assert "outstanding" not in shape
    assert valid(ask_to_json(ask, SCENE, "Create PR?", {"context": []}, outstanding=True))[
        "outstanding"
    ]


def test_a_finish_says_how_it_ended() -> None:
    shape = valid(finish_to_json(Finish(SessionStatus.FAILED), SCENE, "plan failed"))
    assert (shape["directive"], shape["status"], shape["summary"]) == (
        "finish",
        "failed",
        "plan failed",
    )


def test_the_schema_knows_every_word_of_the_vocabulary() -> None:
    gate = SCHEMA["definitions"]["gate"]["properties"]
    assert gate["reason"]["enum"] == list(GateReason)
    word = gate["choices"]["items"]["pattern"].removesuffix(r"(?!\n)")
    typed = as_typed(list(Resolution), ["change"])
    assert all(re.fullmatch(word, each) for each in typed)
    assert not re.fullmatch(word, "back to")
    assert set(SCHEMA["properties"]["status"]["enum"]) == set(SessionStatus) - {
        "pending",
        "in_progress",
    }
