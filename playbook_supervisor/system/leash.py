"""The leash of a worker: a small process between the worker and its runner.

The leash starts the worker, and ends all that the worker has started: when the worker has ended,
when the runner asks for it, and when the runner is gone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress

from playbook_supervisor.system import leash_process
from playbook_supervisor.system.leash_process import COERCED, OUTLIVES

_NAMED = 5  # of the processes that a program left behind


class Leash:
    """The runner's end of a leash; `leash_process` describes what passes between the two."""

    def __init__(self) -> None:
        self.returncode: int | None = None
        self.left: list[str] = []
        self.kept: list[str] = []
        self._unread = b""
        control, self._control = os.pipe()
        self.report, report = os.pipe()
        self.theirs = (control, report)

    def command(self, *, outlives: bool, coerced: bool) -> list[str]:
        """The command line that comes before the worker's own."""
        options = (OUTLIVES,) * outlives + (COERCED,) * coerced
        said = (*map(str, self.theirs), str(leash_process.GRACE), ",".join(options))
        return [sys.executable, "-I", "-S", leash_process.__file__, *said]

    def handed_over(self) -> None:
        """The other end has inherited its descriptors, or never will."""
        for descriptor in self.theirs:
            os.close(descriptor)

    def await_start(self) -> None:
        """Wait until the worker has been started. OSError if that is impossible."""
        said = b""
        while not said.endswith(b"\n"):  # the worker's end is not reported in the same write
            byte = os.read(self.report, 1)
            if not byte:
                raise OSError("its leash ended at once")
            said += byte
        word, _, number = said.decode().partition(" ")
        if word == "failed":
            raise OSError(int(number), os.strerror(int(number)))

    def hear(self) -> bool:
        """Read what has been reported, and wait for it; whether more may follow."""
        chunk = os.read(self.report, 1 << 16)
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            word, _, rest = line.decode("utf-8", "replace").partition(" ")
            if word == "ended":
                self.returncode = int(rest)
            else:
                (self.left if word == "left" else self.kept).append(rest)
        return bool(chunk)

    def stop(self) -> None:
        """Ask it to end the worker and all that the worker has started."""
        with suppress(BrokenPipeError):  # it has ended
            os.write(self._control, b".")

    def close(self, *, drain: bool = False) -> None:
        """Close our end, with `drain` only after the last report."""
        while drain and self.hear():
            pass
        os.close(self._control)
        os.close(self.report)


def abandoned(left: Sequence[str], kept: Sequence[str]) -> Iterator[str]:
    """Sentences that name the processes that still ran when their program had ended.

    `left` were ended then, `kept` cannot be ended.
    """
    for found, became in (
        (left, "it left processes behind, which were ended"),
        (kept, "it left processes behind, which cannot be ended"),
    ):
        if found:
            more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
            yield f"{became}: {', '.join(found[:_NAMED])}{more}"
