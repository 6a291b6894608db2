"""Finishes a session, and dies at a write: `python finish_killed.py FOLDER SESSION POINT`.

The folder is the main checkout. Point 0 is never reached.
"""

from __future__ import annotations

import sys
from pathlib import Path

from crash import die_at

from playbook_supervisor.commands.worktrees import finish


def main() -> None:
    folder, session, point = sys.argv[1:]
    die_at(int(point))
    finish.finish(finish.plan(session, cwd=Path(folder)))


if __name__ == "__main__":
    main()
