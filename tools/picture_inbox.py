"""Make the pictures of the inbox: `PYTHONPATH=tests:tools python tools/picture_inbox.py docs`.

The real program serves the session of `playbook demo`, which waits at its gate, and the browser of
the tests shows it. Needs chromium and chromedriver.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from inbox.browser import DESK, PHONE, browser, opened
from support.scratch_project import Project

from playbook_supervisor.commands import demo

WAITS = 4  # the exit code of a run that waits at a gate
PICTURES = (("inbox-phone.png", PHONE, False), ("inbox-desk-dark.png", DESK, True))
"""Each file, the width that it shows, and whether in dark colours."""


def main(folder: Path) -> None:
    """Run the demonstration up to its gate, and take the pictures of that."""
    with tempfile.TemporaryDirectory(prefix="picture-") as scratch:
        made = demo.prepare(Path(scratch) / "project")
        project = Project(made.root, Path(scratch), dict(made.env))
        ran = project.process("run", made.playbook, *made.args, "--agent", made.agent)
        if ran.code != WAITS:
            raise SystemExit(ran.err)
        with browser(Path(scratch)) as page, opened(project, page):
            page.press(".card.waits a")
            for name, width, dark in PICTURES:
                page.set_width(width)
                page.prefer(dark=dark)
                page.picture(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
