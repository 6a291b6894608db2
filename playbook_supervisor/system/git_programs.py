"""The programs that a repository's own settings make git run, and how to read without them.

An agent can write those settings. What they name would run below a process of the person, who only
wanted to look at what has changed.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.system import checkout
from playbook_supervisor.system.files import read_bytes

_NO_MONITOR = ("-c", "core.fsmonitor=false")
_MAY_NAME = (b"filter", b"include", b"worktreeconfig")
_LARGEST = 1 << 20
_PROGRAM = r"^filter\..*\.(clean|process|smudge)$"
_OWN = ("local", "worktree")
_LFS = r"git-lfs (?:clean -- %f|smudge(?: --skip)? -- %f|filter-process(?: --skip)?)"
_SECONDS = 5.0


def without_own_programs(root: Path) -> tuple[str, ...]:
    """Options that make git run no monitor, and no filter of the repository's own settings.

    Filters of the user's own settings run as ever, and so does git-lfs wherever it was installed:
    without it, the files that it keeps elsewhere would be read as they are.
    """
    try:
        config = read_bytes(checkout.find(root).common_dir / "config", limit=_LARGEST).lower()
        names = _own_filters(root) if any(word in config for word in _MAY_NAME) else []
    except (PlaybookError, OSError):  # what is asked then fails as well, and says why
        return _NO_MONITOR
    blank = ((f"{name}.clean=", f"{name}.process=", f"{name}.required=false") for name in names)
    return (*_NO_MONITOR, *(word for each in blank for setting in each for word in ("-c", setting)))


def _own_filters(root: Path) -> list[str]:
    """`filter.NAME` for each filter that the repository itself defines."""
    from playbook_supervisor.system.child_process import read_outputs, without_pointers

    argv = ["git", "-C", str(root), "config", "--show-scope", "-z", "--get-regexp", _PROGRAM]
    environment = {**without_pointers(os.environ), "GIT_OPTIONAL_LOCKS": "0"}
    ((_, listed, _),) = read_outputs([argv], environment, timeout=_SECONDS, cap=_LARGEST)
    fields = listed.decode("utf-8", "surrogateescape").split("\0")
    found = dict[str, None]()
    for scope, setting in zip(fields[::2], fields[1::2], strict=False):
        name, _, program = setting.partition("\n")
        if scope in _OWN and not re.fullmatch(_LFS, program):
            found[name.rpartition(".")[0]] = None
    return list(found)
