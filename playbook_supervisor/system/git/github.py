"""GitHub's `gh`, without prompts: what it is asked, and what its answers mean."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.system.process.processes import Completed, run

DEADLINE = 10.0  # seconds that `gh` has to answer

QUIET = {"GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1"}
"""The environment in which it asks nothing and prints plain text."""

_LOGGED_OUT = 4  # its exit status
_OFFLINE = (
    "error connecting to|no such host|connection refused|network is unreachable|i/o timeout"
    "|TLS handshake timeout|context deadline exceeded|check your internet connection"
)
_ADDRESS = r"https?://\S+/(\d{1,18})"


def is_plain(branch: str) -> bool:
    """True if the name is safe to pass: printable, and not like an option."""
    return bool(branch) and not branch.startswith("-") and printable(branch) == branch


def pull_requests(root: Path, branch: str, state: str, *fields: str) -> Completed:
    """The result of `gh pr list`; `state` is merged or all. StorageError if there is no `gh`."""
    argv = ["gh", *listing(branch, state, *fields)]
    return run(argv, cwd=root, env={**os.environ, **QUIET}, timeout=DEADLINE)


def listing(branch: str, state: str, *fields: str) -> list[str]:
    """The arguments that list the branch's pull requests; `state` is open, merged or all."""
    return ["pr", "list", "--head", branch, "--state", state, "--json", ",".join(fields)]


def is_elsewhere(done: Completed) -> bool:
    """True if it failed because no remote of the repository is on a forge that it knows."""
    return re.search("none of the git remotes|no git remotes found", done.stderr) is not None


def is_logged_out(done: Completed) -> bool:
    """True if it failed because no person has logged in."""
    return done.returncode == _LOGGED_OUT or "gh auth login" in done.stderr


def is_offline(done: Completed) -> bool:
    """True if it failed because it cannot reach the forge."""
    return re.search(_OFFLINE, done.stderr, re.IGNORECASE) is not None


def created(answer: str) -> tuple[int, str] | None:
    """Number and address of what `gh … create` has made; None if its output names no address."""
    lines = (printable(line).strip() for line in reversed(answer.splitlines()))
    found = next((found for line in lines if (found := re.fullmatch(_ADDRESS, line))), None)
    return (int(found[1]), found[0]) if found else None


def parse_list(answer: str) -> list[dict[str, Any]] | None:
    """The entries in the output of `gh pr list` or `gh issue list`; None if it is no list."""
    try:
        pulls = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    if not isinstance(pulls, list) or not all(isinstance(pull, dict) for pull in pulls):
        return None
    return pulls
