"""macOS: a profile as a policy of `sandbox-exec`."""

from __future__ import annotations

from collections.abc import Iterable
from shutil import which
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playbook_supervisor.system.isolation.profiles import Profile

NAME = "sandbox-exec"


def problem() -> tuple[str, str]:
    """Why it does not work here, and what helps; both empty if it works."""
    return ("", "") if which(NAME) else (f"{NAME} is not on PATH", "")


def arguments(profile: Profile, argv: Iterable[str], port: int | None = None) -> list[str]:
    """The command that runs `argv` under the profile."""
    raise NotImplementedError
