"""Compares steps that run `cli true` with a loop that runs `true`.

python benchmarks/steps.py FOLDER [STEPS…]    # prints a JSON object of milliseconds for each number

`run` is a whole `playbook run`, `loop` a Python process that runs the program as often, and `step`
what one more step takes, without what begins and ends a session. By default 10, 100 and 1,000.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import sample

NUMBERS, ROUNDS = (10, 100, 1_000), 5
PLAYBOOK = (sys.executable, "-m", "playbook_supervisor", "run")
LOOP = "import subprocess, sys\nfor _ in range(int(sys.argv[1])): subprocess.run(['true'])"
HEAD = 'name: {name}\ndescription: Run true.\nversion: "1.1"\nargs: []\nsteps:\n'
STEP = "  - {{id: s{number}, command: cli true, autonomy: auto, error_policy: stop}}\n"


def measured(folder: Path, numbers: Sequence[int]) -> dict[int, dict[str, float]]:
    """Number of steps → median milliseconds."""
    root = sample.repository(folder / "project")
    sample.commit(root)
    for number in (1, *numbers):
        text = HEAD.format(name=f"n{number}")
        text += "".join(STEP.format(number=each) for each in range(number))
        file = root / f".playbooks/playbooks/n{number}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (root / ".playbooks/config.yaml").write_text("commit_sessions: never\n")
    return {number: _measured(root, number) for number in numbers}


def _measured(root: Path, number: int) -> dict[str, float]:
    rounds = ROUNDS if number < max(NUMBERS) else 1
    one, run, loop = [], [], []
    for _ in range(rounds):
        one.append(_milliseconds([*PLAYBOOK, "n1"], root))
        run.append(_milliseconds([*PLAYBOOK, f"n{number}"], root))
        loop.append(_milliseconds([sys.executable, "-c", LOOP, str(number)], root))
    step = (median(run) - median(one)) / max(number - 1, 1)
    return {"run": median(run), "loop": median(loop), "step": step}


def _milliseconds(argv: Sequence[str], cwd: Path) -> float:
    began = time.perf_counter()
    subprocess.run(argv, cwd=cwd, stdin=subprocess.DEVNULL, check=True, capture_output=True)
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    chosen = tuple(map(int, sys.argv[2:])) or NUMBERS
    print(json.dumps(measured(Path(sys.argv[1]).resolve(), chosen), indent=2))
