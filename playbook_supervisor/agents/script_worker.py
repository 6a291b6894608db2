"""What the embedded agent does to the world: it writes, waits, hangs and dies, and really so.

Plain deeds are performed in the runner's own process. One that takes time, hangs or dies has a
process of its own, `python -m playbook_supervisor.agents.script_worker`, with the deed as JSON on
stdin: only a real process can be orphaned, stopped as a group and killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.records import Record, as_mapping
from playbook_supervisor.system.files import contained, ensure_folder, write_atomically

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class ScriptAction(Record):
    """One attempt: `say`, wait `seconds`, `write`, then the end. Paths are relative to the cwd.

    `fail` is why it failed, or empty. At most one of `fail`, `hang` and `die`.
    """

    say: tuple[str, ...] = ()
    seconds: float = 0.0
    write: tuple[tuple[str, str], ...] = ()
    fail: str = ""
    hang: bool = False
    die: bool = False

    @property
    def needs_a_process(self) -> bool:
        return self.hang or self.die or self.seconds > 0

    def as_json(self) -> bytes:
        """What the process of its own reads."""
        return json.dumps(as_mapping(self)).encode()


def write_files(deed: ScriptAction, cwd: Path) -> None:
    """Each file whole or not at all. StorageError, also for a path that leaves `cwd`."""
    for path, text in deed.write:
        target = contained(cwd, path)
        ensure_folder(target.parent)
        write_atomically(target, text.encode(errors="replace"), durable=False)


def main() -> int:
    """Perform the deed on stdin in the working directory; exit status 1 if it cannot be done."""
    deed = ScriptAction(**json.loads(sys.stdin.buffer.read()))
    for line in deed.say:
        print(line, flush=True)  # noqa: T201 - what it says is its output
    time.sleep(deed.seconds)
    try:
        write_files(deed, Path.cwd())
    except PlaybookError as error:
        print(error.message, file=sys.stderr)  # noqa: T201
        return 1
    if deed.die or deed.hang:  # pragma: no cover - who is killed cannot report its coverage
        _end_badly(die=deed.die)
    return 0


def _end_badly(*, die: bool) -> NoReturn:  # pragma: no cover
    while True:
        if die:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(3600)


if __name__ == "__main__":
    sys.exit(main())
