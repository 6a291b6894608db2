"""The subjects of the benchmarks: repositories, no-op playbooks, half-finished sessions."""

from __future__ import annotations

import subprocess
from pathlib import Path

from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.sessions.store import DiskStore
from playbook_supervisor.sessions.supervisor import Supervisor
from playbook_supervisor.system import checkout

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
    """A valid playbook with that number of steps; step `gated` is `gate_always`."""
    head = f"name: {name}\ndescription: Steps that do nothing.\n"
    head += 'version: "1.0"\nargs: [{name: feature, description: It., required: true}]\nsteps:\n'
    step = "  - id: s{}\n    command: /nothing\n    autonomy: auto\n    error_policy: stop\n"
    step += "    postconditions: [plan_exists]\n" if conditions else ""
    each = [step.format(number) for number in range(steps)]
    if gated >= 0:
        each[gated] = each[gated].replace("autonomy: auto", "autonomy: gate_always")
    return (head + "".join(each)).encode()


def session(root: Path, steps: int, *, gated: int = -1) -> Supervisor:
    """A pending session of such a playbook."""
    store = DiskStore(checkout.find(root))
    text = playbook(steps, gated=gated)
    return Supervisor(
        store,
        store.create(playbook="sample", text=text, feature=FEATURE, args={"feature": FEATURE}),
    )


def part_of_the_way(root: Path, entries: int, steps: int, *, gate: bool = False) -> Supervisor:
    """A session with that number of settled entries; the next step runs or waits at its gate."""
    supervisor = session(root, steps, gated=entries if gate else -1)
    supervisor.begin()
    for number in range(entries):
        supervisor.report(f"s{number}#1", Outcome(output="nothing"))
    return supervisor
