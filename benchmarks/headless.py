"""Compares a step of `playbook run` with the real client to a bare `claude -p`.

PYTHONPATH=tests python benchmarks/headless.py FOLDER    # prints one JSON object of milliseconds

Both ask the scripted model on loopback, in turn, with the same options. A step is what a run of
several takes more than a run of one, so that what begins and ends a session is not counted.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from claude.client import Client, program
from claude.model import Model
from claude.runner import works
from support.scratch_project import Project

MORE, ROUNDS = 4, 9
BARE = ("claude", "-p", "--verbose", "--output-format=stream-json", "--permission-mode=acceptEdits")
HEAD = """\
name: {name}
description: Steps that only ask
version: "1.0"
args: []
steps:
"""
STEP = """\
  - id: s{number}
    command: /speckit.implement
    autonomy: auto
    error_policy: stop
"""


def measured(folder: Path) -> dict[str, float]:
    """Median milliseconds of a bare call and of a step."""
    home = folder / "home"
    home.mkdir(parents=True)
    templates = Path(__file__).resolve().parent.parent / "templates"
    project = Project(Project.found(folder / "project", templates), home)
    for name, steps in (("one", 1), ("more", 1 + MORE)):
        text = HEAD.format(name=name) + "".join(STEP.format(number=each) for each in range(steps))
        project.write(f".playbooks/playbooks/{name}.yaml", text)
    with Model(works) as model, Client(project, model) as client:
        on_path = client.scratch / "bin/claude"
        real = shlex.join([*model.network.enter, str(program())])
        on_path.write_text(f'#!/bin/sh\nexec {real} "$@"\n')
        on_path.chmod(0o755)
        playbook = (sys.executable, "-m", "playbook_supervisor", "run")

        def took(*argv: str) -> float:
            return milliseconds(argv, project.root, client.environment)

        took(*BARE, "--", "/speckit.implement")
        bare, ours = [], []
        for _ in range(ROUNDS):
            bare.append(took(*BARE, "--", "/speckit.implement"))
            few, many = (took(*playbook, name, "--agent", "claude") for name in ("one", "more"))
            ours.append((many - few) / MORE)
    return {"bare": median(bare), "ours": median(ours)}


def milliseconds(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> float:
    """Milliseconds of a process, which must succeed."""
    began = time.perf_counter()
    subprocess.run(
        argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, check=True, capture_output=True
    )
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    print(json.dumps(measured(Path(sys.argv[1]).resolve())))
