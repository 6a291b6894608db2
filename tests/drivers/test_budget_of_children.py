"""What may still be spent in a tree of sessions."""

from __future__ import annotations

import pytest
import yaml
from support.stored_sessions import Scene, work

from playbook_supervisor.agents.protocol import Budget
from playbook_supervisor.drivers import budget
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.sessions.store.snapshot import Snapshot, running
from playbook_supervisor.sessions.tree.session_tree import SessionTree


def text(name: str, *commands: str, **top: object) -> bytes:
    steps = [
        {"id": f"s{n}", "command": each, "autonomy": "auto", "error_policy": "stop"}
        for n, each in enumerate(commands, 1)
    ]
    shape = {"name": name, "description": "-", "version": "1.1", "args": [], "steps": steps}
    return yaml.safe_dump(shape | top, sort_keys=False).encode()


def begun(scene: Scene, top: float | None, child: float | None) -> tuple[SessionTree, Snapshot]:
    """A session of two steps: an agent's, which costs 1 dollar, and a child of two such steps."""
    limits = [{} if each is None else {"limits": {"max_cost_usd": each}} for each in (top, child)]
    session = scene.store.create(
        playbook="top",
        text=text("top", "/x", "playbook child", **limits[0]),
        feature="",
        args={},
        children={"child": text("child", "/x", "/x", **limits[1])},
    )
    tree = SessionTree(scene.store, session)
    tree.begin()
    tree.report("s1#1", Outcome(agent={"cost_usd": 1.0}))
    return tree, tree.report("s2#1/s1#1", Outcome(agent={"cost_usd": 0.5}))


def left(tree: SessionTree, snapshot: Snapshot, run: Budget = budget.NO_LIMITS) -> Budget:
    return budget.remaining(run, tree, snapshot, work(snapshot))


@pytest.mark.parametrize(
    ("top", "child", "allowed"),
    [(None, None, None), (5, None, 3.5), (5, 2, 1.5), (2, 9, 0.5), (None, 3, 2.5)],
)
def test_the_smallest_remainder_of_all_sessions_above_holds(
    scene: Scene, top: float | None, child: float | None, allowed: float | None
) -> None:
    """What a child has used counts for its own limit, and for that of its parent."""
    tree, snapshot = begun(scene, top, child)
    assert [each.id for each in running(snapshot)] == ["s2#1/s2#1"]
    assert left(tree, snapshot).max_cost_usd == allowed


def test_what_a_person_allows_counts_for_the_whole_tree(scene: Scene) -> None:
    tree, snapshot = begun(scene, 1.6, 0.6)
    assert left(tree, snapshot, Budget(max_cost_usd=4.0)).max_cost_usd == 2.5
