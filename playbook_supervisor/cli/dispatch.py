"""Runs a command by its arguments: it imports click only for commands that need it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

HOOK = ["hook"]


def run(argv: Sequence[str]) -> int:
    """Run the command and return its exit code; errors are printed."""
    if list(argv) == HOOK:
        return _hook()
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
    return _guarded(lambda: hook_handler.handle(payload), HOOK)


def _parsed_by_click(argv: Sequence[str]) -> int:
    from playbook_supervisor.cli.app import invoke

    return invoke(argv)
