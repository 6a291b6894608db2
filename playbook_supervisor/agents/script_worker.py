"""The side effects of the embedded agent: it writes files, waits, hangs and dies.

Simple actions are performed in the runner's process. An action that takes time, hangs or dies runs
in its own process, `python -m playbook_supervisor.agents.script_worker`, with the action as JSON on
stdin: only a real process can be orphaned, stopped as a group and killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.records import as_mapping, replace
from playbook_supervisor.system.disk.files import contained, ensure_folder, write_atomically


@dataclass(frozen=True, slots=True)
class ScriptRequest:
    """A call of a tool for which the action asks a person: for permission, or for an answer."""

    kind: Literal["permission", "question"]
    tool: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ScriptAction:
    """One attempt: `ask`, `say` lines, wait `seconds`, `write` files, then end.

    Paths are relative to the working directory. At most one of `fail` (the reason), `hang` and
    `die` is set; with none of them the attempt succeeds. If a person denies a request, `denied`
    takes the action's place, unless it is None. `listed` is false where the script says nothing of
    the step: the agent then plays no part, and is not blamed for its silence.
    """

    ask: tuple[ScriptRequest, ...] = ()
    denied: ScriptAction | None = None
    say: tuple[str, ...] = ()
    seconds: float = 0.0
    write: tuple[tuple[str, str], ...] = ()
    fail: str = ""
    hang: bool = False
    die: bool = False
    listed: bool = True

    @property
    def needs_a_process(self) -> bool:
        return self.hang or self.die or self.seconds > 0

    def as_json(self) -> bytes:
        """The input of the action's own process, which asks nothing."""
        return json.dumps(as_mapping(replace(self, ask=(), denied=None))).encode()


def write_files(action: ScriptAction, cwd: Path) -> None:
    """Write each file atomically. StorageError, also for a path that leaves `cwd`."""
    for path, text in action.write:
        target = contained(cwd, path)
        ensure_folder(target.parent)
        write_atomically(target, text.encode(errors="replace"), durable=False)


def main() -> int:
    """Perform the action on stdin in the working directory; exit status 1 if writing fails."""
    action = ScriptAction(**json.loads(sys.stdin.buffer.read()))
    for line in action.say:
        print(line, flush=True)  # noqa: T201 - stdout is the agent's output
    time.sleep(action.seconds)
    try:
        write_files(action, Path.cwd())
    except PlaybookError as error:
        print(error.message, file=sys.stderr)  # noqa: T201
        return 1
    if action.die:  # pragma: no cover - a killed process reports no coverage
        os.kill(os.getpid(), signal.SIGKILL)
    while action.hang:  # pragma: no cover
        time.sleep(3600)
    return 0


if __name__ == "__main__":
    sys.exit(main())
