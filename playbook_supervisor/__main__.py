"""The `playbook` program: it imports click only for commands that need it."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence

from playbook_supervisor.cli import streams

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
    streams.prepare()
    argv = sys.argv[1:]
    try:
        return _hook() if argv == ["hook"] else _command(argv)
    finally:
        gc.freeze()  # spares the three collections that the interpreter runs at its end


def _is_quick(argv: Sequence[str]) -> bool:
    if argv == ["hook"]:
        return True
    from playbook_supervisor.cli import fast_path

    return bool(argv) and argv[0] in fast_path.COMMANDS


def _command(argv: Sequence[str]) -> int:
    from playbook_supervisor.cli import fast_path

    return _guarded(fast_path.parse(argv), argv)


def _guarded(call: Callable[[], int] | None, argv: Sequence[str]) -> int:
    from playbook_supervisor.cli.error_handler import guarded

    return guarded(call or (lambda: _parsed_by_click(argv)), argv)


def _hook() -> int:
    """A client calls this for every tool that a model uses; mostly there is nothing to say."""
    from playbook_supervisor.cli import hook_handler

    payload = hook_handler.read_payload()
    if hook_handler.answer_fast(payload):
        return 0
    return _guarded(lambda: hook_handler.handle(payload), ["hook"])


def _parsed_by_click(argv: Sequence[str]) -> int:
    from playbook_supervisor.cli.app import invoke

    return invoke(argv)


if __name__ == "__main__":
    program()
