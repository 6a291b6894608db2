"""How a check of the project runs for an attempt: shown, logged, on a leash, kept as a proof."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from playbook_supervisor.project.settings.checks import Checking
from playbook_supervisor.sessions.engine.proofs import SessionProofs
from playbook_supervisor.sessions.steps.attempt_log import new_log, secret_values
from playbook_supervisor.system.process.process_groups import kill_worker

if TYPE_CHECKING:
    from playbook_supervisor.kernel.directives import Attempt

Shown = AbstractContextManager[Callable[[str], None]]
Watch = Callable[["Attempt", str], Shown]
"""Entered while a check runs for an attempt, with the check's name; it is given the lines."""


@contextmanager
def checking(
    proofs: SessionProofs, attempt: Attempt, worker_file: Path, watch: Watch
) -> Iterator[Checking]:
    """What a condition of the attempt needs to run a check. Do not hold the session's lock.

    All that the check prints goes to the attempt's log. What an earlier process left of it is ended
    first: its leash may take a moment.
    """
    log = new_log(proofs.store.runtime(proofs.session_id), attempt.id)

    def shown(check: str) -> Shown:
        log.add(f"check {check}:")
        return watch(attempt, check)

    kill_worker(worker_file)
    try:
        yield Checking(
            proofs=proofs,
            by=attempt.id,
            watch=shown,
            say=log.add,
            worker_file=worker_file,
            secrets=secret_values(os.environ),
        )
    finally:
        log.close()
