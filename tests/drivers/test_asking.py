"""A runner whose agents ask, while people decide elsewhere."""

from __future__ import annotations

from collections.abc import Callable

from support.stored_sessions import Scene, ask, step

from playbook_supervisor.agents.script import create as scripted
from playbook_supervisor.drivers.headless import Runner
from playbook_supervisor.drivers.observers import Observer
from playbook_supervisor.kernel.directives import Attempt
from playbook_supervisor.kernel.vocabulary import GateReason, Resolution
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.sessions.tree.session_tree import SessionTree

ASKS = """\
steps:
  a:
    ask: {permission: {tool: Bash, input: {command: npm test}}}
    say: "{{reply}}"
  b: {say: done}
"""
QUESTION = {"questions": [{"question": "Which?"}]}


class Elsewhere(Observer):
    """A person at another terminal, who acts as soon as a gate is shown."""

    def __init__(self, tree: SessionTree, act: Callable[[SessionTree], None]) -> None:
        self._tree, self._act = tree, act
        self.shown: list[str] = []
        self.printed: list[str] = []

    def on_gate(self, snapshot: Snapshot) -> None:
        self.shown.append(ask(snapshot).id)
        self._act(self._tree)

    def on_output(self, attempt: Attempt, line: str) -> None:
        self.printed.append(line)


def answers(word: str) -> Callable[[SessionTree], None]:
    def act(other: SessionTree) -> None:
        gate = ask(other.look()).id
        other.answer(gate, Resolution(word), word, Principal("Ann", via="inbox"))

    return act


def runner(
    scene: Scene, act: Callable[[SessionTree], None], *, patience: float, script: str = ASKS
) -> tuple[Runner, Elsewhere]:
    tree = scene.create(step("a"), step("b"))
    file = tree.root / "asks.yaml"
    file.write_text(script)
    agent = scripted(str(file), Config(), tree.root)
    person = Elsewhere(scene.again(tree), act)
    return Runner(tree, agent, person, patience=patience), person


def test_the_answer_from_elsewhere_reaches_the_agent_that_waits(scene: Scene) -> None:
    one, person = runner(scene, answers("allow"), patience=60)
    assert one.drive(one.tree.begin).why == "completed"
    first, _ = scene.store.journal(one.tree.id).entries
    assert (first.output, first.gates[0].by, first.gates[0].via) == ("allow", "Ann", "inbox")
    assert person.shown == ["a#1?1"]


def test_without_patience_it_ends_at_the_gate_and_continues_later(scene: Scene) -> None:
    one, person = runner(scene, lambda _: None, patience=0)
    assert one.drive(one.tree.begin).why == "waiting"
    assert scene.store.journal(one.tree.id).entries[0].returned_at is None
    answers("deny")(scene.again(one.tree))
    later = Runner(one.tree, one.agent, person)
    assert later.drive(later.tree.advance).why == "completed"
    assert scene.store.journal(one.tree.id).entries[0].output == "deny"


def test_a_session_that_is_aborted_elsewhere_ends_the_agent_that_waits(scene: Scene) -> None:
    one, _ = runner(scene, answers("abort"), patience=60)
    assert one.drive(one.tree.begin).why == "aborted"


def test_a_request_that_comes_too_late_is_put_off(scene: Scene) -> None:
    """Another gate of the attempt was opened meanwhile: the agent cannot have asked that."""
    one, person = runner(scene, answers("answer"), patience=60)

    def first() -> Snapshot:
        begun = one.tree.begin()
        scene.again(one.tree).asked("a#1", GateReason.QUESTION, QUESTION)
        return begun

    assert one.drive(first).why in ("completed", "waiting")
    assert person.shown[0] == "a#1?1"
    (gate, *_) = scene.store.journal(one.tree.id).entries[0].gates
    assert gate.reason is GateReason.QUESTION
