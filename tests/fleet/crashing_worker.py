"""A worker that is killed at its n-th effect: `crashing_worker.py N LOG`, then `--drain` and so on.

Each call that changes something outside the process, and each start of a child, is two points: just
before it and just after it. They are written to LOG, by name.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playbook_supervisor import __main__
from playbook_supervisor.drivers import clearance
from playbook_supervisor.fleet.engine import remote_refs, session_ref
from playbook_supervisor.fleet.storage.database import FleetDatabase
from playbook_supervisor.sessions.tree.session_tree import SessionTree

EFFECTS: tuple[tuple[type, str], ...] = (
    *(
        (FleetDatabase, name)
        for name in ("take", "answer_due", "journaled", "refuse_answer", "wait", "finish")
    ),
    *((FleetDatabase, name) for name in ("put_off", "stick", "need", "lift_epoch")),
    (remote_refs.RemoteRefs, "move"),
    (session_ref.SessionClone, "snapshot"),
    (clearance.Clearances, "admit"),
    (SessionTree, "answer"),
    (SessionTree, "abort"),
)


class _Points:
    def __init__(self, point: int, log: Path) -> None:
        self._left, self._log = point, log
        self._turn = threading.Lock()

    def passed(self, name: str) -> None:
        with self._turn:
            with self._log.open("a") as log:
                log.write(f"{name}\n")
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def counted(*args: Any, **options: Any) -> Any:
            self.passed(f"before {name}")
            done = call(*args, **options)
            self.passed(f"after {name}")
            return done

        return counted


def _count(points: _Points) -> None:
    for owner, name in EFFECTS:
        setattr(owner, name, points.around(name, getattr(owner, name)))


if __name__ == "__main__":
    _count(_Points(int(sys.argv[1]), Path(sys.argv[2])))
    sys.argv = ["playbook", "fleet", "worker", *sys.argv[3:]]
    sys.exit(__main__.main())
