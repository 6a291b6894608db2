"""`playbook`: looks at its arguments first, and imports click only where it has to.

What a client calls after every step (`next`, `report`) and an editor on every save (`check`) goes
a fast way, if it is written plainly; any other spelling, and every mistake, is left to click.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence

from playbook_supervisor.cli import streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_SELDOM = 100_000
"""Objects more than at the last look: before that, looking for cycles costs more than they hold."""

# Command → its options (and whether they take a value), and how many operands: at least, at most.
_PLAIN: dict[str, tuple[dict[str, bool], int, int]] = {
    "next": ({"--json": False, "--wait": False, "--session": True}, 0, 0),
    "report": (
        {"--json": False, "--error": True, "--output": True, "--session": True},
        1,
        1,
    ),
    "check": ({"--strict": False}, 1, 1_000_000),
}


def program() -> NoReturn:
    """A process of its own, which this ends.

    A quick command leaves what it held to the system; tidying up takes the interpreter longer.
    """
    code = main()
    if sys.argv[1:2] and sys.argv[1] in {*_PLAIN, "hook"}:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def main() -> int:
    """The program. The exit code is what it returns."""
    gc.set_threshold(_SELDOM)
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _open_closed_streams()
    streams.show_all()
    argv = sys.argv[1:]
    try:
        return _hook() if argv == ["hook"] else _guarded(_plain(argv), argv)
    finally:
        gc.freeze()  # the interpreter that ends looks for cycles three times, for nobody's good


def _guarded(call: Callable[[], int] | None, argv: Sequence[str]) -> int:
    from playbook_supervisor.cli.error_handler import guarded

    return guarded(call or (lambda: _parsed(argv)), argv)


def _hook() -> int:
    """A client calls this at every move of a model; most of the time nothing is to be said."""
    from playbook_supervisor.cli import hook

    given = hook.payload()
    return 0 if hook.at_once(given) else _guarded(lambda: hook.hook(given), ["hook"])


def _open_closed_streams() -> None:
    """A stream that was closed (`>&-`) leads nowhere; no file of ours may take its number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, open(number, mode))  # noqa: SIM115, PTH123 - for good


def _parsed(argv: Sequence[str]) -> int:
    from playbook_supervisor.cli.app import invoke

    return invoke(argv)


def _plain(argv: Sequence[str]) -> Callable[[], int] | None:
    """The call that a plainly written command means; None where click is to look at it."""
    if "" in argv or not argv or argv[0] not in _PLAIN or "_PLAYBOOK_COMPLETE" in os.environ:
        return None
    known, least, most = _PLAIN[argv[0]]
    options: dict[str, str | bool] = {}
    operands: list[str] = []
    words = iter(argv[1:])
    for word in words:
        if not word.startswith("-"):
            operands.append(word)
            continue
        value = next(words, "-") if known.get(word) else True
        if word not in known or str(value).startswith("-"):
            return None
        options[word[2:]] = value
    if not least <= len(operands) <= most:
        return None
    return _call(argv[0], operands, options)


def _call(command: str, operands: list[str], options: dict[str, str | bool]) -> Callable[[], int]:
    def call() -> int:
        given: dict[str, object] = dict(options)
        match command:
            case "next":
                from playbook_supervisor.cli.next import next as ask

                return ask(**given)  # type: ignore[arg-type]
            case "report":
                from playbook_supervisor.cli.report import report

                return report(operands[0], **given)  # type: ignore[arg-type]
            case _:
                from playbook_supervisor.cli.check import check

                return check(operands, **given)  # type: ignore[arg-type]

    return call


if __name__ == "__main__":
    program()
