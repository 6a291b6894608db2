"""What an agent asks for during its step, as the journal keeps it."""

from __future__ import annotations

import pytest
import yaml
from support.stored_sessions import Scene, ask, playbook, step

from playbook_supervisor.errors import StateError
from playbook_supervisor.formats.timestamps import to_time
from playbook_supervisor.kernel.directives import Outcome, Run
from playbook_supervisor.kernel.vocabulary import GateReason, Resolution
from playbook_supervisor.sessions.files.journal import parse_journal
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.gate import gate_text
from playbook_supervisor.sessions.gate.gate_context import gate_context
from playbook_supervisor.sessions.store.snapshot import running
from playbook_supervisor.sessions.tree.session_tree import SessionTree

CALL = {
    "who": "Claude",
    "tool": "Bash",
    "subject": "npm test",
    "input": '{"command":"npm test\\n# 2"}',
    "rule": "Bash(npm test *)",
}
QUESTIONS = {
    "who": "Claude",
    "tool": "AskUserQuestion",
    "subject": "Which port?",
    "questions": [
        {"question": "Which port?", "options": [{"label": "443", "description": "TLS"}]},
        {"question": "Which days?", "options": [{"label": "Mon"}], "multiple": True},
    ],
}
ANN = Principal("Ann", via="inbox")
JOURNAL = """\
schema: 1
entries:
  - step_id: a
    status: in_progress
    decision: gate
    started_at: "2026-02-19T10:00:00.000Z"
    launched_at: "2026-02-19T10:00:00.000Z"
    gates:
      - id: a#1?1
        reason: permission
        place: during
        opened_at: "2026-02-19T10:01:00.000Z"
        request: {REQUEST}
"""


def tree(scene: Scene) -> SessionTree:
    """A session whose step `release` runs a playbook with the step `plan`."""
    scene.write(".playbooks/playbooks/child.yaml", playbook("plan").decode())
    shape = yaml.safe_load(playbook("release")) | {"version": "1.1"}
    shape["steps"][0]["command"] = "playbook child"
    made = yaml.safe_dump(shape, sort_keys=False).encode()
    children = {"child": playbook("plan")}
    name = scene.store.create(
        playbook="sample", text=made, feature="013-x", args={}, children=children
    )
    return SessionTree(scene.store, name)


def test_another_process_reads_what_was_asked_and_where_the_answer_came_from(scene: Scene) -> None:
    session_tree = scene.create("a")
    session_tree.begin()
    session_tree.asked("a#1", GateReason.PERMISSION, CALL)
    gate = ask(scene.again(session_tree).look())
    assert (gate.id, gate.request) == ("a#1?1", CALL)
    snapshot = scene.again(session_tree).answer(gate.id, Resolution.ALWAYS, "always", ANN)
    assert snapshot.directive == Run(running(snapshot), continues=("a#1",))
    (kept,) = scene.journal(session_tree)[0]["gates"]
    assert (kept["request"], kept["by"], kept["via"]) == (CALL, "Ann", "inbox")


def test_the_journal_keeps_the_database_role_that_answered_in_a_fleet(scene: Scene) -> None:
    session_tree = scene.create(step("a", autonomy="gate_always"))
    session_tree.begin()
    rita = Principal("Rita", via="fleet", role="release")
    given_at = session_tree.store.clock()
    scene.clock.now += 60_000
    session_tree.answer("a#1?1", Resolution.CONTINUE, "continue", rita, given_at)
    (kept,) = scene.journal(session_tree)[0]["gates"]
    assert (kept["via"], kept["role"], kept["answered_at"]) == (
        "fleet",
        "release",
        to_time(given_at),
    )
    (gate,) = scene.again(session_tree).look().state.entries[0].gates
    assert gate.role == "release"


def test_a_gate_in_a_child_session_is_asked_through_its_parent(scene: Scene) -> None:
    top = tree(scene)
    top.begin()
    snapshot = top.asked("release#1/plan#1", GateReason.QUESTION, QUESTIONS)
    assert ask(snapshot).id == "release#1/plan#1?1"
    snapshot = top.answer("release#1/plan#1?1", Resolution.ANSWER, "443\nMon", ANN)
    assert snapshot.directive == Run(running(snapshot), continues=("release#1/plan#1",))
    snapshot = top.report("release#1/plan#1", Outcome(output="done"))
    assert snapshot.manifest.status == "completed"


def test_the_call_is_shown_with_the_line_that_would_allow_it(scene: Scene) -> None:
    session_tree = scene.create("a")
    session_tree.begin()
    snapshot = session_tree.asked("a#1", GateReason.PERMISSION, CALL | {"path": "/srv"})
    shown = "\n".join(gate_text.lines(gate_context(snapshot)))
    for line in (
        "command: npm test",
        "# 2",
        "it touches: /srv",
        'add "Bash(npm test *)" to `allowed_tools`',
    ):
        assert line in shown


def test_questions_are_shown_with_their_numbered_options(scene: Scene) -> None:
    session_tree = scene.create("a")
    session_tree.begin()
    snapshot = session_tree.asked("a#1", GateReason.QUESTION, QUESTIONS)
    shown = "\n".join(gate_text.lines(gate_context(snapshot)))
    for line in ("1/2: Which port?", "1. 443: TLS", "2/2: Which days?", "1. Mon", "more than one"):
        assert line in shown


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ("[x]", "request: must be"),
        ("{tool: [x]}", "request: in it, tool: must be text"),
        ("{questions: x}", "request: in it, questions: must be"),
        ("{questions: [{header: x}]}", "request: in it, question: is missing"),
        ("{questions: [{question: x, options: [{}]}]}", "request: in it, label: is missing"),
    ],
)
def test_a_request_of_another_shape_is_not_read(request_: str, why: str) -> None:
    text = JOURNAL.replace("{REQUEST}", request_)
    with pytest.raises(StateError, match="gates: in the one at place 1") as refused:
        parse_journal(text.encode(), "journal.yaml")
    assert why in refused.value.message
