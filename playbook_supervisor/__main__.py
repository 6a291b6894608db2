"""The `playbook` program: it imports click only for commands that need it."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from playbook_supervisor.cli import dispatch, streams
from playbook_supervisor.system.process import forwarding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_GC_THRESHOLD = 100_000
"""New objects before the garbage collector runs: most commands end before it would pay off."""


def program() -> NoReturn:
    """Run the program and end the process.

    A quick command skips the interpreter's own cleanup, which takes longer than the command.
    """
    code = main()
    if _is_quick(sys.argv[1:]):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def main() -> int:
    """Run the program and return its exit code."""
    gc.set_threshold(_GC_THRESHOLD)
    argv = sys.argv[1:]
    if (status := forwarding.forwarded(argv)) is not None:
        return status
    streams.prepare()
    try:
        return dispatch.run(argv)
    finally:
        gc.freeze()  # spares the three collections that the interpreter runs at its end


def _is_quick(argv: Sequence[str]) -> bool:
    if argv == dispatch.HOOK:
        return True
    from playbook_supervisor.cli import fast_path

    return bool(argv) and argv[0] in fast_path.COMMANDS


if __name__ == "__main__":
    program()
