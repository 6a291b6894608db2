"""What is measured on: repositories, playbooks of steps that do nothing, sessions half done."""

from __future__ import annotations

import subprocess
from pathlib import Path

from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.sessions.store import Store
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


def playbook(steps: int, name: str = "sample", *, conditions: bool = False) -> bytes:
    """A valid playbook of so many steps, with a condition each or with none."""
    head = f"name: {name}\ndescription: Steps that do nothing.\n"
    head += 'version: "1.0"\nargs: [{name: feature, description: It., required: true}]\nsteps:\n'
    step = "  - id: s{}\n    command: /nothing\n    autonomy: auto\n    error_policy: stop\n"
    step += "    postconditions: [plan_exists]\n" if conditions else ""
    return (head + "".join(step.format(number) for number in range(steps))).encode()


def session(root: Path, steps: int) -> Supervisor:
    """A pending session of such a playbook."""
    store = Store(checkout.find(root))
    text = playbook(steps)
    return Supervisor(
        store,
        store.create(playbook="sample", text=text, feature=FEATURE, args={"feature": FEATURE}),
    )


def part_of_the_way(root: Path, entries: int, steps: int) -> Supervisor:
    """A session of so many steps, of which so many are settled and the next one runs."""
    supervisor = session(root, steps)
    supervisor.begin()
    for number in range(entries):
        supervisor.report(f"s{number}#1", Outcome(output="nothing"))
    return supervisor
