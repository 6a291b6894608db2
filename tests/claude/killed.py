"""Kills `playbook run` at random moments while real clients work, and counts what was lost.

    PYTHONPATH=tests python tests/claude/killed.py KILLS SEED     # prints one JSON object

Each session is begun, killed by SIGKILL again and again, taken up each time, and driven to its
end. In half of them the client ends with its runner, in the others it goes on, and is waited for or
ended. `lost`: steps that are not
done exactly once, and runs that did not end well. `doubled`: commands that a client began again
although their work was done.
"""

from __future__ import annotations

import json
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from support.scratch_project import Project

from claude.client import Client, program
from claude.conversation import Reply, Request
from claude.model import Model
from claude.runner import STRAIGHT, command_of, works
from claude.scripts import FILES

HERE = Path(__file__).resolve().parent
STEPS = ("plan", "tasks")
PATIENCE = 8
"""One runner of so many is left in peace."""
LONGEST = 2.5
"""Seconds that a runner may live that is not: as long as a whole run takes."""


@dataclass
class Watched:
    """A model that does its work, and notes which command was begun although its work was there."""

    project: Project
    again: list[str] = field(default_factory=list)

    def __call__(self, request: Request) -> Reply:
        name = command_of(request)
        if request.tools and name in FILES and not request.calls:
            path, _ = FILES[name]
            if (self.project.root / path).exists():
                self.again.append(name)
        return works(request)


@dataclass
class Count:
    """What has come of it so far."""

    kills: int = 0
    orphans: int = 0
    sessions: int = 0
    steps: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)


def main(kills: int, seed: int) -> Count:
    """Sessions of two steps, one after the other, until there were so many kills."""
    chance, count = random.Random(seed), Count()  # noqa: S311 - moments, no secrets
    with tempfile.TemporaryDirectory(prefix="killed-") as folder:
        place = Path(folder)
        pristine = Project.found(place / "pristine", HERE.parents[1] / "templates")
        while count.kills < kills:
            count.sessions += 1
            home = place / f"home-{count.sessions}"
            home.mkdir()
            project = Project.copied(pristine, place / f"{count.sessions}", home=home)
            project.write(".playbooks/playbooks/straight.yaml", STRAIGHT)
            project.write(".playbooks/config.yaml", f"orphans: {chance.choice(['end', 'wait'])}\n")
            one(project, chance, kills, count)
            shutil.rmtree(project.root)
    return count


def one(project: Project, chance: random.Random, wanted: int, count: Count) -> None:
    """One session to its end, although its runners are killed."""
    watched = Watched(project)
    with Model(watched) as model, Client(project, model) as client:
        put_on_path(client)
        while True:
            begun = has_begun(project)
            command = ["resume", *chance.choice([["--kill"], []])] if begun else ["run", "straight"]
            left_in_peace = count.kills >= wanted or chance.random() < 1 / PATIENCE
            longest = 120 if left_in_peace else chance.uniform(0, LONGEST)
            runner = project.spawn(*command, "--agent", "claude")
            try:
                _, err = runner.communicate(timeout=longest)
            except subprocess.TimeoutExpired:
                runner.kill()
                runner.communicate()
                count.kills += 1
                count.orphans += bool(client.processes())
                continue
            if runner.returncode:
                count.lost.append(f"exit status {runner.returncode}: {err.decode()}")
            break
    count.steps += len(STEPS)
    count.doubled += watched.again
    done = [entry["step_id"] for entry in project.journal() if entry["status"] == "done"]
    if done != list(STEPS):
        count.lost.append(f"done are {done}")


def has_begun(project: Project) -> bool:
    """Its session.yaml is what makes a folder a session: who is killed before has begun nothing."""
    for folder in project.sessions:
        if not (folder / "session.yaml").exists():
            shutil.rmtree(folder)
    return bool(project.sessions)


def put_on_path(client: Client) -> None:
    """The client as `claude` on the project's PATH."""
    on_path = client.scratch / "bin/claude"
    real = shlex.join([*client.model.network.enter, str(program())])
    on_path.write_text(f'#!/bin/sh\nexec {real} "$@"\n')
    on_path.chmod(0o755)
    client.project.env |= client.environment


if __name__ == "__main__":
    print(json.dumps(asdict(main(int(sys.argv[1]), int(sys.argv[2])))))
