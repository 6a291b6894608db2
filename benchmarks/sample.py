"""The subjects of the benchmarks: repositories, no-op playbooks, half-finished sessions."""

from __future__ import annotations

import subprocess
from pathlib import Path

from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.git import checkout

FEATURE = "013-sample"


def repository(folder: Path) -> Path:
    """A real git repository with nothing but the one command."""
    commands = folder / ".claude/commands"
    commands.mkdir(parents=True)
    (commands / "nothing.md").write_text("Do nothing.\n")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


def playbook(
    steps: int, name: str = "sample", *, conditions: bool = False, gated: int = -1
) -> bytes:
    """A valid playbook with that number of steps; a failure of step `gated` opens a gate."""
    head = f"name: {name}\ndescription: Steps that do nothing.\n"
    head += 'version: "1.0"\nargs: [{name: feature, description: It., required: true}]\nsteps:\n'
    step = "  - id: s{}\n    command: /nothing\n    autonomy: auto\n    error_policy: stop\n"
    step += "    postconditions: [plan_exists]\n" if conditions else ""
    each = [step.format(number) for number in range(steps)]
    if gated >= 0:
        each[gated] = each[gated].replace("error_policy: stop", "error_policy: gate")
    return (head + "".join(each)).encode()


def session(root: Path, steps: int, *, gated: int = -1) -> SessionTree:
    """A pending session of such a playbook."""
    store = DiskStore(checkout.find(root))
    text = playbook(steps, gated=gated)
    return SessionTree(
        store,
        store.create(playbook="sample", text=text, feature=FEATURE, args={"feature": FEATURE}),
    )


def loop(root: Path, items: int) -> SessionTree:
    """A pending session: a step lists numbers, a no-op step runs for each, a last one reads all.

    The agent prints the list as the output of `list`.
    """
    store = DiskStore(checkout.find(root))
    text = 'name: sample\ndescription: A loop.\nversion: "1.1"\nargs: []\nsteps:\n'
    each = "for_each: {in: $list.json, as: number, max: 10000}"
    for step in (
        "id: list, output: json, command: /nothing",
        f"id: build, {each}, command: /nothing",
        "id: read, stdin: $build.stdout, command: cli true",
    ):
        text += f"  - {{{step}, autonomy: auto, error_policy: stop}}\n"
    assert items <= 10_000
    session_id = store.create(playbook="sample", text=text.encode(), feature=FEATURE, args={})
    return SessionTree(store, session_id)


def commit(root: Path) -> None:
    """Commit everything in the repository."""
    (root / "changed.txt").write_text("before\n")
    identity = ("-c", "user.name=Ada Example", "-c", "user.email=ada@example.org")
    for command in (["add", "--all"], [*identity, "commit", "--quiet", "--message=Begin"]):
        subprocess.run(["git", "-C", str(root), *command], check=True)


def part_of_the_way(root: Path, entries: int, steps: int, *, gate: bool = False) -> SessionTree:
    """A session with that number of settled entries; the next step runs, or waits at a gate.

    At the gate, the step has failed and has changed a file since the commit that it began at.
    """
    if gate:
        commit(root)
    tree = session(root, steps, gated=entries if gate else -1)
    tree.begin()
    for number in range(entries):
        tree.report(f"s{number}#1", Outcome(output="nothing"))
    if gate:
        (root / "changed.txt").write_text("changed\n")
        error = Failure("PB-AGENT-FAILED", "the agent failed", "Look at its output.")
        tree.report(f"s{entries}#1", Outcome(error, "a last line"))
    return tree
