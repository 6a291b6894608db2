"""The pull requests of a branch, from GitHub's `gh`, without prompts and with a deadline."""

from __future__ import annotations

import json
import os
from pathlib import Path

from playbook_supervisor.formats.sanitize import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from playbook_supervisor.system.processes import Completed

DEADLINE = 10.0
"""Seconds that `gh` has to answer."""

_QUIET = {"GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1"}


def is_plain(branch: str) -> bool:
    """Whether the name is safe to pass: printable, and not like an option."""
    return bool(branch) and not branch.startswith("-") and printable(branch) == branch


def pull_requests(root: Path, branch: str, state: str, *fields: str) -> Completed:
    """The result of `gh pr list` for that branch; `state` is merged or all.

    StorageError if there is no `gh`.
    """
    from playbook_supervisor.system.processes import run

    argv = ["gh", "pr", "list", "--head", branch, "--state", state, "--json", ",".join(fields)]
    return run(argv, cwd=root, env={**os.environ, **_QUIET}, timeout=DEADLINE)


def parse_list(answer: str) -> list[dict[str, Any]] | None:
    """The pull requests in the output of `gh pr list`; None if it is no such list."""
    try:
        pulls = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    if not isinstance(pulls, list) or not all(isinstance(pull, dict) for pull in pulls):
        return None
    return pulls
