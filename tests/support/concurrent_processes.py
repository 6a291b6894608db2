"""Lets many processes report, ask and answer in one session at once.

`python concurrent_processes.py FOLDER PROCESSES` prints, as JSON, what each of them was told to be
accepted, and every error that it met. They start together, from a pipe that closes.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.kernel.state import Change
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from support.stored_sessions import Scene, step

Told = list[str]
ScriptAction = Callable[[SessionTree, int, Told], None]


def together(scene: Scene, session_id: str, crowd: int, deed: ScriptAction) -> list[Told]:
    """What each of so many processes was told, all of which did it at once."""
    start, started = os.pipe()
    readers = []
    for number in range(crowd):
        out, into = os.pipe()
        if os.fork() == 0:
            os.close(started)
            told: Told = []
            try:
                os.read(start, 1)
                tree = SessionTree(DiskStore(scene.store.checkout), session_id)
                deed(tree, number, told)
            except BaseException:
                told.append(f"! {traceback.format_exc()}")
            with os.fdopen(into, "w") as file:
                json.dump(told, file)
            os._exit(0)
        os.close(into)
        readers.append(out)
    os.close(start)
    os.close(started)
    everybody: list[Told] = []
    for out in readers:
        with os.fdopen(out) as file:
            everybody.append(json.load(file))
    for _ in readers:
        os.wait()
    return everybody


def accepted(snapshot: Snapshot, change: Change, attempt: str) -> bool:
    """Whether this very call has made that change."""
    return any(event.change is change and event.entry.id == attempt for event in snapshot.events)


def report_ones_own(tree: SessionTree, number: int, told: Told) -> None:
    """Each reports its own step, three times, and asks in between."""
    attempt = f"s{number}#1"
    for again in range(3):
        outcome = Outcome(output=f"{number} said it {again + 1}")
        if accepted(tree.report(attempt, outcome), Change.RETURNED, attempt):
            told.append(f"{attempt} {outcome.output}")
        tree.advance()


def answer_the_same(tree: SessionTree, number: int, told: Told) -> None:
    """All answer one gate in words of their own."""
    try:
        tree.answer("last#1?1", Resolution.CONTINUE, f"{number}: go", Principal("Ana"))
        told.append(f"last#1?1 {number}: go")
    except StateError as error:
        if error.code != "PB-STATE-REFUSED":
            raise
    tree.advance()


def report_the_same(tree: SessionTree, number: int, told: Told) -> None:
    outcome = Outcome(output=f"{number} was it")
    if accepted(tree.report("last#1", outcome), Change.RETURNED, "last#1"):
        told.append(f"last#1 {outcome.output}")


def main() -> None:
    folder, crowd = Path(sys.argv[1]), int(sys.argv[2])
    scene = Scene(folder)
    group = [step(f"s{number}", parallel_group="all") for number in range(crowd)]
    tree = scene.create(*group, step("last", autonomy="gate_always"))
    tree.begin()
    waves = [
        together(scene, tree.id, crowd, deed)
        for deed in (report_ones_own, answer_the_same, report_the_same)
    ]
    found: dict[str, Any] = {"waves": waves, "journal": scene.journal(tree)}
    print(json.dumps({**found, "status": scene.manifest(tree)["status"]}))


if __name__ == "__main__":
    main()
