"""Measures the engine alone, in its own process: `python engine.py WHAT NUMBER FOLDER`.

Prints one line of JSON. `run`: a session of NUMBER no-op steps, driven by the headless runner with
the embedded agent. `items`: a loop of NUMBER no-op items, and as many steps. `write`: one report in
a session of NUMBER journal entries. `check`: NUMBER playbooks of 20 steps. `commit`: a session's
commit and a plain `git commit`, NUMBER times.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

import sample

from playbook_supervisor.agents.script import Script, ScriptAgent
from playbook_supervisor.agents.script_worker import ScriptAction
from playbook_supervisor.drivers.headless import Runner
from playbook_supervisor.drivers.observers import Observer
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.kernel.state import Change, Event
from playbook_supervisor.project.playbooks import schema
from playbook_supervisor.sessions.publication.session_commits import SessionInGit
from playbook_supervisor.sessions.store import disk_store
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.system.disk.files import write_atomically

STEPS = 1060


class Stopwatch(Observer):
    """Records when each step is launched."""

    def __init__(self) -> None:
        self.launched: list[float] = []

    def on_event(self, event: Event, snapshot: Snapshot) -> None:
        del snapshot
        if event.change is Change.LAUNCHED:
            self.launched.append(time.perf_counter())


def run(steps: int, folder: Path) -> dict[str, float]:
    """Milliseconds per step, overall and for the first and last hundred, and memory in MiB.

    Measured from launch to launch. `commit` measures the end of a session.
    """
    tree = sample.session(sample.repository(folder), steps)
    watch = Stopwatch()
    runner = Runner(tree, ScriptAgent(Script()), watch)
    worked = time.process_time()
    ending = runner.drive(tree.begin)
    worked = time.process_time() - worked
    assert ending.why == "completed"
    took = watch.launched[-1] - watch.launched[0]
    first, last = watch.launched[:100], watch.launched[-100:]
    return {
        "each": took / (steps - 1) * 1000,
        "processor": worked / steps * 1000,
        "first": (first[-1] - first[0]) / (len(first) - 1) * 1000,
        "last": (last[-1] - last[0]) / (len(last) - 1) * 1000,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "replace": _replaced(folder),
    }


def items(number: int, folder: Path) -> dict[str, float]:
    """Median milliseconds from launch to launch, of the items of a loop and of as many steps.

    In turn, often enough for a hundred of each; a later step reads the outputs of all items.
    """
    listed = ScriptAction(say=(json.dumps([*range(number)]),))
    agent = ScriptAgent(Script({"list": (listed,)}))
    found: dict[str, list[float]] = {"item": [], "step": []}
    for turn in range(max(1, 100 // number)):
        looped = sample.loop(sample.repository(folder / f"items-{turn}"), number)
        unrolled = sample.session(sample.repository(folder / f"steps-{turn}"), number)
        for what, tree in (("item", looped), ("step", unrolled)):
            watch = Stopwatch()
            assert Runner(tree, agent, watch).drive(tree.begin).why == "completed"
            launched = watch.launched[1:-1] if what == "item" else watch.launched
            assert len(launched) == number
            found[what] += [after - before for before, after in pairwise(launched)]
    return {what: median(gaps) * 1000 for what, gaps in found.items()}


def write(entries: int, folder: Path) -> dict[str, float]:
    """Median milliseconds of a report that settles a step and launches the next, synced to disk."""
    tree = sample.part_of_the_way(sample.repository(folder), entries, STEPS)
    times = []
    for number in range(entries, entries + 50):
        began = time.perf_counter()
        tree.report(f"s{number}#1", Outcome(output="nothing"))
        times.append(time.perf_counter() - began)
    return {"each": median(times) * 1000}


def check(playbooks: int, folder: Path) -> dict[str, float]:
    """Milliseconds to read and validate each playbook."""
    folder.mkdir(parents=True)
    file = folder / "sample.yaml"
    file.write_bytes(sample.playbook(20, conditions=True))
    schema.examine(file.read_bytes(), "sample.yaml")
    began = time.perf_counter()
    for _ in range(playbooks):
        found, _problems, _document = schema.examine(file.read_bytes(), "sample.yaml")
        assert found is not None
    return {"each": (time.perf_counter() - began) / playbooks * 1000}


def commit(times: int, folder: Path) -> dict[str, float]:
    """Median milliseconds of a session's commit, and of a plain `git commit` of the same change."""
    tree = sample.session(sample.repository(folder), 20)
    tree.begin()
    by_hand = ["git", "commit", "--quiet", "--message=x", "--only", "--", ".playbooks/sessions"]
    for command in (["git", "add", "."], ["git", "commit", "--quiet", "--message=Begin"]):
        subprocess.run(command, cwd=folder, check=True)
    journal = disk_store.SESSIONS, tree.id, "journal.yaml"
    ours, theirs = [], []
    for number in range(times):
        folder.joinpath(*journal).write_text(f"# {number}\n")
        began = time.perf_counter()
        made = SessionInGit(tree.store.checkout, tree.id, timeout=60.0).commit(
            "Record", "it", "sample"
        )
        ours.append(time.perf_counter() - began)
        assert made is not None
        folder.joinpath(*journal).write_text(f"# {number} by hand\n")
        began = time.perf_counter()
        subprocess.run(by_hand, cwd=folder, check=True)
        theirs.append(time.perf_counter() - began)
    return {"ours": median(ours) * 1000, "by hand": median(theirs) * 1000}


def _replaced(folder: Path) -> float:
    """Median milliseconds to replace one small file durably on this disk, for comparison."""
    times = []
    for _ in range(50):
        began = time.perf_counter()
        write_atomically(folder / "replaced", b"x" * 1000)
        times.append(time.perf_counter() - began)
    return median(times) * 1000


if __name__ == "__main__":
    what, number, where = sys.argv[1:]
    measure = {"run": run, "items": items, "write": write, "check": check, "commit": commit}[what]
    print(json.dumps(measure(int(number), Path(where))))
