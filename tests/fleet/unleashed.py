"""Starts a worker from which fences have been taken away: `unleashed.py [--unfenced] worker`.

It believes that it holds its lease, and its child has no deadline. So it is a worker that was
overtaken and does not know. With `--unfenced` its pushes are forced, too. Only tests have this.
"""

from __future__ import annotations

import sys
from typing import Any

from playbook_supervisor import __main__
from playbook_supervisor.fleet.engine import advance, lease, remote_refs
from playbook_supervisor.system.process.processes import Worker


class _Unleashed(Worker):
    """A child without a deadline."""

    def __init__(self, *args: Any, deadline: float | None = None, **given: Any) -> None:
        super().__init__(*args, **given)

    def prolong(self, deadline: float) -> None:
        """Nothing is due."""


class _Trusting(lease.LeaseKeeper):
    """Believes that it holds the lease, whatever the database says."""

    held = True

    def require(self) -> None:
        """Hold it."""

    def _lose(self) -> None:
        """Keep it."""


def _forced(
    self: remote_refs.RemoteRefs,
    ref: str,
    expected: str,
    new: str,
    *,
    branch: tuple[str, str] | None = None,
    **_: Any,
) -> str:
    moves = [f"{new}:{ref}", *([f"{branch[1]}:refs/heads/{branch[0]}"] if branch else [])]
    options = ("--quiet", "--force", "--no-verify")
    done = self._run(remote_refs.PUSHING, "push", *options, "--", self.url, *moves)
    if done.returncode:
        raise self.failure("push", done)
    return new


def _take_away(*, ref: bool) -> None:
    advance.Worker = _Unleashed  # type: ignore[attr-defined]
    advance.LeaseKeeper = _Trusting  # type: ignore[attr-defined]
    if ref:
        remote_refs.RemoteRefs.move = _forced  # type: ignore[method-assign]


if __name__ == "__main__":
    unfenced = "--unfenced" in sys.argv
    sys.argv = [each for each in sys.argv if each != "--unfenced"]
    _take_away(ref=unfenced)
    sys.exit(__main__.main())
