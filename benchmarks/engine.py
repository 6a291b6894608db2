"""The engine alone, in a process of its own: `python engine.py run|write|check NUMBER FOLDER`.

Prints one line of JSON. `run`: a session of so many no-op steps, driven by the headless runner
with the embedded agent. `write`: one report, and what it writes, at so many journal entries.
`check`: so many playbooks of 20 steps.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from statistics import median

import sample

from playbook_supervisor import schema
from playbook_supervisor.agents.script import ScriptAgent
from playbook_supervisor.agents.script_format import Script
from playbook_supervisor.drivers.headless import Runner
from playbook_supervisor.drivers.people import Silence
from playbook_supervisor.files import write_atomically
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.kernel.state import Change, Event
from playbook_supervisor.outlook import Outlook

STEPS = 1060


class Stopwatch(Silence):
    """Notes when each step is launched."""

    def __init__(self) -> None:
        self.launched: list[float] = []

    def happened(self, event: Event, outlook: Outlook) -> None:
        del outlook
        if event.change is Change.LAUNCHED:
            self.launched.append(time.perf_counter())


def run(steps: int, folder: Path) -> dict[str, float]:
    """Milliseconds for each step, of the first and of the last hundred, and memory in MiB."""
    supervisor = sample.session(sample.repository(folder), steps)
    watch = Stopwatch()
    runner = Runner(supervisor, ScriptAgent(Script()), watch)
    began, worked = time.perf_counter(), time.process_time()
    ending = runner.drive(supervisor.begin)
    took, worked = time.perf_counter() - began, time.process_time() - worked
    assert ending.why == "completed"
    first, last = watch.launched[:100], watch.launched[-100:]
    return {
        "each": took / steps * 1000,
        "processor": worked / steps * 1000,
        "first": (first[-1] - first[0]) / (len(first) - 1) * 1000,
        "last": (last[-1] - last[0]) / (len(last) - 1) * 1000,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "replace": _replaced(folder),
    }


def write(entries: int, folder: Path) -> dict[str, float]:
    """Median milliseconds of a report: its step settled, the next one launched, all on the disk."""
    supervisor = sample.part_of_the_way(sample.repository(folder), entries, STEPS)
    times = []
    for number in range(entries, entries + 50):
        began = time.perf_counter()
        supervisor.report(f"s{number}#1", Outcome(output="nothing"))
        times.append(time.perf_counter() - began)
    return {"each": median(times) * 1000}


def check(playbooks: int, folder: Path) -> dict[str, float]:
    """Milliseconds for each playbook, read and examined."""
    folder.mkdir(parents=True)
    file = folder / "sample.yaml"
    file.write_bytes(sample.playbook(20, conditions=True))
    schema.examine(file.read_bytes(), "sample.yaml")
    began = time.perf_counter()
    for _ in range(playbooks):
        found, _problems, _document = schema.examine(file.read_bytes(), "sample.yaml")
        assert found is not None
    return {"each": (time.perf_counter() - began) / playbooks * 1000}


def _replaced(folder: Path) -> float:
    """Median milliseconds in which this disk replaces one small file durably, to compare with."""
    times = []
    for _ in range(50):
        began = time.perf_counter()
        write_atomically(folder / "replaced", b"x" * 1000)
        times.append(time.perf_counter() - began)
    return median(times) * 1000


if __name__ == "__main__":
    what, number, where = sys.argv[1:]
    measure = {"run": run, "write": write, "check": check}[what]
    print(json.dumps(measure(int(number), Path(where))))
