"""`show`: one session's timeline, with conditions, evidence and what humans said."""

from __future__ import annotations

from pathlib import Path

from playbook_supervisor.cli import streams
from playbook_supervisor.cli.render import json_shapes, sessions
from playbook_supervisor.cli.render.log import now
from playbook_supervisor.commands import view


def show(session: str = "", *, json: bool = False, html: str = "") -> int:
    """Print it, or write it as a page to the file `html` (`-`: stdout).

    What can be read is shown even where something cannot, which is 3.
    """
    shown = view.show(session)
    if json and not shown.problem:
        streams.put_json(
            json_shapes.session(shown.seen, shown.entries, shown.playbook, shown.effects)
        )
        return 0
    if html:
        _page(shown, html)
    elif not json:
        for line in sessions.timeline(
            shown.seen, shown.entries, shown.playbook, now(), shown.effects
        ):
            streams.put(line)
    if shown.problem:
        raise shown.problem
    return 0


def _page(shown: view.SessionView, html: str) -> None:
    from playbook_supervisor.cli.render.page import page

    text = page(shown.seen, shown.entries, shown.playbook, shown.problem, now(), shown.effects)
    if html == "-":
        streams.put(text.removesuffix("\n"))
        return
    view.keep(Path(html), text)
    streams.tell(f"written: {html}")
